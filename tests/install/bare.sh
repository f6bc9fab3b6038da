#!/usr/bin/env bash
# `cmake --install`, used in a bare Debian that has compilers, and nothing of tril's sources: a program in C by pkg-config,
# programs in C and C++ by find_package, each translating from eight threads; and the test of the C API under valgrind.
#   bare.sh BUILD-FOLDER PATH-TO-TRIL PATH-TO-MAKE_MODEL
# Exits with 77 without root, debootstrap or a mirror of Debian's packages. The Debian is kept in build/check.
set -u
export LC_ALL=C.UTF-8
here=$(dirname "$(realpath "$0")")
tree=$(realpath "$here/../..")
read -r build tril make_model < <(realpath "$@" | paste -sd' ')
PATH=$PATH:/usr/sbin
skip() {
  printf 'skipped: %s\n' "$1" >&2
  exit 77
}
fail() {
  printf 'FAILED: %s\n' "$1"
  exit 1
}
((EUID == 0)) || skip 'an installed tril: debootstrap needs root'
command -v debootstrap >/dev/null || skip 'an installed tril: no debootstrap here'
[[ $(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release) == bookworm ]] ||
  skip 'an installed tril: its libraries are those of Debian 12, which this is not'

packages=gcc,g++,libc6-dev,pkg-config,cmake,make,valgrind,libsentencepiece-dev,libhwy-dev,zlib1g-dev
root=$tree/build/check/bare-debian
stamp="debootstrap bookworm $packages"
if [[ $(cat "$root/made-by" 2>/dev/null) != "$stamp" ]]; then
  rm -rf --one-file-system -- "$root"
  debootstrap --variant=minbase --include="$packages" bookworm "$root" "${TRIL_MIRROR:-http://deb.debian.org/debian}" \
    >"$tree/build/check/debootstrap.log" 2>&1 || {
    grep -q 'Failed getting release file' "$tree/build/check/debootstrap.log" && skip 'an installed tril: no mirror of packages can be reached'
    tail -n 20 "$tree/build/check/debootstrap.log"
    fail 'debootstrap'
  }
  printf '%s\n' "$stamp" >"$root/made-by"
fi

stage=$(mktemp -d)
trap 'rm -rf --one-file-system -- "$stage" "${root:?}/work" "${root:?}/usr/local"; mkdir -p "$root/usr/local"' EXIT
cmake --install "$build" --prefix "$stage" >"$stage.log" 2>&1 || { cat "$stage.log"; fail 'cmake --install'; }
rm -f "$stage.log"
for each in bin/tril lib/libtril.so.0 lib/libtril.so lib/libtril.a include/tril/tril.h include/tril/c.h; do
  [ -e "$stage/$each" ] || fail "$each was not installed"
done
grep -rlF -- "$tree" "$stage/include" "$stage/lib/cmake" "$stage/lib/pkgconfig" && fail 'installed files name the sources'

rm -rf --one-file-system -- "${root:?}/work" "${root:?}/usr/local"
mkdir -p "$root/work/tril" && cp -a "$stage" "$root/usr/local" && chmod 755 "$root/usr/local" || exit 1
cp "$here/threads.c" "$here/threads.cpp" "$here/CMakeLists.txt" "$tree/tests/c/api.c" "$tree/tests/c/check.h" "$root/work" || exit 1
"$make_model" "$root/work/model" translate && "$make_model" "$root/work/generator" generate || exit 1
lines=('how are you' 'thank you' 'where are they going?' 'मैं ठीक हूँ')
printf '%s\n' "${lines[@]}" | CUDA_VISIBLE_DEVICES='' "$tril" translate "$root/work/model" >"$root/work/expected" 2>/dev/null
(($(wc -l <"$root/work/expected") == ${#lines[@]})) || fail 'tril translate'

# inside COMMAND...: in the bare Debian, which has the model, the programs' sources and what was installed.
# With a /proc, which valgrind needs, in a name space of its own, so that nothing stays mounted.
inside() {
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && exec env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin \
    LC_ALL=C.UTF-8 HOME=/ chroot "$0" bash -c "cd /work && \"\$@\"" - "$@"' "$root" "$@"
}
inside ldconfig || fail ldconfig

printf 'a program in C, by pkg-config\n'
inside bash -c 'cc -std=c99 -pedantic -Wall -Wextra -Werror threads.c $(pkg-config --cflags --libs tril) -pthread -o threads' ||
  fail 'C: it could not be compiled'
inside ./threads model "${lines[@]}" >"$root/work/printed" || fail 'C: it failed'
cmp "$root/work/expected" "$root/work/printed" || fail 'C: it printed something else than tril'

printf 'programs in C and C++, by find_package\n'
inside bash -c 'cmake -S . -B build && cmake --build build' >"$root/work/log" 2>&1 || { tail -n 40 "$root/work/log"; fail 'find_package'; }
for each in threads_c threads_cpp; do
  inside "build/$each" model "${lines[@]}" >"$root/work/printed" || fail "$each: it failed"
  cmp "$root/work/expected" "$root/work/printed" || fail "$each: it printed something else than tril"
done

printf 'a program in C++, by pkg-config\n'
inside bash -c 'c++ -std=c++20 threads.cpp $(pkg-config --cflags --libs tril-cpp) -o threads_pc' || fail 'C++: it could not be compiled'
inside ./threads_pc model "${lines[@]}" >"$root/work/printed" || fail 'C++: it failed'
cmp "$root/work/expected" "$root/work/printed" || fail 'C++: it printed something else than tril'

printf 'without what the C++ library needs\n'
mkdir "$root/work/part" && printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(part C CXX)' \
  'set(CMAKE_LIBRARY_ARCHITECTURE none)' 'set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)' \
  'find_package(tril CONFIG REQUIRED COMPONENTS c PATHS /usr/local/lib/cmake/tril)' \
  'find_package(tril CONFIG COMPONENTS c cpp PATHS /usr/local/lib/cmake/tril)' \
  'if(tril_FOUND)' '  message(FATAL_ERROR "found")' 'endif()' >"$root/work/part/CMakeLists.txt"
inside cmake -S part -B part/build >"$root/work/log" 2>&1 || { cat "$root/work/log"; fail 'find_package without libraries'; }
grep -q 'libhwy-dev' "$root/work/log" || { cat "$root/work/log"; fail 'find_package does not say what is missing'; }

printf 'under valgrind\n'
valgrind=(valgrind -q --error-exitcode=9 --leak-check=full --child-silent-after-fork=yes)
inside bash -c 'cc -std=c99 -I/usr/local/include -g -DTRIL_NO_FORK api.c $(pkg-config --cflags --libs tril) -pthread -o api' || fail 'api.c'
for each in ./threads ./threads_pc; do
  inside "${valgrind[@]}" "$each" model "${lines[@]}" >/dev/null || fail "valgrind: $each"
done
inside "${valgrind[@]}" ./api model generator >/dev/null || fail 'valgrind: api'

printf 'installed and used\n'
