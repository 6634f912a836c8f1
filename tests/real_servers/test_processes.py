"""Processes that end while they hold a lock, and event loops that Ctrl-C ends."""

from __future__ import annotations

import subprocess
import time

import pytest
import redis

from tests.real_servers import programs
from tests.servers import Server
from tests.waiting import until


@pytest.mark.parametrize("how", ["sys.exit", "exception", "unlock at exit", "close at exit"])
def test_a_process_that_holds_ends_at_once_and_so_does_its_hold(
    valkey: Server, direct: redis.Redis, unique_name: str, how: str
) -> None:
    process = programs.start("end", valkey.url, unique_name, how)
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert time.monotonic() - began < 2.0
    assert process.returncode == (1 if how == "exception" else 0), err
    assert not out
    assert not err
    if how == "unlock at exit":
        assert not direct.exists(unique_name)
    until(lambda: not direct.exists(unique_name), what="free")  # Its lease is of 0.8 s.
    until(lambda: direct.pubsub_numsub(f"redisson_lock__channel:{{{unique_name}}}")[0][1] == 0, what="nobody listens")
