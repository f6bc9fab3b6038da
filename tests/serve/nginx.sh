#!/usr/bin/env bash
# deploy/nginx/tril.conf: two servers behind nginx. Both are killed in turn while clients ask; no
# request fails, and equal requests have equal answers whoever gives them. Nor does one fail because
# of another client, who asks for more than he may and is refused.
#   nginx.sh PATH-TO-TRIL PATH-TO-MAKE_MODEL
# Exits with 77 where nginx, openssl or curl is missing.
set -u
tril=$(realpath "$1")
make_model=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
# shellcheck source=tests/e2e/expect.sh
source "$here/../e2e/expect.sh"
# shellcheck source=tests/serve/server.sh
source "$here/server.sh"
PATH=$PATH:/usr/sbin
need nginx openssl curl
cd "$scratch" || exit 1
: >out && : >err
json='Content-Type: application/json'
"$make_model" model translate || exit 1

# server NUMBER [PORT]: starts one; sets process[NUMBER] and port[NUMBER].
start() {
  serve en-hi=model --behind-proxy --http-threads 1 --threads 1 --cache 0 --max-queue 2000 --listen "127.0.0.1:${2:-0}"
  process[$1]=$server port[$1]=${url##*:}
}
start 1 && start 2
# Two ports that are free now.
free_port() { while port_=$((20000 + RANDOM % 20000)) && (: <"/dev/tcp/127.0.0.1/$port_") 2>/dev/null; do :; done && echo "$port_"; }
plain=$(free_port) secure=$(free_port)

openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=translate.example.org -keyout privkey.pem \
  -out fullchain.pem 2>/dev/null || fail 'openssl'
sed -e "s/127.0.0.1:8080/127.0.0.1:${port[1]}/; s/127.0.0.1:8081/127.0.0.1:${port[2]}/" \
  -e "s/listen 80;/listen 127.0.0.1:$plain;/; s/listen 443 /listen 127.0.0.1:$secure /; /listen \[::\]/d" \
  -e "s|/etc/ssl/tril|$scratch|; s|/var/log/nginx|$scratch|" \
  -e 's/rate=50r/rate=5000r/; s/burst=200/burst=5000/' "$here/../../deploy/nginx/tril.conf" >tril.conf
mkdir temp
cat >nginx.conf <<END
daemon off;
$( ((EUID == 0)) && echo 'user root;')
pid $scratch/nginx.pid;
error_log $scratch/error.log;
events {}
http {
  client_body_temp_path temp/body; proxy_temp_path temp/proxy; fastcgi_temp_path temp/fastcgi;
  uwsgi_temp_path temp/uwsgi; scgi_temp_path temp/scgi;
  include $scratch/tril.conf;
}
END
expect 0 'nginx -t' nginx -p "$scratch" -c "$scratch/nginx.conf" -e "$scratch/error.log" -t
nginx -p "$scratch" -c "$scratch/nginx.conf" -e "$scratch/error.log" >nginx.out 2>&1 &
nginx_process=$!
helpers+=("$nginx_process") # told to end, because killed it would leave its workers
front=https://127.0.0.1:$secure
get() { curl -sSk --noproxy '*' --max-time 60 "$@"; }
for ((i = 0; i < 100; ++i)); do get -o /dev/null "$front/livez" 2>/dev/null && break; sleep 0.1; done

# What nginx adds and passes on.
expect 0 'HTTP/2' get -o answer -w '%{http_version} %{http_code}' "$front/v1/translate" -H "$json" -d '{"text": "how are you"}'
prints 'HTTP/2' '^2 200$'
expect 0 'the redirection' curl -s --noproxy '*' -o /dev/null -w '%{http_code} %{redirect_url}' -H 'Host: translate.example.org' \
  "http://127.0.0.1:$plain/v1/models"
prints 'the redirection' '^308 https://translate.example.org/v1/models$'
expect 0 'the name of a request' get -D - -o /dev/null -H 'X-Request-Id: mine-7' "$front/v1/models"
prints 'the name of a request' '^x-request-id: mine-7'
expect 0 'no name' get -D - -o /dev/null "$front/v1/models"
prints 'no name' '^x-request-id: [0-9a-f]\{32\}'
expect 0 'metrics' get -o /dev/null -w '%{http_code}' "$front/metrics"
prints 'metrics' '^404$'
expect 0 'too large' get -w '%{http_code}' -H "$json" -d @<(head -c 2000000 /dev/zero | tr '\0' a) "$front/v1/translate"
prints 'too large' '"too_large".*'
# Events come one by one, not at the end.
body="{\"text\": [$(printf '"how are you, I am fine %s",' {1..60})\"you\"], \"beam\": 16, \"stream\": true}"
get -N "$front/v1/translate" -H "$json" -d "$body" >stream &
streaming=$!
for ((i = 0; i < 300; ++i)); do [ -s stream ] && break; sleep 0.02; done
[ -s stream ] || fail 'nothing came of a stream'
grep -q '^event: done' stream && fail 'a stream came all at once'
wait "$streaming" && grep -q '^event: done' stream || fail 'a stream was cut'
expect 0 'a text in the query' get -o answer -w '%{http_code}' "$front/v1/translate?text=secret-words&beam=1"
prints 'a text in the query' '^200$'
for ((i = 0; i < 100; ++i)); do grep -q 'GET /v1/translate 200' tril.log && break; sleep 0.05; done
grep -q 'GET /v1/translate 200' tril.log || fail 'a request is not in the log'
grep -q 'secret-words' tril.log error.log && fail 'a text stands in the log'

# A greedy client at an address of its own: each server refuses what is too much of it, and goes on
# answering everybody else.
body="{\"text\": [$(printf '"how are you, I am fine %s",' {1..200})\"you\"], \"beam\": 8, \"max_tokens\": 12}"
printf '%s' "$body" >much
greedy() {
  until [ -e enough ]; do
    get --interface 127.0.0.2 -o /dev/null -w '%{http_code}\n' "$front/v1/translate" -H "$json" -d @much >>"greedy-$1" 2>&1
  done
}
for c in {1..8}; do greedy "$c" & greedy[c]=$!; helpers+=($!); done
refusals() { cat greedy-* 2>/dev/null | grep -c '^503$'; }
for ((i = 0; i < 600; ++i)); do (($(refusals) > 10)) && break; sleep 0.05; done
before=$(refusals)
for i in {1..60}; do
  get -o answer -w '%{http_code}\n' "$front/v1/translate" -H "$json" -d "{\"text\": \"how are you $i\", \"max_tokens\": 12}" \
    >>others 2>&1 || echo 'no answer' >>others
done
refused=$(refusals)
touch enough
wait "${greedy[@]}"
((before > 10 && refused > before)) || fail "the greedy client was refused $before times, then $refused times"
[ "$(sort others | uniq -c | tr -s ' ')" = ' 60 200' ] || { sort others | uniq -c >out; fail 'others were refused, too'; }
printf '60 requests while another client was refused %d times: %d failed\n' $((refused - before)) "$(grep -vc '^200$' others)"

# Clients that ask without a pause, one connection per request; each notes what went wrong.
client() {
  local i text
  for ((i = 0; ; ++i)); do
    [ -e stop ] && break
    # Long enough that a server which is killed is always in the middle of some.
    text="how are you, I am fine, where are they $((i % 20))"
    get -o "answer-$1" -w '%{http_code}\n' "$front/v1/translate" -H "$json" \
      -d "{\"text\": [\"$text\", \"$text I\", \"$text you\", \"$text are\"], \"beam\": 16}" >"code-$1" 2>&1 ||
      { printf 'client %s: curl failed: %s\n' "$1" "$(cat "code-$1")" >>failed; continue; }
    [ "$(cat "code-$1")" = 200 ] || { printf 'client %s: %s %s\n' "$1" "$(cat "code-$1")" "$(cat "answer-$1")" >>failed; continue; }
    printf '%s\t%s\n' "$((i % 20))" "$(cksum <"answer-$1")" >>"done-$1"
  done
}
for c in 1 2 3 4; do client "$c" & clients[c]=$!; helpers+=($!); done
count() { cat done-* 2>/dev/null | wc -l; }
sleep 2
kill -KILL "${process[1]}" && wait "${process[1]}" 2>/dev/null
before=$(count)
sleep 3
(($(count) > before)) || fail 'nobody is answered while one server is gone'
start 1 "${port[1]}"
sleep 3 # it is tried again after two seconds
kill -TERM "${process[2]}" && wait "${process[2]}" || fail 'a server did not end well'
sleep 3
start 2 "${port[2]}"
sleep 1
touch stop
wait "${clients[@]}"
[ -s failed ] && { cp failed out && fail "requests failed: $(wc -l <failed)"; }
[ "$(cat done-* | sort -u | wc -l)" -eq 20 ] || fail 'equal requests had different answers'
for each in 1 2; do grep -q ":${port[each]}\"" tril.log || fail "server $each had nothing to do"; done
printf '%d requests while each server was killed once: %d failed\n' "$(count)" "$(cat failed 2>/dev/null | wc -l)"
for ((i = 0; i < 2; ++i)); do kill -TERM "${process[i + 1]}"; wait "${process[i + 1]}"; done
expect 0 'nobody there' get -w '%{http_code}' "$front/v1/translate" -H "$json" -d '{"text": "how"}'
prints 'nobody there' '503$'
prints 'nobody there' '"unavailable"'
kill -QUIT "$nginx_process" && wait "$nginx_process"
exit "$((failures > 0))"
