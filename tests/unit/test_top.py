"""What ``pyredisson top`` makes of what was seen, and how it is shown."""

from io import StringIO

import pytest
from rich.console import Console

from pyredisson._tools.sampling import name_of
from pyredisson._tools.top import Record, percentile, round_of, screen_of, text_of
from pyredisson.inspection import LockView, Snapshot, WaiterView, Who

NOW = 1_700_000_000.0


def view(
    name: str, *, waits: tuple[float, ...] = (), clients: int = 0, held: float | None = 5.0, **more: object
) -> LockView:
    holders = () if held is None else (Who("8f3a1c5e", 12, app="web", host="web-3", pid=4711, since=NOW - held),)
    waiters = tuple(WaiterView(Who(), "lock", since=NOW - wait) for wait in waits)
    return LockView(name, "lock", "n", holders, free_in=25.0, waiters=waiters, waiting_clients=clients, **more)


def seen(*views: LockView, rates: dict[str, float] | None = None, rows: int = 20, **more: object) -> Record:
    snapshot = Snapshot(NOW - 3, views, seconds=0.25)
    return round_of(snapshot, {}, rates, now=NOW, rows=rows, **more)


def test_the_locks_with_the_most_waiters_come_first_then_the_busiest():
    quiet, waited, busy, free = view("quiet"), view("waited", clients=3), view("busy"), view("free", held=None)
    found = seen(quiet, waited, busy, free, rates={"busy": 7.0})
    assert [row["name"] for row in found["locks"]] == ["waited", "busy", "quiet"]
    assert [found[name] for name in ("held", "contended", "waiting", "releases_per_second")] == [3, 1, 3, 7.0]


def test_a_lock_that_is_always_free_when_it_is_looked_at_is_seen_by_its_releases():
    assert [(row["name"], row["releases_per_second"]) for row in seen(rates={"quick": 40.0})["locks"]] == [
        ("quick", 40.0)
    ]


def test_what_was_read_again_counts_instead_of_the_search():
    snapshot = Snapshot(NOW, (view("gone"), view("now-waited")))
    found = round_of(snapshot, {"gone": None, "now-waited": view("now-waited", clients=2)}, None, now=NOW, rows=5)
    assert [(row["name"], row["waiting"]) for row in found["locks"]] == [("now-waited", 2)]
    assert found["held"] == 1
    assert found["releases_per_second"] is None


def test_waits_are_those_that_clients_report():
    found = seen(view("a", waits=(10.0, 20.0)), view("b", waits=(90.0,)), view("c", clients=4))
    assert (found["waits_p50_ms"], found["waits_p99_ms"]) == (20_000, 90_000)
    assert found["waits_known"] == 3
    assert [row["longest_wait_ms"] for row in found["locks"]] == [None, 20_000, 90_000]
    assert seen(view("c", clients=4))["waits_p50_ms"] is None


@pytest.mark.parametrize(
    ("values", "share", "expected"), [([1.0], 0.5, 1.0), ([1.0, 2.0, 3.0, 4.0], 0.5, 2.0), (list(range(100)), 0.99, 98)]
)
def test_a_percentile_is_one_of_the_values(values, share, expected):
    assert percentile(values, share) == expected


@pytest.mark.parametrize(
    ("channel", "name"),
    [
        ("redisson_lock__channel:{orders}", "orders"),
        ("redisson_lock__channel:{orders}:8f3a1c5e-0b7d-4e7c-9d53-2f3d5c1b7a90:7", "orders"),
        ("redisson_rwlock:{orders}", "orders"),
        ("redisson_sc:{orders}", "orders"),
        ("redisson_lock__channel:a{b}c", "a{b}c"),
        ("redisson_lock__channel:{a}:b", "{a}:b"),
        ("other", None),
    ],
)
def test_the_name_is_read_from_the_channel(channel, name):
    assert name_of(channel) == name


def drawn(found: Record, width: int, height: int = 24) -> list[str]:
    console = Console(file=StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    console.print(screen_of(found, console))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [32, 40, 80, 132])
def test_the_screen_fits_any_terminal(width):
    locks = [view(f"order:{number}" * (number % 5 + 1), waits=(1.0,) * number) for number in range(40)]
    lines = drawn(seen(*locks, rates={"order:1": 12_345.6}, rows=40, cpu=0.41), width)
    assert max(map(len, lines)) <= width
    assert len(lines) <= 24
    assert any("order:" in line for line in lines)
    assert lines[-1] == "q quits"


def test_the_screen_says_what_is_estimated_and_how_old_it_is():
    text = " ".join(drawn(seen(view("a", waits=(12.0,)), rates={}, cpu=0.41, sampled=True), 200))
    assert "1 held · 1 contended · 1 waiting · ~0 releases/s · server 41% of a core" in text
    assert "waits so far p50 12 s, p99 12 s, of 1 that their clients report" in text
    assert "searched 3 s ago in 0.25 s" in text
    assert "? releases/s" in " ".join(drawn(seen(view("a")), 200))


def test_a_round_as_text_has_a_line_a_lock():
    lines = list(text_of(seen(view("order:17", clients=2), rates={"order:17": 3.25})))
    assert lines[0].startswith("1 held")
    assert lines[2] == "  order:17  waiting 2  3.2/s  held by web@web-3 pid 4711 t12  for 5 s  free in 25 s"
