#!/usr/bin/env bash
# Builds the packages twice, from copies of this tree in folders of other names, with other rights of
# new files, another time zone and another number of jobs: they must have the same bytes.
#   reproducible.sh
# It takes two builds of preset package. Without dpkg-deb the exit code is 77.
set -u
root=$(realpath "$(dirname "$0")/../..")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if ! command -v dpkg-deb >/dev/null; then
  printf 'skipped: no dpkg-deb here\n' >&2
  exit 77
fi
cd "$root" || exit 1
epoch=$(git log -1 --format=%ct) || exit 1
# Both are the tree as it is now, whatever somebody edits meanwhile.
git ls-files -z | tar -cf "$scratch/tree.tar" --null -T - || exit 1
# build FOLDER UMASK TIME-ZONE
build() {
  mkdir -p "$1" && (umask "$2" && tar -xf "$scratch/tree.tar" -C "$1" --no-same-permissions) || return
  (umask "$2" && TZ=$3 SOURCE_DATE_EPOCH=$epoch "$1/scripts/packages.sh" "$1.packages")
}
build "$scratch/a" 022 UTC || exit 1
sleep 1
CMAKE_BUILD_PARALLEL_LEVEL=1 build "$scratch/another folder with a longer name" 077 Asia/Kolkata || exit 1
status=0
for file in "$scratch"/a.packages/*; do
  other="$scratch/another folder with a longer name.packages/${file##*/}"
  if cmp -- "$file" "$other"; then
    printf 'the same bytes: %s  %s\n' "$(sha256sum "$file" | cut -d ' ' -f 1)" "${file##*/}"
    continue
  fi
  status=1
  [[ $file == *.deb ]] || continue
  for each in "$file" "$other"; do
    dpkg-deb -R "$each" "$each.files" && (cd "$each.files" && find . -type f -exec sha256sum {} + | sort -k 2) >"$each.sums"
    dpkg-deb -c "$each" >>"$each.sums"
  done
  diff "$file.sums" "$other.sums"
done
exit "$status"
