"""``pyredisson.integrations.dramatiq`` in a real worker, with processes and threads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pyredisson import Redisson
from tests.frameworks.common import require
from tests.servers import VALKEY
from tests.waiting import until

APP = "tests.frameworks.apps.integration_dramatiq"


def test_the_page_runs_as_printed(open_page):
    page = open_page("dramatiq")
    workers = page.start("dramatiq actors", ready="is ready for action")
    page.run("python app.py")

    def counted() -> list[str]:
        return re.findall("begins to count tea|has counted tea", workers.output())

    until(lambda: len(counted()) == 6, 60, what="all were counted")
    assert counted() == ["begins to count tea", "has counted tea"] * 3
    assert workers.output().count("cleans") == 1
    page.check_all_entered()


def test_messages_with_one_key_run_one_at_a_time(surroundings, shared_servers):
    require("dramatiq")
    broker = shared_servers.get(VALKEY, 1)
    environment = {"PYREDISSON_TEST_BROKER": broker.url.rsplit("/", 1)[0] + "/12"}
    calls = "count.send('tea', 1.5)\nfor _ in range(8): count.send('tea'); count.send('milk')\n"
    calls += "for _ in range(2): clean.send(3.0)"
    sender = surroundings.program("-c", f"from {APP} import *\n{calls}", environment=environment)
    assert sender.wait(40) == 0, sender.output()
    worker = surroundings.program("-m", "dramatiq", "-p", "2", "-t", "4", APP, environment=environment)
    counted = until(
        lambda: (found := [each for each in surroundings.notes() if each.startswith("counted")])[16:] and found,
        60,
        what="all were counted",
    )
    assert "counted milk" in counted[:8]
    until(lambda: "cleaned" in surroundings.notes(), 20, what="it was cleaned")
    assert worker.stop() == 0, worker.output()
    assert surroundings.notes().count("cleaning") == 1
    surroundings.check_exclusion(17)
    surroundings.check_nothing_left()
    with broker.client(db=12) as client:
        client.flushdb()


def test_an_actor_does_not_run_without_its_lock_if_its_message_cannot_be_sent_again(
    surroundings, unique_name, monkeypatch
):
    require("dramatiq")
    import dramatiq
    from dramatiq.brokers.stub import StubBroker

    from pyredisson.integrations.dramatiq import SingletonError, Singletons

    ran: list[str] = []
    client = Redisson.from_url(surroundings.url)
    broker = StubBroker(middleware=[Singletons(client), dramatiq.middleware.Retries(max_retries=0)])
    actor = dramatiq.actor(ran.append, broker=broker, actor_name="note", singleton=unique_name, when_busy="wait")
    enqueue = broker.enqueue

    def refuse_what_waits(message: Any, *, delay: int | None = None) -> Any:
        if delay is not None:
            raise OSError("the broker is away")
        return enqueue(message, delay=delay)

    monkeypatch.setattr(broker, "enqueue", refuse_what_waits)
    worker = dramatiq.Worker(broker, worker_timeout=50, worker_threads=1)
    with client.get_lock(unique_name).hold():
        worker.start()
        actor.send("ran")
        with pytest.raises(SingletonError, match="the broker is away"):
            broker.join("default", timeout=20_000, fail_fast=True)
        worker.stop()
    broker.close()
    client.close()
    assert ran == []
