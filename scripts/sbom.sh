#!/usr/bin/env bash
# Writes what a binary of tril was made of: SPDX 2.3 in JSON, on stdout.
#   sbom.sh NAME VERSION BUILD-FOLDER FILE SHARED-LIBRARY
# FILE is a program, a shared library or an archive that Ninja made in the build folder. Everything is
# looked up: the libraries it loads (of an archive, those that libtril.so loads) and the headers that
# were compiled into it belong to packages of this system. CUDART is the version of CUDA's static
# run-time library, empty without CUDA. The same build at the same SOURCE_DATE_EPOCH gives the same bytes.
set -euo pipefail
name=$1 version=$2 build=$3 file=$4 shared=$5
export LC_ALL=C
for each in ninja ldd readelf dpkg-query; do
  command -v "$each" >/dev/null || { printf 'sbom: no %s here\n' "$each" >&2; exit 2; }
done

# packages: of the files on stdin, the names of their Debian packages. A library is found in /lib, but
# belongs to a package under its name in /usr/lib, or the reverse.
packages() {
  while IFS= read -r path; do
    printf '%s\n' "$path"
    case $path in
      /usr/*) printf '%s\n' "${path#/usr}" ;;
      /lib*) printf '/usr%s\n' "$path" ;;
    esac
  done | { xargs -r -d '\n' dpkg-query -S 2>/dev/null || true; } | sed -E 's/^([^:, ]+).*/\1/' | sort -u
}

loaded=$file
[[ $file == *.a ]] && loaded=$shared
needed=$(readelf -d "$loaded" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
libraries=$(ldd "$loaded" | sed -nE 's/^\s(\S+) => (\/\S+) .*/\1 \2/p' | grep -wF "$needed" | cut -d ' ' -f 2 | packages)
# Every object that the file is made of, and every header that these were compiled with.
target=$(realpath --relative-to="$build" "$file")
headers=$(
  ninja -C "$build" -t inputs "$target" | grep -E '\.o$' | sort -u |
    xargs -r -d '\n' ninja -C "$build" -t deps | sed -nE 's/^ +(\/\S+)$/\1/p' | sort -u | grep -E '^/usr/' |
    xargs -r -d '\n' realpath -e | sort -u | packages | grep -vE '^(libc6|linux-libc)-dev$' || true
)
compiler=$(realpath "$(sed -nE 's/^CMAKE_CXX_COMPILER:[A-Z]+=(.*)/\1/p' "$build/CMakeCache.txt")" | packages)

id() { printf 'SPDXRef-%s' "$(tr -c 'A-Za-z0-9.\n' - <<<"$1")"; }
distribution=$(. /etc/os-release && printf '%s %s' "$ID" "${VERSION_CODENAME-}")
entries='' relations='' ids=' '
# add NAME VERSION PURL SUPPLIER
add() {
  [[ $ids == *" $1 "* ]] && return
  ids+="$1 "
  local reference=''
  [[ -n $3 ]] && reference=",
      \"externalRefs\": [{\"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", \"referenceLocator\": \"$3\"}]"
  entries+=",
    {
      \"SPDXID\": \"$(id "$1")\",
      \"name\": \"$1\",
      \"versionInfo\": \"$2\",
      \"supplier\": \"$4\",
      \"downloadLocation\": \"NOASSERTION\",
      \"filesAnalyzed\": false,
      \"licenseConcluded\": \"NOASSERTION\",
      \"licenseDeclared\": \"NOASSERTION\",
      \"copyrightText\": \"NOASSERTION\"$reference
    }"
}
relate() {
  relations+=",
    {\"spdxElementId\": \"$1\", \"relationshipType\": \"$2\", \"relatedSpdxElement\": \"$3\"}"
}
# add_package PACKAGE: one that dpkg knows.
add_package() {
  local its_version architecture escaped
  read -r its_version architecture < <(dpkg-query -W -f '${Version} ${Architecture}\n' "$1" | head -n 1)
  escaped=${its_version//+/%2B}
  add "$1" "$its_version" \
    "pkg:deb/${distribution% *}/${1//+/%2B}@${escaped//:/%3A}?arch=$architecture&distro=${distribution#* }" \
    "Organization: ${distribution% *}"
}
for each in $libraries; do
  add_package "$each"
  relate "$(id "$name")" DYNAMIC_LINK "$(id "$each")"
done
for each in $headers; do
  add_package "$each"
  relate "$(id "$each")" BUILD_DEPENDENCY_OF "$(id "$name")"
done
for each in $compiler; do
  add_package "$each"
  relate "$(id "$each")" BUILD_TOOL_OF "$(id "$name")"
done
if [[ -n ${CUDART-} ]]; then
  add cudart_static "$CUDART" '' 'Organization: NVIDIA'
  relate "$(id "$name")" STATIC_LINK "$(id cudart_static)"
fi

hash=$(printf '%s %s %s %s\n' "$name" "$version" "$entries" "$relations" | sha256sum | cut -c 1-32)
cat <<END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "$name-$version",
  "documentNamespace": "https://spdx.org/spdxdocs/$name-$version-$hash",
  "creationInfo": {
    "created": "$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)",
    "creators": ["Tool: tril-sbom.sh"]
  },
  "packages": [
    {
      "SPDXID": "$(id "$name")",
      "name": "$name",
      "versionInfo": "$version",
      "downloadLocation": "NOASSERTION",
      "filesAnalyzed": false,
      "licenseConcluded": "Apache-2.0",
      "licenseDeclared": "Apache-2.0",
      "copyrightText": "NOASSERTION"
    }$entries
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "$(id "$name")"}$relations
  ]
}
END
