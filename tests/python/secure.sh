#!/usr/bin/env bash
# A service with TLS and tokens, made with the commands of docs/access.md, and a Python client of it.
# Usage: secure.sh PYTHON, with the stubs on PYTHONPATH. Needs openssl.
set -euo pipefail

python=$1
holdoff=$PWD/target/debug/holdoff client=$PWD/tests/python/secure.py
made=$(mktemp -d)
pid=""
cleanup() {
    [ -z "$pid" ] || { kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
    rm -rf "$made"
}
trap cleanup EXIT
command -v openssl >/dev/null || { echo "secure.sh: openssl is needed (apt-get install openssl)" >&2; exit 1; }

cd "$made"
authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 \
        -subj /CN=holdoff-ca -keyout "$1.key" -out "$1" 2>/dev/null
}
authority ca.pem
authority ca.pem.stranger
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=holdoff \
    -keyout server.key -out server.csr 2>/dev/null
printf 'subjectAltName=DNS:holdoff.internal,IP:127.0.0.1\n' >server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.pem.key -CAcreateserial -days 90 \
    -extfile server.ext -out server.pem 2>/dev/null
(
    umask 077
    chmod 600 server.key
    "$holdoff" token new --name checkout --grant default=client --output json >made.json
    "$python" -c 'import json; made = json.load(open("made.json"))
open("token", "w").write(made["token"] + "\n")
open("access.yaml", "w").write("version: 1\ntokens:\n" + made["access_file"])'
)
"$holdoff" serve --listen 127.0.0.1:0 --http off --tls-cert server.pem --tls-key server.key \
    --access access.yaml >out 2>log &
pid=$!
address=""
for _ in $(seq 300); do
    address=$(sed -n 's/^holdoff: gRPC on //p' out)
    [ -n "$address" ] && break
    kill -0 "$pid" 2>/dev/null || { cat log >&2; exit 1; }
    sleep 0.1
done
"$python" "$client" "$address" ca.pem token
# The command line says the same things.
answer=$("$holdoff" ask d --server "https://$address" --ca ca.pem --token-file token)
case $answer in *rant*) echo "holdoff ask is answered over TLS" ;; *) echo "$answer" >&2; exit 1 ;; esac
if "$holdoff" status --server "https://$address" --ca ca.pem --token-file token 2>said; then
    echo "a client may look" >&2
    exit 1
fi
grep -q 'it needs the role viewer' said
echo "holdoff status says which role is missing"
