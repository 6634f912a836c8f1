"""What each integration costs, compared with the bare lock: microseconds and commands of a call.

``python -m benchmarks.integrations`` calls the same work without a lock, with ``client.get_lock(name).hold()`` in it,
and with the integration, in turns, in one process and without a network but the one to a private server.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from statistics import median
from types import SimpleNamespace
from typing import Any

import redis

import pyredisson.asyncio
from pyredisson import Redisson
from pyredisson.embedded import EmbeddedServer

ROUNDS, CALLS = 7, 400

Ways = dict[str, Callable[[], Any]]
WAYS = ("without a lock", "bare lock", "integration")


def no_work(order_id: int = 7) -> None:
    """What is done under the lock."""


def under_bare_lock(client: Redisson) -> Callable[..., None]:
    """The same under a lock that it takes itself."""

    def call(order_id: int = 7) -> None:
        with client.get_lock(f"order:{order_id}").hold():
            no_work()

    return call


def django_views(client: Redisson, url: str) -> Ways:
    """A view."""
    import django
    from django.conf import settings

    apps = ["pyredisson.integrations.django"]
    settings.configure(INSTALLED_APPS=apps, PYREDISSON={"URL": url}, DATABASES={}, USE_TZ=True)
    django.setup()
    from django.http import HttpResponse
    from django.test import RequestFactory

    from pyredisson.integrations.django import synchronized

    get = RequestFactory().get

    def view(request: Any, order_id: int = 7) -> HttpResponse:
        return HttpResponse(str(order_id))

    def bare(request: Any, order_id: int = 7) -> HttpResponse:
        with client.get_lock(f"order:{order_id}").hold():
            return view(request, order_id)

    guarded = synchronized("order:{order_id}")(view)
    return {way: lambda call=call: call(get("/")) for way, call in zip(WAYS, (view, bare, guarded), strict=True)}


def celery_tasks(client: Redisson, url: str) -> Ways:
    """A task, run at once as a worker would."""
    from celery import Celery

    from pyredisson.integrations.celery import SingletonTask

    app = Celery("benchmark", broker="memory://", backend="cache+memory://")
    tasks = (
        app.task(no_work, name="none"),
        app.task(under_bare_lock(client), name="bare"),
        app.task(no_work, name="singleton", base=SingletonTask, client=client, key="order:{order_id}"),
    )
    return {way: lambda task=task: task.apply((7,)).get() for way, task in zip(WAYS, tasks, strict=True)}


def rq_jobs(client: Redisson, url: str) -> Ways:
    """The function of a job."""
    from pyredisson.integrations.rq import singleton

    calls = no_work, under_bare_lock(client), singleton(client, "order:{order_id}")(no_work)
    return {way: lambda call=call: call(7) for way, call in zip(WAYS, calls, strict=True)}


def dramatiq_actors(client: Redisson, url: str) -> Ways:
    """A message, from the queue in memory to its end in a worker."""
    import dramatiq
    from dramatiq.brokers.stub import StubBroker

    from pyredisson.integrations.dramatiq import Singletons

    broker = StubBroker()
    broker.add_middleware(Singletons(client))
    actors = (
        dramatiq.actor(no_work, actor_name="none", broker=broker),
        dramatiq.actor(under_bare_lock(client), actor_name="bare", broker=broker),
        dramatiq.actor(no_work, actor_name="one", broker=broker, singleton="order:{order_id}"),
    )
    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()

    def send(actor: Any) -> None:
        actor.send(7)
        broker.join(actor.queue_name)

    return {way: lambda actor=actor: send(actor) for way, actor in zip(WAYS, actors, strict=True)}


def apscheduler_ticks(client: Redisson, url: str) -> Ways:
    """A tick of a schedule, which an executor runs; the bare lock is ``run_once()``."""
    from pyredisson.integrations.apscheduler import OncePerTick

    class Runs:
        def submit_job(self, job: Any, run_times: list[datetime]) -> None:
            no_work()

    class Executor(OncePerTick, Runs):
        pass

    ticks = iter(datetime(2030, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=n) for n in range(1_000_000))
    job = SimpleNamespace(id="report")

    def bare() -> None:
        with client.run_once(f"tick:{next(ticks)}", at_most=300, at_least=300):
            no_work()

    executor = Executor(client=client)
    calls = lambda: Runs().submit_job(job, [next(ticks)]), bare, lambda: executor.submit_job(job, [next(ticks)])
    return dict(zip(WAYS, calls, strict=True))


@asynccontextmanager
async def fastapi_requests(url: str) -> AsyncIterator[dict[str, Callable[[], Awaitable[Any]]]]:
    """A request to an endpoint, from one call of the application to its end."""
    from fastapi import Depends, FastAPI

    from pyredisson.integrations.fastapi import lifespan, lock

    app = FastAPI(lifespan=lifespan(url))

    @app.get("/0/{order_id}")
    async def none(order_id: int) -> int:
        return order_id

    @app.get("/1/{order_id}")
    async def bare(order_id: int) -> int:
        async with client.get_lock(f"order:{order_id}").hold():
            return order_id

    @app.get("/2/{order_id}", dependencies=[Depends(lock("order:{order_id}"))])
    async def guarded(order_id: int) -> int:
        return order_id

    async def get(path: str) -> None:
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": [], "http_version": "1.1", "scheme": "http", "root_path": "", "state": dict(state)}
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await app(scope, asyncio.Event().wait, send)
        assert sent[0]["status"] == 200

    async with pyredisson.asyncio.Redisson.from_url(url) as client, app.router.lifespan_context(app) as state:
        yield {way: lambda path=f"/{n}/7": get(path) for n, way in enumerate(WAYS)}


class Measured:
    """What the calls of each way took."""

    def __init__(self, url: str) -> None:
        self._server = redis.Redis.from_url(url)
        self._us: dict[str, list[float]] = {way: [] for way in WAYS}
        self._commands = dict.fromkeys(WAYS, 0)

    def begin(self) -> None:
        """Begin a turn."""
        self._before = self._calls()
        self._began = time.perf_counter()

    def end(self, way: str) -> None:
        """End it."""
        self._us[way].append((time.perf_counter() - self._began) / CALLS * 1e6)
        self._commands[way] += self._calls() - self._before

    def _calls(self) -> int:
        stats: Any = self._server.info("commandstats")
        return sum(each["calls"] for name, each in stats.items() if name.startswith("cmdstat_eval"))

    def line(self) -> str:
        """Say it."""
        none, bare, integration = (median(self._us[way]) for way in WAYS)
        commands = [self._commands[way] / CALLS / (ROUNDS + 1) for way in WAYS[1:]]
        return (
            f"{none:8.0f} {bare:8.0f} {integration:8.0f} {integration - bare:+8.0f} us;"
            f" commands {commands[0]:.2f} and {commands[1]:.2f}"
        )


def in_turns() -> list[str]:
    """All ways in random order, again and again; the first round is not counted as time."""
    return [way for _ in range(ROUNDS + 1) for way in random.sample(WAYS, len(WAYS))]


def main() -> None:
    """Measure all of them."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(f"{'':12} {WAYS[0]}, {WAYS[1]}, {WAYS[2]}, difference of the last two")
    with EmbeddedServer() as server, Redisson.from_url(server.url) as client:
        for ways_of in (django_views, celery_tasks, rq_jobs, dramatiq_actors, apscheduler_ticks):
            ways, measured = ways_of(client, server.url), Measured(server.url)
            for way in in_turns():
                measured.begin()
                for _ in range(CALLS):
                    ways[way]()
                measured.end(way)
            print(f"{ways_of.__name__.partition('_')[0]:12}", measured.line(), flush=True)

        async def requests() -> str:
            measured = Measured(server.url)
            async with fastapi_requests(server.url) as ways:
                for way in in_turns():
                    measured.begin()
                    for _ in range(CALLS):
                        await ways[way]()
                    measured.end(way)
            return measured.line()

        print(f"{'fastapi':12}", asyncio.run(requests()))


if __name__ == "__main__":
    main()
