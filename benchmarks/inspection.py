"""What the tools that look at all locks cost, next to a plain redis-py program, in one run.

``python -m benchmarks.inspection`` fills a private server with a million other keys and 100,000 locks. The plain one
scans by type and reads HGETALL and PTTL of each hash in pipelines. Meanwhile another connection sends PING.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import threading
import time
import uuid
from typing import Any

import redis

from pyredisson.embedded import EmbeddedServer

BATCH = 5_000
LEASE_MS = 86_400_000
PING_EVERY = 0.002  # seconds
MOST_TIMES = 2.5  # as long as the plain program
MOST_MIB = 100
MOST_MS_MORE = 10  # of the slowest PING

COMMANDS = {
    "ls": ("ls",),
    "ls --json": ("ls", "--json"),
    "leaks": ("leaks",),
    "why": ("why",),
    "metrics": ("metrics", "--once", "--scan-time", "600"),
}

PLAIN = """
import sys
import redis
client, cursor = redis.Redis.from_url(sys.argv[1]), 0
while True:
    cursor, keys = client.scan(cursor, count=1000, _type="hash")
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.hgetall(key)
        pipeline.pttl(key)
    pipeline.execute()
    if not cursor:
        break
"""

TOOL = "import sys; from pyredisson._tools.cli import cli; cli(sys.argv[2:] + ['--url', sys.argv[1]])"


def fill(client: redis.Redis[Any], keys: int, locks: int, *, strings: bool = False) -> None:
    """Write other keys as programs have them (six of ten are strings, three are hashes; or all strings), and locks."""
    pipeline = client.pipeline(transaction=False)
    for number in range(keys):
        match 0 if strings else number % 10:
            case 0 | 1 | 2 | 3 | 4 | 5:
                pipeline.set(f"cache:{number}", "x" * (8 + number % 90), ex=86_400)
            case 6 | 7 | 8:
                pipeline.hset(f"session:{number}", mapping={"user": number, "seen": "yesterday"})
            case _:
                pipeline.zadd(f"ranking:{number}", {"one": 1})
        if number % BATCH == BATCH - 1:
            pipeline.execute()
    pipeline.execute()
    for number in range(locks):
        owner = f"{uuid.UUID(int=number % 200)}:{number}"
        pipeline.hset(f"order:{number}", owner, 1)
        pipeline.pexpire(f"order:{number}", LEASE_MS)
        if number % 100 == 0:
            pipeline.rpush(f"redisson_lock_queue:{{order:{number}}}", f"{uuid.UUID(int=7)}:1")
            pipeline.zadd(f"redisson_lock_timeout:{{order:{number}}}", {f"{uuid.UUID(int=7)}:1": 4e12})
        if number % BATCH == BATCH - 1:
            pipeline.execute()
    pipeline.execute()


class Pings:
    """Sends PING until it is stopped, and notes the slowest reply."""

    def __init__(self, url: str) -> None:
        self.slowest_ms = 0.0
        self._client = redis.Redis.from_url(url)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> float:
        """Stop, and return how long the slowest reply took, in ms."""
        self._stopped.set()
        self._thread.join()
        self._client.close()
        return self.slowest_ms

    def _run(self) -> None:
        while not self._stopped.wait(PING_EVERY):
            began = time.perf_counter()
            self._client.ping()
            self.slowest_ms = max(self.slowest_ms, 1000 * (time.perf_counter() - began))


def measure(url: str, program: str, *arguments: str) -> dict[str, float]:
    """Run a program once: its time, that to its first output, its memory, and the slowest PING meanwhile."""
    pings = Pings(url)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    report = "\nimport resource, sys\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    code = f"try:\n    exec({program!r})\nfinally:\n    exec({report!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code, url, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    first = time.monotonic() - began
    while process.stdout.read(1 << 16):
        pass
    said = process.stderr.read()
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": round(time.monotonic() - began, 2),
        "first_output_seconds": round(first, 2),
        "processor_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "memory_mib": round(int(said.split()[-1]) / 1024, 1),
        "slowest_ping_ms": round(pings.stop(), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--locks", type=int, default=100_000)
    parser.add_argument("--strings", action="store_true", help="All other keys are strings.")
    arguments = parser.parse_args()
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        fill(client, arguments.keys, arguments.locks, strings=arguments.strings)
        for name, words in COMMANDS.items():
            plain, ours = measure(server.url, PLAIN), measure(server.url, TOOL, *words)
            times = round(ours["seconds"] / plain["seconds"], 2)
            kept = (
                times <= MOST_TIMES
                and ours["memory_mib"] < MOST_MIB
                and ours["slowest_ping_ms"] <= plain["slowest_ping_ms"] + MOST_MS_MORE
            )
            row = {"command": name, "times_plain": times, "kept": kept, "ours": ours, "plain": plain}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
