"""gunicorn's workers of greenlets: ``-k gevent`` and ``-k eventlet``, with ``--preload`` and without."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.frameworks.common import Response, Site, Surroundings, require
from tests.waiting import until

APP = "tests.frameworks.apps.wsgi:app"

each_kind = pytest.mark.parametrize("kind", ["gevent", "eventlet"])


def serve(surroundings: Surroundings, kind: str, workers: int = 2, preload: bool = False, **environment: str) -> Site:
    """Start gunicorn; with ``--preload`` patched at the top of its configuration, as the how-to says."""
    require("gunicorn", kind)
    preloading = ["--preload", "-c", f"python:tests.frameworks.apps.{kind}_conf"] if preload else []
    return surroundings.site(
        *("-m", "gunicorn", *preloading, "-b", "{address}", "-k", kind, "-w", str(workers)),
        *("--graceful-timeout", "2", APP),
        environment=environment,
    )


def check_all_served(replies: list[Response]) -> None:
    assert [reply for reply in replies if reply.status != 200] == []


@pytest.mark.parametrize("preload", [False, True], ids=["", "preload"])
@each_kind
def test_greenlets_and_workers_exclude_each_other(surroundings: Surroundings, kind: str, preload: bool) -> None:
    """Used before the fork, at once, while another greenlet's lock is renewed, and after a second of silence."""
    site = serve(
        surroundings,
        kind,
        preload=preload,
        PYREDISSON_TEST_USE_EARLY="1",
        PYREDISSON_TEST_WATCHDOG_TIMEOUT="1.8",
    )
    kept: list[Response] = []
    keeping = threading.Thread(target=lambda: kept.append(site.get("/keep?hold=3")))
    keeping.start()
    replies = site.get_all_of_each(["/enter"] * 60, at_once=20, workers=2)
    check_all_served(replies)
    owners = {(reply.json["client"], reply.json["owner"]) for reply in replies}
    assert len(owners) == len(replies), "each greenlet is an owner of its own"
    assert len({(reply.json["pid"], reply.json["client"]) for reply in replies}) == 2
    keeping.join()
    check_all_served(kept)
    assert not kept[0].json["lost"]
    check_all_served(site.get_all(["/enter"] * 20, at_once=20))  # On connections that were idle for a second.
    assert site.stop() == 0
    assert "Traceback" not in site.output()
    surroundings.check_exclusion(len(replies) + 20)
    surroundings.check_nothing_left()


@each_kind
def test_a_stopped_server_costs_a_greenlet_the_timeout_and_not_more(own_surroundings: Surroundings, kind: str) -> None:
    site = serve(own_surroundings, kind, workers=1)
    assert site.get("/attempt").json["outcome"] == "True"
    own_surroundings.server.pause()
    try:
        replies = site.get_all(["/attempt"] * 3, at_once=3)
        ready = site.get("/ready")
    finally:
        own_surroundings.server.resume()
    for reply in replies:
        assert reply.json["outcome"] in ("OutcomeUnknownError", "TimeoutError")
        assert reply.json["seconds"] < 6.0, "Config.timeout is 3 s"
    assert ready.status == 200, "the other greenlets go on"
    until(lambda: site.get("/attempt").json["outcome"] == "True", what="the lock can be had again")
    assert site.stop() == 0
    own_surroundings.check_nothing_left()


@each_kind
def test_a_greenlet_learns_of_its_loss(surroundings: Surroundings, kind: str) -> None:
    site = serve(surroundings, kind, workers=1, PYREDISSON_TEST_WATCHDOG_TIMEOUT="1.8")
    kept: list[Response] = []
    keeping = threading.Thread(target=lambda: kept.append(site.get("/keep?hold=20")))
    keeping.start()
    key = f"{surroundings.name}-kept"
    with surroundings.server.client() as redis:
        until(lambda: redis.delete(key), what="the lock was held")
    keeping.join()
    assert kept[0].status == 500
    assert "LockLostError" in kept[0].json["error"]
    until(lambda: "lost -kept" in surroundings.notes(), what="on_lock_lost was called")
    assert site.stop() == 0
    surroundings.check_nothing_left()


@each_kind
def test_a_waiting_greenlet_does_not_keep_the_worker_from_ending(surroundings: Surroundings, kind: str) -> None:
    site = serve(surroundings, kind, workers=1)
    with surroundings.server.client() as redis:
        redis.hset(surroundings.name, "another:1", 1)
        redis.pexpire(surroundings.name, 60_000)
        waiting = threading.Thread(target=site.get, args=["/enter?wait=60"])
        waiting.start()
        until(
            lambda: redis.pubsub_numsub(f"redisson_lock__channel:{{{surroundings.name}}}")[0][1],
            what="a greenlet waits",
        )
        site.stop(signal.SIGTERM)
        waiting.join()
        redis.delete(surroundings.name)
    surroundings.check_nothing_left(waiters_killed=True)
