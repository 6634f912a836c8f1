"""Locks of other libraries, with the libraries themselves: the commands know them, and unlock serves their waiters."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest
import redis
from click.testing import CliRunner, Result

from pyredisson._tools.cli import cli
from tests.interop.libraries.building import LANGUAGES, require
from tests.interop.libraries.cases import CASES, SEMAPHORE
from tests.interop.peer import WITHIN, Jvm, quoted
from tests.servers import Server
from tests.waiting import until

#: Seconds in which a waiter that was woken acquires the lock: those that are not woken wait for a minute or for ever.
SOON = 10


@pytest.fixture(scope="module")
def peers() -> Iterator[Callable[[str], Jvm]]:
    """``peers("go")``: the program with the libraries of a language."""
    running: dict[str, Jvm] = {}

    def get(language: str) -> Jvm:
        if language not in running:
            running[language] = Jvm(require(language))
        return running[language]

    yield get
    for each in running.values():
        each.kill()


class Requests:
    """Counts the requests that name a key, as MONITOR shows them, in a block."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self.count = 0
        self._client, self._name = client, name
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Requests:
        self._thread.start()
        assert self._begun.wait(WITHIN)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.echo(f"end {self._name}")
        self._thread.join(WITHIN)

    def _listen(self) -> None:
        with self._client.monitor() as monitor:
            self._begun.set()
            for command in monitor.listen():
                if command["command"] == f"ECHO end {self._name}":
                    return
                self.count += self._name in command["command"] and command["client_type"] != "lua"


def run(server: Server, *arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env={"PYREDISSON_URL": server.url})


def leaks(server: Server, name: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(run(server, "leaks", f"*{name}", "--json").stdout)["leaks"]
    return found


@pytest.mark.parametrize("case", CASES, ids=[f"{each.verb}" for each in CASES])
def test_the_commands_know_a_lock_and_free_it_for_its_waiter(case, peers, valkey, unique_name, direct):
    peer, where = peers(case.language), (quoted(urlsplit(valkey.url).netloc), quoted(unique_name))
    key = case.key.replace("REGISTRY", case.verb).replace("NAME", unique_name)
    assert peer.do("holder", case.verb, *where)
    [lock] = json.loads(run(valkey, "ls", f"*{unique_name}", "--json").stdout)["locks"]
    assert (lock["name"], lock["kind"], tuple(lock["notes"])) == (key, "token_lock", case.notes)
    assert lock["holders"][0]["label"].startswith(case.held_by)
    assert "free it   pyredisson unlock" in run(valkey, "show", key).stdout
    assert [each["lock"] for each in leaks(valkey, unique_name)] == ([key] if case.leak else [])
    if case.waits != "by client-side caching":  # There the holder sees it, and sets the expiry again.
        direct.persist(key)
        [leak] = leaks(valkey, unique_name)
        assert ("pyredisson unlock" in leak["advice"]) == case.is_certain
        assert case.is_certain or run(valkey, "unlock", key, "--yes").exit_code == 3
    if not case.leak:
        direct.expire(key, 60)

    if case.waits == "not at all":
        assert peer.do("waiter", case.verb, *where) is False
        assert run(valkey, "unlock", key, "--yes").stdout == f"freed {key}; {case.freed}\n"
        assert peer.do("waiter", case.verb, *where) is True
        return
    with Requests(direct, unique_name) as requests:
        waiting = peer.start("waiter", case.verb, *where)
        until(lambda: requests.count >= 2, 30, what="a client waits")  # A JVM loads classes first.
    if case.waits == "by BLPOP":
        until(lambda: direct.info("clients")["blocked_clients"] >= 1, what="it is blocked")
    assert not waiting.done()
    assert run(valkey, "unlock", key, "--yes").stdout == f"freed {key}; {case.freed}\n"
    assert waiting.result(SOON)
    assert direct.exists(key)


def test_a_semaphore_of_redis_semaphore_is_listed_and_left_alone(peers, valkey, unique_name, direct):
    where = quoted(urlsplit(valkey.url).netloc), quoted(unique_name)
    assert peers("node").do("holder", SEMAPHORE.verb, *where)
    key = SEMAPHORE.key.replace("NAME", unique_name)
    for pattern in (key, f"*{unique_name}"):
        [found] = json.loads(run(valkey, "ls", pattern, "--json").stdout)["locks"]
        assert (found["name"], found["kind"], found["taken"]) == (key, "semaphore", 1)
        assert tuple(found["notes"]) == SEMAPHORE.notes
    assert f"{SEMAPHORE.held_by}\n" in run(valkey, "show", key).stdout
    assert not leaks(valkey, unique_name)
    assert run(valkey, "unlock", key, "--yes", "--force").exit_code == 3
    assert direct.zcard(key) == 1


def test_each_program_has_a_case():
    assert {each.language for each in CASES} == set(LANGUAGES)
