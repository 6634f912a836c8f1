"""A request of a lock whose reply is lost, or that arrives twice or late, counts once, for each kind of lock."""

from typing import Literal, TypeAlias

import pytest
import redis.exceptions
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from pyredisson import LockError, LockLostError, OutcomeUnknownError
from pyredisson._core import releasing
from pyredisson._core.releasing import settle_or_explain
from tests.promises import test_read_write_lock as read_write
from tests.promises.kinds import each_of, handle, make, not_owned, over, raises_lost, release_of, warned
from tests.proxy import Proxy
from tests.worlds.base import Actor, Remote
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async
from tests.worlds.store import CHANNEL

pytestmark = sync_and_async

How: TypeAlias = Literal["hang", "reset"]

REENTRANT = ("lock", "read_lock", "write_lock", "fenced_lock", "fair_lock")
KINDS = (*REENTRANT, "token_lock")

#: The channel of each kind, and what its last unlock publishes there.
PUBLISHED = {
    "lock": (CHANNEL, [b"0"]),
    "read_lock": (read_write.CHANNEL, [b"0"]),
    "write_lock": (read_write.CHANNEL, [b"1"]),
    "fenced_lock": (CHANNEL, [b"0"]),
    "fair_lock": (CHANNEL, []),
    "token_lock": (CHANNEL, []),
}

then = each_of("hang", "reset")
kind = each_of(*KINDS)


def holds(kind: str, lock: Remote) -> int:
    """How often the lock's actor holds it."""
    return int(lock.get_hold_count() if kind in REENTRANT else lock.is_held_by_current_thread())


@pytest.fixture
def client(world: ClockWorld, proxy: Proxy, alice: Actor, kind: str) -> Remote:
    """A client whose requests go through the proxy; the scripts are known to the server."""
    # For each try it has half a second, a sixth of the lease; and there is time for several.
    return client_through(world, proxy, alice, kind, timeout=4, lock_watchdog_timeout=3)


@pytest.fixture
def impatient(world: ClockWorld, proxy: Proxy, alice: Actor, kind: str) -> Remote:
    """The same, of a client that gives up sooner: for what cannot be settled."""
    return handle(alice, client_through(world, proxy, alice, kind, timeout=1.2), kind)


def client_through(world: ClockWorld, proxy: Proxy, alice: Actor, kind: str, **config: float) -> Remote:
    client = world.through(proxy.port, **config)
    for each in ("read_lock", "write_lock") if kind in ("read_lock", "write_lock") else (kind,):
        warm = handle(alice, client, each, "warm-up")
        assert not warm.is_locked()
        depth = 2 if kind in REENTRANT else 1
        for _ in range(depth):
            warm.lock()
        for _ in range(depth):
            warm.unlock()
        assert not warm.force_unlock()
    return client


def test_each_acquire_and_each_unlock_counts_once(world, proxy, mine, kind, then):
    channel, messages = PUBLISHED[kind]
    said = world.messages(channel)
    calls = [(mine.lock, 1), (mine.unlock, 0)]
    if kind in REENTRANT:
        calls[1:1] = [(mine.lock, 2), (mine.unlock, 1)]
    for call, count in calls:
        lost = proxy.drop_reply("EVALSHA", then=then)
        call()
        assert lost.hits == 1
        assert holds(kind, mine) == count
    assert not mine.is_locked()
    assert said.received() == messages
    mine.lock()
    assert holds(kind, mine) == 1


def test_an_extension_is_asked_for_again(proxy, mine, kind, then):
    mine.lock(lease_time=10)
    mine.extend(10)  # The server knows the script now.
    lost = proxy.drop_reply("EVALSHA", then=then)
    assert mine.extend(60)
    assert lost.hits == 1
    assert mine.remain_time_to_live() > 50
    mine.unlock()


def test_late_copy_is_refused(proxy, mine, kind):
    """The owner has gone on meanwhile: a late unlock would free its next hold, a late acquire would strand one."""
    mine.lock()
    late_unlock = proxy.hold_request("EVALSHA", then="reset")
    mine.unlock()
    late_acquire = proxy.hold_request("EVALSHA", then="reset")
    mine.lock()
    assert late_unlock.release()
    assert holds(kind, mine) == 1
    mine.unlock()
    assert late_acquire.release()
    assert not mine.is_locked(), "a late acquire must not take a lock that nothing releases"


@pytest.mark.parametrize("several", [False, True], ids=["alone", "multi-lock"])
@pytest.mark.parametrize("kind", REENTRANT)
def test_a_lease_that_runs_out_during_a_re_entry_is_over(proxy, client, alice, kind, several, caplog):
    """It is not lost: the lock is acquired anew. What is asked has half a second to be answered."""
    lock = both(alice, client, kind) if several else handle(alice, client, kind)
    lock.lock(lease_time=0.4)
    swallowed = proxy.hold_request("EVALSHA")
    assert lock.try_lock() is True
    assert swallowed.hits == 1
    assert lock.get_hold_count() == 1
    lock.unlock()
    raises_lost(lock.unlock)
    assert not lock.is_locked()
    # On a busy machine, a renewal may be late of what is held while another member is waited for.
    assert [line for line in warned(caplog) if "could not be renewed" not in line] == []


@pytest.mark.parametrize("kind", REENTRANT)
@pytest.mark.parametrize("block", [False, True], ids=["unlock", "block"])
def test_a_multi_lock_whose_lease_runs_out_during_its_unlock_is_lost(world, proxy, client, alice, kind, block):
    lock = both(alice, client, kind)
    release = release_of(lock, 0.4, block=block)
    away = proxy.hold_request("EVALSHA", None)
    unlocking = alice.start(release)
    world.until(lambda: not world.redis.command("EXISTS", "orders", "stock"))
    away.remove()
    assert isinstance(unlocking.error(), LockLostError)
    assert not lock.is_locked()
    assert lock.try_lock() is True


@pytest.mark.parametrize("kind", REENTRANT)
@pytest.mark.parametrize("block", [False, True], ids=["unlock", "block"])
def test_a_hold_that_runs_out_while_an_earlier_request_is_settled_is_lost(world, proxy, alice, kind, block):
    # When the hold runs out, a second and a half are left to settle in: three tries.
    client = client_through(world, proxy, alice, kind, timeout=2, lock_watchdog_timeout=3)
    lock = handle(alice, client, kind)
    release = release_of(lock, 2.5, block=block)
    away = proxy.hold_request("EVALSHA", None)
    with pytest.raises(OutcomeUnknownError):
        lock.lock(lease_time=1)
    unlocking = alice.start(release)
    world.until(lambda: not world.redis.command("EXISTS", "orders"))
    away.remove()
    assert isinstance(unlocking.error(), LockLostError)
    assert not lock.is_locked()
    assert lock.try_lock() is True
    lock.unlock()


@pytest.mark.parametrize("kind", ["lock"])
def test_a_hold_that_runs_out_while_an_unlock_that_failed_is_called_again_is_lost(
    world, proxy, alice, kind, monkeypatch
):
    client = client_through(world, proxy, alice, kind, timeout=1.5, lock_watchdog_timeout=6)
    lock = handle(alice, client, kind)
    lock.lock()
    away = proxy.hold_request("EVALSHA", None)
    with pytest.raises(OutcomeUnknownError):
        lock.lock()
    with pytest.raises((OutcomeUnknownError, redis.exceptions.TimeoutError)):
        lock.unlock()

    async def settle_when_it_has_ended(core, ownership, *args):
        while ownership.remaining(core.runtime.now()) or world.redis.command("EXISTS", "orders"):
            await core.runtime.sleep(0.01)
        away.remove()
        return await settle_or_explain(core, ownership, *args)

    monkeypatch.setattr(releasing, "settle_or_explain", settle_when_it_has_ended)
    raises_lost(lock.unlock)
    not_owned(lock.unlock)
    assert lock.try_lock() is True
    lock.unlock()
    assert not lock.is_locked()


def both(alice: Actor, client: Remote, kind: str) -> Remote:
    """A multi-lock."""
    return over(alice, [make(client, kind, name) for name in ("orders", "stock")])


def test_a_late_forced_unlock_frees_no_later_hold(world, proxy, mine, kind):
    theirs = handle(world.actor(), world.client(), kind)
    mine.lock()
    late = proxy.hold_request("EVALSHA", then="reset")
    assert mine.force_unlock()
    theirs.lock()
    assert late.release()
    assert theirs.is_locked()
    assert holds(kind, theirs) == 1


def test_a_call_outranks_what_the_watchdog_is_sending(proxy, impatient, kind):
    """The unlock is left to the watchdog, whose copy is late; the owner has gone on by then."""
    impatient.lock()
    proxy.cut()
    with pytest.raises(redis.exceptions.ConnectionError):
        impatient.is_locked()  # No connection is left on which the unlock might have been sent.
    with pytest.raises(redis.exceptions.ConnectionError):
        impatient.unlock()
    late = proxy.hold_request("EVALSHA")
    proxy.heal()
    late.wait()
    impatient.unlock()
    impatient.lock()
    assert late.release()
    assert holds(kind, impatient) == 1
    impatient.unlock()
    assert not impatient.is_locked()


def test_retries_of_redis_py_do_not_apply(world, proxy):
    """By default it repeats ten times, and a lock would count twice."""
    retry = Retry(ConstantBackoff(0.01), 10)
    users = world.redis_client(retry=retry, socket_timeout=0.4, port=proxy.port)
    mine = world.actor().lock(world.client(redis=users, timeout=4, lock_watchdog_timeout=3))
    mine.lock()
    mine.unlock()
    lost = proxy.drop_reply("EVALSHA")
    mine.lock()
    assert lost.hits == 1
    assert mine.get_hold_count() == 1


@pytest.mark.parametrize("adopted", [False, True])
def test_unknown_acquire_is_an_error_and_released_or_adopted_by_the_next_one(world, proxy, impatient, kind, adopted):
    proxy.drop_reply("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError) as unknown:
        impatient.try_lock(lease_time=60)
    assert isinstance(unknown.value, LockError)
    assert isinstance(unknown.value.__cause__, redis.exceptions.RedisError)
    assert unknown.value.name == "orders"
    proxy.clear()
    if not adopted:
        world.until(lambda: not impatient.is_locked())
    assert impatient.try_lock(5, 60)
    assert holds(kind, impatient) == 1
    impatient.unlock()
    assert not impatient.is_locked()


def test_unknown_unlock_can_be_called_again(proxy, impatient, kind):
    impatient.lock()
    proxy.drop_reply("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError):
        impatient.unlock()
    proxy.clear()
    unlocks_for_the_last_time(impatient)


def unlocks_for_the_last_time(mine: Remote) -> None:
    mine.unlock()
    assert not mine.is_locked()
    with pytest.raises(LockError):
        mine.unlock()


@pytest.mark.parametrize("whose", ["its own", "a multi-lock's"])
@pytest.mark.parametrize("kind", ["lock", "read_lock"])
@pytest.mark.parametrize("again", [False, True], ids=["settled", "in vain, and again"])
def test_an_unlock_behind_a_block_that_could_not_be_left_is_of_the_outer_hold(
    proxy, alice, client, impatient, kind, whose, again
):
    """Only who called ``unlock()`` before can mean the same one."""
    impatient.lock()
    inner = impatient if whose == "its own" else over(alice, [impatient.real])
    leave = release_of(inner, block=True)
    proxy.hold_request("EVALSHA", None)
    with pytest.raises(OutcomeUnknownError):
        alice.do(leave)
    if again:
        with pytest.raises(OutcomeUnknownError):
            impatient.unlock()
    proxy.clear()
    unlocks_for_the_last_time(impatient)


@pytest.mark.parametrize("kind", ["lock", "read_lock"])
def test_an_unlock_behind_a_block_that_could_not_be_left_raises_its_own_loss(
    world, proxy, alice, client, impatient, kind
):
    impatient.lock(0.5)
    world.until(lambda: not world.redis.command("EXISTS", "orders"))
    leave = release_of(impatient, block=True)
    proxy.hold_request("EVALSHA", None)
    with pytest.raises(OutcomeUnknownError):
        alice.do(leave)
    proxy.clear()
    raises_lost(impatient.unlock, match="its lease expired")


@pytest.mark.parametrize("kind", ["lock"])
@pytest.mark.parametrize("settled", [False, True])
def test_who_leaves_a_block_does_not_come_back_to_an_unlock_within_it(
    world, proxy, alice, client, impatient, kind, settled
):
    """Nested code passes each error on: the unlock behind the block is of the hold around that."""
    impatient.lock()
    leave = release_of(impatient, block=True)
    impatient.lock()
    proxy.hold_request("EVALSHA", None)
    for each in (impatient.real.unlock, leave):
        with pytest.raises(OutcomeUnknownError):
            alice.do(each)
    proxy.clear()
    if settled:
        world.until(lambda: impatient.get_hold_count() == 1)
    unlocks_for_the_last_time(impatient)
