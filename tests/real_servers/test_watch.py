"""``pyredisson watch`` on real servers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial

import pytest

from pyredisson import Config, Redisson
from pyredisson._tools.sampling import Change
from pyredisson._tools.watch import Watch, Watched, line_of, record_of
from pyredisson.inspection import Inspector, Who
from tests.command_line import programs
from tests.sentinels import SOON_MS
from tests.servers import HOST, VALKEY, Server
from tests.waiting import until

HOLDER = "8f3a1c5e-0b7d-4e7c-9d53-2f3d5c1b7a90:7"


class Watcher:
    """A watch, and what it has seen."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.seen: list[tuple[str, str | None]] = []
        self.labels: list[str] = []
        self.held: list[float | None] = []

    def sees(self, *events: str, within: float = 20.0) -> None:
        """Watch until these events were seen, in this order, since the last call."""
        ends = time.monotonic() + within
        while [event for event, _ in self.seen][: len(events)] != list(events):
            assert time.monotonic() < ends, f"expected {events}, saw {self.seen}"
            for _, _, change in self.watch.next_changes():
                self.seen.append((change.event, change.who and change.who.owner))
                self.held.append(change.held)
                self.labels.append((change.who or Who()).label)
        self.seen = self.seen[len(events) :]


@pytest.fixture
def watching() -> Iterator[Callable[..., Watcher]]:
    with ExitStack() as stack:

        def start(url: str, *names: str, prefix: str = "") -> Watcher:
            inspector = stack.enter_context(Inspector(url, timeout=5.0, prefix=prefix))
            return Watcher(stack.enter_context(closing(Watch(names, inspector))))

        yield start


def test_a_lock_is_acquired_and_released(watching, valkey, unique_name, locks):
    watcher = watching(valkey.url, unique_name)
    watcher.sees("free")
    with Redisson.from_url(valkey.url, config=Config(client_name="web")) as client:
        lock = client.get_lock(unique_name)
        lock.lock()
        watcher.sees("acquired")
        assert watcher.labels[-1].startswith("web@")
        assert f"pid {os.getpid()} t" in watcher.labels[-1]
        lock.unlock()
        watcher.sees("released", within=0.8)  # By its message, before the next look is due.
    # Who watches does not wait: nobody is counted as a waiter.
    channel = f"redisson_lock__channel:{{{unique_name}}}"
    assert locks.pubsub_numsub(channel) == [(channel.encode(), 0)]


@pytest.mark.parametrize("kind", ["get_fenced_lock", "get_token_lock", "get_permit_expirable_semaphore"])
def test_each_kind_of_lock_can_be_watched(watching, valkey, unique_name, kind):
    with Redisson.from_url(valkey.url) as client:
        lock = getattr(client, kind)(unique_name)
        if kind == "get_permit_expirable_semaphore":
            lock.try_set_permits(1)
        watcher = watching(valkey.url, unique_name)
        watcher.sees("free")
        with lock.hold():
            watcher.sees("acquired")
        watcher.sees("released")


@pytest.mark.parametrize("notified", [True, False])
def test_of_a_hand_over_each_event_is_of_its_own_owner(watching, fresh_server, monkeypatch, notified):
    monkeypatch.setattr("pyredisson._tools.watch.KNOWN_WITHIN", 0.9)  # A busy machine looks late.
    server = fresh_server(VALKEY, "--notify-keyspace-events", "KA" if notified else "")
    watcher = watching(server.url, "order")
    watcher.sees("free")
    with server.client() as locks:
        locks.hset("order", HOLDER, "1")
        watcher.sees("acquired")
        for owner in (HOLDER.replace("7", "8"), HOLDER):
            pipeline = locks.pipeline()
            pipeline.delete("order")
            pipeline.hset("order", owner, "1")
            pipeline.publish("redisson_lock__channel:{order}", "0")
            pipeline.execute()
            watcher.sees("released", "acquired")
    assert [held is not None for held in watcher.held[:2]] == [False, False]
    # Without notifications the first holder may have acquired the lock up to a second before that was seen.
    assert (watcher.held[2] is not None) == notified
    assert watcher.held[3] is None
    assert watcher.held[4] is not None  # This one acquired it from the one before it, and that sent a message.
    assert watcher.held[5] is None


def test_each_holder_is_named_from_the_beginning(watching, valkey, unique_name, monkeypatch):
    monkeypatch.setattr("pyredisson._tools.watch.AHEAD", 60.0)  # A busy machine lists clients slowly, and rests longer.
    names = [f"{unique_name}-{number}" for number in range(4)]
    with ExitStack() as stack:
        for name in names:
            client = stack.enter_context(Redisson.from_url(valkey.url, config=Config(client_name=name[-1])))
            client.get_lock(name).lock()
        watcher = watching(valkey.url, *names)
        watcher.sees(*["held"] * 4)
        assert [label.split("@")[0] for label in watcher.labels] == ["0", "1", "2", "3"]
        # And those who appear one after the other.
        for name in names:
            client = stack.enter_context(Redisson.from_url(valkey.url, config=Config(client_name="late")))
            with Inspector(valkey.url) as inspector:
                inspector.unlock(name)
            client.get_lock(name).lock()
            watcher.sees("forced", "acquired")
            assert watcher.labels[-1].startswith("late@")


def test_a_fair_lock_is_known_by_what_its_holder_tells(watching, valkey, unique_name, locks):
    with Redisson.from_url(valkey.url, config=Config(presence_after=0.05)) as client:
        lock = client.get_fair_lock(unique_name)
        lock.lock()
        until(lambda: locks.exists(f"pyredisson_client:{client.id}"), 20, what="its presence is written")
        watcher = watching(valkey.url, unique_name)
        watcher.sees("held")
        lock.unlock()
        watcher.sees("released")  # Although it sends no message: no one waits for it.


def test_a_lock_that_expires_is_seen_when_it_does(watching, valkey, locks, unique_name):
    locks.hset(unique_name, HOLDER, "1")
    locks.pexpire(unique_name, 400)
    watcher = watching(valkey.url, unique_name)
    watcher.sees("held", "expired")
    assert watcher.labels[0] == watcher.labels[1]


@pytest.mark.parametrize("kind", ["get_lock", "get_fair_lock"])
def test_a_lock_that_is_freed_by_hand_was_not_released(watching, valkey, unique_name, kind):
    with Redisson.from_url(valkey.url) as client, Inspector(valkey.url) as inspector:
        getattr(client, kind)(unique_name).lock(60)
        watcher = watching(valkey.url, unique_name)
        watcher.sees("held")
        assert inspector.unlock(unique_name).freed
        watcher.sees("forced")


def test_a_prefix_stands_before_the_names(watching, valkey, unique_name):
    watcher = watching(valkey.url, unique_name, prefix="shop:")
    watcher.sees("free")
    with Redisson.from_url(valkey.url, config=Config(prefix="shop:")) as client, client.get_lock(unique_name):
        watcher.sees("acquired")
    watcher.sees("released")


def test_notifications_show_an_acquire_immediately_and_are_left_as_they_are(watching, fresh_server):
    server = fresh_server(VALKEY, "--notify-keyspace-events", "KA")
    watcher = watching(server.url, "order")
    watcher.sees("free")
    assert "notifications" not in watcher.watch.describe()
    with Redisson.from_url(server.url) as client, client.get_lock("order"):
        watcher.sees("acquired", within=2.0)  # The next look is due in five seconds.
    with server.client() as keys:
        assert set(keys.config_get("notify-keyspace-events")["notify-keyspace-events"]) == {"A", "K"}


def test_a_cluster_is_watched_on_each_of_its_nodes(watching, cluster, unique_name):
    names = [f"{unique_name}-{number}" for number in range(4)]
    watcher = watching(cluster.url, *names)
    watcher.sees(*["free"] * 4)
    with Redisson.from_url(cluster.url) as client:
        for name in names:
            with client.get_lock(name):
                watcher.sees("acquired")
            watcher.sees("released", within=5)


def test_an_outage_ends_nothing(own, capfd):
    url = own.url
    with Inspector(url, timeout=1.0) as inspector, closing(Watch(["order"], inspector)) as watch:
        events = watch.events()
        assert next(events)[2].event == "free"
        own.kill()
        own.restart()
        with Redisson.from_url(url) as client, client.get_lock("order"):
            assert next(events)[2].event in ("acquired", "released")
    assert "the connection was lost" in capfd.readouterr().err


def _hold(server: Server, name: str) -> None:
    with server.client() as client:
        client.hset(name, HOLDER, 1)
        client.pexpire(name, 60_000)


def _next_line(events: Iterator[tuple[float, Watched, Change]]) -> str:
    at, lock, change = next(events)
    return line_of(record_of(at, lock, change), named=False)


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        ("restart", "was restarted"),
        ("FLUSHALL", "was flushed"),
        ("FLUSHDB", "was flushed"),
        ("DEL", "its key is gone, without a message"),
    ],
)
def test_why_a_hold_has_ended_is_shown(watching, own, unique_name, command, cause):
    _hold(own, unique_name)
    events = watching(own.url, unique_name).watch.events()
    assert "held" in _next_line(events)
    if command == "restart":
        own.restart()
    else:
        with own.client() as client:
            client.execute_command(command, *([unique_name] if command == "DEL" else []))
    line = _next_line(events)
    assert "ended" in line
    assert cause in line


def test_a_hold_that_a_failover_has_lost_is_explained(watching, watched, unique_name):
    master = watched.master()
    _hold(master, unique_name)
    events = watching(watched.url, unique_name).watch.events()
    assert "held" in _next_line(events)
    for replica in watched.servers[1:]:
        with replica.client() as client:
            client.config_set("replica-read-only", "no")
            until(partial(client.delete, unique_name))
    watched.down_after(SOON_MS)
    master.kill()
    line = _next_line(events)
    assert "ended" in line
    assert f"(was {HOST}:{master.port}), which does not have it" in line


def test_ctrl_c_ends_it_without_a_word(valkey, unique_name, tmp_path):
    with programs(tmp_path) as started:
        program = started.pyredisson("watch", unique_name, "--json", url=valkey.url)
        until(lambda: "free" in program.stdout, 20, what="it watches")
        program.send(signal.SIGINT)
        assert program.exit_code() == -signal.SIGINT
        assert program.stderr == ""
