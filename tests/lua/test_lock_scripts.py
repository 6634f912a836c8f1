"""The scripts of the plain lock; ``lock_release`` and ``lock_renew`` are those of other kinds, too."""

from __future__ import annotations

from typing import Final

from tests.lua.compared_servers import Message
from tests.lua.harness import (
    CHANNEL,
    EPOCH,
    FREE,
    FREED,
    LOCK,
    LOST,
    ME,
    OOM,
    OTHER,
    RELEASED,
    TICKETS,
    WRONGTYPE,
    Around,
    Call,
    Case,
    ComparedServer,
    check,
    check_reply,
    check_state,
    each,
    epoch,
    lock,
    run,
    stale,
    text,
    tickets,
)
from tests.lua.wait_queue import WAIT_QUEUE
from tests.simulator.redis import Entry


def acquire(*, lease: int = 30_000, owner: bytes = ME, counts: int = 0, epoch: int = 0, repeat: bool = False) -> Call:
    return Call("lock_acquire", (LOCK, EPOCH), (owner, epoch, int(repeat), lease, counts))


def release(
    *,
    lease: int = 30_000,
    owner: bytes = ME,
    counts: int = 1,
    epoch: int = 0,
    repeat: bool = False,
    publish: str = "PUBLISH",
) -> Call:
    args = (owner, epoch, int(repeat), lease, counts, publish, "0")
    return Call("lock_release", (LOCK, EPOCH, CHANNEL, WAIT_QUEUE), args)


def force_unlock(*, epoch: int = 0, publish: str = "PUBLISH") -> Call:
    return Call("lock_force_unlock", (LOCK, EPOCH, CHANNEL), (ME, epoch, 0, publish, "0"))


def renew(*held: tuple[bytes, bytes], lease: int = 30_000) -> Call:
    return Call("lock_renew", tuple(key for key, _ in held), (lease, *(owner for _, owner in held)))


ACQUIRE: Final = [
    Case("a free lock is taken", FREE, acquire(), None, lock(me=1)),
    Case("the lease becomes the TTL", FREE, acquire(lease=90_000), None, lock(90_000, me=1)),
    Case("re-entry adds a hold", lock(me=1), acquire(counts=1), None, lock(me=2)),
    Case(
        "re-entry with a longer lease extends the TTL",
        lock(20_000, me=1),
        acquire(counts=1, lease=90_000),
        None,
        lock(90_000, me=2),
    ),
    Case(
        "re-entry with a shorter lease does not shorten the TTL",
        lock(90_000, me=1),
        acquire(counts=1, lease=20_000),
        None,
        lock(90_000, me=2),
    ),
    Case("re-entry gives a persisted lock a TTL again", lock(None, me=1), acquire(counts=1), None, lock(me=2)),
    Case("another owner is refused with the remaining time", lock(70_000, me=1), acquire(owner=OTHER), Around(70_000)),
    Case("another owner is refused with -1 if the lock has no TTL", lock(None, me=1), acquire(owner=OTHER), -1),
    Case(
        "a refused request with a longer lease changes nothing",
        lock(20_000, me=3),
        acquire(owner=OTHER, lease=90_000),
        Around(20_000),
    ),
    # The client counts other holds than are stored.
    Case("LOST if the client counts a hold and the lock is free", FREE, acquire(counts=1), LOST),
    Case("LOST if the client counts a hold and another owner has the lock", lock(other=1), acquire(counts=1), LOST),
    Case("LOST if the client counts more holds than are stored", lock(me=1), acquire(counts=2), LOST),
    Case("LOST if the client counts fewer holds than are stored", lock(me=2), acquire(counts=1), LOST),
    Case(
        "the count starts at 1 if the client counts none and a hold is left over",
        lock(me=1),
        acquire(),
        None,
        lock(me=1),
    ),
    Case(
        "the count starts at 1 if the client counts none and three holds are left over",
        lock(20_000, me=3),
        acquire(),
        None,
        lock(me=1),
    ),
    Case("the TTL of left-over holds is not shortened", lock(90_000, me=3), acquire(), None, lock(90_000, me=1)),
    Case("the count starts at 1 if what is left over is no number", lock(me="x"), acquire(), None, lock(me=1)),
    Case("LOST if the client counts a hold and the stored count is no number", lock(me="x"), acquire(counts=1), LOST),
    # The same request again.
    Case("a repeat is granted if the first copy acquired the lock", lock(me=1), acquire(repeat=True), None, lock(me=1)),
    Case(
        "a repeat is granted if the first copy re-entered", lock(me=2), acquire(counts=1, repeat=True), None, lock(me=2)
    ),
    Case(
        "a repeat renews the TTL if the first copy re-entered a while ago",
        lock(10_000, me=2),
        acquire(counts=1, repeat=True),
        None,
        lock(me=2),
    ),
    Case("a repeat acquires the lock if the first copy never arrived", FREE, acquire(repeat=True), None, lock(me=1)),
    Case(
        "a repeat re-enters if the first copy never arrived",
        lock(me=1),
        acquire(counts=1, repeat=True),
        None,
        lock(me=2),
    ),
    Case(
        "LOST to a repeat if two more holds are stored than counted", lock(me=3), acquire(counts=1, repeat=True), LOST
    ),
    Case("LOST to a repeat if another owner has the lock by now", lock(other=1), acquire(counts=1, repeat=True), LOST),
    Case("LOST to a repeat if the lock is gone by now", FREE, acquire(counts=2, repeat=True), LOST),
    # Epochs.
    Case("epoch 0 is not stored", FREE, acquire(epoch=0), None, lock(me=1)),
    Case("the epoch of the request is stored", FREE, acquire(epoch=1), None, lock(me=1) | epoch(1)),
    Case(
        "the epoch is stored for as long as a long lease",
        FREE,
        acquire(epoch=1, lease=90_000),
        None,
        lock(90_000, me=1) | epoch(1, 90_000),
    ),
    Case("a newer epoch replaces the stored one", epoch(1, 20_000), acquire(epoch=2), None, lock(me=1) | epoch(2)),
    Case("an equal epoch is not stored again", epoch(2, 20_000), acquire(epoch=2), None, lock(me=1) | epoch(2, 20_000)),
    Case("epochs are compared as numbers", epoch(9), acquire(epoch=10), None, lock(me=1) | epoch(10)),
    Case("an overtaken request for a free lock is stale", epoch(2), acquire(epoch=1), stale(2)),
    Case("a request with epoch 0 is stale if an epoch is stored", epoch(2), acquire(epoch=0), stale(2)),
    Case("an overtaken re-entry is stale", epoch(10) | lock(me=1), acquire(counts=1, epoch=9), stale(10)),
    Case("an overtaken repeat is stale", epoch(2) | lock(me=1), acquire(epoch=1, repeat=True), stale(2)),
    Case(
        "the epoch is stored though another owner has the lock",
        lock(other=1),
        acquire(epoch=1),
        Around(30_000),
        lock(other=1) | epoch(1),
    ),
    Case("the epoch is stored though the hold is lost", FREE, acquire(counts=1, epoch=1), LOST, epoch(1)),
    # What should not be there.
    Case("an error if the key of the lock is a string", text(LOCK), acquire(), WRONGTYPE),
    Case("an error if the key of the lock is a list", {LOCK: Entry("list", [ME], None)}, acquire(), WRONGTYPE),
    Case(
        "an error if the key of the lock is a sorted set",
        {LOCK: Entry("zset", {ME: 1.0}, None)},
        acquire(counts=1),
        WRONGTYPE,
    ),
    Case(
        "an error if the key of the epoch is a hash", {EPOCH: Entry("hash", {b"f": b"v"}, None)}, acquire(), WRONGTYPE
    ),
    # No memory left.
    Case("out of memory: nothing is acquired", FREE, acquire(), OOM, out_of_memory=True),
    Case(
        "out of memory: nothing is acquired by a request with an epoch", FREE, acquire(epoch=1), OOM, out_of_memory=True
    ),
    Case("out of memory: no hold is added", lock(20_000, me=1), acquire(counts=1), OOM, out_of_memory=True),
    Case(
        "out of memory: another owner is refused with the remaining time",
        lock(me=1),
        acquire(owner=OTHER),
        Around(30_000),
        out_of_memory=True,
    ),
    Case(
        "out of memory: a repeat that would reset the count is refused",
        lock(10_000, me=1),
        acquire(counts=0, repeat=True),
        OOM,
        out_of_memory=True,
    ),
    Case(
        "out of memory: a repeat is granted if the first copy re-entered",
        lock(10_000, me=2),
        acquire(counts=1, repeat=True),
        None,
        lock(me=2),
        out_of_memory=True,
    ),
    Case(
        "out of memory: LOST if the client counts a hold and the lock is free",
        FREE,
        acquire(counts=1),
        LOST,
        out_of_memory=True,
    ),
]


RELEASE: Final = [
    Case(
        "releasing the last hold frees the lock and notifies the waiters", lock(me=1), release(), RELEASED, FREE, FREED
    ),
    Case("releasing the last hold frees a persisted lock", lock(None, me=1), release(), RELEASED, FREE, FREED),
    Case("releasing one of two holds leaves the other", lock(me=2), release(counts=2), 0, lock(me=1)),
    Case(
        "releasing one of three holds does not shorten the TTL",
        lock(90_000, me=3),
        release(counts=3, lease=20_000),
        0,
        lock(90_000, me=2),
    ),
    Case(
        "releasing one of two holds extends the TTL to the lease",
        lock(20_000, me=2),
        release(counts=2, lease=90_000),
        0,
        lock(90_000, me=1),
    ),
    Case(
        "releasing one of two holds gives a persisted lock a TTL again",
        lock(None, me=2),
        release(counts=2),
        0,
        lock(me=1),
    ),
    Case("nil to an owner who does not hold the lock", lock(me=1), release(owner=OTHER), None),
    Case(
        "nil to an owner who does not hold the lock and counts two holds",
        lock(me=2),
        release(owner=OTHER, counts=2),
        None,
    ),
    Case("nil if the lock is free", FREE, release(), None),
    # The client counts other holds than are stored.
    Case("nil if the client counts more holds than are stored", lock(me=1), release(counts=2), None),
    Case("nil if the client counts fewer holds than are stored", lock(me=2), release(counts=1), None),
    Case("nil if the stored count is no number", lock(me="x"), release(counts=1), None),
    Case(
        "a release of lost holds removes the one that is stored", lock(me=1), release(counts=0), RELEASED, FREE, FREED
    ),
    Case(
        "a release of lost holds removes all three that are stored",
        lock(me=3),
        release(counts=0),
        RELEASED,
        FREE,
        FREED,
    ),
    Case(
        "a release of lost holds removes a count that is no number",
        lock(me="x"),
        release(counts=0),
        RELEASED,
        FREE,
        FREED,
    ),
    Case("nil to a release of lost holds if nothing is stored", FREE, release(counts=0), None),
    Case("nil to a release of lost holds if another owner has the lock", lock(other=2), release(counts=0), None),
    # The same request again.
    Case("nil to a repeat if the first copy freed the lock", FREE, release(repeat=True), None),
    Case(
        "nil to a repeat if the first copy freed the lock and another owner has it",
        lock(other=1),
        release(repeat=True),
        None,
    ),
    Case(
        "a repeat changes no count if the first copy released one of two holds",
        lock(me=1),
        release(counts=2, repeat=True),
        0,
        lock(me=1),
    ),
    Case(
        "a repeat renews the TTL if the first copy released one of two a while ago",
        lock(10_000, me=1),
        release(counts=2, repeat=True),
        0,
        lock(me=1),
    ),
    Case(
        "a repeat frees the lock if the first copy never arrived",
        lock(me=1),
        release(repeat=True),
        RELEASED,
        FREE,
        FREED,
    ),
    Case(
        "a repeat releases one of two holds if the first copy never arrived",
        lock(me=2),
        release(counts=2, repeat=True),
        0,
        lock(me=1),
    ),
    Case(
        "nil to a repeat if two fewer holds are stored than counted", lock(me=1), release(counts=3, repeat=True), None
    ),
    Case("nil to a repeat if more holds are stored than counted", lock(me=3), release(counts=2, repeat=True), None),
    # Epochs.
    Case("the epoch of the request is stored", lock(me=1), release(epoch=1), RELEASED, epoch(1), FREED),
    Case(
        "the epoch is stored for as long as a long lease",
        lock(me=1),
        release(epoch=1, lease=90_000),
        RELEASED,
        epoch(1, 90_000),
        FREED,
    ),
    Case(
        "the epoch is stored with the release of one of two holds",
        lock(me=2),
        release(counts=2, epoch=1),
        0,
        lock(me=1) | epoch(1),
    ),
    Case("the epoch is stored though the owner holds nothing", FREE, release(epoch=1, repeat=True), None, epoch(1)),
    Case(
        "the epoch is stored though another owner has the lock",
        lock(other=1),
        release(epoch=1, repeat=True),
        None,
        lock(other=1) | epoch(1),
    ),
    Case(
        "a newer epoch replaces the stored one",
        epoch(1, 20_000) | lock(me=1),
        release(epoch=2),
        RELEASED,
        epoch(2),
        FREED,
    ),
    Case(
        "an equal epoch is not stored again",
        epoch(2, 20_000) | lock(me=1),
        release(epoch=2),
        RELEASED,
        epoch(2, 20_000),
        FREED,
    ),
    Case("an overtaken request is stale", epoch(2) | lock(me=1), release(epoch=1), stale(2)),
    Case("a request with epoch 0 is stale if an epoch is stored", epoch(2) | lock(me=1), release(), stale(2)),
    Case(
        "an overtaken release of one of two holds is stale",
        epoch(10) | lock(me=2),
        release(counts=2, epoch=9),
        stale(10),
    ),
    Case("an overtaken repeat is stale", epoch(2) | lock(me=1), release(epoch=1, repeat=True), stale(2)),
    Case("an overtaken release of lost holds is stale", epoch(2) | lock(me=1), release(counts=0, epoch=1), stale(2)),
    # What should not be there.
    Case("an error if the key of the lock is a string", text(LOCK), release(), WRONGTYPE),
    Case(
        "an error if the key of the epoch is a hash", {EPOCH: Entry("hash", {b"f": b"v"}, None)}, release(), WRONGTYPE
    ),
    # No memory left.
    Case("out of memory: the lock is freed", lock(me=1), release(), RELEASED, FREE, FREED, out_of_memory=True),
    Case(
        "out of memory: the lock is freed and the epoch stored",
        lock(me=1),
        release(epoch=1),
        RELEASED,
        epoch(1),
        FREED,
        out_of_memory=True,
    ),
    Case(
        "out of memory: one of two holds is released",
        lock(20_000, me=2),
        release(counts=2),
        0,
        lock(me=1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: one of two holds is released and the epoch stored",
        lock(me=2),
        release(counts=2, epoch=1),
        0,
        lock(me=1) | epoch(1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: a repeat renews the TTL of the remaining hold",
        lock(me=1),
        release(counts=2, repeat=True),
        0,
        lock(me=1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: nil to an owner who does not hold the lock",
        lock(me=1),
        release(owner=OTHER),
        None,
        out_of_memory=True,
    ),
    Case(
        "out of memory: nil to a repeat if the first copy freed the lock",
        FREE,
        release(epoch=1, repeat=True),
        None,
        epoch(1),
        out_of_memory=True,
    ),
    Case(
        "the message is sent by SPUBLISH in a cluster",
        lock(me=1),
        release(publish="SPUBLISH"),
        RELEASED,
        FREE,
        [Message(CHANNEL, b"0", sharded=True)],
    ),
]


FORCE_UNLOCK: Final = [
    Case("nil if the lock is free", FREE, force_unlock(), None),
    Case("the lock is freed, whichever owner holds it", lock(other=2), force_unlock(), [OTHER], FREE, FREED),
    Case(
        "all owners are removed from a lock with two",
        lock(None, me=1, other=1),
        force_unlock(),
        [ME, OTHER],
        FREE,
        FREED,
    ),
    Case("the epoch of the request is stored", lock(me=1), force_unlock(epoch=1), [ME], epoch(1), FREED),
    Case("the epoch is stored though the lock is free", FREE, force_unlock(epoch=1), None, epoch(1)),
    Case(
        "an equal epoch is not stored again",
        epoch(2, 20_000) | lock(me=1),
        force_unlock(epoch=2),
        [ME],
        epoch(2, 20_000),
        FREED,
    ),
    Case("an overtaken request is stale", epoch(2) | lock(me=1), force_unlock(epoch=1), stale(2)),
    Case("an error if the key of the lock is a string", text(LOCK), force_unlock(), WRONGTYPE),
    Case(
        "an error if the key of the lock is a string and the request has an epoch",
        text(LOCK),
        force_unlock(epoch=1),
        WRONGTYPE,
    ),
    Case("out of memory: the lock is freed", lock(me=1), force_unlock(), [ME], FREE, FREED, out_of_memory=True),
    Case(
        "out of memory: the lock is freed and the epoch stored",
        lock(me=1),
        force_unlock(epoch=1),
        [ME],
        epoch(1),
        FREED,
        out_of_memory=True,
    ),
    Case(
        "out of memory: the epoch is stored though the lock is free",
        FREE,
        force_unlock(epoch=1),
        None,
        epoch(1),
        out_of_memory=True,
    ),
    Case(
        "the message is sent by SPUBLISH in a cluster",
        lock(me=1),
        force_unlock(publish="SPUBLISH"),
        [ME],
        FREE,
        [Message(CHANNEL, b"0", sharded=True)],
    ),
]


RENEW: Final = [
    Case("the TTL is extended to the lease", lock(10_000, me=1), renew((LOCK, ME)), [1], lock(me=1)),
    Case("a longer TTL is not shortened", lock(90_000, me=1), renew((LOCK, ME)), [1]),
    Case("a persisted lock gets a TTL again", lock(None, me=1), renew((LOCK, ME)), [1], lock(me=1)),
    Case("the number of holds stays", lock(10_000, me=3), renew((LOCK, ME)), [1], lock(me=3)),
    Case("0 for a lock that is gone", FREE, renew((LOCK, ME)), [0]),
    Case("0 for a lock of another owner", lock(10_000, other=1), renew((LOCK, ME)), [0]),
    Case("an empty reply if there is nothing to renew", FREE, renew(), []),
    Case(
        "many are renewed, each on its own",
        lock(10_000, me=1) | tickets(10_000, other=1),
        renew((LOCK, ME), (TICKETS, ME), (b"gone", ME), (TICKETS, OTHER)),
        [1, 0, 0, 1],
        lock(me=1) | tickets(30_000, other=1),
    ),
    Case(
        "a key of another type does not affect the others",
        text(TICKETS) | lock(10_000, me=1),
        renew((TICKETS, ME), (LOCK, ME)),
        [0, 1],
        text(TICKETS) | lock(me=1),
    ),
    Case(
        "out of memory: the TTL is extended", lock(10_000, me=1), renew((LOCK, ME)), [1], lock(me=1), out_of_memory=True
    ),
]


CASES: Final = [*ACQUIRE, *RELEASE, *FORCE_UNLOCK, *RENEW]


@each(CASES)
def test_case(server: ComparedServer, case: Case) -> None:
    check(server, case)


def test_the_example_states(server: ComparedServer) -> None:
    """Appendix A of the protocol: a lock taken twice, and given back."""
    assert run(server, acquire()) is None
    assert run(server, acquire(counts=1)) is None
    check_state(server, lock(30_000, me=2))
    assert run(server, release(counts=2)) == 0
    check_state(server, lock(30_000, me=1))
    assert run(server, release(counts=1)) == RELEASED
    check_state(server, FREE)
    assert server.messages() == list(FREED)


def test_an_expired_lock_is_free(server: ComparedServer) -> None:
    assert run(server, acquire(owner=OTHER)) is None
    check_reply(server, run(server, acquire()), Around(30_000))
    server.expire(LOCK)
    assert run(server, release(owner=OTHER)) is None
    assert run(server, renew((LOCK, OTHER))) == [0]
    assert run(server, acquire(owner=OTHER, counts=1)) == LOST
    assert run(server, acquire()) is None
    check_state(server, lock(me=1))
    assert server.messages() == []


def test_an_expired_epoch_is_forgotten(server: ComparedServer) -> None:
    assert run(server, acquire(epoch=5)) is None
    assert run(server, release(epoch=4)) == stale(5)
    server.expire(EPOCH)
    assert run(server, release(epoch=4)) == RELEASED
    check_state(server, epoch(4))
