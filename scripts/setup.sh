#!/usr/bin/env bash
# Set-up shared by ./tril and ./check: installs the system packages that are missing, configures and
# builds a preset. Source it for the functions, or run it: scripts/setup.sh [run|serve|package|check|full]
# Nothing here writes to stdout or reads stdin: both belong to the program the user asked for.

tril_packages_run=(g++ cmake ninja-build libhwy-dev nlohmann-json3-dev libfmt-dev libcli11-dev
                   libsentencepiece-dev zlib1g-dev)
# `tril serve` needs the headers of Boost, which nothing else does.
tril_packages_serve=("${tril_packages_run[@]}" libboost-dev)
# What makes Debian packages of it (scripts/packages.sh).
tril_packages_package=("${tril_packages_serve[@]}" dpkg-dev gzip)
tril_packages_check=("${tril_packages_serve[@]}" curl libgtest-dev librapidcheck-dev pkg-config)
# libclang-rt-dev holds the sanitizers' and libFuzzer's run-time libraries, llvm the symbolizer
# without which their reports name no lines.
tril_packages_full=("${tril_packages_check[@]}" clang clang-format clang-tidy libclang-rt-dev llvm
                    debootstrap)
# mandoc checks the manual pages, zsh and fish their completions, lintian the packages.
tril_packages_full+=(mandoc zsh fish dpkg-dev lintian)
# For the page of `tril explain`: a browser, its driver and fonts for every script. Debian has
# packages for them; elsewhere (Ubuntu's Chromium is a snap) the browser tests are skipped. And what
# compares the functions of libtril.so with those it had.
if grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then
  tril_packages_full+=(chromium chromium-driver fonts-noto-core abigail-tools)
fi

# tril_fail MESSAGE [LOG]: one clear line on stderr, after the end of the log where there is one.
tril_fail() {
  if [[ -s ${2-} ]]; then
    tail -n 40 -- "$2" >&2
    printf 'tril: %s (above: the end of %s)\n' "$1" "$2" >&2
  else
    printf 'tril: %s\n' "$1" >&2
  fi
  return 1
}

# tril_setup run|serve|package|check|full: installs the packages to run tril, to run it with its server, to
# make Debian packages of it, to test it, or to test it with every tool.
tril_setup() {
  local -a wanted
  case ${1-run} in
    run) wanted=("${tril_packages_run[@]}") ;;
    serve) wanted=("${tril_packages_serve[@]}") ;;
    package) wanted=("${tril_packages_package[@]}") ;;
    check) wanted=("${tril_packages_check[@]}") ;;
    full) wanted=("${tril_packages_full[@]}") ;;
    *) tril_fail "setup: unknown mode '$1': one of run, serve, package, check, full" || return ;;
  esac

  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    # Not Debian or Ubuntu: if the tools are there, the libraries probably are too.
    if command -v cmake >/dev/null && command -v ninja >/dev/null; then return 0; fi
    tril_fail "no apt-get here: install what these Debian packages hold: ${wanted[*]}" || return
  fi

  local status name
  local -A installed=()
  while read -r status name; do
    [[ $status == ?i ]] && installed[$name]=1
  done < <(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "${wanted[@]}" 2>/dev/null)
  local -a missing=()
  for name in "${wanted[@]}"; do
    [[ -n ${installed[$name]-} ]] || missing+=("$name")
  done
  ((${#missing[@]} == 0)) && return 0

  local -a as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      tril_fail "as root, run: apt-get install ${missing[*]}" || return
    fi
    as_root=(sudo)
    { : >/dev/tty; } 2>/dev/null || as_root+=(-n) # nobody there to type a password
  fi
  local log
  log=$(mktemp "${TMPDIR:-/tmp}/tril-setup.XXXXXX") || return
  printf 'tril: installing %s\n' "${missing[*]}" >&2
  if ((EUID != 0)) && ! "${as_root[@]}" true 2>"$log"; then
    tril_fail "sudo refused; as root, run: apt-get install ${missing[*]}" "$log" || return
  fi

  local -a apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
                -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  local -a install=("${apt[@]}" install --no-install-recommends "${missing[@]}")
  # The package lists are fetched when there are none, and again when they turn out to be out of
  # date.
  if compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null &&
    "${install[@]}" </dev/null >>"$log" 2>&1; then
    rm -f -- "$log"
    return 0
  fi
  : >"$log" # what stale lists had to say explains nothing
  if "${apt[@]}" update </dev/null >>"$log" 2>&1 && "${install[@]}" </dev/null >>"$log" 2>&1; then
    rm -f -- "$log"
    return 0
  fi
  tril_fail "could not install ${missing[*]}" "$log"
}

# tril_place ROOT: what a configured build depends on: the path of the tree (a tree copied with its
# build would otherwise build in the old place), and CUDA's compiler and Boost, which may have been
# installed since.
tril_place() {
  local nvcc boost='no Boost'
  nvcc=$(command -v "${CUDACXX:-nvcc}" || command -v /usr/local/cuda/bin/nvcc) && nvcc=$(readlink -f -- "$nvcc")
  [[ -e /usr/include/boost/beast.hpp ]] && boost=Boost
  printf '%s\n%s\n%s\n' "$1" "${nvcc:-no nvcc}" "$boost"
}

# tril_is_configured ROOT PRESET: true when build/PRESET was configured for this path and from these
# presets. When a CMake file changes, Ninja itself runs CMake again.
tril_is_configured() {
  local stamp=$1/build/$2/.configured
  [[ -f $stamp && -f $1/build/$2/build.ninja && ! $1/CMakePresets.json -nt $stamp ]] &&
    [[ $(<"$stamp") == "$(tril_place "$1")" ]]
}

# tril_configure ROOT PRESET: configures build/PRESET from scratch.
tril_configure() {
  local root=$1 preset=$2
  local dir=$root/build/$preset version
  local log=$dir/configure.log
  if (cd -- "$root" && exec cmake --fresh --preset "$preset") </dev/null >"$log" 2>&1; then
    tril_place "$root" >"$dir/.configured"
    return
  fi
  [[ -t 2 ]] && printf '\n' >&2
  version=$(cmake --version 2>/dev/null | head -n 1)
  version=${version##* }
  if [[ $(printf '%s\n' 3.25 "${version:-0}" | sort -V | head -n 1) != 3.25 ]]; then
    tril_fail "CMake 3.25 or later is needed, $(command -v cmake) is ${version:-missing}"
  else
    tril_fail "CMake could not configure preset '$preset'" "$log"
  fi
}

# tril_build ROOT PRESET [NOTE [TARGET]]: configures and builds everything, or one target. If there
# is work to do it says so in one line on stderr, with the note the first time; on a terminal the
# line counts the steps. Two that start at once (./tril … | ./tril …) take turns.
tril_build() {
  local dir=$1/build/$2 lock rc=0
  if ! mkdir -p -- "$dir" 2>/dev/null || ! { exec {lock}>"$dir/.lock"; } 2>/dev/null; then
    tril_fail "cannot write to $dir" || return
  fi
  flock "$lock"
  tril_build_alone "$@" || rc=$?
  exec {lock}>&- # else the program would inherit it and keep others waiting
  return "$rc"
}

# tril_build_alone ROOT PRESET [NOTE [TARGET]]: tril_build for a caller that holds the lock.
tril_build_alone() {
  local root=$1 preset=$2 target=${4-all} text='tril: building' step
  local dir=$root/build/$preset
  local log=$dir/build.log
  if tril_is_configured "$root" "$preset" &&
    [[ $(ninja -n -C "$dir" "$target" 2>/dev/null </dev/null) == *'no work to do'* ]]; then
    return 0
  fi
  [[ -f $dir/.built || -z ${3-} ]] || text+=" ($3)"
  printf '%s…' "$text" >&2
  [[ -t 2 ]] || printf '\n' >&2
  if ! tril_is_configured "$root" "$preset"; then
    tril_configure "$root" "$preset" || return
  fi
  NINJA_STATUS='[%f/%t] ' ninja -C "$dir" "$target" </dev/null 2>&1 | while IFS= read -r step; do
    printf '%s\n' "$step"
    [[ -t 2 && $step == \[* ]] && printf '\r%s… %s]\033[K' "$text" "${step%%]*}" >&2
  done >"$log"
  local rc=${PIPESTATUS[0]}
  [[ -t 2 ]] && printf '\r\033[K' >&2
  if ((rc != 0)); then tril_fail "building preset '$preset' failed" "$log" || return; fi
  : >"$dir/.built"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  set -uo pipefail
  tril_setup "${1-run}"
fi
