"""A request to a semaphore or latch takes effect once, though its reply is lost or a copy of it comes late."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Literal

import pytest
import redis.exceptions

from pyredisson import LockNotOwnedError, OutcomeUnknownError
from tests.proxy import Proxy
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import interruptible, sync_and_async

pytestmark = sync_and_async

HOW: tuple[Literal["hang", "reset"], ...] = ("hang", "reset")


KINDS = ("semaphore", "permit_expirable_semaphore", "count_down_latch")


class Seats:
    """All three, in alice's hands, through the proxy; and the number that is stored."""

    def __init__(self, world: ClockWorld, proxy: Proxy, timeout: float) -> None:
        self.world = world
        self.client = world.through(proxy.port, timeout=timeout)
        self.alice = world.actor()
        self.semaphore, self.permits, self.latch = (self.alice.get(self.client, kind, "seats") for kind in KINDS)
        # Let the server know the scripts, so that each request is one. By another client, which has more time for each.
        client = world.client()
        semaphore, permits, latch = (self.alice.get(client, kind, "seats") for kind in KINDS)
        self.permits.set_permits(5)  # A client looks once for permits of the other kind: so they are set first.
        permits.set_permits(5)
        permits.release(permits.acquire())
        permits.add_permits(0)
        permits.update_lease_time("0" * 32, 1)
        permits.try_release(["0" * 32])
        world.redis.delete("seats")
        semaphore.try_set_permits(5)
        semaphore.acquire()
        semaphore.release()
        semaphore.add_permits(0)
        semaphore.release(semaphore.drain_permits())
        semaphore.resize(5)
        self.semaphore.resize(5)
        semaphore.clear_expire()
        latch.count_down()
        semaphore.release()
        assert self.count == 5

    @property
    def count(self) -> int:
        return int(self.world.redis.command("GET", "seats") or 0)


@pytest.fixture
def seats(world: ClockWorld, proxy: Proxy, request: pytest.FixtureRequest) -> Seats:
    """The client has so many seconds for a request, and a third of them for each try."""
    return Seats(world, proxy, getattr(request, "param", 2.4))


#: For what cannot be settled: the client gives up sooner.
hasty = pytest.mark.parametrize("seats", [1.2], indirect=True, ids=["hasty"])
#: For what shall not be settled before the test goes on.
patient = pytest.mark.parametrize("seats", [9.0], indirect=True, ids=["patient"])


CALLS: dict[str, tuple[Callable[[Seats], object], int, object]] = {
    "acquire": (lambda seats: seats.semaphore.acquire(2), 3, True),
    "try_acquire": (lambda seats: seats.semaphore.try_acquire(6), 5, False),
    "release": (lambda seats: seats.semaphore.release(3), 8, None),
    "add_permits": (lambda seats: seats.semaphore.add_permits(-2), 3, None),
    "drain_permits": (lambda seats: seats.semaphore.drain_permits(), 0, 5),
    "acquire a permit": (lambda seats: len(seats.permits.acquire()), 4, 32),
    "try_acquire a permit": (lambda seats: len(seats.permits.try_acquire(1, 60)), 4, 32),
    "acquire several permits": (lambda seats: len(seats.permits.acquire(permits=3)), 2, 3),
    "try_acquire several permits": (lambda seats: len(seats.permits.try_acquire(1, 60, permits=3)), 2, 3),
    "set_permits": (lambda seats: seats.permits.set_permits(7), 7, None),
    "add permits": (lambda seats: seats.permits.add_permits(2), 7, None),
    "resize": (lambda seats: seats.semaphore.resize(7), 7, None),
    "resize of a permit semaphore": (lambda seats: seats.permits.resize(7), 7, None),
    "delete": (lambda seats: seats.semaphore.delete(), 0, True),
    "delete of a latch": (lambda seats: seats.latch.delete(), 0, True),
    "expire": (lambda seats: seats.semaphore.expire(60), 5, True),
    "count_down": (lambda seats: seats.latch.count_down(), 4, None),
}


@pytest.mark.parametrize("then", HOW)
@pytest.mark.parametrize("call", CALLS)
def test_a_lost_reply(proxy, seats, call, then):
    make, count, result = CALLS[call]
    lost = proxy.drop_reply("EVALSHA", then=then)
    assert make(seats) == result
    assert lost.hits == 1
    assert seats.count == count


@pytest.mark.parametrize("call", ["try_set_permits", "try_set_count"])
def test_setting_for_the_first_time(world, proxy, seats, call):
    """The repeat finds a number there. It is its own, so the answer is still yes."""
    world.redis.delete("seats")
    lost = proxy.drop_reply("EVALSHA")
    assert getattr(seats.latch if call == "try_set_count" else seats.semaphore, call)(3) is True
    assert lost.hits == 1
    assert seats.count == 3


@pytest.mark.parametrize("several", [False, True])
def test_permits_are_released_once(proxy, seats, several):
    """The repeat finds nothing to release any more, and is no failure."""
    permits = seats.permits.acquire(permits=3) if several else seats.permits.acquire()
    lost = proxy.drop_reply("EVALSHA")
    seats.permits.release(permits)
    assert lost.hits == 1
    assert seats.count == 5
    assert seats.permits.acquired_permits() == 0


def test_of_a_list_whose_reply_is_lost_the_same_permit_is_missing(proxy, seats):
    one, two = seats.permits.acquire(permits=2)
    seats.permits.release(two)
    lost = proxy.drop_reply("EVALSHA")
    with pytest.raises(LockNotOwnedError, match=f"permit {two} of 'seats' .*none of the 2 permits was released"):
        seats.permits.release([one, two])
    assert lost.hits == 1
    assert seats.permits.acquired_permits() == 1


@pytest.mark.parametrize("call", CALLS)
def test_a_copy_that_arrives_late_is_refused(proxy, seats, call):
    make, count, _ = CALLS[call]
    late = proxy.hold_request("EVALSHA", then="reset")
    make(seats)
    assert seats.count == count
    assert late.release()
    assert seats.count == count
    again = proxy.hold_request("EVALSHA", then="reset")
    seats.semaphore.add_permits(100)
    assert seats.count == count + 100
    assert again.release()
    assert seats.count == count + 100


def test_a_refusal_that_arrives_late_acquires_nothing(proxy, seats):
    """There were none when it was answered; there are when its first copy arrives."""
    seats.semaphore.drain_permits()
    late = proxy.hold_request("EVALSHA", then="reset")
    assert seats.semaphore.try_acquire() is False
    seats.world.redis.command("SET", "seats", 5)
    assert late.release()
    assert seats.count == 5


TAKING = [name for name in CALLS if "acquire" in name and name != "try_acquire"] + ["drain_permits"]


@hasty
@pytest.mark.parametrize("call", TAKING)
def test_an_acquire_with_unknown_outcome_is_undone(proxy, seats, call):
    make, count, _ = CALLS[call]
    scripts = []

    def acquires(args):
        scripts.extend(args[1:2] if args[0] == b"EVALSHA" else [])
        return args[1:2] == scripts[:1]

    proxy.drop_reply(acquires, k=None)
    proxy.hold_request(lambda args: args[0] == b"EVALSHA" and not acquires(args), k=None)
    with pytest.raises(OutcomeUnknownError, match="released in the background") as unknown:
        make(seats)
    assert unknown.value.name == "seats"
    assert "'seats'" in str(unknown.value)
    assert isinstance(unknown.value.__cause__, redis.exceptions.RedisError)
    assert seats.count == count
    proxy.clear()
    seats.world.until(lambda: seats.count == 5)
    assert seats.permits.acquired_permits() == 0
    make(seats)
    assert seats.count == count


#: What to do about an outcome that stays unknown.
IN_DOUBT = {
    "semaphore": (lambda each: each.acquire(), r"anything it acquired is .* the available permits with those in use$"),
    "permit_expirable_semaphore": (lambda each: each.acquire(), "compare the available permits with those in use$"),
    "bounded_semaphore": (lambda each: each.release(), "compare the available permits with those in use$"),
    "count_down_latch": (lambda each: each.count_down(), "do not call it again.*, check its value$"),
    "event": (lambda each: each.set(), "do not call it again.*, check its value$"),
    "condition": (lambda each: each.notify(), "do not call it again.*, notify again$"),
    "barrier": (lambda each: each.wait(5), r"its place among .* given up in the .*, look whether it is broken$"),
}


@pytest.mark.parametrize("kind", IN_DOUBT)
def test_an_error_says_what_to_do_if_the_outcome_stays_unknown(world, proxy, alice, kind):
    first, through = world.client(), world.through(proxy.port, timeout=1.2)
    more = {"barrier": (3,), "bounded_semaphore": (1,)}.get(kind, ())
    call, text = IN_DOUBT[kind]
    if "semaphore" in kind and not more:
        alice.get(first, kind, "seats").try_set_permits(2)
    made = alice.get(through, kind, "seats", *more)
    if kind == "bounded_semaphore":
        made.acquire()
    if kind == "condition":
        made.enter()
    proxy.hold_request("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError, match=f"of .* 'seats' was sent.*{text}"):
        call(made)
    proxy.clear()


FINISHED = ["release", "add_permits", "set_permits", "add permits", "resize", "delete", "count_down"]


@hasty
@pytest.mark.parametrize("call", FINISHED)
def test_a_release_with_unknown_outcome_is_completed(proxy, seats, call):
    make, count, _ = CALLS[call]
    nothing = proxy.hold_request("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError, match="do not call it again"):
        make(seats)
    assert seats.count == 5
    proxy.clear()
    seats.world.until(lambda: seats.count == count)
    nothing.release()
    assert seats.count == count


@hasty
def test_an_owner_settles_its_open_request_before_the_next_call(proxy, seats):
    proxy.drop_reply("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError):
        seats.semaphore.acquire(2)
    with pytest.raises(redis.exceptions.RedisError):  # Of this one nothing was sent.
        seats.permits.acquire()
    proxy.clear()
    assert seats.semaphore.acquire(5, timeout=0) is True


@pytest.mark.parametrize("fails", [False, True])
def test_a_release_at_the_end_of_a_block_is_made_up_for(world, proxy, seats, fails):
    """The server cannot be reached when the block ends. An error of its body goes first."""
    errors = (ZeroDivisionError,) if fails else (redis.exceptions.RedisError, OutcomeUnknownError)
    with pytest.raises(errors), seats.semaphore:
        assert seats.count == 4
        proxy.cut()
        assert 1 / (not fails)
    proxy.heal()
    world.until(lambda: seats.count == 5)


@interruptible
@patient
@pytest.mark.parametrize(
    ("kind", "method", "arguments", "count"),
    [
        ("semaphore", "acquire", {"permits": 2}, 5),
        ("semaphore", "drain_permits", {}, 5),
        ("semaphore", "release", {"permits": 2}, 7),
        ("permits", "acquire", {}, 5),
        ("permits", "acquire", {"permits": 3}, 5),
        ("latch", "count_down", {}, 4),
    ],
)
def test_an_interrupt_while_the_reply_is_under_way(world, proxy, seats, kind, method, arguments, count):
    me = world.interruptible()
    call = partial(getattr(getattr(seats, kind).real, method), **arguments)
    lost = proxy.drop_reply("EVALSHA", then="hang")
    error = me.interrupted(call, once=lambda: lost.hits == 1)
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    world.until(lambda: seats.count == count)
    world.pass_time(0.3)
    assert seats.count == count
