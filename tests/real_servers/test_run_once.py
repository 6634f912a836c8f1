"""``run_once()`` in processes whose clocks differ: in each period one of them runs the job."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.command_line import programs
from tests.servers import Server
from tests.waiting import until

PERIODS = 4  # of a second each

HOST = f"""
import sys, time, redis
from pyredisson import Redisson
url, name, offset = sys.argv[1], sys.argv[2], float(sys.argv[3])
server = redis.Redis.from_url(url)
with Redisson.from_url(url) as client:
    client.get_lock(name).is_locked()
    server.incr(name + "-ready")
    while not (start := server.get(name + "-start")):
        time.sleep(0.01)
    for number in range({PERIODS}):
        time.sleep(max(0.0, float(start) + number + offset - time.time()))
        with client.run_once(name, at_most=30, at_least=0.85) as run:
            if run is not None:
                server.incr(name + "-ran")
"""


def test_one_host_runs_it_in_each_period(tmp_path: Path, valkey: Server, unique_name: str) -> None:
    offsets = ("0", "0.05", "0.15")
    with programs(tmp_path) as started, valkey.client() as direct:
        hosts = [started.start(sys.executable, "-c", HOST, valkey.url, unique_name, offset) for offset in offsets]
        until(lambda: int(direct.get(f"{unique_name}-ready") or 0) == len(hosts), 60)
        direct.set(f"{unique_name}-start", time.time() + 0.2)
        assert [host.exit_code() for host in hosts] == [0, 0, 0]
        assert int(direct.get(f"{unique_name}-ran") or 0) == PERIODS
