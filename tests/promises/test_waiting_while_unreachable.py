"""``Config.wait_while_unreachable``: a server that is away from the first moment on is waited for, as the lock is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import redis.exceptions

from pyredisson import LockError, events
from tests.promises.kinds import each_of, handle, wait
from tests.proxy import Proxy
from tests.worlds.base import Actor, Pending, Remote, World
from tests.worlds.environments import each_runtime
from tests.worlds.simulated import SimulatedWorld

pytestmark = each_runtime

#: The connection's error, of the runtimes that have one.
AWAY = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, ConnectionError, TimeoutError)


@dataclass
class Outage:
    """A server that is away, and the clients that have not been there yet. A silent one takes requests."""

    client: Callable[..., Remote]
    end: Callable[[], None]


@pytest.fixture
def outage(world: World) -> Iterator[Callable[..., Outage]]:
    """Begins one, once what is to be in the database is there."""
    if isinstance(world, SimulatedWorld):
        node = world.simulation.node

        def crash(silent: bool = False) -> Outage:
            begin, end = (node.pause, node.resume) if silent else (node.crash, node.restart)
            begin()
            return Outage(world.client, end)

        yield crash
        return
    with Proxy(world.port) as proxy:

        def cut_off(silent: bool = False) -> Outage:
            begin = proxy.blackhole if silent else proxy.cut
            begin()
            return Outage(lambda **config: world.client(world.redis_client(port=proxy.port), **config), proxy.heal)

        yield cut_off


def acquire(actor: Actor, client: Remote, kind: str, seconds: float) -> Pending:
    """Begin to acquire it, waiting at most so long."""
    return actor.start(wait(handle(actor, client, kind), seconds))


KINDS = ["lock", "fair_lock", "fenced_lock", "spin_lock", "token_lock", "read_lock", "write_lock", "multi_lock"]
KINDS += ["semaphore", "permit_expirable_semaphore", "count_down_latch"]
kind = each_of(*KINDS)


def test_a_waiter_acquires_once_the_server_is_reachable(world, outage, kind):
    if "semaphore" in kind:
        world.redis.command("SET", "orders", "1")
    away = outage()
    actor, client = world.actor(), away.client(wait_while_unreachable=True, timeout=2.0)
    taking = acquire(actor, client, kind, 60)
    world.pass_time(0.5)
    assert not taking.done()
    away.end()
    assert taking.result(20)


def test_when_the_wait_time_ends_the_connection_error_is_raised(world, outage, kind):
    away = outage()
    actor, client = world.actor(), away.client(wait_while_unreachable=True, timeout=1.0)
    began = world.now()
    taking = acquire(actor, client, kind, 0.7)
    with pytest.raises((*AWAY, LockError)):
        taking.result(20)
    assert world.now() - began >= (0.2 if kind == "multi_lock" else 0.6)  # That leaves out a pause beyond its end.
    assert world.now() - began < 0.7 + 1.0 + 3.0
    away.end()
    assert "waiting here" not in repr(actor.lock(client))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "count_down_latch"])
def test_listeners_hear_why_an_acquire_failed(world, outage, kind):
    happened = []
    away = outage()
    actor, client = world.actor(), away.client(timeout=0.5, quorum_retry_timeout=0.5, listeners=(happened.append,))
    with pytest.raises((*AWAY, LockError)) as error:
        acquire(actor, client, kind, 0.2).result(20)
    [failed] = [event for event in happened if isinstance(event, events.AcquireFailed)]
    assert failed.error is error.value
    assert (failed.kind, failed.reason) == (kind, "quorum" if kind == "multi_lock" else "connection")
    assert failed.waited > 0


@pytest.mark.parametrize(
    ("silent", "timeout", "wait_time"), [(True, 0.6, 0.2), (False, 20.0, 0)], ids=["late answer", "one attempt"]
)
def test_one_request_that_fails_raises_when_the_wait_is_over(world, outage, kind, silent, timeout, wait_time):
    away = outage(silent=silent)
    actor, client = world.actor(), away.client(wait_while_unreachable=True, timeout=timeout)
    with pytest.raises((*AWAY, LockError)):
        acquire(actor, client, kind, wait_time).result(9)
    away.end()


def test_a_lock_call_without_a_limit_waits_through_a_long_outage(world, outage):
    away = outage()
    mine = world.actor().lock(away.client(wait_while_unreachable=True, timeout=0.5))
    taking = mine._actor.start(mine.lock)
    world.pass_time(2.0)
    assert not taking.done()
    away.end()
    taking.result(20)
    assert mine.get_hold_count() == 1


def test_without_it_the_first_contact_raises(world, outage):
    away = outage()
    mine = world.actor().lock(away.client(timeout=20.0))
    with pytest.raises((*AWAY, LockError)):
        mine._actor.start(mine.try_lock, 60).result(9)
    away.end()
