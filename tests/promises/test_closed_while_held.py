"""A client that is closed while something is held: its blocks end in order, and its losses are reported."""

import asyncio
import contextvars
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyredisson import ClientClosedError, OutcomeUnknownError
from pyredisson._quorum import multi_lock
from pyredisson._quorum.hold import undo
from pyredisson.events import ClosedWhileHolding, HeldAtClose, Lost, WatchdogLate
from tests.forms import ended, enter_of, exit_of
from tests.promises.kinds import handle, over, raises_lost, single, warned
from tests.proxy import Proxy
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import each_runtime, everywhere, sync_and_async

pytestmark = sync_and_async

SHORT = 2.4

#: How each kind makes a block.
BLOCKS: dict[str, Callable[[Actor, Remote], Any]] = {
    "lock": lambda actor, client: actor.get(client, "lock").hold(),
    "with lock": lambda actor, client: actor.get(client, "lock"),
    "fixed lease": lambda actor, client: actor.get(client, "lock").hold(lease_time=20),
    "fair_lock": lambda actor, client: actor.get(client, "fair_lock").hold(),
    "spin_lock": lambda actor, client: actor.get(client, "spin_lock").hold(),
    "fenced_lock": lambda actor, client: actor.get(client, "fenced_lock").hold(),
    "token_lock": lambda actor, client: actor.get(client, "token_lock").hold(),
    "read lock": lambda actor, client: actor.get(client, "read_write_lock").read_lock().hold(),
    "write lock": lambda actor, client: actor.get(client, "read_write_lock").write_lock().hold(),
    "term": lambda actor, client: actor.get(client, "leader_election").term(),
    "run_once": lambda actor, client: Remote(client.real.run_once("orders", at_least=0), actor),
}


@everywhere
@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_that_is_left_in_time_releases(world, client, kind, alice, bob):
    block = BLOCKS[kind](alice, client)
    block.enter()
    client.close()
    assert world.redis.everything(), "close() releases nothing by itself"
    began = world.now()
    leave(world, alice, block)
    assert bob.lock(world.client()).try_lock(), "it was released"
    assert world.now() - began < 10  # The leases are longer.
    with pytest.raises(ClientClosedError):
        alice.lock(client)


@everywhere
@pytest.mark.parametrize("kind", ["semaphore", "with semaphore", "permit_expirable_semaphore"])
def test_permits_are_released(world, kind, alice, bob):
    client, kind, plain = world.client(), kind.removeprefix("with "), kind.startswith("with")
    theirs = bob.get(world.client(), kind)
    theirs.try_set_permits(3)
    mine = alice.get(client, kind)
    block = mine if plain else mine.hold()
    block.enter()
    client.close()
    assert theirs.available_permits() == 2
    leave(world, alice, block)
    assert theirs.available_permits() == 3


@each_runtime
def test_a_nested_hold_is_released_level_by_level(world, alice, bob):
    client, theirs = world.client(), bob.lock(world.client())
    mine = alice.lock(client)
    outer, inner = mine.hold(), mine.hold()
    outer.enter()
    inner.enter()
    client.close()
    leave(world, alice, inner)
    assert not theirs.try_lock()
    leave(world, alice, outer)
    assert theirs.try_lock()


@pytest.mark.parametrize("closed", [1, 3], ids=["one client", "all clients"])
def test_a_multi_lock_is_released(world, closed, alice, bob):
    clients = world.nodes(3, quorum_node_timeout=2.0)
    locks = [client.real.get_lock("orders") for client in clients]
    block = Remote(clients[0].real.get_red_lock(*locks), alice).hold()
    block.enter()
    for client in clients[:closed]:
        client.close()
    leave(world, alice, block)
    assert [world.node(index).everything() for index in range(3)] == [{}] * 3


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_multi_lock_is_not_extended(world, nodes, alice):
    clients = [world.client()] if nodes == 1 else world.nodes(3, quorum_node_timeout=2.0)
    if nodes == 1:
        block = handle(alice, clients[0], "multi_lock").hold()
    else:
        block = over(alice, [client.real.get_lock("orders") for client in clients]).hold()
    lease = block.enter()
    assert alice.do(lease.extend, 10)
    for client in clients:
        client.close()
    assert alice.do(lease.extend, 10) is False
    leave(world, alice, block)


def test_a_multi_lock_that_is_being_acquired_keeps_no_member(world, client, monkeypatch, alice, bob):
    """Its call releases what it has only when the connections are closed."""

    async def undo_when_disconnected(whole):
        while not whole.client.runtime._disconnected:
            await whole.client.runtime.sleep(0.01)
        await undo(whole)

    monkeypatch.setattr(multi_lock, "undo", undo_when_disconnected)
    bob.lock(world.client(), "stock").lock()
    acquiring = alice.start(handle(alice, client, "multi_lock").lock)
    world.until(lambda: {"orders", "pyredisson_waiting:{stock}"} <= world.redis.everything().keys())
    client.close()
    assert isinstance(acquiring.error(), ClientClosedError)
    assert "orders" not in world.redis.everything()


def leave(world: World, actor: Actor, block: Remote) -> None:
    actor.do(world.leave(block.real))


# --- losses ---


@pytest.mark.parametrize("kind", ["lock", "permit_expirable_semaphore"])
def test_what_is_left_too_late_is_lost(world, kind, alice):
    events = []
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost, listeners=(events.append,))
    block = single(alice, client, kind).hold()
    lease = block.enter()
    client.close()
    assert 0 < lease.remaining() < SHORT
    assert not lease.lost
    held = [each for each in events if isinstance(each, HeldAtClose)]
    assert [(each.name, 0 < each.remaining < SHORT) for each in held] == [("orders", True)]
    assert sum(isinstance(each, ClosedWhileHolding) for each in events) == 1
    world.until(lambda: world.lost == ["orders"], SHORT + 3)
    assert lease.lost
    assert [each.name for each in events if isinstance(each, Lost)] == ["orders"]
    assert not any(isinstance(each, WatchdogLate) for each in events)
    raises_lost(leave, world, alice, block)
    assert world.lost == ["orders"]


@pytest.mark.parametrize("when", ["before close()", "after close()"])
@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
def test_a_block_learns_of_its_loss_after_close(world, kind, when, alice):
    client = world.client(lock_watchdog_timeout=1.2, on_lock_lost=world.on_lock_lost)
    block = handle(alice, client, kind)
    block.enter()
    if when == "before close()":
        world.redis.command("FLUSHALL")
        world.until(lambda: world.lost)
    client.close()
    world.until(lambda: world.lost)
    raises_lost(leave, world, alice, block)


@pytest.mark.parametrize("left", ["before close()", "after close()"])
def test_closed_clients_leave_no_more_in_a_context_than_locks_were_in_use(world, alice, left):
    clients = [world.client().real for _ in range(4)]

    async def use(client):
        blocks = [client.get_lock(f"orders-{number}") for number in range(10)]
        for block in blocks:
            await ended(enter_of(block)())
        if left == "after close()":
            await ended(client.close())
        for block in blocks:
            await ended(exit_of(block)(None, None, None))
        if left == "before close()":
            await ended(client.close())

    async def variables():
        found = []
        for client in clients:
            await use(client)
            found.append(len(contextvars.copy_context()))
        return found

    after_one, *_, after_all = alice.do(world.function(variables))
    assert after_all == after_one


def test_all_losses_are_told_whatever_a_listener_raises(world, alice, caplog):
    """Each is named in the log. No watchdog is said to be late, which a closed client does not have."""

    def listen(event):
        if isinstance(event, Lost):
            raise SystemExit(3)

    client = world.client(lock_watchdog_timeout=3.0, on_lock_lost=world.on_lock_lost, listeners=(listen,))
    alice.get(client, "lock", "early").lock(lease_time=1)
    for name in ("orders", "bills"):
        alice.lock(client, name).lock()
    permit = alice.get(client, "permit_expirable_semaphore", "rooms", permits=1).hold()
    permit.enter()
    caplog.clear()
    client.close()
    world.until(lambda: sorted(world.lost) == ["bills", "orders", "rooms"], 6)
    world.until(lambda: all(sum(repr(name) in line for line in warned(caplog)) == 2 for name in world.lost))
    assert not any("watchdog" in line for line in warned(caplog))
    raises_lost(leave, world, alice, permit, match="its client was closed")


def test_one_warning_names_all(client, alice, caplog):
    for name in ("orders", "bills"):
        alice.lock(client, name).lock()
    caplog.clear()
    client.close()
    (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "'orders'" in record.getMessage()
    assert "'bills'" in record.getMessage()
    assert re.search(r"certain for 2\d\.\d s more", record.getMessage())


@pytest.mark.parametrize("presence", [True, False], ids=["presence", "no presence"])
@pytest.mark.parametrize(
    "kind", ["semaphore", "with semaphore", "with bounded_semaphore", "permit_expirable_semaphore"]
)
def test_permits_of_blocks_are_named(world, kind, presence, alice, bob, caplog):
    """And no others: who acquired them outside of a block may release them through any client."""
    events = []
    client, word = world.client(presence=presence, listeners=(events.append,)), kind.removeprefix("with ")
    semaphore, more = (alice.get(client, word, name, 9) for name in ("orders", "bills"))
    others = bob.get(client, word, "orders", 9)
    more.acquire()
    blocks = [each if kind.startswith("with") else each.hold() for each in (semaphore, semaphore, others)]
    for block in blocks:
        block.enter()
    leave(world, alice, blocks[1])
    caplog.clear()
    client.close()
    held = [(each.name, each.owner.partition(":")[2]) for each in events if isinstance(each, HeldAtClose)]
    assert sorted(held) == sorted(("orders", str(actor.number)) for actor in (alice, bob))
    (line,) = warned(caplog)
    assert "while it held 'orders', which it no longer renews" in line
    leave(world, alice, blocks[0])
    leave(world, bob, blocks[2])
    assert world.redis.command("GET", f"pyredisson_client:{client.id}") is None


def test_permits_are_not_named_once_their_blocks_were_left(world, client, alice, bob, caplog):
    """Wherever that was."""
    semaphore = alice.get(client, "semaphore", permits=9)
    for _ in range(3):
        semaphore.enter()
    for actor in (bob, alice, bob):
        leave(world, actor, semaphore)
    assert semaphore.available_permits() == 9
    caplog.clear()
    client.close()
    assert not caplog.records


def test_nothing_is_said_of_a_client_that_holds_nothing(client, alice, caplog):
    lock = alice.lock(client)
    lock.lock()
    lock.unlock()
    caplog.clear()
    client.close()
    assert not caplog.records


def test_nothing_is_said_of_what_is_being_released(world, alice, proxy, caplog):
    """The server has executed the unlock, whose reply is lost."""
    client = world.through(proxy.port, timeout=0.9)
    mine = alice.lock(client)
    mine.lock()
    proxy.blackhole("down")
    with pytest.raises(OutcomeUnknownError):
        mine.unlock()
    client.close()
    assert "while it held" not in caplog.text


def test_a_server_that_is_away_is_no_error_of_the_block(world, alice):
    with Proxy(world.port) as proxy:
        client = world.through(proxy.port)
        block = alice.lock(client).hold()
        block.enter()
        client.close()
        proxy.cut()
        began = time.monotonic()
        leave(world, alice, block)
        assert time.monotonic() - began < 3.0


def test_a_leader_resigns_and_its_campaign_ends(world, client, alice, bob):
    led = []

    async def lead(term):
        led.append(term.token)
        await ended(term.wait())

    campaign = alice.do(client.real.get_leader_election("orders").start, world.function(lead))
    world.until(lambda: led)
    client.close()
    with bob.get(world.client(), "leader_election").term(wait_time=3):
        world.until(lambda: "stopped" in repr(campaign))
    assert len(led) == 1


@pytest.mark.parametrize(
    "kind", ["with lock", "lock", "fair_lock", "semaphore", "permit_expirable_semaphore", "red_lock"]
)
def test_a_closed_generator_releases(world, kind, alice):
    """Also an asynchronous one, which can wait for nothing."""
    client, permits = world.client(), {"permits": 1} if "semaphore" in kind else {}

    def block():
        if kind == "red_lock":
            return client.real.get_red_lock(client.real.get_lock("orders"), client.real.get_lock("bills")).hold()
        handle = alice.get(client, kind.removeprefix("with "), **permits).real
        return handle if kind.startswith("with") else handle.hold()

    def each():
        with block():
            yield "held"

    async def each_in_task():
        async with block():
            yield "held"

    items = each_in_task() if world.runtime == "asyncio" else each()
    begin, end = (items.__anext__, items.aclose) if world.runtime == "asyncio" else (items.__next__, items.close)
    assert alice.do(begin) == "held"
    client.close()
    before = world.redis.everything()
    alice.do(end)
    if permits:
        world.until(lambda: world.redis.command("GET", "orders") in ("1", b"1", 1), 1.0)
    else:
        world.until(lambda: not {"orders", "bills"} & set(world.redis.everything()), 1.0)
    assert before != world.redis.everything()


def test_a_decorated_function_keeps_its_result(world, client, alice, bob):
    inside, may_end = threading.Event(), threading.Event()

    async def work():
        inside.set()
        assert await ended(asyncio.to_thread(may_end.wait, 20) if world.runtime == "asyncio" else may_end.wait(20))
        return "done"

    decorated = client.real.synchronized("orders")(world.function(work))
    running = alice.start(decorated)
    assert inside.wait(20)
    client.close()
    may_end.set()
    assert running.result() == "done"
    assert bob.lock(world.client()).try_lock()


@pytest.mark.parametrize("kind", ["lock", "spin_lock", "permit_expirable_semaphore"])
def test_a_hold_that_is_acquired_during_close_is_reported_at_its_deadline(world, alice, monkeypatch, kind):
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost)
    mine = alice.get(client, kind)
    if kind.endswith("semaphore"):
        mine.try_set_permits(1)
    runtime = client.real._core.runtime
    evaluate = runtime.eval

    async def evaluate_and_close(*args: Any) -> Any:
        reply = await evaluate(*args)
        await ended(client.real.close())
        return reply

    monkeypatch.setattr(runtime, "eval", evaluate_and_close)
    block = mine.hold()
    lease = block.enter()
    assert not lease.lost
    monkeypatch.undo()
    world.until(lambda: world.lost == ["orders"])
    assert lease.lost
    raises_lost(leave, world, alice, block)
    assert world.lost == ["orders"]
