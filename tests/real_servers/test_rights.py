"""A user of exactly the documented rules can do everything that they are for, on each server; the page is generated."""

from __future__ import annotations

import re
import runpy
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from pyredisson import Config, Redisson, Skipped
from pyredisson._tools.cli import cli
from pyredisson._tools.metrics import Exporter, Scanner
from pyredisson.inspection import Inspector
from tests.examples import ROOT
from tests.servers import HOST, Build, Server
from tests.waiting import until

PAGE = ROOT / "docs" / "_generated" / "rights.md"
rights = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "rights.py")))


@pytest.fixture
def own(build: Build, fresh_server: Callable[..., Server]) -> Server:
    return fresh_server(build)


def user(server: Server, *rules: str) -> str:
    """Make a user of exactly these rules, and return its URL."""
    with server.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">sesame", "resetchannels", "-@all", *rules)
    return f"redis://ann:sesame@{HOST}:{server.port}"


def page() -> str:
    return PAGE.read_text(encoding="utf-8").replace("\\|", "|")


def documented(row: str) -> list[str]:
    """Return the rules of a row of the page's tables, or of what is before them: the plain lock's."""
    if row == "plain lock":
        return re.findall(r"[+~&]\S+", page().partition("For other kinds")[0])
    (cell,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", page(), re.MULTILINE)
    return re.findall(r"[+~&][^\s`]+", cell)


def test_the_page_is_generated():
    assert PAGE.read_text(encoding="utf-8") == rights.page(), "run python docs/rights.py"


def denied(server: Server) -> int:
    with server.client() as direct:
        stats: dict[str, Any] = direct.info("errorstats")
        return int(stats.get("errorstat_NOPERM", {}).get("count", 0))


def use_run_once(client: Redisson) -> None:
    with client.run_once("orders:once", at_most=60, at_least=30) as run:
        assert not isinstance(run, Skipped)
    with client.run_once("orders:once", at_most=60, at_least=30) as again:
        assert not again


def use_election(client: Redisson) -> None:
    election = client.get_leader_election("orders:leader")
    seen: list[object] = []
    observation = election.observe(seen.append)
    with election.term() as term:
        assert term.token == 1
        assert election.leader() is not None
        until(lambda: seen)
    observation.stop()


USES = {"`run_once()`, `run --at-least`": use_run_once, "leader election": use_election}


@pytest.mark.parametrize("kind", USES)
def test_what_is_no_kind_of_lock(own, kind):
    optional = [*rights.as_rules(rights.DIAGNOSIS), "+client", "~pyredisson_client:*", "~redisson_lock_queue:*"]
    url = user(own, *documented("plain lock"), *documented(kind), *optional)
    with Redisson.from_url(url, config=Config(lock_watchdog_timeout=60)) as client:
        USES[kind](client)
    assert denied(own) == 0


@pytest.mark.parametrize("kind", ["semaphore", "bounded semaphore"])
def test_a_user_who_may_not_see_the_other_kind_of_semaphore_acquires(own, kind):
    rules = [rule for rule in documented(kind) if rule != "~{orders*}:timeout"]
    optional = [*rights.as_rules(rights.DIAGNOSIS), "+client", "~pyredisson_client:*", "~redisson_lock_queue:*"]
    with Redisson.from_url(user(own, *documented("plain lock"), *rules, *optional)) as client:
        for name in ("orders", "orders:2", "orders:3"):
            semaphore = client.get_semaphore(name)
            assert not semaphore.try_acquire()
            semaphore.release()
            assert semaphore.try_acquire()
            assert semaphore.available_permits() == 0
    assert denied(own) == 1  # It looks for no other name.


TOOLS = "`ls`, `show`, `why`, `clients`, `leaks`, `web`, `permits`, `metrics`"


@pytest.fixture
def held(own: Server) -> Iterator[Redisson]:
    with Redisson.from_url(own.url, config=Config(lock_watchdog_timeout=60, presence_after=0.05)) as client:
        client.get_lock("lock").lock()
        client.get_fair_lock("fair").lock()
        client.get_fenced_lock("fenced").lock()
        client.get_read_write_lock("rw").read_lock().lock()
        client.get_token_lock("token").lock()
        client.get_semaphore("semaphore", permits=2).acquire()
        client.get_permit_expirable_semaphore("permits", permits=2).acquire(lease_time=60)
        client.get_count_down_latch("latch").try_set_count(1)
        waiter = threading.Thread(target=lambda: client.get_fair_lock("fair").try_lock(30), daemon=True)
        waiter.start()
        with Inspector(own.url) as inspector:
            until(lambda: inspector.lock("fair").waiting)
        yield client
        client.get_fair_lock("fair").force_unlock()
        waiter.join()


def test_the_tools(own, held, capfd):
    url = user(own, *documented(TOOLS))
    before = denied(own)
    names = ("lock", "fair", "fenced", "rw", "token", "semaphore", "permits", "latch")
    lines = ["ls", "leaks", "why", "clients", "permits semaphore", *(f"show {name}" for name in names), "why fair"]
    for line in lines:
        with pytest.raises(SystemExit) as end:
            cli.main([*line.split(), "--url", url])
        out, err = capfd.readouterr()
        assert end.value.code in (0, None, *([3] if line in ("show latch", "show semaphore") else [])), (line, out, err)
        assert "not known" not in out + err, line
    registry = CollectorRegistry(auto_describe=False)
    with Inspector(url) as inspector, Inspector(own.url) as everything:
        assert [each.name for each in inspector.locks()] == [each.name for each in everything.locks()]
        registry.register(Exporter(Scanner(lambda keep: inspector.snapshot(keep=keep), 60.0)))
        found = {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}
    assert (found["pyredisson_up"], found["pyredisson_server_scan_refusals_total"]) == (1, 0)
    assert denied(own) == before


def test_none_of_the_rules_of_the_tools_is_too_many(own, held):
    with own.client() as direct:
        direct.config_resetstat()
        with Inspector(own.url) as inspector:
            inspector.snapshot()
            inspector.clients()
            for name in ("lock", "fair", "rw", "token", "semaphore", "permits", "latch", "free"):
                inspector.lock(name)
        stats = {name.removeprefix("cmdstat_") for name in direct.info("commandstats")}
    used = {name.partition("|")[0] for name in stats}
    elsewhere = {
        "get",
        "zrange",
        "ping",
        "info",
        "zcard",
    }  # By ``watch`` and ``top``; for those who wait for conditions.
    assert {name.partition("|")[0] for name in rights.INSPECTION} - elsewhere <= used


def test_an_unlock(own, held, capfd):
    url = user(own, *documented(TOOLS), *documented("`unlock`, in addition"))
    for name in ("lock", "fair", "fenced", "rw", "token"):
        with pytest.raises(SystemExit) as end:
            cli.main(["unlock", name, "--yes", "--url", url])
        assert not end.value.code, (name, capfd.readouterr())


@pytest.mark.parametrize("command", ["lpush", "pexpire"])
def test_an_unlock_that_may_not_wake_clients_of_another_library_says_so(own, command):
    rules = [*documented(TOOLS), *documented("`unlock`, in addition")]
    with own.client() as direct:
        for without, notified in (([], True), ([f"-{command}"], False)):
            direct.set("lock:report", "QWxhZGRpbjpvcGVuIHNlc2Ft")
            direct.delete("lock-signal:report")
            with Inspector(user(own, *rules, *without)) as inspector:
                done = inspector.unlock("lock:report")
            assert done.freed
            assert not direct.exists("lock:report")
            assert done.about_waiters.startswith(
                "those of" if notified else "its waiters could not be woken: NoPermission"
            )
            assert (command in done.about_waiters) != notified


def use_all_kinds(client: Redisson) -> None:
    for name in ("lock", "fair_lock", "fenced_lock", "spin_lock", "token_lock", "non_reentrant_lock"):
        with getattr(client, f"get_{name}")(name):
            pass
    pair = client.get_read_write_lock("rw")
    for side in (pair.read_lock(), pair.write_lock()):
        with side:
            pass
    with client.get_semaphore("semaphore", permits=1).hold():
        pass
    with client.get_permit_expirable_semaphore("permits", permits=1).hold():
        pass
    latch = client.get_count_down_latch("latch")
    latch.try_set_count(1)
    latch.count_down()
    assert latch.wait(1)
    client.get_event("event").set()
    condition = client.get_condition("condition")
    with condition:
        condition.notify_all()
    assert client.get_barrier("barrier", 1).wait(5) == 0
    use_run_once(client)
    use_election(client)


def test_a_tenant_with_a_prefix(own):
    commands = {rule for kind in rights.KINDS for rule in documented(kind) if rule.startswith("+")}
    tools = {rule for rule in documented(TOOLS) if rule.startswith("+")}
    with Redisson.from_url(own.url) as other:
        other.get_lock("others").lock()
    url = user(own, *sorted(commands | tools), *rights.of_a_prefix("shop:"))
    with Redisson.from_url(url, config=Config(prefix="shop:", lock_watchdog_timeout=60)) as client:
        use_all_kinds(client)
        client.get_lock("x").lock()
        assert client.inspect("x") is not None
        assert "others" not in [each.name for each in client.find_locks()]
    connect = (ROOT / "docs" / "howto" / "connect.md").read_text(encoding="utf-8")
    assert " ".join(rights.of_a_prefix("shop:")) in connect
