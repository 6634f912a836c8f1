"""Functions that run under a lock whose name is made from the call's arguments."""

import asyncio
import functools
import inspect
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import pyredisson
from pyredisson import ClientClosedError, LockTimeoutError, Skipped
from tests.promises.kinds import raises_lost
from tests.worlds.base import Remote, World
from tests.worlds.environments import asyncio_only, each_runtime, sync_and_async


def is_for_threads(client: Remote) -> bool:
    return isinstance(client.real, pyredisson.Redisson)


def names_held(world: World) -> list[str]:
    return sorted(key for key, (kind, _) in world.redis.everything().items() if kind == "hash")


def decorated(client: Remote, body: Callable[..., Any], key: str, word: str = "synchronized", **settings: Any) -> Any:
    """The body as a function of the client's colour, with its very signature."""
    if is_for_threads(client):
        function = body
    else:

        async def function(*args: Any, **kwargs: Any) -> Any:
            return body(*args, **kwargs)

        function = functools.wraps(body)(function)
        assert inspect.iscoroutinefunction(function)
    return getattr(client.real, word)(key, **settings)(function)


class Order:
    def __init__(self, number: int) -> None:
        self.id = number


def test_it_runs_under_the_lock_of_its_arguments(world, client, alice):

    def ship(order_id: int, *, fast: bool = False) -> list[str]:
        """Send it."""
        return names_held(world)

    call = decorated(client, ship, "orders:{order_id}")
    assert alice.do(call, 7) == ["orders:7"]
    assert alice.do(call, order_id=8, fast=True) == ["orders:8"]
    assert names_held(world) == []
    assert call.__name__ == "ship"
    assert call.__doc__ == "Send it."
    assert inspect.signature(call) == inspect.signature(ship)
    assert inspect.iscoroutinefunction(call) is not is_for_threads(client)


@each_runtime
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("all", "all"),
        ("{{orders}}:{a}", "{orders}:1"),
        ("{b}", "two"),
        ("{c.id}", "7"),
        ("{more[0]}:{more[1]}", "x:y"),
        ("{named[k]}", "v"),
        ("{a:03d}-{b!r:>{a}}", "001-'two'"),
    ],
)
def test_names(world, client, key, expected):

    def function(a: int, b: str = "two", c: Any = None, *more: str, **named: str) -> list[str]:
        return names_held(world)

    call = decorated(client, function, key)
    assert world.actor().do(call, 1, "two", Order(7), "x", "y", k="v") == [expected]


@sync_and_async
def test_methods(world, client, alice):

    class Account(Order):
        pay = decorated(client, lambda self, amount: (names_held(world), amount), "account:{self.id}")
        audit = classmethod(decorated(client, lambda cls: names_held(world), "{cls.__name__}"))

    assert alice.do(Account(3).pay, 10) == (["account:3"], 10)
    assert alice.do(Account.audit) == ["Account"]


def test_calls_with_one_key_exclude_each_other_and_others_do_not(world, client, alice, bob):
    called: list[int] = []
    call = decorated(client, lambda x: called.append(x), "o:{x}")
    lock = alice.lock(client, "o:1")
    lock.lock()
    waiting = bob.start(call, 1)
    world.until(lambda: world.waiting(lock) == 1)
    alice.do(call, 2)
    alice.do(call, 1)  # Reentrant.
    assert called == [2, 1]
    lock.unlock()
    waiting.result()
    assert called == [2, 1, 1]


@pytest.mark.parametrize("wait", [0, 0.05, timedelta(milliseconds=50)])
def test_it_is_not_called_if_the_lock_is_not_acquired(alice, bob, client, wait):
    call = decorated(client, lambda x: pytest.fail("it was called"), "o:{x}", wait_time=wait)
    alice.lock(client, "o:1").lock()
    with pytest.raises(LockTimeoutError):
        bob.do(call, 1)


@each_runtime
def test_its_lease_and_its_errors(world, client, alice):
    seen: list[float | None] = []

    def body(name: str) -> None:
        seen.append(world.redis.ttl(f"o:{name}"))
        if name == "lost":
            world.redis.delete("o:lost")
        raise ZeroDivisionError

    call = decorated(client, body, "o:{name}", lease_time=50)
    for name in ("kept", "lost"):  # An error of the function goes before a loss.
        with pytest.raises(ZeroDivisionError):
            alice.do(call, name)
    assert all(45 < (ttl or 0) <= 50 for ttl in seen)
    assert names_held(world) == []
    raises_lost(alice.do, decorated(client, lambda key: world.redis.delete(key), "{key}"), "orders")
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            alice.do(call, *arguments)


@each_runtime
@pytest.mark.parametrize("template", ["o:{x.id}", "o:{x[id]}", "o:{x[7]}", "o:{x:d}"])
def test_an_argument_that_lacks_what_the_name_needs_is_reported_with_the_template(client, alice, template):
    with pytest.raises(ValueError, match=f"{re.escape(repr(template))} for this call of .*<lambda>") as refusal:
        alice.do(decorated(client, lambda x: None, template), "a")
    assert isinstance(refusal.value.__cause__, (AttributeError, TypeError, IndexError, ValueError))
    with pytest.raises(ValueError, match="must not be empty"):
        alice.do(decorated(client, lambda x: None, "{x}"), "")


@each_runtime
@pytest.mark.parametrize(
    ("key", "error", "says"),
    [
        ("o:{order}", ValueError, "no parameter 'order'"),
        ("o:{}", ValueError, "no parameter ''"),
        ("o:{0}", ValueError, "no parameter '0'"),
        ("o:{x:{width}}", ValueError, "no parameter 'width'"),
        ("o:{x", ValueError, "template"),
        ("o:x}", ValueError, "template"),
        ("", ValueError, "empty"),
        (7, TypeError, "str"),
        (None, TypeError, "str"),
    ],
)
def test_a_wrong_key_is_said_on_decorating(client, key, error, says):
    with pytest.raises(error, match=says):
        decorated(client, lambda x: None, key)


def _generator(x: int) -> Any:
    yield x


async def _async_generator(x: int) -> Any:
    yield x


async def _coroutine(x: int) -> int:
    return x


def _plain(x: int) -> int:
    return x


NO_FUNCTIONS = [_generator, _async_generator, staticmethod(_plain), classmethod(_plain), Order, print, "f", None]


@sync_and_async
@pytest.mark.parametrize("what", NO_FUNCTIONS, ids=lambda what: getattr(what, "__name__", type(what).__name__))
def test_an_object_that_is_no_function_is_refused_on_decorating(client, what):
    with pytest.raises(TypeError):
        client.real.synchronized("{x}")(what)


@sync_and_async
def test_a_function_of_the_other_form_is_refused(client):
    function, text = (_coroutine, "is a coroutine") if is_for_threads(client) else (_plain, "is not a coroutine")
    with pytest.raises(TypeError, match=f"{text} function"):
        client.real.synchronized("{x}")(function)


@asyncio_only
def test_a_call_that_is_cancelled_frees_the_lock(world, client):

    @client.real.synchronized("o:{x}")
    async def forever(x: int) -> None:
        await asyncio.Event().wait()

    bob = world.interruptible()
    error = bob.interrupted(forever, 1, once=lambda: names_held(world) == ["o:1"])
    assert isinstance(error, asyncio.CancelledError)
    assert names_held(world) == []


@each_runtime
def test_after_close(world, client):
    call = decorated(client, lambda x: None, "{x}")
    client.close()
    with pytest.raises(ClientClosedError):
        world.actor().do(call, 1)
    with pytest.raises(ClientClosedError):
        client.real.synchronized("x")


@sync_and_async
@pytest.mark.parametrize("kind", ["lock", "fair", "fenced", "spin", "token"])
def test_a_busy_lock_of_any_kind_is_skipped_or_an_error(kind, client, alice, bob):
    held = alice.get(client, "lock" if kind == "lock" else f"{kind}_lock")
    skips = decorated(client, lambda: 7, "orders", kind=kind, when_busy="skip")
    raises = decorated(client, lambda: 7, "orders", kind=kind, when_busy="raise")
    assert bob.do(skips) == bob.do(raises) == 7
    held.lock()
    skipped = bob.do(skips)
    assert isinstance(skipped, Skipped)
    if kind != "token":
        assert skipped.holder.client_id == client.id
    with pytest.raises(LockTimeoutError, match="'orders' is held by"):
        bob.do(raises)
    held.unlock()
