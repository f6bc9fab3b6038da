#!/usr/bin/env bash
# `tril serve` held against its own description: schemathesis reads /openapi.json and sends requests
# of every kind, right and wrong ones. No answer may be a fault of the server, or of another shape
# than described; what the schema forbids must be refused.
#   schema.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
# TRIL_EXAMPLES is the number of random requests per endpoint, 20 by default. TRIL_PYTHON is a Python
# with the packages schemathesis (4) and openapi-spec-validator; without them the exit code is 77.
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
examples=${TRIL_EXAMPLES:-20}
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
# shellcheck source=tests/serve/server.sh
source "$here/server.sh"
need curl
python_with schemathesis openapi_spec_validator
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
cd "$scratch" || exit 1
"$make_model" model translate && "$make_model" writer generate || exit 1

serve en-hi=model writer
expect 0 'the description' curl -sSf -o openapi.json "$url/openapi.json"
expect 0 'a description of OpenAPI 3.1' "$python" -m openapi_spec_validator openapi.json
expect 0 'requests of every kind' timeout 1200 "$python" -m schemathesis.cli \
  --config-file "$here/schemathesis.toml" run openapi.json --url "$url" --phases examples,coverage,fuzzing \
  --max-examples "$examples" --seed 1 --continue-on-failure --no-color --request-timeout 60
cp out report
((failures > 0)) && sed -n '/= FAILURES/,/= SUMMARY/p' report | cut -c 1-300 | head -300
grep -E '^ *[0-9]+ generated' report
expect 0 'the server is still there' curl -sSf -o answer "$url/v1/translate" -d '{"text": "how", "model": "en-hi"}'
stop
exit "$((failures > 0))"
