#!/usr/bin/env bash
# The Debian packages: builds them, lets lintian look at them, checks what they say they are made of,
# installs them in a bare Debian 12, where `tril demo` runs without a compiler, and removes them, which
# leaves nothing.
#   packages.sh PATH-TO-JSON_VALUE [FOLDER-OF-PACKAGES]
# With a folder its packages are taken, and none are built. Without dpkg-deb the exit code is 77;
# without lintian, root, debootstrap or a mirror of Debian's packages (TRIL_MIRROR) what needs them is
# left out, with a message. TRIL_PYTHON is a Python that may have the package spdx-tools.
set -u
json_value=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$root/tests/e2e/expect.sh"
trap 'rm -rf --one-file-system "$scratch"' EXIT
PATH=$PATH:/usr/sbin
: >"$scratch/out" && : >"$scratch/err"
if ! command -v dpkg-deb >/dev/null; then
  printf 'skipped: no dpkg-deb here\n' >&2
  exit 77
fi
# finish: ends the script.
finish() {
  [ "$failures" -eq 0 ]
  exit
}

packages=$scratch/packages
if [ $# -gt 1 ]; then
  packages=$(realpath "$2")
else
  expect 0 'building packages' "$root/scripts/packages.sh" "$packages"
  [ "$failures" -eq 0 ] || finish
fi
cd "$scratch" || exit 1
debs=()
for name in tril libtril0 libtril-dev; do
  deb=$(compgen -G "$packages/${name}_*.deb") && debs+=("$deb") || fail "there is no package $name"
done
[ "$failures" -eq 0 ] || finish
du -hc "${debs[@]}" | sed 's/^/size: /'

# has PACKAGE PATTERN: a line of what is in it matches.
has() { grep -qE -- "$2" "$1.list" || fail "$1 holds no $2"; }
# field PACKAGE NAME PATTERN
field() {
  dpkg-deb -f "$1.deb" "$2" >out
  prints "$1, $2" "$3"
}
for deb in "${debs[@]}"; do
  name=${deb##*/} && name=${name%%_*}
  cp "$deb" "$name.deb"
  dpkg-deb -c "$deb" | awk '{ $1 = $2 = $3 = $4 = $5 = ""; print }' | sed 's/^ *//' >"$name.list"
  mkdir "$name" "$name-control" && dpkg-deb -x "$deb" "$name" && dpkg-deb -e "$deb" "$name-control"
  dpkg-deb -c "$deb" | grep -v ' root/root ' >out && fail "$name: not everything is root's"
  [ -e "$name-control/conffiles" ] && fail "$name has conffiles"
  (cd "$name" && md5sum --status -c "../$name-control/md5sums") || fail "$name: md5sums"
  # Where it was built is of no interest to anybody.
  grep -rlF -- "$root" "$name" >out && fail "$name: names the folder that it was built in"
  for file in copyright changelog.Debian.gz changelog.gz "$name.spdx.json"; do has "$name" "^\./usr/share/doc/$name/$file$"; done
  cmp -s "$name/usr/share/doc/$name/$name.spdx.json" "${deb%/*}/$name.spdx.json" || fail "$name: another SPDX file beside it"
done
has tril '^\./usr/bin/tril$'
for command in tril tril-translate tril-verify-answer; do has tril "^\./usr/share/man/man1/$command\.1\.gz$"; done
has tril '^\./usr/share/bash-completion/completions/tril$'
has tril '^\./usr/share/zsh/vendor-completions/_tril$'
has tril '^\./usr/share/fish/vendor_completions\.d/tril\.fish$'
has tril '/systemd/system/tril\.service$'
has libtril0 '/libtril\.so\.0 -> libtril\.so\.0\.'
has libtril-dev '/libtril\.so -> libtril\.so\.0'
for file in include/tril/c.h include/tril/tril.h 'lib/.*/libtril\.a' 'lib/.*/pkgconfig/tril\.pc' 'lib/.*/cmake/tril/trilConfig\.cmake'; do
  has libtril-dev "^\./usr/$file$"
done
cat tril.list libtril0.list libtril-dev.list | grep -v '/$' | sort | uniq -d >out
[ -s out ] && fail 'files of several packages'
field tril Depends 'libsentencepiece0'
field libtril0 Depends 'libsentencepiece0'
field libtril-dev Depends "libtril0 (= $(dpkg-deb -f libtril0.deb Version))"
grep -qx 'libtril 0 libtril0 (>= .*)' libtril0-control/shlibs || fail 'libtril0: shlibs'
grep -qx 'activate-noawait ldconfig' libtril0-control/triggers || fail 'libtril0: triggers'

# Each page of the manual that a page names is there.
zgrep -ohE '^\.Xr [a-z-]+' tril/usr/share/man/man1/*.gz | cut -d ' ' -f 2 | sort -u | while IFS= read -r page; do
  [ -e "tril/usr/share/man/man1/$page.1.gz" ] || printf '%s\n' "$page"
done >out
[ -s out ] && fail 'pages of the manual that are missing'

if command -v lintian >/dev/null; then
  # lintian warns as root; its tags below errors are for people to read.
  lintian --allow-root --fail-on error --no-tag-display-limit "${debs[@]}" >out 2>err || fail 'lintian'
  grep -h '^[EW]:' out
else
  printf 'skipped: no lintian here\n' >&2
fi

# value FILE PATH EXPECTED
value() {
  local got
  got=$("$json_value" "$1" "$2" 2>&1)
  [[ $got == "$3" ]] || fail "$1, $2: '$got', not '$3'"
}
for name in tril libtril0 libtril-dev; do
  file=$name/usr/share/doc/$name/$name.spdx.json
  value "$file" spdxVersion SPDX-2.3
  value "$file" dataLicense CC0-1.0
  value "$file" SPDXID SPDXRef-DOCUMENT
  value "$file" packages.0.name "$name"
  value "$file" packages.0.licenseDeclared Apache-2.0
  value "$file" relationships.0.relatedSpdxElement "SPDXRef-$name"
  "$json_value" "$file" creationInfo.created | grep -qE '^[0-9-]{10}T[0-9:]{8}Z$' || fail "$file: created"
  ids=' SPDXRef-DOCUMENT '
  count=$("$json_value" "$file" packages)
  for ((i = 0; i < count; ++i)); do
    id=$("$json_value" "$file" "packages.$i.SPDXID")
    [[ $id =~ ^SPDXRef-[A-Za-z0-9.-]+$ && $ids != *" $id "* ]] || fail "$file: package $i is '$id'"
    ids+="$id "
    [ -n "$("$json_value" "$file" "packages.$i.versionInfo")" ] || fail "$file: $id has no version"
  done
  count=$("$json_value" "$file" relationships)
  for ((i = 0; i < count; ++i)); do
    for end in spdxElementId relatedSpdxElement; do
      id=$("$json_value" "$file" "relationships.$i.$end")
      [[ $ids == *" $id "* ]] || fail "$file: relationship $i names '$id'"
    done
  done
  # Every library that dpkg-shlibdeps found is listed, with the version that is installed here.
  for each in $(dpkg-deb -f tril.deb Depends | sed 's/([^)]*)//g; s/,/ /g'); do
    grep -q "\"name\": \"$each\"" "$file" || { [[ $name != tril && $each == libfmt9 ]] || fail "$file: no $each"; }
  done
  grep -q '"name": "libhwy-dev"' "$file" || fail "$file: no headers of Highway"
  grep -q '"name": "g++-' "$file" || fail "$file: no compiler"
  if "${TRIL_PYTHON:-python3}" -c 'import spdx_tools' 2>/dev/null; then
    "${TRIL_PYTHON:-python3}" - "$file" >out 2>err <<'END' || fail "$file: spdx-tools"
import sys
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
problems = validate_full_spdx_document(parse_file(sys.argv[1]))
for problem in problems:
    print(problem.validation_message)
sys.exit(bool(problems))
END
  fi
done
grep -q '"name": "libcli11-dev"' tril/usr/share/doc/tril/tril.spdx.json || fail 'tril.spdx.json: no CLI11'
grep -q '"name": "libcli11-dev"' libtril0/usr/share/doc/libtril0/libtril0.spdx.json && fail 'libtril0.spdx.json: CLI11, which only the program uses'

# A bare system: what a Debian must have, and what the packages depend on.
if ((EUID != 0)) || ! command -v debootstrap unshare chroot >/dev/null; then
  printf 'skipped: installing: needs root and debootstrap\n' >&2
  finish
fi
if [ "$(. /etc/os-release && printf '%s' "${VERSION_CODENAME-}")" != bookworm ]; then
  printf 'skipped: installing: packages made here are not for Debian 12\n' >&2
  finish
fi
bare=$root/build/check/packages-root
if [ ! -e "$bare/etc/debian_version" ]; then
  mkdir -p "$root/build/check" && rm -rf --one-file-system "$bare" "$bare.new"
  if ! debootstrap --variant=minbase bookworm "$bare.new" "${TRIL_MIRROR:-http://deb.debian.org/debian}" >out 2>err; then
    rm -rf --one-file-system "$bare.new"
    printf 'skipped: installing: debootstrap could not make a Debian 12\n' >&2
    finish
  fi
  mv "$bare.new" "$bare"
fi
# inside FOLDER COMMAND...: runs it there, with /proc and /dev, in a name space of its own.
inside() {
  unshare --mount --pid --fork bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"' \
    "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "${@:2}"
}
depends=$(for name in tril libtril0 libtril-dev; do dpkg-deb -f "$name.deb" Depends; done | sed -E 's/libtril0 \([^)]*\), //' | paste -sd, -)
if [ "$(cat "$bare/depends" 2>/dev/null)" != "$depends" ]; then
  cp /etc/resolv.conf "$bare/etc/resolv.conf"
  if ! { inside "$bare" apt-get -q update && inside "$bare" apt-get -q -y satisfy --no-install-recommends "$depends"; } >out 2>err; then
    printf 'skipped: installing: no mirror of packages can be reached\n' >&2
    finish
  fi
  printf '%s' "$depends" >"$bare/depends"
fi
mkdir system && cp -a "$bare/." system
mkdir system/packages && cp ./*.deb system/packages
for each in cc gcc g++ cmake make python3 nvcc; do
  inside system sh -c "command -v $each" >/dev/null && fail "the bare system has $each"
done
# files: all that a package may leave: paths, kinds, rights, sizes, targets. Not what dpkg, ldconfig and
# people keep for themselves.
files() {
  (cd system && find . -xdev '(' -path ./proc -o -path ./dev -o -path ./packages -o -path ./var/lib/dpkg -o -path ./var/log \
    -o -path ./root -o -path ./tmp -o -path ./var/cache ')' -prune -o '(' -type d -printf '%p %M\n' -o -printf '%p %M %s %l\n' ')' | sort)
}
files >before
expect 0 'installing' inside system sh -c 'dpkg -i /packages/*.deb'
prints 'installing' 'Setting up tril'
files >installed
cmp -s before installed && fail 'installing changed nothing'
expect 0 'the version' inside system tril --version
prints 'the version' "^tril $(dpkg-deb -f tril.deb Version | sed 's/-[^-]*$//')$"
expect 0 'ldconfig knows the library' inside system ldconfig -p
prints 'ldconfig knows the library' 'libtril\.so\.0 .*=> /'
expect 0 'completions in that bash' inside system bash -c \
  '. /usr/share/bash-completion/completions/tril && COMP_LINE="tril tra" COMP_POINT=8 COMP_WORDS=(tril tra) COMP_CWORD=1 ; _tril; printf "%s\n" "${COMPREPLY[@]}"'
prints 'completions in that bash' '^translate$'
# As somebody who may write nowhere but at home.
expect 0 'the demo' inside system sh -c 'mkdir /tmp/home && chown nobody /tmp/home && cd /tmp/home &&
  exec setpriv --reuid=nobody --clear-groups env HOME=/tmp/home tril demo'
prints 'the demo' 'of 1078000 logits 0'
expect 0 'its model' inside system sh -c "cd /tmp/home && echo 'Thank you' | tril translate demo-model"
prints 'its model' '^धन्यवाद$'
expect 0 'a manual page' inside system sh -c 'zcat /usr/share/man/man1/tril-demo.1.gz'
prints 'a manual page' '^\.Nm tril-demo$'
expect 0 'removing' inside system dpkg --purge tril libtril-dev libtril0
files >after
diff before after >out || fail 'removing left something behind'
finish
