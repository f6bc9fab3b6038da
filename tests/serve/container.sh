#!/usr/bin/env bash
# deploy/container: builds the image and runs it as its first lines say, on files that nobody can
# write, without capabilities: it translates, is healthy, and ends well. With TRIL_SOAK=1 it is built
# a second time, and must have the same files.
#   container.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
# Exits with 77 without root, debootstrap, buildah, podman or a mirror of Debian's packages (see
# deploy/container/build), and where podman cannot run containers.
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
build=$here/../../deploy/container/build
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
# shellcheck source=tests/serve/server.sh
source "$here/server.sh"
PATH=$PATH:/usr/sbin
need debootstrap buildah podman curl
skip() {
  printf 'skipped: %s\n' "$1" >&2
  exit 77
}
((EUID == 0)) || skip 'a container: debootstrap needs root'
cd "$scratch" || exit 1
: >out && : >err
"$make_model" model translate && chmod -R a+rX model || exit 1

name=tril-test-$$
image=localhost/$name
clean() {
  podman rm --force --time 0 "$name" >/dev/null 2>&1
  podman rmi --force "$image" "$image-again" >/dev/null 2>&1
  stop_all
}
trap clean EXIT

# make NAME: the image.
make() {
  "$build" "$tril" "$1" >out 2>err && return
  grep -q 'Failed getting release file' err && skip 'a container: no mirror of packages can be reached'
  fail "build $1"
  exit 1
}
layer() { buildah inspect --type image "$1" | grep -oE 'diff_ids\\":\[[^]]*\]' | head -n 1; }

make "$image"
# A limit of descriptors that no system forbids to set, and no timer of systemd for the health check.
limits=(--ulimit nofile=1024:1024 --ulimit nproc=1000:1000 --health-interval disable)
engine=''
for each in podman 'podman --runtime runc'; do
  $each run --rm "${limits[@]}" "$image" --help >out 2>err && engine=$each && break
done
[ -n "$engine" ] || skip "a container: podman cannot run one here ($(tail -n 1 err | cut -c 1-200))"
prints 'what it does without arguments' '^Usage: tril serve'

# Networks of its own need more rights than some machines give: then it has that of the machine.
start() {
  $engine run --detach --name "$name" "${limits[@]}" --read-only --cap-drop all -v "$scratch/model:/models/en-hi:ro" "$@" \
    "$image" /models/en-hi >out 2>err
}
if start -p 127.0.0.1::8080; then
  url=http://$(podman port "$name" 8080)
else
  podman rm --force "$name" >/dev/null 2>&1
  (: <"/dev/tcp/127.0.0.1/8080") 2>/dev/null && skip 'a container: port 8080 is taken'
  start --network host || { fail 'run'; exit 1; }
  url=http://127.0.0.1:8080
fi
for ((i = 0; i < 600; ++i)); do curl -sf --noproxy '*' -o /dev/null "$url/readyz" && break; sleep 0.1; done

expect 0 'a translation' curl -sSf --noproxy '*' --max-time 60 "$url/v1/translate" -H 'Content-Type: application/json' \
  -d '{"text": "how are you"}'
grep -qF "\"text\":\"$(echo 'how are you' | "$tril" translate model 2>/dev/null)\"" out || fail 'another translation'
expect 0 'healthy' podman healthcheck run "$name"
expect 0 'who runs it' podman exec "$name" /usr/bin/id -u
prints 'who runs it' '^65532$'
# Not even by root.
for path in /written /usr/bin/tril /models/en-hi/config.json; do
  podman exec --user 0 "$name" /usr/bin/touch "$path" 2>/dev/null && fail "$path was written"
done
expect 0 'stop' podman stop --time 90 "$name"
expect 0 'how it ended' podman inspect --format '{{.State.ExitCode}}' "$name"
prints 'how it ended' '^0$'

if [ -n "${TRIL_SOAK-}" ]; then
  make "$image-again"
  [ -n "$(layer "$image")" ] && [ "$(layer "$image")" = "$(layer "$image-again")" ] || fail 'a second image has other files'
fi
exit "$((failures > 0))"
