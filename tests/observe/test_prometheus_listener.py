"""The Prometheus listener alone: memory, threads and processes, registries; and that it harms no lock."""

import logging
import threading
from pathlib import Path

import pytest

from pyredisson import events
from pyredisson.observe._metrics import FIRST_SWEEP, NAMES
from pyredisson.observe.prometheus import BUFFER
from tests.command_line import run_python
from tests.observe.test_listeners import acquired
from tests.waiting import until
from tests.worlds.environments import sync_and_async

ROOT = Path(__file__).parents[2]


def test_labels_are_remembered_for_a_limited_number_of_names(prometheus):
    asked = []
    listener = prometheus.listener(label=lambda name: asked.append(name) or "all")
    for _ in range(10):
        listener(acquired("orders"))
    assert asked == ["orders"]
    for number in range(3 * NAMES):
        listener(events.TimedOut(f"order:{number}", "client:1", 0.0))
    assert len(listener._by_label.by_name) <= NAMES
    assert prometheus.sample("timeouts_total", lock="all") == 3 * NAMES


def test_a_label_that_fails_is_counted_as_other_and_logged_once(prometheus, caplog):
    listener = prometheus.listener(label=lambda name: name.split(":")[1])
    listener(acquired("orders"))
    listener(acquired("seats"))
    assert prometheus.sample("acquisitions_total", lock="other") == 2
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_leases_that_end_without_an_event_take_no_memory(prometheus):
    listener = prometheus.listener()
    for number in range(10 * FIRST_SWEEP):
        listener(acquired(f"order:{number}", lease=0.0))
    assert len(listener._holds.all) < FIRST_SWEEP


def test_values_take_no_memory_before_they_are_read(prometheus):
    listener = prometheus.listener()
    for _ in range(3 * BUFFER):
        listener(acquired("orders"))
        listener(events.Released("orders", "client:1", 0, 0.5))
        listener(events.TimedOut("orders", "client:2", 0.5))
    metrics = listener._by_label.of("orders")
    assert all(len(each.__self__._values) < BUFFER for each in (metrics.acquired, metrics.timed_out, metrics.held))
    assert prometheus.sample("wait_seconds_count") == 6 * BUFFER
    assert prometheus.sample("wait_seconds_bucket", le="0.001") == 3 * BUFFER
    assert prometheus.sample("wait_seconds_bucket", le="+Inf") == 6 * BUFFER
    assert prometheus.sample("wait_seconds_sum") == pytest.approx(0.501 * 3 * BUFFER)
    assert prometheus.sample("hold_seconds_sum") == pytest.approx(0.5 * 3 * BUFFER)
    assert prometheus.sample("acquisitions_total") == prometheus.sample("timeouts_total") == 3 * BUFFER


def test_values_of_many_threads_are_all_counted(prometheus):
    listener = prometheus.listener()
    both = threading.Barrier(4)

    def acquire(owner):
        both.wait(10)
        for _ in range(2000):
            listener(acquired("orders", owner))
            listener(events.Released("orders", owner, 0, 0.5))

    threads = [threading.Thread(target=acquire, args=(f"client:{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: prometheus.sample("acquisitions_total") == 8000)
    for thread in threads:
        thread.join()
    assert prometheus.sample("hold_seconds_count") == 8000
    assert prometheus.sample("holds") == 0


def test_counters_begin_with_0(prometheus):
    """A time series that begins with 1 has not increased."""
    prometheus.listener()
    assert prometheus.sample("failures_total", reason="timeout") == 0
    own = "Acquired AcquireFailed ConnectionDown ConnectionUp Event GivenBack LockEvent Lost OutcomeUnknown Released"
    own += " RenewalFailed Renewed TimedOut WaitBegan WaitEnded WatchdogLate"
    for name in set(events.__all__) - set(own.split()):
        assert prometheus.sample("events_total", event=name) == 0, name


def test_one_registry_has_one_listener(prometheus):
    prometheus.listener()
    with pytest.raises(ValueError, match="another PrometheusListener"):
        prometheus.listener()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [({"label": "orders"}, TypeError), ({"max_labels": 0}, ValueError), ({"max_labels": 2.5}, TypeError)],
    ids=str,
)
def test_wrong_arguments_are_refused(prometheus, arguments, error):
    with pytest.raises(error):
        prometheus.listener(**arguments)


@sync_and_async
def test_a_listener_that_raises_harms_no_lock(world, prometheus):
    def broken(event):
        raise RuntimeError("planted")

    client = world.client(listeners=(broken, prometheus.listener()))
    mine = world.actor().lock(client)
    mine.lock()
    mine.unlock()
    assert prometheus.sample("hold_seconds_count") == 1
    assert prometheus.sample("events_total", event="CallbackFailed") == 2


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
def test_processes_hold_for_themselves(program, valkey, unique_name, tmp_path):
    environment = {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)} if program is SEVERAL else {}
    run_python(program, f"redis://127.0.0.1:{valkey.port}", unique_name, flags=("-W", "error"), **environment)
