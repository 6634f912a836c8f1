"""``pyredisson web`` as a process, on a cluster and behind sentinels."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from pyredisson import Config, Redisson
from tests.clusters import RunningCluster
from tests.command_line import programs
from tests.sentinels import SentinelSet
from tests.servers import HOST, VALKEY, Server
from tests.web.scenes import until


@contextmanager
def running(topology: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a cluster, or of sentinels."""
    if topology == "cluster":
        cluster: RunningCluster = request.getfixturevalue("cluster")
        yield cluster.url
        return
    fresh_server: Callable[..., Server] = request.getfixturevalue("fresh_server")
    sentinels = SentinelSet(fresh_server, VALKEY)
    try:
        yield sentinels.url
    finally:
        sentinels.stop()


@pytest.mark.parametrize("topology", ["cluster", "sentinels"])
def test_a_lock_that_is_freed_in_the_browser_goes_to_the_waiter(
    topology: str, request: pytest.FixtureRequest, tmp_path: Path, unique_name: str
) -> None:
    with running(topology, request) as url, programs(tmp_path) as command_line:
        config = Config(presence_after=0.01, lock_watchdog_timeout=1.5)
        with (
            Redisson.from_url(url, config=replace(config, client_name="shop")) as holder,
            Redisson.from_url(url, config=replace(config, client_name="office")) as waiter,
        ):
            names = [f"{unique_name}:{number}" for number in range(6)]
            for name in names:
                holder.get_lock(name).lock()
            acquired = threading.Event()
            threading.Thread(target=lambda: (waiter.get_lock(names[0]).lock(), acquired.set()), daemon=True).start()
            program = command_line.pyredisson(
                "web", "--listen", f"{HOST}:0", "--allow-unlock", "--interval", "0.5", url=url
            )
            printed = until(lambda: re.search(r"open (http://\S+)\?token=(\S+)", program.stderr))
            with httpx.Client(base_url=printed[1], timeout=60, headers={"origin": printed[1].rstrip("/")}) as browser:
                browser.get("/", params={"token": printed[2]})
                shown = until(lambda: all(name in browser.get("/").text for name in names), what="all are shown")
                assert shown
                path = re.search(rf'<a href="(/lock/\w+)"><bdi>{names[0]}<', browser.get("/").text)
                assert path is not None
                until(lambda: "office@" in browser.get(path[1]).text, what="the waiter is shown")
                page = browser.get(path[1]).text
                assert "shop@" in page
                form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', page))
                assert "The lock was freed" in browser.post(f"{path[1]}/free", data=form).text
            assert acquired.wait(20)
