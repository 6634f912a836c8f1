"""What ``pyredisson ls`` costs: its time, its memory, and for how long it blocks the server at most.

``python -m benchmarks.inspection`` fills a private server with a million other keys and 10,000 locks.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import uuid
from typing import Any

import redis

from pyredisson.embedded import EmbeddedServer

BATCH = 5_000


def fill(client: redis.Redis[Any], keys: int, locks: int) -> None:
    """Write other keys as programs have them (six of ten are strings, three are hashes), and locks."""
    pipeline = client.pipeline(transaction=False)
    for number in range(keys):
        match number % 10:
            case 0 | 1 | 2 | 3 | 4 | 5:
                pipeline.set(f"cache:{number}", "x" * (8 + number % 90), ex=3600)
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
        pipeline.pexpire(f"order:{number}", 600_000)
        if number % 100 == 0:
            pipeline.rpush(f"redisson_lock_queue:{{order:{number}}}", f"{uuid.UUID(int=7)}:1")
            pipeline.zadd(f"redisson_lock_timeout:{{order:{number}}}", {f"{uuid.UUID(int=7)}:1": 4e12})
        if number % BATCH == BATCH - 1:
            pipeline.execute()
    pipeline.execute()


def measure(url: str, client: redis.Redis[Any], *arguments: str) -> dict[str, Any]:
    """Run the command once."""
    client.config_set("slowlog-log-slower-than", 1000)
    client.config_set("slowlog-max-len", 10_000)
    client.slowlog_reset()
    client.config_resetstat()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used(client)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", RUN, "ls", "--json", *arguments, "--url", url],
        capture_output=True,
        check=True,
        text=True,
    )
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads(done.stdout)
    slowlog = sorted(client.slowlog_get(10_000), key=lambda entry: entry["duration"], reverse=True)
    slow = [entry["duration"] / 1000 for entry in slowlog]
    commands = {name.removeprefix("cmdstat_"): each for name, each in client.info("commandstats").items()}
    return {
        "arguments": list(arguments),
        "locks": len(report["locks"]),
        "keys": report["keys_seen"],
        "seconds": round(seconds, 2),
        "processor_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "server_processor_seconds": round(used(client) - cpu, 2),
        "memory_mib": round(int(done.stderr.split()[-1]) / 1024, 1),
        "longest_command_ms": max(slow, default=0.0),
        "longest_commands": [bytes(entry["command"])[:40].decode(errors="replace") for entry in slowlog[:3]],
        "commands_over_1_ms": len(slow),
        "scan_ms_mean": round(commands.get("scan", {}).get("usec_per_call", 0.0) / 1000, 3),
        "commands": sum(each["calls"] for each in commands.values()),
    }


#: Runs the command line and reports the memory that it used at most.
RUN = """
import resource, sys
from pyredisson.tools.cli import cli
try:
    cli()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


def used(client: redis.Redis[Any]) -> float:
    """How many seconds of processor time the server has used."""
    info = client.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--locks", type=int, default=10_000)
    arguments = parser.parse_args()
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        fill(client, arguments.keys, arguments.locks)
        for given in ((), ("order:1*",), ("order:17",)):
            print(json.dumps(measure(server.url, client, *given)), flush=True)


if __name__ == "__main__":
    main()
