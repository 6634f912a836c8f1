"""How long the nodes of a quorum have to answer, and what a caller learns if that is too short."""

import pytest

from pyredisson import LockError, QuorumUnreachableError
from tests.promises.kinds import raises_lost
from tests.promises.test_multi_lock import left, multi
from tests.worlds.environments import in_virtual_time

pytestmark = in_virtual_time


def test_the_error_for_nodes_that_are_too_far_away_says_what_to_set(world):
    world.simulation.latency = 0.03
    lock = multi(world.actor(), world.nodes(3, quorum_node_timeout=0.05))
    with pytest.raises(
        QuorumUnreachableError, match=r"too few .* has 0\.05 s to answer.* set Config\.quorum_node_timeout"
    ):
        lock.try_lock()
    world.until(lambda: left(world, *range(3)) == set())


def test_a_quorum_that_is_granted_when_the_lease_is_over_says_so(world):
    lock = multi(world.actor(), world.nodes(3, quorum_node_timeout=2.0))
    lock.lock()
    lock.unlock()
    world.simulation.nodes[2].pause()
    with pytest.raises(
        QuorumUnreachableError, match=r"2 granted it after its lease had expired .* at most a tenth"
    ) as caught:
        lock.try_lock(0, 0.5)
    assert "too few" not in str(caught.value)
    world.simulation.nodes[2].resume()
    world.until(lambda: left(world, *range(3)) == set())


@pytest.mark.parametrize("wait", [None, 30])
def test_a_lease_that_is_over_when_its_quorum_has_answered_is_an_error_after_the_third(world, wait):
    world.simulation.latency = 0.03
    lock = multi(world.actor(), world.nodes(3, quorum_node_timeout=2.0))
    began = world.now()
    message = r"3 times in a row a lease of 50 ms was no longer certain when its grant arrived, \S+, \S+, \S+ ms"
    with pytest.raises(LockError, match=message) as caught:
        lock.hold(wait, lease_time=0.05).enter()
    assert not isinstance(caught.value, QuorumUnreachableError)
    assert world.now() - began < 5
    world.until(lambda: left(world, *range(3)) == set())
    with lock.hold(wait, lease_time=60) as lease:
        lease.ensure_held()


def test_what_joins_a_lease_that_has_ended_meanwhile_is_a_hold_of_its_own(world):
    lock = multi(world.actor(), world.nodes(3, quorum_node_timeout=2.0))
    lock.lock(2)
    world.simulation.latency = 0.4  # At most twice that for one way: it is there in time, and its answer too late.
    world.pass_time(1.185)
    assert lock.try_lock(0, 60)
    assert lock.get_hold_count() == 1
    world.simulation.latency = 0.0
    lock.unlock()
    raises_lost(lock.unlock, match="its lease expired")
    world.until(lambda: left(world, *range(3)) == set())
