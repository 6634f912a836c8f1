"""A question that a server refuses, or does not answer, is never answered "no" by a tool, the exporter or the API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple

import pytest
import redis.exceptions as rx
from prometheus_client import CollectorRegistry

from pyredisson import Config, Redisson
from pyredisson._tools.cli import cli
from pyredisson._tools.metrics import Exporter, Scanner, write_once
from pyredisson._tools.watch import Watch, glance_at
from pyredisson.inspection import Inspector, Snapshot
from tests.servers import HOST, Server
from tests.waiting import until

#: What a user needs to see everything, by the question that goes unanswered without it.
NEEDED = {
    "hlen": "+hlen",
    "hscan": "+hscan",
    "strlen": "+strlen",
    "getrange": "+getrange",
    "pttl": "+pttl",
    "scan": "+scan",
    "time": "+time",
}
OTHERS = ["+hstrlen", "+memory|usage", "+type", "+exists", "+llen", "+zcount", "+zcard", "+lrange", "+zscore", "+hget"]
MORE = ["+client|list", "+client|setname", "+pubsub", "+select", "+info", "+dbsize", "+ping"]


@pytest.fixture
def held(own: Server) -> Iterator[Redisson]:
    with Redisson.from_url(own.url, config=Config(lock_watchdog_timeout=60)) as client:
        client.get_lock("orders").lock()
        yield client


def user_without(server: Server, *rules: str) -> str:
    """Return the URL of a user who may see everything but what these rules permit."""
    given = {*NEEDED.values(), *OTHERS, *MORE} - set(rules)
    with server.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">sesame", "~*", "&*", *sorted(given))
    return f"redis://ann:sesame@{HOST}:{server.port}/0"


class Outcome(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        return self.stdout + self.stderr


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """``run(url, "ls", "--json")``: the command, and all that it prints."""

    def call(url: str, *arguments: str) -> Outcome:
        monkeypatch.setenv("PYREDISSON_URL", url)
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main(list(arguments), prog_name="pyredisson")
        return Outcome(int(end.value.code or 0), *capfd.readouterr())

    return call


@pytest.mark.parametrize("command", ["hlen", "hscan", "pttl", "time"])
def test_a_lock_that_may_not_be_read_is_refused_by_all_commands(own, held, command, run):
    url = user_without(own, NEEDED[command])
    for line in ("ls", "leaks", "why", "show orders", "why orders", "unlock orders --yes", "permits orders"):
        result = run(url, *line.split())
        assert result.exit_code == 77, (line, result.output)
        assert command in result.stderr.lower(), line
        for word in ("another program", "0 locks", "no leaks", "not held", "is free"):
            assert word not in result.output, line
    report = json.loads(run(url, "ls", "--json").stdout)
    assert (report["complete"], bool(report["errors"])) == (False, True)
    with Redisson.from_url(url) as client:
        for ask in (
            lambda: client.inspect("orders"),
            lambda: list(client.find_locks()),
            lambda: list(client.find_leaks()),
            lambda: client.count_locks(),
            lambda: client.wait_graph(),
        ):
            with pytest.raises(rx.NoPermissionError, match=f"(?i){command}"):
                ask()


@pytest.mark.parametrize("command", ["scan", "strlen"])
def test_a_search_that_is_refused_finds_no_total(own, held, command, run):
    with own.client() as direct:
        direct.set("a string", "x" * 20)
    url = user_without(own, NEEDED[command])
    for line in ("ls", "leaks", "why"):
        result = run(url, *line.split())
        assert (result.exit_code, command in result.stderr) == (77, True), result.output
        assert "no leaks" not in result.output
    assert run(url, "show", "orders").exit_code == 0


def test_waiters_that_may_not_be_counted_are_not_none(own, held, run):
    url = user_without(own, "+pubsub")
    listed = run(url, "ls")
    assert listed.exit_code == 77
    assert "pubsub" in listed.stderr
    assert "1 held, not known how many waiting" in listed.stdout
    assert "who waits is not known" in run(url, "show", "orders").stdout
    free = run(url, "show", "free")
    assert free.exit_code == 77
    assert "no client waits" not in free.output
    with Inspector(url) as inspector:
        assert inspector.lock("orders").waiters_known is False
        with pytest.raises(rx.NoPermissionError, match="pubsub"):
            inspector.wait_graph()


def test_clients_that_may_not_be_listed_are_not_gone_and_not_connected(own, held, run):
    url = user_without(own, "+client|list")
    leaks = run(url, "leaks")
    assert (leaks.exit_code, "no leaks" in leaks.output) == (77, False)
    assert "client|list" in leaks.stderr
    clients = run(url, "clients")
    assert clients.exit_code == 77
    assert run(url, "ls").exit_code == 0  # Who holds the locks is known.


def test_keys_of_others_that_may_not_be_read_are_counted(own, held, run):
    with own.client() as direct:
        for number in range(700):
            direct.hset(f"others:{number}", "a", "b")
        direct.execute_command("ACL", "SETUSER", "bob", "on", ">sesame", "~orders*", "&*", "~*{orders}*", "+@all")
    url = f"redis://bob:sesame@{HOST}:{own.port}/0"
    result = run(url, "ls")
    assert result.exit_code == 77
    assert "orders" in result.stdout
    assert "700 keys could not be read" in result.stderr
    assert run(url, "ls", "orders*").exit_code == 0


@pytest.mark.parametrize(
    "command", ["ls", "show orders", "leaks", "unlock orders --yes", "watch orders", "top", "run orders true"]
)
def test_a_wrong_password_is_no_outage(own, command, run):
    with own.client() as direct:
        direct.config_set("requirepass", "s3cret")
    for url in (f"redis://:wrong@{HOST}:{own.port}/0", f"redis://{HOST}:{own.port}/0"):
        result = run(url, *command.split())
        assert (result.exit_code, " refused: " in result.stderr) == (77, True), result.output
    assert "refused: it requires a password, and the URL has none: redis://" in result.stderr


@pytest.mark.parametrize("command", ["run orders --wait 0 true", "lock orders --for 1s --reason x"])
def test_a_lock_whose_holder_may_not_be_seen_is_held(own, held, command, run):
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", "+@all", "-hlen")
    done = subprocess.run(
        [sys.executable, "-m", "pyredisson", *command.split()],
        env={**os.environ, "PYREDISSON_URL": f"redis://ann:sesame@{HOST}:{own.port}/0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 75, done.stderr
    assert "held by an owner that is not known" in done.stderr
    assert "hlen" in done.stderr


def test_a_server_that_is_busy_is_there(own, run):
    with own.busy():
        result = run(own.url, "ls")
    assert (result.exit_code, "cannot do this now" in result.stderr) == (69, True), result.output
    assert "BUSY" in result.stderr


# ---- clusters --------------------------------------------------------------------------------------------------------


def test_a_master_that_does_not_answer_leaves_the_locks_of_the_others(fresh_cluster, run):
    names = [f"hold{number}" for number in range(9)]
    with Redisson.from_url(fresh_cluster.url, config=Config(lock_watchdog_timeout=600, presence=False)) as client:
        for name in names:
            client.get_lock(name).lock()
        with Inspector(fresh_cluster.url) as inspector:
            node = inspector.servers.masters()[0].node
        first = next(each for each in fresh_cluster.masters() if node.endswith(str(each.port)))
        there = [name for name in names if fresh_cluster.master_of(name) is not first]
        first.kill()
        listed = run(fresh_cluster.url, "ls")
        assert listed.exit_code == 1
        assert "1 of 3 masters does not answer, its locks are missing" in listed.stderr
        assert str(first.port) in listed.stderr
        assert [line.split()[0] for line in listed.stdout.splitlines()[1:-1]] == sorted(there)
        leaks = run(fresh_cluster.url, "leaks")
        assert leaks.exit_code == 1
        assert "no leaks" not in leaks.output
        for name in names:
            assert run(fresh_cluster.url, "show", name).exit_code == (0 if name in there else 69), name
        assert run(fresh_cluster.url, "clients").exit_code == 1


def test_a_watch_is_no_waiter(cluster, unique_name, run):
    with ExitStack() as stack:
        client, other = (stack.enter_context(Redisson.from_url(cluster.url)) for _ in range(2))
        names = [unique_name, f"{{{unique_name}}}:braces"]
        for name in names:
            client.get_lock(name).lock()
        inspectors = [stack.enter_context(Inspector(cluster.url)) for _ in range(3)]
        for inspector in inspectors:
            stack.enter_context(closing(Watch(names, inspector)))
        with cluster.client(names[0]) as direct:
            channel = f"pyredisson_watched:{{{unique_name}}}"
            until(lambda: direct.execute_command("PUBSUB", "SHARDNUMSUB", channel)[1] == 3)
            last = f"redisson_countdownlatch__channel__{{{unique_name}}}"
            until(lambda: direct.execute_command("PUBSUB", "SHARDNUMSUB", last)[1] == 3)
        for _ in range(2):
            assert [each.waiting for each in glance_at(names, inspectors[0])] == [0, 0]
        waiter = threading.Thread(target=lambda: other.get_lock(names[0]).try_lock(60))
        waiter.start()
        until(lambda: glance_at(names, inspectors[0])[0].waiting == 1)
        assert inspectors[0].lock(names[0]).waiting == 1
        assert glance_at(names, inspectors[0])[1].waiting == 0
        client.get_lock(names[0]).unlock()
        waiter.join()


def test_clients_that_wait_for_a_token_lock_are_not_known(own, run):
    with own.client() as direct:
        direct.set("lock:report", "cP3pmRS0XkbX7aPT9TVjHQ==")
    refused = run(own.url, "unlock", "lock:report", "--yes")
    assert refused.exit_code == 3
    assert "lock:report is a string: a lock only if a program uses it as one" in refused.stderr
    assert "nothing was changed; --force deletes it" in refused.stderr
    freed = run(own.url, "unlock", "lock:report", "--yes", "--force")
    assert freed.exit_code == 0
    assert "whether clients wait for it is not known" in freed.stdout
    with own.client() as direct:
        direct.hset("orders", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", 1)
    assert "no client is known to wait for it" in run(own.url, "unlock", "orders", "--yes", "--force").stdout


def test_one_node_of_a_cluster_is_not_taken_for_all(fresh_cluster, run):
    node = fresh_cluster.masters()[0]
    for line in ("ls", "leaks", "why", "clients", "show x", "unlock x --yes", "watch x", "top", "metrics --once"):
        result = run(node.url, *line.split())
        assert result.exit_code == 78, (line, result.output)
        assert "redis+cluster://" in result.output, line
    with Inspector(node.url) as inspector, pytest.raises(rx.ClusterError, match=r"redis\+cluster://"):
        inspector.snapshot()


# ---- the exporter ----------------------------------------------------------------------------------------------------


def exported(scanner: Scanner) -> dict[str, float]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exporter(scanner))
    return {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}


def test_a_scan_that_has_not_ended_says_nothing_of_the_server(monkeypatch):
    monkeypatch.setattr("pyredisson._tools.metrics.Scanner.latest.__defaults__", (0.01,))
    ended = threading.Event()

    def scan(keep):
        ended.wait(10)
        return Snapshot(1.0)

    scanner = Scanner(scan, 60.0)
    assert "pyredisson_up" not in exported(scanner)
    ended.set()
    until(lambda: exported(scanner).get("pyredisson_up") == 1)


def test_once_waits_for_its_scan(monkeypatch, capsys):
    monkeypatch.setattr("pyredisson._tools.metrics.Scanner.latest.__defaults__", (0.01,))
    threading.Timer(0.3, (ended := threading.Event()).set).start()
    scanner = Scanner(lambda _: (ended.wait(10), Snapshot(1.0))[1], 60.0)
    assert write_once(Exporter(scanner), scanner) == 0
    assert "pyredisson_up 1" in capsys.readouterr().out


def test_what_the_exporter_may_not_see_has_no_sample(own, held):
    def scraped(*missing):
        with Inspector(user_without(own, *missing)) as inspector:
            return exported(Scanner(lambda keep: inspector.snapshot(keep=keep), 60.0))

    assert scraped()["pyredisson_server_locks"] == 1
    for command in ("hlen", "scan"):
        found = scraped(NEEDED[command])
        assert found["pyredisson_up"] == 1
        assert found["pyredisson_server_scan_refusals_total"] == 1
        assert "pyredisson_server_locks" not in found
    assert "pyredisson_server_waiters" not in scraped("+pubsub")
    assert "pyredisson_server_locks_of_absent_clients" not in scraped("+client|list")
