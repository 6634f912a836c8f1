"""What the exporter makes of a snapshot, and how often it scans."""

from __future__ import annotations

import signal
import threading
import urllib.request
import weakref
from dataclasses import replace

from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pyredisson import Config, Redisson
from pyredisson._tools.metrics import Exporter, Scanner
from pyredisson.inspection import LockView, Snapshot, WaiterView, Who
from pyredisson.inspection.inspector import Keep
from tests.command_line import Program
from tests.servers import HOST, NOBODYS_PORT
from tests.waiting import until

NOW = 1_000.0


def view(name: str, *, kind: str = "lock", since: float | None = None, waiting: int = 0, **more: object) -> LockView:
    holder = Who(client_id="one", thread_id=1, connected=True, since=since)
    return LockView(name, kind, "node", **{"holders": (holder,), "waiting_clients": waiting, **more})


def values(exporter: Exporter) -> dict[str, float]:
    """What the exporter exports: by the name without its prefix, and the labels if there are any."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    return {
        sample.name.removeprefix("pyredisson_").removeprefix("server_")
        + ("".join(f" {value}" for _, value in sorted(sample.labels.items())) if sample.labels else ""): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }


def exported(*locks: LockView, names: str | None = None, limit: int = 50, **more: object) -> dict[str, float]:
    snapshot = Snapshot(NOW, tuple(locks), **more)
    return values(Exporter(Scanner(lambda keep: kept(snapshot, keep), 60.0, names=names, limit=limit)))


def kept(snapshot: Snapshot, keep: Keep) -> Snapshot:
    """What an inspector would return."""
    return replace(snapshot, locks=keep(iter(snapshot.locks)))


def test_locks_and_waiters_are_counted_by_kind():
    found = exported(
        view("a", since=NOW - 40),
        view("b", since=NOW - 7, waiting=2),
        view("c", kind="fair_lock", waiters=(WaiterView(Who(since=NOW - 12), "fair_lock"),)),
        view("free", kind="semaphore", holders=(), permits=3),
        keys_seen=9,
        seconds=0.5,
    )
    assert (found["locks lock"], found["locks fair_lock"], found["locks semaphore"]) == (2, 1, 0)
    assert (found["waiters lock"], found["waiters fair_lock"], found["waiters semaphore"]) == (2, 1, 0)
    assert (found["longest_hold_seconds"], found["longest_wait_seconds"]) == (40, 12)
    assert (found["up"], found["scan_complete"], found["scan_keys"], found["scan_errors"]) == (1, 1, 9, 0)


def test_what_never_ends_is_counted():
    found = exported(
        view("a", never_expires=True),
        view("b", holders=(Who(client_id="gone", connected=False),)),
        view("c", holders=(Who(client_id="unknown", connected=None),)),
        view("d", waiters=(WaiterView(Who(), "fair_lock", expired=True),)),
    )
    assert found["locks_without_expiry"] == 1
    assert found["locks_of_absent_clients"] == 1
    assert found["dead_waiters"] == 1


def test_owners_that_wait_for_each_other_are_counted():
    one, other, third = (Who(client_id=each, thread_id=1, owner=f"{each}:1") for each in ("one", "other", "third"))
    locks = (
        LockView("a", "lock", "node", holders=(one,), waiters=(WaiterView(other, "lock"), WaiterView(third, "lock"))),
        LockView("b", "lock", "node", holders=(other,), waiters=(WaiterView(one, "lock"),)),
    )
    assert exported(*locks)["deadlocked_owners"] == 2
    assert exported(locks[0])["deadlocked_owners"] == 0


def test_without_locks_there_are_zeros():
    found = exported()
    assert [found[name] for name in ("locks lock", "waiters lock", "longest_hold_seconds", "clients")] == [0] * 4


def test_a_kind_that_was_seen_stays_with_0():
    snapshots = [Snapshot(NOW), Snapshot(NOW, (view("a", kind="fair_lock"),))]
    exporter = Exporter(Scanner(lambda keep: kept(snapshots.pop() if len(snapshots) > 1 else snapshots[0], keep), 1e-9))
    assert values(exporter)["locks fair_lock"] == 1
    until(lambda: values(exporter)["locks fair_lock"] == 0)


def test_locks_have_time_series_only_if_their_names_match():
    locks = (view("order:1", since=NOW - 5, free_in=20.0), view("order:2", waiting=1), view("seat:1"))
    assert not any(name.startswith("lock_") for name in exported(*locks))
    found = exported(*locks, names="order:*")
    assert {name for name in found if name.startswith("lock_hold")} == {
        "lock_hold_seconds order:1",
        "lock_hold_seconds order:2",
    }
    assert found["lock_hold_seconds order:1"] == 5
    assert found["lock_expires_in_seconds order:1"] == 20
    assert found["lock_waiters order:2"] == 1


def test_the_longest_holds_stay_within_the_limit():
    found = exported(*(view(f"order:{number}", since=NOW - number) for number in range(100)), names="*", limit=2)
    assert [name for name in found if name.startswith("lock_hold")] == [
        "lock_hold_seconds order:99",
        "lock_hold_seconds order:98",
    ]
    assert found["locks_beyond_limit"] == 98


def test_locks_are_counted_and_not_kept():
    alive, most = weakref.WeakSet[Who](), 0

    def found():
        nonlocal most
        for number in range(2000):
            lock = view(f"order:{number}", since=NOW - number % 500)
            alive.update(lock.holders)
            yield lock
            most = max(most, len(alive))

    def scan(keep):
        return Snapshot(NOW, keep(found()))

    exported = values(Exporter(Scanner(scan, 60.0, names="*", limit=3)))
    assert (exported["locks lock"], exported["longest_hold_seconds"]) == (2000, 499)
    assert (exported["locks_beyond_limit"], exported["lock_hold_seconds order:1999"]) == (1997, 499)
    assert most < 100


def test_any_name_can_be_a_label():
    names = ['quotes "and\nlines"', "\x1b[31mred", "\udcff", "日本🔒", "x" * 10_000]
    found = exported(*map(view, names), names="*")
    assert len([name for name in found if name.startswith("lock_hold")]) == len(names)


def test_a_scan_that_fails_is_reported_as_a_server_that_is_away():
    def scan(keep):
        raise OSError("refused")

    found = values(Exporter(Scanner(scan, 60.0)))
    assert (found["up"], found["scan_failures_total"]) == (0, 1)
    assert "locks lock" not in found


def test_a_snapshot_of_nothing_but_errors_is_a_server_that_is_away():
    assert exported(complete=False, errors=("refused",))["up"] == 0
    assert exported(view("a"), complete=False, errors=("one of three refused",), keys_seen=1)["up"] == 1


def test_scrapes_share_one_scan():
    began, go_on = threading.Semaphore(0), threading.Event()

    def scan(keep):
        began.release()
        assert go_on.wait(10)
        return Snapshot(NOW)

    scanner = Scanner(scan, 60.0)
    scrapes = [threading.Thread(target=scanner.latest) for _ in range(8)]
    for scrape in scrapes:
        scrape.start()
    assert began.acquire(timeout=10)
    assert scanner.latest(within=0.01) is None, "it does not wait for longer than it is told"
    go_on.set()
    for scrape in scrapes:
        scrape.join(10)
    assert scanner.latest() is scanner.latest()
    assert scanner.scans == 1


def test_a_scan_that_is_old_is_repeated():
    scanner = Scanner(lambda _: Snapshot(NOW), 1e-9)
    first = scanner.latest()
    until(lambda: scanner.latest() is not first)
    assert scanner.scans >= 2


# ---- the command -----------------------------------------------------------------------------------------------------


def address_of(program: Program) -> str:
    """Where an exporter that was started listens."""
    said: str = until(lambda: program.stderr if "/metrics" in program.stderr else None, within=20)
    return said.split("metrics on ")[1].split()[0].replace("0.0.0.0", HOST)


def read(address: str, accept: str = "application/openmetrics-text") -> str:
    request = urllib.request.Request(address, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def test_once_it_writes_openmetrics(command_line, valkey, unique_name):
    url = f"redis://{HOST}:{valkey.port}"
    with Redisson.from_url(url) as client, client.get_lock(f"{unique_name}:1"):
        program = command_line.pyredisson("metrics", "--once", "--names", f"{unique_name}:*", url=url)
        assert program.exit_code() == 0, program.stderr
    families = {each.name: each for each in text_string_to_metric_families(program.stdout)}
    assert families["pyredisson_up"].samples[0].value == 1
    (lock,) = families["pyredisson_server_lock_hold_seconds"].samples
    assert lock.labels["lock"] == f"{unique_name}:1"
    assert program.stderr == ""


def test_once_without_a_server(command_line):
    program = command_line.pyredisson("metrics", "--once", url=f"redis://:s3cret@{HOST}:{NOBODYS_PORT}")
    assert program.exit_code() == 69
    assert "pyredisson_up 0.0" in program.stdout
    assert "s3cret" not in program.stdout + program.stderr
    assert "Traceback" not in program.stderr


def test_it_serves_while_the_server_is_away_and_when_it_is_back(command_line, own):
    url = f"redis://{HOST}:{own.port}"
    program = command_line.pyredisson("metrics", "--listen", f"{HOST}:0", "--interval", "0.01", url=url)
    address = address_of(program)
    with Redisson.from_url(url, config=Config(client_name="web")) as client, client.get_lock("orders"):
        found = read(address)
        assert "pyredisson_up 1.0" in found
        assert 'pyredisson_server_locks{kind="lock"} 1.0' in found
        assert "pyredisson_server_clients 1.0" in found
    own.stop()
    until(lambda: "pyredisson_up 0.0" in read(address), within=20)
    assert "pyredisson_up 0.0" in read(address, accept="text/plain")
    program.send(signal.SIGTERM)
    assert program.exit_code() == 0
    assert "Traceback" not in program.stderr


def test_a_port_in_use_is_reported(command_line, valkey):
    program = command_line.pyredisson("metrics", "--listen", f"{HOST}:{valkey.port}", url=f"redis://{HOST}")
    assert program.exit_code() == 1
    assert "cannot listen" in program.stderr
    assert "Traceback" not in program.stderr
