"""gunicorn and uWSGI: workers that were forked after the application's client was made or used, and greenlets."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.frameworks.common import Response, Site, Surroundings, require
from tests.waiting import until

APP = "tests.frameworks.apps.wsgi:app"

#: With leases that end in a test, unless they are renewed.
SHORT_LEASES = {"PYREDISSON_TEST_WATCHDOG_TIMEOUT": "1.8"}

#: The packages that are needed, and the arguments; of gunicorn's `-k gevent` and `-k eventlet` in ``greenlets()``.
SERVERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "gunicorn": (("gunicorn",), ("-m", "gunicorn", "-b", "{address}", "-w", "3")),
    "gthread": (("gunicorn",), ("-m", "gunicorn", "-b", "{address}", "-w", "3", "-k", "gthread", "--threads", "4")),
    # It forks without telling Python.
    "uwsgi": (
        ("pyuwsgi",),
        (
            *("-c", "import pyuwsgi, sys; pyuwsgi.run(sys.argv[1:])", "--http-socket", "{address}", "--master"),
            *("--die-on-term", "--processes", "3", "--module"),
        ),
    ),
}


def serve(surroundings: Surroundings, server: str, *options: str, environment: dict[str, str] | None = None) -> Site:
    packages, arguments = SERVERS[server]
    require(*packages)
    return surroundings.site(*arguments, APP, *options, environment=environment)


def greenlets(
    surroundings: Surroundings, kind: str, *, workers: int = 1, preload: bool = False, **environment: str
) -> Site:
    """Start gunicorn; with ``--preload`` patched at the top of its configuration, as the how-to says."""
    require("gunicorn", kind)
    preloading = ["--preload", "-c", f"python:tests.frameworks.apps.{kind}_conf"] if preload else []
    return surroundings.site(
        *("-m", "gunicorn", *preloading, "-b", "{address}", "-k", kind, "-w", str(workers)),
        *("--graceful-timeout", "2", APP),
        environment=environment,
    )


@contextmanager
def meanwhile(site: Site, path: str) -> Iterator[list[Response]]:
    """Ask for a path until the end of the block. The list has the response after it."""
    responses: list[Response] = []
    asking = threading.Thread(target=lambda: responses.append(site.get(path)))
    asking.start()
    yield responses
    asking.join()


def check_workers(surroundings: Surroundings, site: Site, workers: int) -> list[Response]:
    """Let workers exclude each other while a lock of one of them is renewed, and end. Return what they responded."""
    with meanwhile(site, "/keep?hold=3") as kept:
        replies = site.get_all_of_each(["/enter?hold=0.02"] * 60, at_once=12, workers=workers)
    replies += site.get_all(["/enter"] * 20, at_once=12)  # On connections that were idle for a while.
    assert [reply for reply in replies if reply.status != 200] == [], site.output()
    clients = {reply.json["pid"]: reply.json["client"] for reply in replies}
    assert len(clients) == len(set(clients.values())) >= workers, "each worker is another client"
    assert kept[0].status == 200, kept
    assert not kept[0].json["lost"]
    site.stop()
    assert "Traceback" not in site.output()
    surroundings.check_exclusion(len(replies))
    surroundings.check_nothing_left()
    return replies


@pytest.mark.parametrize(
    ("server", "options"),
    [
        *((server, options) for server in ("gunicorn", "gthread") for options in ("", "--preload")),
        *(("uwsgi", options) for options in ("", "--enable-threads", "--enable-threads --lazy-apps")),
    ],
)
@pytest.mark.parametrize("early", ["", "1"], ids=["", "used before the fork"])
def test_workers_exclude_each_other_and_renew(surroundings, server, options, early):
    environment = {**SHORT_LEASES, "PYREDISSON_TEST_USE_EARLY": early}
    check_workers(
        surroundings,
        serve(surroundings, server, *options.split(), environment=environment),
        3 if server == "uwsgi" else 2,
    )


def test_a_lock_is_renewed_between_two_requests(surroundings):
    """One begins to hold it, another one of the same thread ends that."""
    site = serve(surroundings, "uwsgi", "--processes", "1", "--enable-threads", environment=SHORT_LEASES)
    assert site.get("/begin").status == 200
    for _ in range(2):
        surroundings.wait_for_renewal(surroundings.name)
    assert site.get("/end").json == {"outcome": "released"}
    site.stop()
    assert "WARNING pyredisson" not in site.output()
    surroundings.check_nothing_left()


# ---- greenlets -------------------------------------------------------------------------------------------------------

each_kind = pytest.mark.parametrize("kind", ["gevent", "eventlet"])


@pytest.mark.parametrize("preload", [False, True], ids=["", "preload"])
@each_kind
def test_greenlets_exclude_each_other_and_renew(surroundings, kind, preload):
    site = greenlets(surroundings, kind, workers=2, preload=preload, PYREDISSON_TEST_USE_EARLY="1", **SHORT_LEASES)
    replies = check_workers(surroundings, site, 2)
    owners = {(reply.json["client"], reply.json["owner"]) for reply in replies}
    assert len(owners) == len(replies), "each greenlet is an owner of its own"


@each_kind
def test_a_stopped_server_costs_a_greenlet_the_timeout_and_not_more(own_surroundings, kind):
    site = greenlets(own_surroundings, kind)
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
    until(lambda: site.get("/attempt").json["outcome"] == "True", what="the lock can be acquired again")
    assert site.stop() == 0
    own_surroundings.check_nothing_left()


@each_kind
def test_a_greenlet_learns_of_its_loss(surroundings, kind):
    site = greenlets(surroundings, kind, **SHORT_LEASES)
    with meanwhile(site, "/keep?hold=20") as kept, surroundings.server.client() as redis:
        until(lambda: redis.delete(f"{surroundings.name}-kept"), what="the lock was held")
    assert kept[0].status == 500
    assert "LockLostError" in kept[0].json["error"]
    until(lambda: "lost -kept" in surroundings.notes(), what="on_lock_lost was called")
    assert site.stop() == 0
    surroundings.check_nothing_left()


@each_kind
def test_a_waiting_greenlet_does_not_keep_the_worker_from_ending(surroundings, kind):
    site = greenlets(surroundings, kind)
    with surroundings.server.client() as redis:
        redis.hset(surroundings.name, "another:1", 1)
        redis.pexpire(surroundings.name, 60_000)
        with meanwhile(site, "/enter?wait=60"):
            channel = f"redisson_lock__channel:{{{surroundings.name}}}"
            until(lambda: redis.pubsub_numsub(channel)[0][1], what="a greenlet waits")
            site.stop(signal.SIGTERM)
        redis.delete(surroundings.name)
    surroundings.check_nothing_left(waiters_killed=True)
