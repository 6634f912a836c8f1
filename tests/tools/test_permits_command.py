"""``pyredisson permits``, as users run it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from pyredisson import Config, Redisson
from pyredisson._tools.cli import cli
from pyredisson.inspection import Inspector
from tests.servers import HOST, NOBODYS_PORT, Server
from tests.waiting import until


@pytest.fixture
def client(own: Server) -> Iterator[Redisson]:
    with Redisson.from_url(own.url, config=Config(presence=False)) as client:
        yield client


@pytest.fixture
def run(own: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``run("seats", "--set", "5")``: the command, on the test's own server."""
    for module in ("by_hand", "common"):  # Else to the file descriptor.
        monkeypatch.setattr(f"pyredisson._tools.{module}.say", partial(click.echo, err=True))

    def call(*arguments: str, url: str = own.url) -> Result:
        return CliRunner().invoke(cli, ["permits", *arguments], env={"PYREDISSON_URL": url})

    return call


def report(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    shown: dict[str, Any] = json.loads(result.stdout)
    assert shown.pop("schema") == 1
    return shown


@pytest.mark.parametrize(
    ("permits", "text"),
    [
        (1, "1 permit is taken that no client reports; if it stays so for a minute without use, it is missing"),
        (2, "2 permits are taken that no client reports; if they stay so for a minute without use, they are missing"),
    ],
)
def test_leaks_counts_the_permits_that_no_client_reports(own, client, permits, text):
    assert client.get_semaphore("seats", permits=3).try_acquire(permits)
    found = CliRunner().invoke(cli, ["leaks"], env={"PYREDISSON_URL": own.url})
    assert f"seats: {text}" in " ".join(found.stdout.split())


def test_permits_of_a_holder_that_is_gone_are_freed(client, run):
    semaphore = client.get_semaphore("seats", permits=3)
    assert semaphore.try_acquire(2)
    assert run("seats", "--free", "1").stdout == "seats: 3 permits, 2 free, 1 taken\n"
    assert semaphore.available_permits() == 2
    refused = run("seats", "--free", "2")
    assert (refused.exit_code, refused.stderr) == (1, "seats: only 1 of its permits is taken, not 2\n")
    assert run("nothing", "--free", "1").exit_code == 3
    assert run("seats", "--free", "1", "--set", "3").exit_code == 2
    permit = client.get_permit_expirable_semaphore("rooms", permits=2).acquire()
    said = run("rooms", "--free", "1").stderr
    assert "released by their ids: pyredisson unlock NAME --holder ID" in said
    assert f"these never expire: {permit}" in said


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore"])
def test_permits_are_shown_and_set(client, run, kind):
    semaphore = getattr(client, f"get_{kind}")("seats", permits=3)
    assert semaphore.acquire()
    assert run("seats").stdout == "seats: 3 permits, 2 free, 1 taken\n"
    assert report(run("seats", "--json")) == {"name": "seats", "kind": kind, "total": 3, "free": 2, "taken": 1}
    result = run("seats", "--set", "5")
    assert (result.exit_code, result.stdout) == (0, "seats: 5 permits, 4 free, 1 taken\n")
    assert semaphore.available_permits() == 4
    shown = report(run("seats", "--set", "0", "--json"))
    assert shown == {"name": "seats", "kind": kind, "total": 0, "free": -1, "taken": 1}


def test_a_permit_that_has_expired_is_free(client, own, run):
    semaphore = client.get_permit_expirable_semaphore("seats", permits=3)
    assert semaphore.acquire()
    with own.client() as direct:
        direct.zadd("{seats}:timeout", dict.fromkeys(direct.zrange("{seats}:timeout", 0, -1), 1))
    assert run("seats").stdout == "seats: 3 permits, 3 free, 0 taken\n"
    assert run("seats", "--set", "4").stdout == "seats: 4 permits, 4 free, 0 taken\n"


def test_what_redisson_has_set_is_not_guessed(own, client, run):
    with own.client() as direct:
        direct.set("seats", 2)
    assert run("seats").stdout == "seats: 2 free; how many there are in all is not recorded\n"
    assert report(run("seats", "--json"))["total"] is None
    refused = run("seats", "--set", "5")
    assert refused.exit_code == 1
    assert "say --kind semaphore or permits" in refused.stderr
    unknown = run("seats", "--set", "5", "--kind", "semaphore")
    assert unknown.exit_code == 1
    assert "get_semaphore('seats', permits=n).resize(5)" in unknown.stderr
    assert client.get_semaphore("seats").available_permits() == 2
    # Of permits that expire none is taken, so the free ones are all.
    result = run("seats", "--set", "5", "--kind", "permits")
    assert result.exit_code == 0, result.output
    assert client.get_permit_expirable_semaphore("seats").get_permits() == 5


def test_numbers_that_are_no_semaphores_are_left_alone(own, client, run):
    client.get_count_down_latch("latch").try_set_count(4)
    client.get_permit_expirable_semaphore("seats", permits=4).available_permits()
    with own.client() as direct:
        direct.set("visits", 4)
        for name in ("latch", "seats", "visits"):
            refused = run(name, "--free", "3")
            assert refused.exit_code == 1
            assert "a number that no client uses now" in refused.stderr
            assert direct.get(name) == b"4"
    with Inspector(own.url) as inspector, pytest.raises(ValueError, match="a number that no client uses now"):
        inspector.unlock("visits")
    client.get_lock("orders").lock()
    with Inspector(own.url) as inspector, pytest.raises(ValueError, match="it has no permits"):
        inspector.free_permits("orders", 1)


def test_permits_that_redisson_has_set_are_freed_while_a_client_waits(own, client, run):
    with own.client() as direct, ThreadPoolExecutor() as pool:
        direct.set("seats", 0)
        waiter = pool.submit(client.get_semaphore("seats").try_acquire, 1, 30)
        until(lambda: run("seats", "--free", "1").exit_code == 0)
        assert waiter.result(30) is True


def test_one_that_does_not_exist(client, run):
    for arguments in ([], ["--set", "5"]):
        result = run("seats", *arguments)
        assert (result.exit_code, result.stdout) == (3, "")
        assert result.stderr == "seats is no semaphore: it has no permits\n"
    assert run("seats", "--set", "5", "--kind", "semaphore").stdout == "seats: 5 permits, 5 free, 0 taken\n"
    other = run("seats", "--set", "6", "--kind", "permits")
    assert (other.exit_code, other.stderr) == (1, "seats: it is of the kind semaphore, not permits\n")
    assert client.get_semaphore("seats").available_permits() == 5


def test_something_else(client, own, run):
    client.get_lock("orders").lock()
    with own.client() as direct:
        direct.rpush("list", 1)
    for name, text in (("orders", "is a lock, not a semaphore"), ("list", "holds a list of another program")):
        for arguments in ([], ["--set", "5"]):
            result = run(name, *arguments)
            assert result.exit_code == 1, result.output
            assert text in result.stderr


def test_bad_usage_and_no_server(run):
    assert run("seats", "--set", "-1").exit_code == 2
    assert run("seats", "--kind", "semaphore").exit_code == 2
    assert run("seats", "--set", "5", "--kind", "lock").exit_code == 2
    assert run("seats", url=f"redis://{HOST}:{NOBODYS_PORT}").exit_code == 69


def test_a_prefix(client, own, run):
    with Redisson.from_url(own.url, config=Config(prefix="shop:")) as other:
        assert other.get_semaphore("seats", permits=3).acquire()
        assert run("seats", "--prefix", "shop:", "--set", "4").stdout == "seats: 4 permits, 3 free, 1 taken\n"
        assert other.get_semaphore("seats").available_permits() == 3
