"""Locks of other libraries, as their keys show them: what the commands say, whom an unlock wakes, and what it refuses.

tests/interop/test_libraries.py does the same with the libraries themselves.
"""

from __future__ import annotations

import json
import runpy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyredisson._tools.cli import cli
from pyredisson.inspection import Inspector
from tests.servers import Server
from tests.waiting import until

ROOT = Path(__file__).parents[2]
UUID_4 = "73ca62a9-3f15-4c73-89b6-8dad464ba84b"
SIGNALLED = "QWxhZGRpbjpvcGVuIHNlc2Ft"  # as python-redis-lock stores it
RAW = bytes(range(200, 224))  # as rueidislock does


@pytest.fixture
def run(own: Server) -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(cli, list(arguments), env={"PYREDISSON_URL": own.url})

    return call


def listed(run: Callable[..., Result], *arguments: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(run("ls", "--json", *arguments).stdout)["locks"]}


def test_a_lock_without_an_expiry_of_a_known_library_is_a_leak(own, run):
    with own.client() as direct:
        direct.set("lock:report", SIGNALLED)
    assert [*listed(run)] == ["lock:report"]
    [leak] = json.loads(run("leaks", "--json").stdout)["leaks"]
    assert leak["text"].startswith("held by python-redis-lock ")
    assert leak["advice"].startswith("pyredisson unlock lock:report --holder ")


def test_shedlock_says_who_holds_it(own, run):
    with own.client() as direct:
        direct.set("job-lock:default:report", f"ADDED:2026-09-21T10:13:20.500Z@worker-3:{UUID_4}", px=60_000)
        direct.set("a long value", "x" * 100, px=60_000)
    assert [*listed(run)] == ["job-lock:default:report"]
    shown = run("show", "job-lock:default:report").stdout
    assert "held by   worker-3 for" in shown
    assert run("unlock", "job-lock:default:report", "--yes").stdout == (
        "freed job-lock:default:report; those of ShedLock do not wait: they ask again when the job is due again\n"
    )


def test_a_waiter_for_a_signal_is_woken(own, run):
    with own.client() as direct, own.client() as other:
        for value, options in ((SIGNALLED, ["--yes"]), ("chosen by a program", ["--yes", "--force"])):
            direct.set("lock:report", value)
            taken = []
            waiter = threading.Thread(target=lambda taken=taken: taken.append(other.blpop(["lock-signal:report"], 30)))
            waiter.start()
            until(lambda: direct.info("clients")["blocked_clients"] == 1)
            freed = run("unlock", "lock:report", *options).stdout
            assert freed == "freed lock:report; notified 1 client of python-redis-lock\n"
            waiter.join(30)
            assert taken == [(b"lock-signal:report", b"1")]
            assert not direct.keys()


def test_a_signal_that_no_one_waits_for_ends_soon_and_other_data_is_kept(own, run):
    with own.client() as direct:
        direct.set("lock:report", SIGNALLED)
        freed = run("unlock", "lock:report", "--yes").stdout
        assert freed == "freed lock:report; those of python-redis-lock wait for a signal\n"
        assert 0 < direct.pttl("lock-signal:report") <= 1000
        direct.delete("lock-signal:report")
        direct.hset("lock-signal:report", "data", "of a program")
        direct.set("lock:report", SIGNALLED)
        assert run("unlock", "lock:report", "--yes").exit_code == 0
        assert direct.hgetall("lock-signal:report") == {b"data": b"of a program"}
        assert direct.pttl("lock-signal:report") == -1


@pytest.mark.parametrize("channel", ["a:registry-channel", "a:registry-channel:a:registry:orders"])
def test_a_registry_of_spring_is_notified(own, run, channel):
    with own.client() as direct, direct.pubsub() as messages:
        messages.subscribe(channel)
        messages.get_message(timeout=5)
        direct.set("a:registry:orders", UUID_4, px=60_000)
        freed = run("unlock", "a:registry:orders", "--yes").stdout
        assert freed == "freed a:registry:orders; notified 1 client of Spring Integration\n"
        message = messages.get_message(timeout=5)
        assert message is not None
        assert message["data"] == b"a:registry:orders"


def test_three_keys_of_rueidislock_are_one_lock(own, run):
    keys = [f"rueidislock:{number}:orders" for number in range(3)]
    with own.client() as direct:
        for key in keys:
            direct.set(key, RAW, px=60_000)
        [lock] = listed(run).values()
        assert lock["keys"] == keys
        assert lock["notes"] == ["3 keys, one lock"]
        assert run("show", keys[2]).stdout.startswith(f"{keys[0]}  token lock, held\n")
        direct.delete(keys[0])  # Its holder has most of them.
        assert [*listed(run)] == keys[1:2]
        assert run("show", keys[0]).stdout.startswith(f"{keys[1]}  token lock, held\n")
        # Another client may have one of the keys for a moment: the lock is not its own.
        direct.set(keys[0], RAW[::-1], px=60_000)
        freed = run("unlock", keys[0], "--yes")
        assert freed.stdout == f"freed {keys[0]}; those of rueidislock are notified by the server\n"
        assert direct.keys() == [keys[0].encode()]


def test_keys_on_several_nodes_of_a_cluster_are_one_lock(cluster, unique_name):
    name = f"orders-{unique_name}"
    keys = [f"rueidislock:{number}:{name}" for number in range(3)]
    with Inspector(cluster.url) as inspector:
        for key, value in ((keys[0], RAW), (keys[1], RAW), (keys[2], RAW), (f"lock:{name}", SIGNALLED)):
            with cluster.client(key) as direct:
                direct.set(key, value, px=60_000)
        assert {each.name for each in inspector.locks(f"*{name}")} == {f"lock:{name}", keys[0]}
        assert inspector.unlock(keys[1]).freed
        assert inspector.unlock(f"lock:{name}").freed
    assert {each for each in cluster.all_keys() if name in each} <= {f"lock-signal:{name}"}, "which ends soon"


def test_the_page_shows_what_the_tests_check():
    made = runpy.run_path(str(ROOT / "docs" / "libraries.py"))
    assert made["FILE"].read_text(encoding="utf-8") == made["page"](), "run python docs/libraries.py"


def test_what_its_waiters_do_is_said_of_each_kind(own, run):
    with own.client() as direct:
        for name, value, said in (
            ("mutex:orders", UUID_4, "those of redis-semaphore ask again every 0.01 s"),
            (
                "orders",
                "cP3pmRS0XkbX7aPT9TVjHQ==",
                "whether clients wait for it is not known: those of redsync ask again within 0.25 s",
            ),
        ):
            direct.set(name, value, px=60_000)
            assert run("unlock", name, "--yes").stdout == f"freed {name}; {said}\n"


@pytest.mark.parametrize("arguments", [(), ("semaphore:orders",), ("*orders",)])
def test_a_semaphore_that_is_a_sorted_set_is_listed(own, run, arguments):
    with own.client() as direct:
        direct.zadd("semaphore:orders", {UUID_4: 1.0, f"{UUID_4}_1": 2.0})
        direct.zadd("board:orders", {"bob": 1.0})
    found = listed(run, *arguments)
    assert [*found] == ["semaphore:orders"]
    assert (found["semaphore:orders"]["taken"], found["semaphore:orders"]["permits"]) == (2, None)
    assert found["semaphore:orders"]["keys"] == ["semaphore:orders"]
    assert "2 taken" in run("ls").stdout
    assert "available" not in run("ls").stdout
    assert run("permits", "semaphore:orders").exit_code == 1
    assert run("unlock", "semaphore:orders", "--yes", "--force").exit_code == 3
