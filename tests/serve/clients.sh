#!/usr/bin/env bash
# `tril serve` with clients that other people wrote, as they come from PyPI: once without keys, once
# with. Clients that are not installed are left out; with none of them, the exit code is 77.
#   clients.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
# TRIL_PYTHON is a Python with the packages libretranslatepy, deepl and openai.
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
# shellcheck source=tests/serve/server.sh
source "$here/server.sh"
python_with sys
"$make_model" "$scratch/model" translate || exit 1
printf 'secret tester\n' >"$scratch/keys"
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
ran=0

# session NAME [KEY]
session() {
  local code=0
  timeout 300 "$python" -B "$here/clients/$1_session.py" "$url" "${@:2}" >"$scratch/out" 2>"$scratch/err" || code=$?
  case $code in
    0) ran=$((ran + 1)) && cat "$scratch/out" ;;
    77) cat "$scratch/err" ;;
    *) fail "$1 ${2+with a key}: exit code $code" ;;
  esac
}

serve "en-hi=$scratch/model"
for client in libretranslate deepl openai; do session "$client"; done
stop
serve "en-hi=$scratch/model" --keys "$scratch/keys"
for client in libretranslate deepl openai; do session "$client" secret; done
stop
((failures > 0)) && exit 1
((ran > 0)) || exit 77
