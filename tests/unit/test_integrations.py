"""Integrations with frameworks: what they refuse when they are set up, and that nothing else loads them."""

import math
from functools import partial

import pytest

from pyredisson import Config, Redisson
from tests.frameworks.common import require

client = Redisson.from_url("redis://127.0.0.1:1")  # It is never asked.


#: Times that are not valid, and what is said of them.
LEASES = ((5000, "more than an hour"), (-1, "positive"), ("x", "not str"), (math.nan, "finite"))
DELAYS = ((100_000, "more than a day"), (-1, "negative"), ("x", "not str"), (math.nan, "finite"))


def job(order_id: int) -> None: ...


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "needs a client"),
        ({"client": client, "key": "invoice:{number}"}, "no parameter 'number'"),
        ({"client": client, "when_busy": "later"}, "when_busy must be"),
        *(({"client": client, "lease_time": time}, f"^lease_time.*{reason}") for time, reason in LEASES),
        *(({"client": client, "retry_in": time}, f"^retry_in.*{reason}") for time, reason in DELAYS),
    ],
)
def test_a_task_of_celery_that_is_not_valid_is_refused(options, reason):
    require("celery")
    from celery import Celery

    from pyredisson.integrations.celery import SingletonTask

    with pytest.raises((TypeError, ValueError), match=reason):
        Celery("unit", set_as_current=False).task(base=SingletonTask, lazy=False, name="job", **options)(job)


@pytest.mark.parametrize(("key", "busy", "reason"), [("{number}", "skip", "'number'"), ("job", "replace", "when_busy")])
def test_a_job_and_an_actor_that_are_not_valid_are_refused(key, busy, reason):
    require("rq", "dramatiq")
    import dramatiq
    from dramatiq.brokers.stub import StubBroker

    from pyredisson.integrations.dramatiq import Singletons
    from pyredisson.integrations.rq import singleton

    broker = StubBroker(middleware=[Singletons(client)])
    with pytest.raises(ValueError, match=reason):
        singleton(client, key, when_busy=busy)(job)
    with pytest.raises(ValueError, match=reason):
        dramatiq.actor(job, broker=broker, singleton=key, when_busy=busy)
    broker.close()


@pytest.mark.parametrize(
    ("name", "time", "reason"), [*(("lease_time", *each) for each in LEASES), *(("retry_in", *each) for each in DELAYS)]
)
def test_times_of_jobs_and_actors_are_checked_at_once(name, time, reason):
    require("rq", "dramatiq")
    from pyredisson.integrations.dramatiq import Singletons
    from pyredisson.integrations.rq import singleton

    with pytest.raises((TypeError, ValueError), match=f"^{name}.*{reason}"):
        singleton(client, "job", **{name: time})
    if name == "retry_in":
        with pytest.raises((TypeError, ValueError), match=f"^{name}.*{reason}"):
            Singletons(client, retry_in=time)


def test_a_lease_that_the_margin_of_losses_would_end_at_once_is_refused():
    require("rq")
    from pyredisson.integrations.rq import singleton

    careful = Redisson.from_url("redis://127.0.0.1:1", config=Config(loss_margin=5))
    for decorate in (partial(singleton, careful), careful.synchronized):
        with pytest.raises(ValueError, match=r"longer than Config\.loss_margin"):
            decorate("job", lease_time=5)


def test_a_standby_of_beat_with_an_interval_that_is_not_valid_is_refused():
    require("celery")
    from celery import Celery

    from pyredisson.integrations.celery import LeaderBeat

    class Beat(LeaderBeat):
        client = client
        standby_interval = -1

    with pytest.raises(ValueError, match="standby_interval must not be negative"):
        Beat(Celery("unit", set_as_current=False))


def test_a_job_that_is_a_coroutine_function_is_refused():
    require("rq")
    from pyredisson.integrations.rq import singleton

    async def job(): ...

    with pytest.raises(TypeError, match="when the lock is free again"):
        singleton(client, "job")(job)


@pytest.mark.parametrize("at_least", [0, -1, "5"])
def test_an_executor_of_apscheduler_that_is_not_valid_is_refused(at_least):
    from pyredisson.integrations.apscheduler import OncePerTick, once_per_tick

    with pytest.raises((TypeError, ValueError)):
        OncePerTick(client=client, at_least=at_least)
    with pytest.raises((TypeError, ValueError)):
        once_per_tick(client, at_most=at_least)
