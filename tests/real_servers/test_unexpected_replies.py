"""Replies that make no sense: bytes that are no reply, and replies of another type, are one clear error, in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson._tools.examination import examine
from pyredisson.errors import LockError, OutcomeUnknownError, RedissonError
from tests.proxy import Proxy
from tests.real_servers.kind_table import KINDS, LATCH
from tests.real_servers.observation import ANY_SCRIPT, side_by_side
from tests.servers import HOST

#: What other servers answer, and what no server does.
GARBAGE = {"HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n", "SMTP": b"220 mail.example ESMTP\r\n", "a length": b"$x\r\n"}

#: Replies that no script gives, but for the first byte that makes them RESP.
NONSENSE = {
    "a word": b"+OK\r\n",
    "a string": b"$5\r\nhello\r\n",
    "an empty array": b"*0\r\n",
    "an array of a word": b"*1\r\n$4\r\nwhat\r\n",
    "a token where there is none": b"*2\r\n$5\r\ntoken\r\n$1\r\nx\r\n",
    "an epoch that is no number": b"*2\r\n$5\r\nstale\r\n$3\r\nabc\r\n",
    "arrays in an array": b"*2\r\n*1\r\n:1\r\n:2\r\n",
    "a truth": b"#t\r\n",
    "a fraction": b",1.5\r\n",
}


def answer(proxy: Proxy, match: Any, reply: bytes, k: int | None = None) -> Any:
    """Answer every such request by this."""
    toxic = proxy.refuse_request(match, "", k)
    toxic.reply = reply
    return toxic


def scripts_about(name: str) -> Callable[[list[bytes]], bool]:
    return lambda args: ANY_SCRIPT(args) and any(name.encode() in arg for arg in args)


def clear(error: BaseException | None) -> bool:
    """Whether this is the one error for it."""
    known = type(error) is OutcomeUnknownError or type(error) is RedissonError
    return known and "unexpected reply from the server" in str(error)


# ---- bytes that are no reply -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("what", GARBAGE)
def test_something_else_than_redis_at_the_address(world, proxy, what, protocol):
    answer(proxy, lambda args: True, GARBAGE[what])
    url = f"redis://:secret@{HOST}:{proxy.port}/1"
    client = world.from_url(url, redis_kwargs={"protocol": protocol}, timeout=1.5)
    began = time.monotonic()
    with pytest.raises(rx.ConnectionError, match=f"Protocol error: .*{HOST}:{proxy.port}") as error:
        world.actor().do(client.get_lock("orders").lock)
    assert time.monotonic() - began < 5
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_in_place_of_a_reply(world, proxy, unique_name, what):
    client, actor = world.connected(proxy.url, timeout=1.5), world.actor()
    lock = client.get_lock(unique_name)
    scripts = answer(proxy, ANY_SCRIPT, GARBAGE[what])
    with pytest.raises(LockError) as error:
        actor.do(lock.try_lock)
    assert isinstance(error.value.__cause__, rx.ConnectionError)
    assert "Protocol error" in str(error.value.__cause__)
    scripts.remove()
    queries = answer(proxy, "EXISTS", GARBAGE[what])
    with pytest.raises(rx.ConnectionError, match="Protocol error"):
        actor.do(lock.is_locked)
    queries.remove()


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_in_place_of_a_message(world, proxy, unique_name, what):
    """The subscriber leaves the connection, and subscribes on another one."""
    client, holder, waiter = world.connected(proxy.url), world.actor(), world.actor()
    lock = client.get_lock(unique_name)
    holder.do(lock.lock)
    subscribed = answer(proxy, "SUBSCRIBE", GARBAGE[what], 1)
    waits = waiter.start(lock.lock)
    subscribed.wait(10)
    holder.do(lock.unlock)
    waits.result(10)
    waiter.do(lock.unlock)


# ---- replies of another type -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", NONSENSE)
def test_an_answer_that_makes_no_sense(world, proxy, unique_name, what):
    def ask(kind):
        name = f"{unique_name}-{kind}"
        client, actor = world.connected(proxy.url, timeout=6.0), world.actor()
        made = kind.handle(client, name)
        if kind.has_permits:
            actor.do(made.try_set_permits, 3)
        answers = answer(proxy, scripts_about(name), NONSENSE[what])
        for method in (kind.acquire, str(kind.try_acquire)):
            began = time.monotonic()
            error = actor.start(getattr(made, method)).exception(20)
            assert clear(error), f"{kind}.{method}: {error!r}"
            assert time.monotonic() - began < 5, f"{kind}.{method}"
        answers.remove()
        taken = actor.do(getattr(made, kind.acquire))
        answers = answer(proxy, scripts_about(name), NONSENSE[what])
        give = getattr(made, str(kind.release))
        error = actor.start(give, *([taken] if isinstance(taken, str) else [])).exception(20)
        assert clear(error), f"{kind}.{kind.release}: {error!r}"
        answers.remove()

    side_by_side(ask, [kind for kind in KINDS if kind is not LATCH])


#: Numbers that no script gives, by the form of the reply to an acquire.
IMPOSSIBLE = {
    "a lock": [b":-2\r\n", b":-3\r\n", b":-9223372036854775808\r\n"],
    "semaphore": [b"*2\r\n:-1\r\n:0\r\n", b"*2\r\n:2\r\n:0\r\n"],
    "permit_expirable_semaphore": [
        b"*3\r\n:0\r\n:0\r\n:-2\r\n",
        b"*3\r\n:-1\r\n:0\r\n:5\r\n",
        b"*3\r\n:1\r\n:0\r\n:-7\r\n",
    ],
}


def test_a_number_that_no_script_gives_is_not_waited_for(world, proxy, unique_name):
    """Such as the time to live of a key that does not exist, -2, from a server that only resembles Redis."""

    def ask(kind):
        name = f"{unique_name}-{kind}"
        client, actor = world.connected(proxy.url, timeout=6.0), world.actor()
        made = kind.handle(client, name)
        form = kind.name if kind.has_permits else "a lock"
        if kind.has_permits:
            actor.do(made.try_set_permits, 3)
        for reply in IMPOSSIBLE[form]:
            answers = answer(proxy, scripts_about(name), reply)
            for method in (kind.acquire, str(kind.try_acquire)):
                error = actor.start(getattr(made, method)).exception(20)
                assert clear(error), f"{kind}.{method}: {reply!r}: {error!r}"
            answers.remove()

    side_by_side(ask, [kind for kind in KINDS if kind is not LATCH])


def test_a_barrier_does_not_wait_for_such_a_number(world, proxy, unique_name):
    client, actor = world.connected(proxy.url, timeout=3.0), world.actor()
    barrier = client.get_barrier(f"{unique_name}-barrier", 3)
    answers = answer(proxy, scripts_about(f"{unique_name}-barrier"), b":-9\r\n")
    assert clear(actor.start(barrier.wait).exception(20))
    answers.remove()


@pytest.mark.parametrize("what", ["a word", "an array of a word", "arrays in an array"])
def test_a_renewal_that_makes_no_sense_is_asked_again(world, proxy, unique_name, what):
    client, actor = world.connected(proxy.url, lock_watchdog_timeout=3.0), world.actor()
    locks = [client.get_lock(f"{unique_name}-{index}") for index in range(2)]
    for lock in locks:
        actor.do(lock.lock)
    answers = [answer(proxy, scripts_about(unique_name), NONSENSE[what], k) for k in (1, 2)]
    answers[1].wait(10)
    for lock in locks:
        assert actor.do(lock.is_held_by_current_thread)
        actor.do(lock.unlock)
    assert not world.losses


@pytest.mark.parametrize("method", ["lock", "try_lock", "unlock", "force_unlock"])
def test_a_request_that_is_always_overtaken(world, proxy, unique_name, method):
    client, actor = world.connected(proxy.url, timeout=1.5), world.actor()
    lock = client.get_lock(unique_name)
    if method == "unlock":
        actor.do(lock.lock)
    stale = answer(proxy, ANY_SCRIPT, b"*2\r\n$5\r\nstale\r\n$15\r\n999999999999999\r\n")
    began = time.monotonic()
    with pytest.raises(OutcomeUnknownError):
        actor.do(getattr(lock, method), *([0.5] if method == "try_lock" else []))
    assert time.monotonic() - began < 5
    assert stale.hits < 200, "and without being busy"
    stale.remove()


# ---- the commands ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["PING", "INFO", "CONFIG", "TIME", "SCAN"])
@pytest.mark.parametrize("reply", [b":1\r\n", b"*2\r\n*1\r\n:1\r\n*1\r\n:1\r\n", b"$-1\r\n"])
def test_a_reply_of_another_type_is_one_clear_error_of_doctor(proxy, command, reply):
    answer(proxy, command, reply)
    error = str(examine([proxy.url]).nodes[0].error)
    assert f"ConnectionError: Protocol error: unexpected reply to {command}" in error
    assert "is something else than Redis or Valkey at this address?" in error
