"""A server user with the permissions that the documentation names can use each kind of lock, and needs no more."""

import asyncio
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import redis

import pyredisson.asyncio
from pyredisson import Config, Redisson
from pyredisson._lua import script_text
from pyredisson.events import ServerUnsafe
from tests.examples import ROOT
from tests.waiting import soon, until

PAGE = ROOT / "docs" / "_generated" / "rights.md"
LUA = ROOT / "pyredisson" / "_lua"

#: Which scripts a kind runs, and how to get one.
KINDS: dict[str, tuple[str, Callable[[Redisson, str], Any]]] = {
    "plain lock": ("lock_", Redisson.get_lock),
    "fair lock": ("fair_", Redisson.get_fair_lock),
    "fenced lock": ("fenced_", Redisson.get_fenced_lock),
    "read-write lock": ("read_|write_", lambda client, name: client.get_read_write_lock(name).write_lock()),
    "read-write lock, to read": ("read_", lambda client, name: client.get_read_write_lock(name).read_lock()),
    "token lock": ("token_", Redisson.get_token_lock),
    "semaphore": ("semaphore_|counter_", lambda client, name: client.get_semaphore(name, permits=1)),
    "semaphore with expiring permits": (
        "permit_|counter_",
        lambda client, name: client.get_permit_expirable_semaphore(name, permits=1),
    ),
    "event": ("event_", Redisson.get_event),
    "condition": ("condition_[lnw]|lock_", Redisson.get_condition),
    "barrier": ("barrier_", lambda client, name: client.get_barrier(name, 1)),
    "bounded semaphore": ("bounded_|semaphore_|counter_", lambda client, name: client.get_bounded_semaphore(name, 1)),
    "latch": ("latch_|counter_", Redisson.get_count_down_latch),
}


def rules_of(kind: str) -> list[str]:
    """The permissions of a kind, as ``ACL SETUSER`` takes them."""
    page = PAGE.read_text(encoding="utf-8")
    base, _, others = page.partition("For other kinds")
    table = dict(re.findall(r"^\| (\S.*?) \| (.*) \|$", others, re.MULTILINE))
    lines = re.findall(r"^ACL SETUSER locks (.*)$", base, re.MULTILINE)
    lines += [line for line in re.findall(r"^ACL SETUSER locks (.*)$", others, re.MULTILINE) if "client" in line]
    return " ".join([*lines, *re.findall(r"`(.*?)`", table.get(kind.partition(",")[0], ""))]).split()


def allowed(kind: str) -> set[str]:
    return {rule[1:] for rule in rules_of(kind) if rule.startswith("+")}


def called(script: str) -> set[str]:
    return {name.lower() for name in re.findall(r"(?:redis\.p?call|read_typed)\(\s*['\"](\w+)", script_text(script))}


def scripts_of(kind: str) -> list[str]:
    prefix = KINDS[kind][0]
    return [path.stem for path in sorted(LUA.glob("*.lua")) if re.match(prefix, path.stem)]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Redisson, redis.Redis]]:
    with Redisson.embedded() as client, redis.Redis.from_url(str(client.url)) as administrator:
        yield client, administrator


def url_of_user(server: tuple[Redisson, redis.Redis], name: str, rules: list[str]) -> str:
    """Make a user that has these permissions, and return the URL for it."""
    client, administrator = server
    user = re.sub(r"\W", "-", name)
    administrator.execute_command("ACL SETUSER", user, *rules)
    return str(client.url).replace("unix://", f"unix://{user}:secret@")


@pytest.mark.parametrize("kind", KINDS)
def test_the_scripts_of_a_kind_call_what_is_allowed(kind):
    assert scripts_of(kind)
    for script in scripts_of(kind):
        assert called(script) <= allowed(kind), script


def test_nothing_is_allowed_that_no_script_and_no_client_calls():
    by_client = {"eval", "evalsha", "info", "ping", "subscribe", "unsubscribe", "publish", "type", "exists", "time"}
    for kind in KINDS:
        scripts = {name for script in (*scripts_of(kind), *scripts_of("plain lock")) for name in called(script)}
        base = allowed("plain lock")
        assert allowed(kind) - base <= scripts | by_client, kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_user_with_these_permissions_holds_waits_and_releases(kind, server):
    url = url_of_user(server, kind, rules_of(kind))
    config = Config(lock_watchdog_timeout=60)
    with Redisson.from_url(url, config=config) as one, Redisson.from_url(url, config=config) as two:
        mine, theirs = (KINDS[kind][1](each, f"orders:{kind}") for each in (one, two))
        if kind == "latch":
            assert mine.try_set_count(1)
            assert not theirs.wait(0.05)
            mine.count_down()
            assert theirs.wait(5)
            return
        if kind == "event":
            mine.set()
            assert theirs.wait(5)
            mine.clear()
            assert not theirs.wait(0.05)
            return
        if kind == "condition":
            with mine:
                mine.notify_all()
                assert not mine.wait(0.05)
            return
        if kind == "barrier":
            mine.reset()
            assert (mine.wait(5), theirs.n_waiting, theirs.broken) == (0, 0, False)
            return
        if kind == "bounded semaphore":
            with mine:
                assert theirs.locked()
            return
        with mine.hold(wait_time=5), theirs.hold(wait_time=0.05, skip=True) as lease:
            assert (lease is None) == (kind != "read-write lock, to read")
        with theirs.hold(wait_time=5, skip=True) as lease:
            assert lease is not None
        if kind.startswith("semaphore"):
            assert mine.available_permits() == 1
        else:
            assert not mine.is_locked()
            assert not mine.force_unlock()
            assert mine.remain_time_to_live() is None


def test_a_user_without_them_is_refused(server):
    url = url_of_user(server, "fewer", [rule for rule in rules_of("plain lock") if rule != "+hincrby"])
    with Redisson.from_url(url) as fewer, pytest.raises(redis.exceptions.ResponseError):
        fewer.get_lock("orders:1").lock()


def hold_once(handle: Any) -> None:
    with handle.hold(wait_time=5):
        pass


@pytest.mark.parametrize("kind", ["plain lock", "read-write lock", "semaphore", "semaphore with expiring permits"])
def test_a_user_who_may_not_use_wait_queues_waits_and_notifies_others(kind, server):
    client, _ = server
    of_queues = (
        {"+zcount"} if "expiring" in kind else {"+zadd", "+zcount", "+zrange", "+zrangebyscore", "+zrem", "+zscore"}
    )
    without = [rule for rule in rules_of(kind) if "pyredisson_waiting" not in rule and rule not in of_queues]
    url = url_of_user(server, f"earlier {kind}", without)
    told = []
    config = Config(lock_watchdog_timeout=60, listeners=(told.append,))
    with Redisson.from_url(url, config=config) as earlier, Redisson.from_url(str(client.url), config=config) as later:
        for holder, waiter in ((earlier, later), (later, earlier)):
            mine, theirs = (KINDS[kind][1](each, f"orders:earlier {kind}") for each in (holder, waiter))
            for _ in range(2):
                with ThreadPoolExecutor() as pool:
                    with mine.hold():
                        waiting = pool.submit(hold_once, theirs)
                        subscriptions, channel = theirs._core.client.subscriptions, theirs._core.names.channel
                        until(lambda which=subscriptions, on=channel: which.waiting(on) == 1)
                    waiting.result(5)  # Without a notification it would check after ten.
    assert [event.setting for event in told if isinstance(event, ServerUnsafe)].count("acl") == 1


def reader(client: Any, name: str) -> Any:
    return client.get_read_write_lock(name).read_lock()


def writer(client: Any, name: str) -> Any:
    return client.get_read_write_lock(name).write_lock()


def of_kind(kind: str, **settings: object) -> Callable[[Any, str], Any]:
    return lambda client, name: getattr(client, f"get_{kind}")(name, **settings)


#: Whose rules are needed, what is held, and what is waited for.
HELD_AND_WAITED_FOR: dict[str, tuple[str, Callable[[Any, str], Any], Callable[[Any, str], Any]]] = {
    "plain": ("plain lock", of_kind("lock"), of_kind("lock")),
    "fenced": ("fenced lock", of_kind("fenced_lock"), of_kind("fenced_lock")),
    "non-reentrant": ("plain lock", of_kind("non_reentrant_lock"), of_kind("non_reentrant_lock")),
    "multi-lock": ("plain lock", lambda client, name: client.get_multi_lock(client.get_lock(name)), of_kind("lock")),
    "writer before writers": ("read-write lock", writer, writer),
    "writer before readers": ("read-write lock", writer, reader),
    "reader before writers": ("read-write lock", reader, writer),
    "semaphore": ("semaphore", of_kind("semaphore", permits=1), of_kind("semaphore", permits=1)),
    "expiring permits": (
        "semaphore with expiring permits",
        of_kind("permit_expirable_semaphore", permits=1),
        of_kind("permit_expirable_semaphore", permits=1),
    ),
}


async def hold_once_in_a_task(handle: Any) -> None:
    async with handle.hold():
        pass


async def release_to_waiters(holder: Any, others: list[Any], administrator: redis.Redis, kind: str, name: str) -> None:
    """Release what others wait for, the first of whom is no observer."""
    _, held, waited_for = HELD_AND_WAITED_FOR[kind]
    queue = f"pyredisson_waiting:{{{name}}}"
    tasks: list[asyncio.Task[None]] = []
    async with held(holder, name).hold():
        for number, other in enumerate(others, 1):
            tasks.append(asyncio.create_task(hold_once_in_a_task(waited_for(other, name))))
            await soon(lambda number=number: administrator.zcard(queue) == number + min(number, 2))
        for first in tasks[:2]:
            first.cancel()
            await asyncio.wait([first])
        # Two of them receive the message of a release by Redisson.
        await soon(lambda: administrator.zcard(queue) == len(others))
        await soon(lambda: administrator.pubsub_numsub(queue)[0][1] == 2)
    await asyncio.wait_for(asyncio.gather(*tasks[2:]), 15)


@pytest.mark.parametrize("missing", ["~pyredisson_waiting:*", "&pyredisson_waiting:*"])
@pytest.mark.parametrize("kind", HELD_AND_WAITED_FOR)
async def test_a_release_by_a_user_without_one_rule_forgets_no_waiter(kind, missing, server):
    client, administrator = server
    user = f"{kind} {missing}"
    rules = [rule for rule in rules_of(HELD_AND_WAITED_FOR[kind][0]) if rule != missing]
    told = []
    patient = Config(max_wait_without_check=60)  # So that no waiter finds out by itself.
    others = [pyredisson.asyncio.Redisson.from_url(str(client.url), config=patient) for _ in range(5)]
    config = Config(lock_watchdog_timeout=60, listeners=(told.append,))
    holder = pyredisson.asyncio.Redisson.from_url(url_of_user(server, user, rules), config=config)
    try:
        for number in range(2):
            await release_to_waiters(holder, others, administrator, kind, f"orders:{user}:{number}")
    finally:
        for each in (holder, *others):
            await each.close()
    (warning,) = [event for event in told if isinstance(event, ServerUnsafe) and event.setting == "acl"]
    assert missing in warning.text


Calls = Callable[[Any, str], list[Callable[[], Any]]]

NO_PERMIT = "0" * 32


def twice(get: Callable[[Any, str], Any], *names: str, args: tuple[Any, ...] = ()) -> Calls:
    """Call some methods of a handle in turn, and once again."""
    return lambda client, name: 2 * [partial(getattr(get(client, name), each), *args) for each in names]


semaphore, expirable = of_kind("semaphore"), of_kind("permit_expirable_semaphore")

#: Whose rules are needed, and calls whose scripts notify clients that wait, or may.
NOTIFYING: dict[str, tuple[str, Calls]] = {
    "unlock": ("plain lock", twice(of_kind("lock"), "lock", "unlock")),
    "unlock of a fenced lock": ("fenced lock", twice(of_kind("fenced_lock"), "lock", "unlock")),
    "force_unlock": ("plain lock", twice(of_kind("lock"), "force_unlock")),
    "unlock of a multi-lock": (
        "plain lock",
        twice(lambda client, name: client.get_multi_lock(client.get_lock(name)), "lock", "unlock"),
    ),
    "unlock of a reader": ("read-write lock", twice(reader, "lock", "unlock")),
    "unlock of a writer": ("read-write lock", twice(writer, "lock", "unlock")),
    "force_unlock of a writer": ("read-write lock", twice(writer, "force_unlock")),
    "try_set_permits": ("semaphore", twice(semaphore, "try_set_permits", args=(1,))),
    "release": ("semaphore", twice(semaphore, "release")),
    "add_permits": ("semaphore", twice(semaphore, "add_permits", args=(1,))),
    "set_permits": ("semaphore with expiring permits", twice(expirable, "set_permits", args=(1,))),
    "add_permits of expiring ones": ("semaphore with expiring permits", twice(expirable, "add_permits", args=(1,))),
    "available_permits": ("semaphore with expiring permits", twice(expirable, "available_permits")),
    "try_release": ("semaphore with expiring permits", twice(expirable, "try_release", args=(NO_PERMIT,))),
    "update_lease_time": (
        "semaphore with expiring permits",
        twice(expirable, "update_lease_time", args=(NO_PERMIT, 60)),
    ),
}


@pytest.mark.parametrize("calls", NOTIFYING)
def test_a_script_without_the_key_of_the_queue_is_refused_once_and_runs(calls, server):
    _, administrator = server
    kind, make_calls = NOTIFYING[calls]
    rules = [rule for rule in rules_of(kind) if rule != "~pyredisson_waiting:*"]
    url = url_of_user(server, f"no key {calls}", rules)
    told = []
    config = Config(listeners=(told.append,))
    administrator.config_resetstat()
    with Redisson.from_url(url, config=config) as theirs:
        for call in make_calls(theirs, f"orders:no key {calls}"):
            call()
    assert administrator.info("errorstats")["errorstat_NOPERM"] == {"count": 1}
    (warning,) = [event for event in told if isinstance(event, ServerUnsafe) and event.setting == "acl"]
    assert "~pyredisson_waiting:*" in warning.text


def test_a_refusal_for_another_reason_is_not_taken_for_that_of_a_queue(server):
    told = []
    url = url_of_user(server, "no hkeys", [*rules_of("plain lock"), "-hkeys"])
    with Redisson.from_url(url, config=Config(listeners=(told.append,))) as theirs:
        with pytest.raises(redis.exceptions.NoPermissionError):
            theirs.get_lock("orders:hkeys").force_unlock()
        assert theirs._core.subscriptions.may_queue
    assert not [event for event in told if isinstance(event, ServerUnsafe) and event.setting == "acl"]
