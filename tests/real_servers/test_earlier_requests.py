"""An earlier request of the same owner is in doubt: a later call that sends nothing ends with its own error."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson.errors import OutcomeUnknownError, QuorumUnreachableError
from pyredisson.events import OutcomeUnknown
from tests.proxy import Proxy
from tests.real_servers.client_settings import changed
from tests.real_servers.observation import ACQUIRE, await_waiter
from tests.waiting import until
from tests.worlds.clock import ClockWorld

STILL = "is still being settled"

#: A call of each kind, by a client and a name; those of the second group ask under a number.
CALLS: dict[str, Callable[[Any, str], Callable[[], Any]]] = {
    "lock": lambda client, name: client.get_lock(name).try_lock,
    "waiting": lambda client, name: lambda: client.get_lock(name).try_lock(0.4),
    "fair lock": lambda client, name: client.get_fair_lock(name).try_lock,
    "read lock": lambda client, name: client.get_read_write_lock(name).read_lock().try_lock,
    "token lock": lambda client, name: client.get_token_lock(name).try_lock,
    "semaphore": lambda client, name: client.get_semaphore(name).try_acquire,
    "permits": lambda client, name: client.get_permit_expirable_semaphore(name).try_acquire,
    "latch": lambda client, name: lambda: client.get_count_down_latch(name).try_set_count(1),
}


def _unknown(world: ClockWorld) -> int:
    return sum(isinstance(event, OutcomeUnknown) for _, event in world.events)


@pytest.mark.parametrize("kind", CALLS)
def test_a_connection_that_was_never_made_is_its_own_error(world, proxy, direct, unique_name, kind):
    client, actor = world.connected(proxy.url), world.actor()
    call = CALLS[kind](client, unique_name)
    with changed(client, timeout=0.3):
        proxy.blackhole()
        with pytest.raises(OutcomeUnknownError, match="was sent"):
            actor.do(call)
        proxy.heal()
        proxy.cut()
        until(lambda: _unknown(world) == 1, what="one outcome is unknown")
        for _ in range(3):
            with pytest.raises(rx.ConnectionError, match=STILL) as caught:
                actor.do(call)
            assert not isinstance(caught.value, OutcomeUnknownError)
            assert unique_name in str(caught.value)
    assert _unknown(world) == 1


def test_an_unlock_that_is_called_again_and_not_sent(world, proxy, direct, unique_name):
    client, actor = world.connected(proxy.url), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    with changed(client, timeout=0.3):
        proxy.blackhole()
        with pytest.raises(OutcomeUnknownError):
            actor.do(lock.unlock)
        proxy.heal()
        proxy.cut()
        for again in (lock.unlock, lock.try_lock, lock.unlock):
            with pytest.raises(rx.ConnectionError, match=STILL):
                actor.do(again)
    proxy.heal()
    until(lambda: not direct.exists(unique_name), what="it is released")


@pytest.mark.parametrize("kind", CALLS)
def test_a_refused_login_is_an_authentication_error(world, own, unique_name, kind):
    with own.client() as direct, Proxy(own.port) as proxy:
        direct.execute_command("ACL", "SETUSER", "app", "on", ">one", "~*", "&*", "+@all")
        client, actor = world.connected(proxy.url.replace("://", "://app:one@")), world.actor()
        call = CALLS[kind](client, unique_name)
        with changed(client, timeout=0.3):
            proxy.blackhole()
            with pytest.raises(OutcomeUnknownError):
                actor.do(call)
            direct.execute_command("ACL", "DELUSER", "app")
            proxy.cut()
            proxy.heal()
        with changed(client, timeout=1.5):
            # A connection that was begun between the two is lost, and its error is that of a call.
            until(lambda: isinstance(actor.start(call).exception(10), rx.AuthenticationError), what="it is refused")
            for _ in range(2):
                with pytest.raises(rx.AuthenticationError, match=STILL):
                    actor.do(call)
        assert _unknown(world) == 1


def test_a_request_of_this_call_stays_in_doubt_when_later_copies_are_not_sent(
    world, proxy, valkey, direct, unique_name
):
    client, holder, actor = world.connected(proxy.url), world.actor(), world.actor()
    theirs = world.from_url(valkey.url).get_lock(unique_name)
    holder.do(theirs.lock)
    waiting = actor.start(client.get_lock(unique_name).try_lock, 4.0)
    await_waiter(direct, client, unique_name)
    with changed(client, timeout=0.5):
        lost = proxy.drop_reply(ACQUIRE)
        proxy.await_answers(ACQUIRE)  # Its look after it has subscribed could find the lock free.
        holder.do(theirs.unlock)
        lost.wait()
        proxy.cut()
        with pytest.raises(OutcomeUnknownError) as caught:
            waiting.result(10)
    assert STILL not in str(caught.value)
    proxy.heal()


@pytest.mark.parametrize("quorum", ["quorum", "all"])
def test_a_multi_lock_that_could_not_ask_its_members(world, fresh_server, unique_name, quorum):
    with ExitStack() as stack:
        _release_without_members(
            world, [stack.enter_context(Proxy(fresh_server().port)) for _ in range(3)], unique_name, quorum
        )


def _release_without_members(world: ClockWorld, proxies: list[Proxy], unique_name: str, quorum: str) -> None:
    clients, actor = [world.connected(proxy.url, restart_guard=False) for proxy in proxies], world.actor()
    names = [unique_name if quorum == "quorum" else f"{unique_name}-{number}" for number in range(3)]
    lock = clients[0].get_multi_lock(*[client.get_lock(name) for client, name in zip(clients, names, strict=True)])
    actor.do(lock.lock)
    for proxy in proxies:
        proxy.cut()
    with changed(clients[0], timeout=0.4):
        with pytest.raises((QuorumUnreachableError, OutcomeUnknownError)):
            actor.do(lock.unlock)  # It may have been sent before the end of a connection was seen.
        before = _unknown(world)
        with pytest.raises(QuorumUnreachableError, match="released in the background"):
            actor.do(lock.unlock)
        with pytest.raises(QuorumUnreachableError):
            actor.do(lock.try_lock)
    assert _unknown(world) == before
    for proxy in proxies:
        proxy.heal()
    actor.do(lock.unlock)
