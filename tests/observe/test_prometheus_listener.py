"""What the Prometheus listener counts, of threads and of tasks; and that it harms no lock."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from pyredisson import events
from pyredisson.observe.histogram import BUFFER
from pyredisson.observe.holds import FIRST_SWEEP
from pyredisson.observe.labels import NAMES
from pyredisson.observe.prometheus import PrometheusListener
from tests.servers import Server
from tests.waiting import until
from tests.worlds.base import World
from tests.worlds.environments import sync_and_async

Value = Callable[..., "float | None"]

ROOT = Path(__file__).parents[2]
STRANGER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


@sync_and_async
def test_acquires_waits_and_holds_are_measured(world: World, registry: CollectorRegistry, value: Value) -> None:
    client = world.client(listeners=(PrometheusListener(registry),))
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    mine.lock()
    waiting = bob.start(theirs.lock)
    world.until(lambda: value("waiters") == 1)
    assert value("holds") == 1
    world.pass_time(0.05)
    assert 0.04 < value("longest_wait_seconds") < value("longest_hold_seconds") < 10
    mine.unlock()
    assert value("hold_seconds_count") == 0, "a nested hold is not counted"
    mine.unlock()
    waiting.result()
    assert not alice.do(mine.try_lock)
    theirs.unlock()
    assert [value(name) for name in ("holds", "waiters", "longest_hold_seconds", "longest_wait_seconds")] == [0] * 4
    assert value("acquisitions_total") == 2
    assert value("timeouts_total") == 1
    assert value("contentions_total") == 1
    assert value("wait_seconds_count") == 3
    assert value("hold_seconds_count") == 2
    assert value("hold_seconds_bucket", le="+Inf") == 2
    assert 0.04 < value("wait_seconds_sum") < 10


@sync_and_async
def test_acquires_of_permits_and_their_waits_are_measured(
    world: World, registry: CollectorRegistry, value: Value
) -> None:
    client = world.client(listeners=(PrometheusListener(registry),))
    alice, bob = world.actors(2)
    mine, theirs = alice.get(client, "semaphore", "seats", permits=1), bob.get(client, "semaphore", "seats")
    mine.acquire()
    waiting = bob.start(theirs.try_acquire, wait_time=0.2)
    world.until(lambda: value("waiters") == 1)
    assert not waiting.result()
    assert [value(name) for name in ("holds", "waiters")] == [0, 0]
    assert value("acquisitions_total") == 1
    assert value("timeouts_total") == 1
    assert value("failures_total", reason="timeout") == 1
    assert value("contentions_total") == 1
    assert value("wait_seconds_count") == 2
    assert 0.2 < value("wait_seconds_sum") < 10


def test_failures_are_counted_by_their_reason(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry)
    error = OSError()
    listener(events.AcquireFailed("orders", "client:1", 0.5, "quorum", error))
    for _ in range(2):
        listener(events.AcquireFailed("orders", "client:1", 1.5, "connection", error))
    assert value("failures_total", reason="connection") == 2
    assert value("failures_total", reason="quorum") == 1
    assert value("failures_total", reason="timeout") == 0, "a time series that begins with 1 has not increased"
    assert (value("wait_seconds_count"), value("wait_seconds_sum")) == (3, 3.5)
    assert value("timeouts_total") == 0


@sync_and_async
def test_a_loss_ends_the_hold(world: World, registry: CollectorRegistry, value: Value) -> None:
    client = world.client(listeners=(PrometheusListener(registry),), lock_watchdog_timeout=0.6)
    mine = world.actor().lock(client)
    mine.lock()
    world.redis.delete("orders")
    world.redis.command("HSET", "orders", STRANGER, "1")
    world.until(lambda: value("losses_total") == 1)
    assert value("holds") == 0
    assert value("hold_seconds_count") == 0


@sync_and_async
def test_an_interrupted_wait_ends(world: World, registry: CollectorRegistry, value: Value) -> None:
    client = world.client(listeners=(PrometheusListener(registry),))
    alice, bob = world.actor(), world.interruptible()
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    bob.interrupted(theirs.lock, once=lambda: value("waiters") == 1)
    assert value("waiters") == 0
    mine.unlock()


@sync_and_async
def test_renewals_are_counted(world: World, registry: CollectorRegistry, value: Value) -> None:
    client = world.client(listeners=(PrometheusListener(registry),), lock_watchdog_timeout=0.6)
    mine = world.actor().lock(client)
    mine.lock()
    world.until(lambda: value("renewals_total"))
    mine.unlock()


@sync_and_async
def test_a_holder_that_is_gone_holds_no_longer(world: World, registry: CollectorRegistry, value: Value) -> None:
    client = world.client(listeners=(PrometheusListener(registry),), lock_watchdog_timeout=0.6)
    alice = world.actor()
    alice.lock(client).lock()
    alice.end()
    world.until(lambda: value("events_total", event="HolderGone") == 1)
    assert value("holds") == 0


def acquired(name: str, owner: str = "client:1", lease: float | None = None) -> events.Acquired:
    return events.Acquired(name, owner, 0.001, 1, lease)


def test_the_name_is_a_label_only_through_a_function(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry, label=lambda name: name.split(":")[0])
    listener(acquired("order:17"))
    listener(acquired("order:18"))
    listener(acquired("seat:1"))
    listener(events.Released("seat:1", "client:1", 0, 0.5))
    assert value("acquisitions_total", lock="order") == 2
    assert (value("holds", lock="order"), value("holds", lock="seat")) == (2, 0)
    assert value("hold_seconds_sum", lock="seat") == 0.5
    assert value("acquisitions_total") is None


def test_labels_beyond_the_limit_are_one(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry, label=str, max_labels=3)
    for number in range(1000):
        listener(acquired(f"order:{number}"))
    counted = {
        sample.labels["lock"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "pyredisson_acquisitions_total"
    }
    assert counted == {"order:0": 1, "order:1": 1, "order:2": 1, "other": 997}


def test_labels_are_remembered_for_a_limited_number_of_names(registry: CollectorRegistry, value: Value) -> None:
    asked: list[str] = []
    listener = PrometheusListener(registry, label=lambda name: asked.append(name) or "all")  # type: ignore[func-returns-value]
    for _ in range(10):
        listener(acquired("orders"))
    assert asked == ["orders"]
    for number in range(3 * NAMES):
        listener(events.TimedOut(f"order:{number}", "client:1", 0.0))
    assert len(listener._by_label.by_name) <= NAMES
    assert value("timeouts_total", lock="all") == 3 * NAMES


def test_a_label_that_fails_is_counted_as_other_and_logged_once(
    registry: CollectorRegistry, value: Value, caplog: pytest.LogCaptureFixture
) -> None:
    listener = PrometheusListener(registry, label=lambda name: name.split(":")[1])
    listener(acquired("orders"))
    listener(acquired("seats"))
    assert value("acquisitions_total", lock="other") == 2
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_hold_whose_lease_has_ended_is_forgotten(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry)
    listener(acquired("short", lease=0.0))
    listener(acquired("long", lease=60.0))
    assert value("holds") == 1


def test_leases_that_end_without_an_event_take_no_memory(registry: CollectorRegistry) -> None:
    listener = PrometheusListener(registry)
    for number in range(10 * FIRST_SWEEP):
        listener(acquired(f"order:{number}", lease=0.0))
    assert len(listener._held) < FIRST_SWEEP


def test_values_take_no_memory_before_they_are_read(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry)
    for _ in range(3 * BUFFER):
        listener(acquired("orders"))
        listener(events.Released("orders", "client:1", 0, 0.5))
        listener(events.TimedOut("orders", "client:2", 0.5))
    metrics = listener._by_label.of("orders")
    assert len(metrics.unsorted) < BUFFER
    assert value("wait_seconds_count") == 6 * BUFFER
    assert value("wait_seconds_bucket", le="0.001") == 3 * BUFFER
    assert value("wait_seconds_bucket", le="+Inf") == 6 * BUFFER
    assert value("hold_seconds_sum") == pytest.approx(0.5 * 3 * BUFFER)
    assert value("acquisitions_total") == value("timeouts_total") == 3 * BUFFER


def test_values_of_many_threads_are_all_counted(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry)
    both = threading.Barrier(4)

    def acquire(owner: str) -> None:
        both.wait(10)
        for _ in range(2000):
            listener(acquired("orders", owner))
            listener(events.Released("orders", owner, 0, 0.5))

    threads = [threading.Thread(target=acquire, args=(f"client:{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: value("acquisitions_total") == 8000)
    for thread in threads:
        thread.join()
    assert value("hold_seconds_count") == 8000
    assert value("holds") == 0


def test_an_unlock_of_unknown_outcome_ends_the_hold(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry)
    listener(acquired("orders"))
    listener(events.OutcomeUnknown("orders", "client:1", "an acquire", TimeoutError()))
    assert value("holds") == 1
    listener(events.OutcomeUnknown("orders", "client:1", "an unlock", TimeoutError()))
    assert value("holds") == 0
    assert value("outcomes_unknown_total") == 2


def test_what_a_collected_client_held_is_forgotten(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry)
    listener(acquired("orders", "one:1"))
    listener(acquired("seats", "one:2"))
    listener(acquired("orders", "another:1"))
    listener(events.ClientCollected("one", ("orders",), 2))
    assert value("holds") == 1


@pytest.mark.parametrize(
    ("event", "metric"),
    [
        (events.GivenBack("orders", "client:1"), "settled_total"),
        (events.RenewalFailed(3, TimeoutError(), 1), "renewal_failures_total"),
        (events.WatchdogLate(3.0), "watchdog_late_total"),
        (events.ConnectionDown(OSError(), 1), "connection_downs_total"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, events.Event) else each,
)
def test_each_of_these_is_counted(registry: CollectorRegistry, value: Value, event: events.Event, metric: str) -> None:
    PrometheusListener(registry)(event)
    assert value(metric) == 1


def test_an_outage_of_the_subscriber_is_counted_once(registry: CollectorRegistry, value: Value) -> None:
    listener = PrometheusListener(registry)
    for attempt in (1, 2, 3):
        listener(events.ConnectionDown(OSError(), attempt))
    listener(events.ConnectionUp(1))
    assert value("connection_downs_total") == 1


def test_every_other_event_is_counted_by_its_class(registry: CollectorRegistry, value: Value) -> None:
    class OfALaterVersion(events.Event):
        pass

    listener = PrometheusListener(registry)
    listener(OfALaterVersion())
    listener(events.LeftBehind("orders", "client:1", "thread 7"))
    assert value("events_total", event="OfALaterVersion") == 1
    assert value("events_total", event="LeftBehind") == 1


def test_counters_of_events_begin_with_0(value: Value, registry: CollectorRegistry) -> None:
    PrometheusListener(registry)
    own = {"Acquired", "ConnectionDown", "ConnectionUp", "GivenBack", "Lost", "OutcomeUnknown", "Released"}
    own |= {
        "AcquireFailed",
        "RenewalFailed",
        "Renewed",
        "TimedOut",
        "WaitBegan",
        "WaitEnded",
        "WatchdogLate",
        "Event",
        "LockEvent",
    }
    for name in set(events.__all__) - own:
        assert value("events_total", event=name) == 0, name


def test_one_registry_has_one_listener(registry: CollectorRegistry) -> None:
    PrometheusListener(registry)
    with pytest.raises(ValueError, match="another PrometheusListener"):
        PrometheusListener(registry)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"label": "orders"}, TypeError), ({"max_labels": 0}, ValueError), ({"max_labels": 2.5}, TypeError)],
    ids=str,
)
def test_wrong_arguments_are_refused(
    registry: CollectorRegistry, arguments: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        PrometheusListener(registry, **arguments)  # type: ignore[arg-type]


@sync_and_async
def test_a_listener_that_raises_harms_no_lock(world: World, registry: CollectorRegistry, value: Value) -> None:
    def broken(event: events.Event) -> None:
        raise RuntimeError("planted")

    client = world.client(listeners=(broken, PrometheusListener(registry)))
    mine = world.actor().lock(client)
    mine.lock()
    mine.unlock()
    assert value("hold_seconds_count") == 1
    assert value("events_total", event="CallbackFailed") == 2


FORKS = """
import os, sys
from prometheus_client import CollectorRegistry, generate_latest
from pyredisson import Config, Redisson
from pyredisson.observe.prometheus import PrometheusListener

registry = CollectorRegistry()
client = Redisson.from_url(sys.argv[1], config=Config(listeners=(PrometheusListener(registry),)))
mine = client.get_lock(sys.argv[2])
mine.lock()
child = os.fork()
if not child:
    code = 1
    try:
        other = client.get_lock(sys.argv[2] + "-child")
        other.lock()
        code = 0 if registry.get_sample_value("pyredisson_holds") == 1 else 2
        other.unlock()
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
assert registry.get_sample_value("pyredisson_holds") == 1
mine.unlock()
client.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""

SEVERAL = """
import os, sys
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
from pyredisson import Config, Redisson
from pyredisson.observe.prometheus import PrometheusListener

config = Config(listeners=(PrometheusListener(label=lambda name: "all"),))
child = os.fork()
with Redisson.from_url(sys.argv[1], config=config) as client, client.get_lock(f"{sys.argv[2]}-{child}"):
    if not child:
        os._exit(0)  # With what it holds: a gauge of dead processes is not added up.
    assert os.waitpid(child, 0)[1] == 0
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(child)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    value = registry.get_sample_value
    assert value("pyredisson_acquisitions_total", {"lock": "all"}) == 2
    assert not client.get_lock(f"{sys.argv[2]}-{child}", owner=client.new_owner()).try_lock()
    assert value("pyredisson_failures_total", {"lock": "all", "reason": "timeout"}) == 1
    assert value("pyredisson_wait_seconds_count", {"lock": "all"}) == 3
    assert value("pyredisson_holds", {"lock": "all"}) == 1
    assert value("pyredisson_longest_hold_seconds", {"lock": "all"}) is None
assert value("pyredisson_holds", {"lock": "all"}) == 0
"""


@pytest.mark.parametrize("program", [FORKS, SEVERAL], ids=["forked", "multiprocess mode"])
def test_processes_hold_for_themselves(program: str, valkey: Server, unique_name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if program is SEVERAL:
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(tmp_path)
    command = [sys.executable, "-W", "error", "-c", program, f"redis://127.0.0.1:{valkey.port}", unique_name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
