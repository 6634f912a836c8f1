"""``pyredisson.integrations.apscheduler`` in several processes, with the APScheduler that is installed: 3, or 4."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

import pyredisson.asyncio
from pyredisson import Config, Redisson
from tests.frameworks.common import require
from tests.waiting import until

#: How long a call to a silent server takes: far longer than a busy machine stands still.
SILENCE = 6.0


def test_each_tick_runs_once_although_three_schedulers_run(surroundings):
    require("apscheduler")
    major = version("apscheduler").partition(".")[0]
    app = f"tests.frameworks.apps.integration_apscheduler{'' if major == '3' else major}"
    programs = [surroundings.program("-m", app) for _ in range(3)]
    until(lambda: len(surroundings.notes()) >= 3, 40, what="it ticks")
    programs.pop().kill()
    before = len(surroundings.notes())
    until(lambda: len(surroundings.notes()) >= before + 4, 40, what="it goes on without one of them")
    assert all(program.running() for program in programs)
    ticks = surroundings.notes()
    assert len(ticks) == len(set(ticks)), "a tick ran twice"


@pytest.mark.parametrize("major", ["3", "4"])
def test_the_page_runs_as_printed(open_page, major):
    page = open_page("apscheduler", version=major)
    programs = [page.start("python app.py", ready="") for _ in range(2)]

    def reports() -> list[str]:
        return [line for program in programs for line in program.output().splitlines() if line.startswith("report at")]

    until(reports, 60, what="it ticks")
    began = time.monotonic()
    until(lambda: len(reports()) >= 8, 60, what="it goes on")
    ticks = reports()
    assert len(ticks) <= time.monotonic() - began + 2, "a tick ran twice"
    if major == "4":  # It knows for which second it runs.
        assert len(ticks) == len(set(ticks))
    page.check_all_entered()


def nothing() -> None:
    """A job, which processes import."""


def widest_gap(times: list[float]) -> float:
    return max(later - earlier for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("pool", ["ThreadPoolExecutor", "ProcessPoolExecutor"])
def test_a_silent_server_delays_no_job_that_needs_no_claim(fresh_server, caplog, pool):
    require("apscheduler")
    import apscheduler.executors.pool as pools
    from apscheduler.events import EVENT_JOB_EXECUTED
    from apscheduler.schedulers.background import BackgroundScheduler

    from pyredisson.integrations.apscheduler import OncePerTick

    server, beats, ran = fresh_server(), [], []
    client = Redisson.from_url(server.url, config=Config(timeout=SILENCE))
    executor = type("Executor", (OncePerTick, getattr(pools, pool)), {})(client=client, at_least=60)
    scheduler = BackgroundScheduler(executors={"claimed": executor, "default": pools.ThreadPoolExecutor(2)})
    options: dict[str, Any] = {"misfire_grace_time": 30, "max_instances": 99}
    scheduler.add_job(nothing, "interval", seconds=0.3, executor="claimed", id="claimed", **options)
    scheduler.add_job(lambda: beats.append(time.monotonic()), "interval", seconds=0.3, id="beat", **options)
    scheduler.add_listener(lambda event: ran.append(event.job_id), EVENT_JOB_EXECUTED)
    scheduler.start()
    until(lambda: ran.count("claimed") >= 2, 30, what="ticks run")
    server.pause()
    until(lambda: "does not run here" in caplog.text or beats[-1] > beats[0] + 20, 30, what="a tick is not claimed")
    server.resume()
    before = ran.count("claimed")
    until(lambda: ran.count("claimed") >= before + 2, 30, what="ticks run again")
    assert all(each.exc_info is None for each in caplog.records if each.levelno >= logging.WARNING)
    scheduler.shutdown()
    client.close()
    assert widest_gap(beats) < SILENCE / 2


@pytest.mark.parametrize("form", [Redisson, pyredisson.asyncio.Redisson], ids=["threads", "asyncio"])
def test_a_silent_server_does_not_stop_the_event_loop(fresh_server, caplog, form):
    require("apscheduler")
    from apscheduler.executors.asyncio import AsyncIOExecutor
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    from pyredisson.integrations.apscheduler import OncePerTick

    executor = type("Executor", (OncePerTick, AsyncIOExecutor), {})
    server, beats, ran = fresh_server(), [], []

    async def run() -> None:
        ran.append("task")

    async def reach(condition: Callable[[], bool], what: str) -> None:
        over = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < over, what
            beats.append(time.monotonic())
            await asyncio.sleep(0.05)

    async def main() -> None:
        client = form.from_url(server.url, config=Config(timeout=SILENCE))
        scheduler = AsyncIOScheduler(executors={"default": executor(client=client, at_least=60)})
        options: dict[str, Any] = {"misfire_grace_time": 30, "max_instances": 99}
        scheduler.add_job(run, "interval", seconds=0.3, id="task", **options)
        scheduler.add_job(lambda: ran.append("call"), "interval", seconds=0.3, id="call", **options)
        scheduler.start()
        await reach(lambda: {"task", "call"} <= set(ran), "both run")
        server.pause()
        await reach(lambda: "does not run here" in caplog.text or beats[-1] > beats[0] + 20, "a tick is not claimed")
        server.resume()
        ran.clear()
        await reach(lambda: {"task", "call"} <= set(ran), "both run again")
        assert all(each.exc_info is None for each in caplog.records if each.levelno >= logging.WARNING)
        scheduler.shutdown()
        closed = client.close()
        if closed is not None:
            await closed

    asyncio.run(main())
    assert widest_gap(beats) < SILENCE / 2
