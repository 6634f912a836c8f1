"""Random things to do to a server: the shipped scripts with random arguments, and plain commands, right and wrong ones.

Each script in ``pyredisson/lua`` has a generator here, entered under its file's name. It gets the random numbers and a
model to look into, so that it can often do what makes sense at that point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final, NamedTuple, TypeAlias

from pyredisson.lua import script_names, script_text
from tests.simulator.redis import ServerError, SimulatedRedis

SCRIPTS: Final[dict[str, str]] = {name: script_text(name) for name in script_names()}


class Step(NamedTuple):
    """One thing to do.

    Attributes:
        command: What both servers run; in a step that sets ``out_of_memory``, only the real one.
        about: For the failure report.
        out_of_memory: What both are from now on, or ``None`` to leave it.
    """

    command: tuple[bytes, ...]
    about: str
    out_of_memory: bool | None = None


Call: TypeAlias = tuple[Sequence[bytes], Sequence[bytes]]
"""The KEYS and ARGV of a script."""

ScriptGenerator: TypeAlias = Callable[[Random, SimulatedRedis], Call]

GENERATORS: Final[dict[str, ScriptGenerator]] = {}


def generates(script: str) -> Callable[[ScriptGenerator], ScriptGenerator]:
    """Enter a generator for the script in ``pyredisson/lua/<script>.lua``."""

    def enter(generator: ScriptGenerator) -> ScriptGenerator:
        GENERATORS[script] = generator
        return generator

    return enter


def encoded(*args: bytes | str | int) -> tuple[bytes, ...]:
    return tuple(arg if isinstance(arg, bytes) else str(arg).encode() for arg in args)


def script_step(name: str, keys: Sequence[bytes], args: Sequence[bytes]) -> Step:
    return Step(encoded("EVAL", SCRIPTS[name], len(keys), *keys, *args), f"{name} {list(keys)} {list(args)}")


def command_step(*args: bytes | str | int) -> Step:
    return Step(encoded(*args), repr(encoded(*args)))


def memory_step(out: bool) -> Step:
    return Step(encoded("CONFIG", "SET", "maxmemory", int(out)), f"out of memory: {out}", out_of_memory=out)


# -- The scripts

LOCKS: Final = (b"orders", b"{shop}orders")
OWNERS: Final = (b"C:7", b"C:9", b"8743c9c0-0795-4907-87fd-6c719a6b4586:9223372036854775807")
# None ends while a history runs, and none is so near another that a late millisecond decides which is longer.
LEASES: Final = (b"20000", b"30000", b"90000", b"600000")


def channel_of(lock: bytes) -> bytes:
    return b"redisson_lock__channel:" + (lock if b"{" in lock else b"{" + lock + b"}")


def epoch_of(lock: bytes, owner: bytes) -> bytes:
    return b"pyredisson_epoch:" + (lock if b"{" in lock else b"{" + lock + b"}") + b":" + owner


SHARDED_CHANNELS: tuple[bytes, ...] = (
    *map(channel_of, LOCKS),
    *(b"pyredisson_waiting:" + braced for braced in (b"{orders}", b"{shop}orders")),
    *(b"pyredisson_waiting:{orders}:" + client for client in (b"C", b"D")),  # The others are gone.
    *(channel_of(lock) + b":" + owner for lock in LOCKS for owner in (*OWNERS, b"gone")),
    b"redisson_rwlock:{prices}",
    b"redisson_rwlock:{shop}prices",
    *(b"pyredisson_waiting:" + braced for braced in (b"{prices}", b"{shop}prices")),
    *(b"pyredisson_waiting:{prices}:" + side for side in (b"C.read", b"D.read", b"C.write", b"D.write")),
    b"channel",
    b"{a}b",
)
"""Where messages go; a subscriber has to name those of SPUBLISH."""


def _peek(model: SimulatedRedis, *command: bytes) -> bytes:
    """A string that is stored, or ``0``."""
    try:
        value = model.command(*command)
    except ServerError:
        return b"0"
    return value if isinstance(value, bytes) else b"0"


def _counted(random: Random, model: SimulatedRedis, lock: bytes, owner: bytes) -> bytes:
    """How many holds the client says it has: mostly the truth, or off by one as after a lost reply."""
    held = _peek(model, b"HGET", lock, owner)
    if random.random() < 0.7 or not held.isdigit():
        return held
    return b"%d" % max(0, int(held) + random.choice((-1, 1, 2)))


def _epoch(random: Random, model: SimulatedRedis, lock: bytes, owner: bytes) -> bytes:
    """The epoch of a request: mostly none was ever raised."""
    stored = _peek(model, b"GET", epoch_of(lock, owner))
    if random.random() < 0.7 or not stored.isdigit():
        return stored
    return b"%d" % max(0, int(stored) + random.choice((-1, 1, 1, 9)))


def _repeat(random: Random) -> bytes:
    return random.choice((b"0", b"0", b"1"))


def _publish(random: Random) -> bytes:
    return random.choice((b"PUBLISH", b"PUBLISH", b"PUBLISH", b"SPUBLISH"))


def _announce(random: Random) -> bytes:
    """As :func:`_publish`, or without a message."""
    return random.choice((_publish(random), _publish(random), b""))


@generates("lock_acquire")
def _lock_acquire(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(LOCKS), random.choice(OWNERS)
    counted, epoch = _counted(random, model, lock, owner), _epoch(random, model, lock, owner)
    return [lock, epoch_of(lock, owner)], [owner, epoch, _repeat(random), random.choice(LEASES), counted]


def token_of(lock: bytes) -> bytes:
    return b"redisson_lock_token:" + (lock if b"{" in lock else b"{" + lock + b"}")


@generates("fenced_acquire")
def _fenced_acquire(random: Random, model: SimulatedRedis) -> Call:
    (lock, epoch), args = _lock_acquire(random, model)
    joins = random.choice((b"", b"", b"7"))
    return [lock, epoch, token_of(lock)], [*args, joins, b"0"]  # Two servers' clocks are never the same.


# Clients that wait, and for how long; each for another time, so that a late millisecond never decides who is first.
WAITERS: Final = {b"C:3": b"5000", b"C:4": b"15000", b"D:3": b"25000", b"E:1": b"35000", b"F:1": b"45000"}


def waiting_of(lock: bytes) -> bytes:
    return b"pyredisson_waiting:" + (lock if b"{" in lock else b"{" + lock + b"}")


def _wait_queue(random: Random, lock: bytes) -> Sequence[bytes]:
    """The wait queue, for a script that can do without it: some users may not use it."""
    return random.choice(([waiting_of(lock)], [waiting_of(lock)], [waiting_of(lock)], []))


def _waits(random: Random) -> list[bytes]:
    """The arguments of an attempt that concern the queue."""
    me, waited = random.choice(list(WAITERS.items()))
    rest = random.choice((b"-1", b"-1", waited))
    return [me, waited, rest, random.choice((b"0", b"1")), random.choice((b"30000", b"60000")), _publish(random)]


@generates("lock_acquire_waiting")
def _lock_acquire_waiting(random: Random, model: SimulatedRedis) -> Call:
    keys, args = _lock_acquire(random, model)
    return [*keys, waiting_of(keys[0])], [*args, *_waits(random)]


@generates("fenced_acquire_waiting")
def _fenced_acquire_waiting(random: Random, model: SimulatedRedis) -> Call:
    keys, args = _fenced_acquire(random, model)
    return [*keys, waiting_of(keys[0])], [*args, *_waits(random)]


@generates("lock_stop_waiting")
def _lock_stop_waiting(random: Random, model: SimulatedRedis) -> Call:
    lock = random.choice(LOCKS)
    return [lock, waiting_of(lock)], [random.choice(list(WAITERS)), _publish(random)]


@generates("lock_release")
def _lock_release(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(LOCKS), random.choice(OWNERS)
    counted, epoch = _counted(random, model, lock, owner), _epoch(random, model, lock, owner)
    return (
        [lock, epoch_of(lock, owner), channel_of(lock), *_wait_queue(random, lock)],
        [owner, epoch, _repeat(random), random.choice(LEASES), counted, _announce(random), b"0"],
    )


@generates("lock_force_unlock")
def _lock_force_unlock(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(LOCKS), random.choice(OWNERS)
    epoch = _epoch(random, model, lock, owner)
    args = [owner, epoch, _repeat(random), _announce(random), b"0"]
    return [lock, epoch_of(lock, owner), channel_of(lock), *_wait_queue(random, lock)], args


@generates("lock_renew")
def _lock_renew(random: Random, model: SimulatedRedis) -> Call:
    held = [(random.choice((*LOCKS, b"gone")), random.choice(OWNERS)) for _ in range(random.randrange(5))]
    return [lock for lock, _ in held], [random.choice(LEASES), *(owner for _, owner in held)]


# Sums and differences of these and of leases are never between a millisecond and some seconds.
WAITS: Final = (b"25000", b"45000", b"310000")


def queue_of(lock: bytes) -> bytes:
    return b"redisson_lock_queue:" + (lock if b"{" in lock else b"{" + lock + b"}")


def timeouts_of(lock: bytes) -> bytes:
    return b"redisson_lock_timeout:" + (lock if b"{" in lock else b"{" + lock + b"}")


def alive_of(lock: bytes) -> bytes:
    return b"pyredisson_lock_alive:" + (lock if b"{" in lock else b"{" + lock + b"}")


@generates("fair_acquire")
def _fair_acquire(random: Random, model: SimulatedRedis) -> Call:
    (lock, epoch), (owner, number, repeat, lease, counted) = _lock_acquire(random, model)
    if random.random() < 0.5:
        counted = b"0"
    wait, least, queues = random.choice(WAITS), random.choice(WAITS), random.choice((b"0", b"1", b"1"))
    return (
        [lock, epoch, queue_of(lock), timeouts_of(lock), alive_of(lock)],
        [owner, number, repeat, lease, counted, wait, least, queues, random.choice(WAITS)],
    )


@generates("fair_release")
def _fair_release(random: Random, model: SimulatedRedis) -> Call:
    (lock, epoch, channel, *_), args = _lock_release(random, model)
    queued = random.choice((b"0", b"0", *WAITS))
    return (
        [lock, epoch, queue_of(lock), timeouts_of(lock), alive_of(lock), channel],
        [*args, queued],
    )


@generates("fair_force_unlock")
def _fair_force_unlock(random: Random, model: SimulatedRedis) -> Call:
    (lock, epoch, channel, *_), args = _lock_force_unlock(random, model)
    return [lock, epoch, queue_of(lock), timeouts_of(lock), alive_of(lock), channel], args


@generates("fair_look")
def _fair_look(random: Random, model: SimulatedRedis) -> Call:
    lock = random.choice(LOCKS)
    owners = random.sample(OWNERS, random.randrange(len(OWNERS) + 1))
    waits = [word for owner in owners for word in (owner, random.choice(WAITS), random.choice(WAITS))]
    return [lock, queue_of(lock), timeouts_of(lock), alive_of(lock)], [random.choice(WAITS), *waits]


def _meddle_with_queue(random: Random, model: SimulatedRedis) -> Step:
    """What others do to the queue of a fair lock: half of it is lost, somebody is gone, another type."""
    lock, owner = random.choice(LOCKS), random.choice((*OWNERS, b"gone"))
    queue, timeouts, alive = queue_of(lock), timeouts_of(lock), alive_of(lock)
    return command_step(
        *random.choice(
            (
                ("DEL", queue),
                ("DEL", timeouts),
                ("RPUSH", queue, owner),
                ("LPUSH", queue, owner),
                ("ZADD", timeouts, random.choice(("1", "1785000330000", "922337203685477")), owner),
                ("ZREM", timeouts, owner),
                ("SET", random.choice((queue, timeouts)), "1"),
                ("HSET", random.choice((queue, timeouts)), owner, "1"),
                ("DEL", alive),
                ("HSET", alive, owner, random.choice(("1", "922337203685477"))),
                ("SET", alive, "1"),
            )
        )
    )


# ---- read-write locks ------------------------------------------------------------------------------------------------

READ_WRITE_LOCKS: Final = (b"prices", b"{shop}prices")


def rw_channel_of(lock: bytes) -> bytes:
    return b"redisson_rwlock:" + (lock if b"{" in lock else b"{" + lock + b"}")


def read_hold_of(lock: bytes, owner: bytes, number: int) -> bytes:
    return b"%b:%b:rwlock_timeout:%d" % (lock if b"{" in lock else b"{" + lock + b"}", owner, number)


@generates("read_lock_acquire")
def _read_lock_acquire(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(READ_WRITE_LOCKS), random.choice(OWNERS)
    counted, epoch = _counted(random, model, lock, owner), _epoch(random, model, lock, owner)
    hold = read_hold_of(lock, owner, _number(counted) + 1)
    return [lock, epoch_of(lock, owner), hold], [owner, epoch, _repeat(random), random.choice(LEASES), counted]


@generates("read_lock_release")
def _read_lock_release(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(READ_WRITE_LOCKS), random.choice(OWNERS)
    counted, epoch = _counted(random, model, lock, owner), _epoch(random, model, lock, owner)
    hold = read_hold_of(lock, owner, max(_number(counted), 1))
    return (
        [lock, epoch_of(lock, owner), rw_channel_of(lock), hold, *_wait_queue(random, lock)],
        [owner, epoch, _repeat(random), random.choice(LEASES), counted, _publish(random), b"0"],
    )


@generates("read_lock_renew")
def _read_lock_renew(random: Random, model: SimulatedRedis) -> Call:
    held = [(random.choice((*READ_WRITE_LOCKS, b"gone")), random.choice(OWNERS)) for _ in range(random.randrange(5))]
    keys = [key for lock, owner in held for key in (lock, read_hold_of(lock, owner, 1))]
    return keys, [random.choice(LEASES), *(owner for _, owner in held)]


@generates("write_lock_acquire")
def _write_lock_acquire(random: Random, model: SimulatedRedis) -> Call:
    lock, reader = random.choice(READ_WRITE_LOCKS), random.choice(OWNERS)
    owner = reader + b":write"
    counted, epoch = _counted(random, model, lock, owner), _epoch(random, model, lock, owner)
    lease = random.choice(LEASES)
    leases = b"%d" % ((_number(counted) + 1) * int(lease))
    return (
        [lock, epoch_of(lock, owner), read_hold_of(lock, reader, 1)],
        [owner, epoch, _repeat(random), lease, counted, reader, leases],
    )


@generates("write_lock_release")
def _write_lock_release(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(READ_WRITE_LOCKS), random.choice(OWNERS) + b":write"
    counted, epoch = _counted(random, model, lock, owner), _epoch(random, model, lock, owner)
    return (
        [lock, epoch_of(lock, owner), rw_channel_of(lock), *_wait_queue(random, lock)],
        [owner, epoch, _repeat(random), random.choice(LEASES), counted, _publish(random), b"1"],
    )


# Each of them waits for another time, on either side, so that a late millisecond never decides who is first.
SIDES: Final = {
    b"C.read:3": b"5000",
    b"D.read:4": b"15000",
    b"E.read:3": b"25000",
    b"C.write:5": b"10000",
    b"D.write:6": b"20000",
    b"E.write:5": b"30000",
}


def _waits_for(side: bytes, random: Random) -> list[bytes]:
    """The arguments of an attempt that concern the queue for a side."""
    me = random.choice([member for member in SIDES if side in member])
    behind = 10**14 if side == b".write:" else 0
    waited = b"%d" % (int(SIDES[me]) - behind)
    rest = random.choice((b"-1", b"-1", waited))
    return [me, waited, rest, random.choice((b"0", b"1")), random.choice((b"30000", b"60000")), _publish(random)]


@generates("read_lock_acquire_waiting")
def _read_lock_acquire_waiting(random: Random, model: SimulatedRedis) -> Call:
    keys, args = _read_lock_acquire(random, model)
    return [*keys, waiting_of(keys[0])], [*args, *_waits_for(b".read:", random)]


@generates("write_lock_acquire_waiting")
def _write_lock_acquire_waiting(random: Random, model: SimulatedRedis) -> Call:
    keys, args = _write_lock_acquire(random, model)
    return [*keys, waiting_of(keys[0])], [*args, *_waits_for(b".write:", random)]


@generates("read_write_lock_stop_waiting")
def _read_write_lock_stop_waiting(random: Random, model: SimulatedRedis) -> Call:
    lock = random.choice(READ_WRITE_LOCKS)
    return [lock, waiting_of(lock)], [random.choice(list(SIDES)), _publish(random)]


@generates("read_write_lock_force_unlock")
def _read_write_lock_force_unlock(random: Random, model: SimulatedRedis) -> Call:
    lock, owner, side = random.choice(READ_WRITE_LOCKS), random.choice(OWNERS), random.choice((b"read", b"write"))
    epoch = _epoch(random, model, lock, owner)
    args = [owner, epoch, _repeat(random), _publish(random), b"0", side]
    return [lock, epoch_of(lock, owner), rw_channel_of(lock), *_wait_queue(random, lock)], args


def _number(counted: bytes) -> int:
    return int(counted) if counted.isdigit() else 0


def _meddle_with_readers(random: Random, model: SimulatedRedis) -> Step:
    """What others do to the keys of a read-write lock."""
    lock, owner = random.choice(READ_WRITE_LOCKS), random.choice(OWNERS)
    hold = read_hold_of(lock, owner, random.randint(1, 3))
    return command_step(
        *random.choice(
            (
                ("DEL", hold),
                ("DEL", lock),
                ("PERSIST", hold),
                ("PERSIST", lock),
                ("PEXPIRE", hold, 300_000),
                ("PEXPIRE", lock, 300_000),
                ("HSET", lock, owner, random.choice(("0", "1", "2", "-1", "x"))),
                ("HSET", lock, "mode", random.choice(("read", "write", "odd"))),
                ("HDEL", lock, "mode"),
                ("HSET", lock, owner + b":write", random.choice(("1", "2", "x"))),
                ("SET", lock, "1"),
            )
        )
    )


# -- Semaphores and latches: their keys have names of their own, so that what they hold is often what they expect.

COUNTERS: Final = (b"seats", b"{shop}seats")
PERMITS: Final = tuple(bytes([number]) * 16 for number in range(1, 6))
PERMIT_LEASES: Final = (b"-1", b"-1", b"30000", b"600000", b"1000000000000000")


def permits_channel(name: bytes) -> bytes:
    return b"redisson_sc:" + (name if b"{" in name else b"{" + name + b"}")


def latch_channel(name: bytes) -> bytes:
    return b"redisson_countdownlatch__channel__{" + name + b"}"


def taken_of(name: bytes) -> bytes:
    return (name if b"{" in name else b"{" + name + b"}") + b":timeout"


def done_of(name: bytes, owner: bytes) -> bytes:
    return b"pyredisson_done:" + (name if b"{" in name else b"{" + name + b"}") + b":" + owner


#: What stands in queues, and for how many ms each waits: so far apart that their order does not depend on the clock.
CLIENTS: Final = {b"a:1:1": b"90000", b"b:1:2": b"70000", b"c:1:1": b"50000", b"d:3:3": b"30000"}

SHARDED_CHANNELS = (
    *SHARDED_CHANNELS,
    *map(permits_channel, COUNTERS),
    *map(latch_channel, COUNTERS),
    *map(waiting_of, COUNTERS),
    *(waiting_of(name) + b":" + member[:1] for name in COUNTERS for member in CLIENTS),
)


def _number_of_request(random: Random, model: SimulatedRedis, done: bytes) -> bytes:
    """The number of a request: mostly the next one, sometimes a repeat, or one that comes late."""
    stored = _peek(model, b"GET", done).split(b" ")[0]
    last = int(stored) if stored.isdigit() else 0
    return b"%d" % max(1, last + random.choice((1, 1, 1, 2, 0, 0, -1)))


def _numbered(random: Random, model: SimulatedRedis) -> tuple[bytes, bytes, bytes]:
    """A name, the record of one of its owners, and the number of a request."""
    name = random.choice(COUNTERS)
    done = done_of(name, random.choice(OWNERS))
    return name, done, _number_of_request(random, model, done)


def _few(random: Random) -> bytes:
    return b"%d" % random.choice((1, 1, 1, 2, 3, 0))


def _signed(random: Random) -> bytes:
    return b"%d" % random.choice((-5, -1, 0, 1, 2, 5))


@generates("counter_set")
def _counter_set(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    value = _few(random)
    if random.random() < 0.5:
        return [name, done, latch_channel(name)], [number, value, _publish(random), b"1"]
    return [name, done, permits_channel(name), *_wait_queue(random, name)], [
        number,
        value,
        _publish(random),
        value,
    ]


@generates("semaphore_acquire")
def _semaphore_acquire(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return [name, done], [number, _few(random)]


@generates("semaphore_release")
def _semaphore_release(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return [name, done, permits_channel(name), *_wait_queue(random, name)], [
        number,
        _few(random),
        _publish(random),
    ]


@generates("semaphore_add")
def _semaphore_add(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return [name, done, permits_channel(name), *_wait_queue(random, name)], [
        number,
        _signed(random),
        _publish(random),
    ]


@generates("semaphore_drain")
def _semaphore_drain(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return [name, done], [number]


@generates("semaphore_undo")
def _semaphore_undo(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    undone = b"%d" % (int(number) - random.choice((1, 1, 1, 2)))
    return [name, done, permits_channel(name), *_wait_queue(random, name)], [number, undone, _publish(random)]


@generates("permit_acquire")
def _permit_acquire(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return (
        [name, done, permits_channel(name), taken_of(name)],
        [number, random.choice(PERMITS), _publish(random), random.choice(PERMIT_LEASES)],
    )


@generates("permit_release")
def _permit_release(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    args = [number, random.choice(PERMITS), _publish(random)]
    return [name, done, permits_channel(name), taken_of(name), *_wait_queue(random, name)], args


@generates("permit_lease")
def _permit_lease(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return (
        [name, done, permits_channel(name), taken_of(name), *_wait_queue(random, name)],
        [number, random.choice(PERMITS), _publish(random), random.choice(PERMIT_LEASES)],
    )


@generates("permit_renew")
def _permit_renew(random: Random, model: SimulatedRedis) -> Call:
    held = [(random.choice(COUNTERS), random.choice(PERMITS)) for _ in range(random.randint(1, 4))]
    lease = random.choice(LEASES)
    return [taken_of(name) for name, _ in held], [lease, *(permit for _, permit in held)]


@generates("permit_count")
def _permit_count(random: Random, model: SimulatedRedis) -> Call:
    name = random.choice(COUNTERS)
    return [name, taken_of(name), permits_channel(name), *_wait_queue(random, name)], [_publish(random)]


@generates("permit_set")
def _permit_set(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    args = [number, _few(random), _publish(random)]
    return [name, done, permits_channel(name), taken_of(name), *_wait_queue(random, name)], args


@generates("permit_add")
def _permit_add(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return [name, done, permits_channel(name), *_wait_queue(random, name)], [
        number,
        _signed(random),
        _publish(random),
    ]


def _waits(random: Random) -> Sequence[bytes]:
    """What an attempt says of the queue."""
    member, waited = random.choice(list(CLIENTS.items()))
    return member, waited, random.choice((b"-1", waited)), _repeat(random), b"90000", _publish(random)


@generates("semaphore_acquire_waiting")
def _semaphore_acquire_waiting(random: Random, model: SimulatedRedis) -> Call:
    (name, done), args = _semaphore_acquire(random, model)
    return [name, done, waiting_of(name)], [*args, *_waits(random)]


@generates("permit_acquire_waiting")
def _permit_acquire_waiting(random: Random, model: SimulatedRedis) -> Call:
    (name, *keys), args = _permit_acquire(random, model)
    return [name, *keys, waiting_of(name)], [*args, *_waits(random)]


@generates("semaphore_stop_waiting")
def _semaphore_stop_waiting(random: Random, model: SimulatedRedis) -> Call:
    name = random.choice(COUNTERS)
    taken = random.choice(([], [taken_of(name)]))
    return [name, waiting_of(name), *taken], [random.choice(list(CLIENTS)), _publish(random)]


@generates("latch_count_down")
def _latch_count_down(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return [name, done, latch_channel(name)], [number, b"0", _publish(random)]


@generates("event_change")
def _event_change(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    return [name, done, latch_channel(name)], [number, random.choice((b"0", b"1")), b"0", _publish(random)]


@generates("bounded_release")
def _bounded_release(random: Random, model: SimulatedRedis) -> Call:
    keys, args = _semaphore_release(random, model)
    return keys, [*args, random.choice((b"2", b"5"))]


#: Of a condition, or a barrier: what is longer than any history, so that nothing depends on the clock.
LONG: Final = b"1000000000000"
VISITORS: Final = (b"a:1", b"a:2", b"b:1")


def waiters_of(name: bytes) -> bytes:
    return b"pyredisson_condition:" + (name if b"{" in name else b"{" + name + b"}")


def barrier_of(name: bytes) -> bytes:
    return b"pyredisson_barrier:" + (name if b"{" in name else b"{" + name + b"}")


SHARDED_CHANNELS = (
    *SHARDED_CHANNELS,
    *map(barrier_of, COUNTERS),
    *(waiters_of(lock) + b":" + client for lock in LOCKS for client in (b"a", b"b")),
)


@generates("condition_wait")
def _condition_wait(random: Random, model: SimulatedRedis) -> Call:
    (lock, *keys), args = _lock_release(random, model)
    args = [*args[:4], b"0", *args[5:], random.choice((b"", *VISITORS))]
    return [lock, *keys, waiters_of(lock)], args


@generates("condition_fair_wait")
def _condition_fair_wait(random: Random, model: SimulatedRedis) -> Call:
    (lock, *keys), args = _fair_release(random, model)
    args = [*args[:4], b"0", *args[5:], random.choice((b"", *VISITORS))]
    return [lock, *keys, waiters_of(lock)], args


def _of_condition(random: Random, model: SimulatedRedis) -> tuple[list[bytes], list[bytes]]:
    lock = random.choice(LOCKS)
    done = done_of(lock, random.choice(OWNERS))
    number = _number_of_request(random, model, done)
    return [lock, done, waiters_of(lock)], [number, _publish(random), LONG + b"000", _few(random)]


@generates("condition_notify")
def _condition_notify(random: Random, model: SimulatedRedis) -> Call:
    keys, args = _of_condition(random, model)
    return keys, [*args, random.choice(OWNERS)]


@generates("condition_leave")
def _condition_leave(random: Random, model: SimulatedRedis) -> Call:
    keys, args = _of_condition(random, model)
    return keys, [*args, random.choice(VISITORS)]


@generates("condition_look")
def _condition_look(random: Random, model: SimulatedRedis) -> Call:
    return [waiters_of(random.choice(LOCKS))], [random.choice(VISITORS)]


@generates("barrier_visit")
def _barrier_visit(random: Random, model: SimulatedRedis) -> Call:
    name, done, number = _numbered(random, model)
    mode = random.choice((b"wait", b"wait", b"wait", b"leave", b"break", b"reset", b"count"))
    generation = random.choice((b"", b"", b"0", b"1", b"2"))
    opens = random.choice((b"never", b"last", b"now"))
    args = [number, _publish(random), mode, b"2", random.choice(VISITORS), generation, LONG, opens]
    return [name, done, barrier_of(name)], args


def _meddle_with_counters(random: Random, model: SimulatedRedis) -> Step:
    """What others do to semaphores and latches: expiry, deletion, another type, permits that ended long ago."""
    name, owner = random.choice(COUNTERS), random.choice(OWNERS)
    key = random.choice((name, name, taken_of(name), done_of(name, owner)))
    return command_step(
        *random.choice(
            (
                ("DEL", key),
                ("DEL", key),
                ("PEXPIRE", key, 300_000),
                ("PERSIST", key),
                ("SET", name, random.choice(("0", "1", "3", "-2", "x", ""))),
                ("SET", done_of(name, owner), random.choice(("1 1", "3 -2", "7 0", "x", "5", "5 x"))),
                ("ZADD", taken_of(name), random.choice(("1", "1000", "922337203685477")), random.choice(PERMITS)),
                ("ZADD", taken_of(name), 1, PERMITS[0], 2, PERMITS[1], 3, PERMITS[2]),
                ("HSET", key, "f", "v"),
            )
        )
    )


# -- The token lock

TOKEN_LOCKS: Final = (b"plain", b"{shop}plain")
TOKENS: Final = (b"5f1c0a", b"77ab1c", b"e0d2f3")


def _token(random: Random, model: SimulatedRedis, lock: bytes) -> bytes:
    """A hold's token: often that which is stored."""
    stored = _peek(model, b"GET", lock)
    return stored if random.random() < 0.4 else random.choice(TOKENS)


@generates("token_acquire")
def _token_acquire(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(TOKEN_LOCKS), random.choice(OWNERS)
    former = b"" if random.random() < 0.6 else _token(random, model, lock)
    return (
        [lock, epoch_of(lock, owner)],
        [
            _token(random, model, lock),
            _epoch(random, model, lock, owner),
            _repeat(random),
            random.choice(LEASES),
            former,
        ],
    )


@generates("token_release")
def _token_release(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(TOKEN_LOCKS), random.choice(OWNERS)
    return (
        [lock, epoch_of(lock, owner)],
        [_token(random, model, lock), _epoch(random, model, lock, owner), _repeat(random), random.choice(LEASES)],
    )


@generates("token_force_unlock")
def _token_force_unlock(random: Random, model: SimulatedRedis) -> Call:
    lock, owner = random.choice(TOKEN_LOCKS), random.choice(OWNERS)
    return [lock, epoch_of(lock, owner)], [owner, _epoch(random, model, lock, owner), _repeat(random)]


@generates("token_renew")
def _token_renew(random: Random, model: SimulatedRedis) -> Call:
    held = [random.choice((*TOKEN_LOCKS, *LOCKS, b"gone")) for _ in range(random.randrange(5))]
    return held, [random.choice(LEASES), *(_token(random, model, lock) for lock in held)]


@generates("token_extend")
def _token_extend(random: Random, model: SimulatedRedis) -> Call:
    lock = random.choice(TOKEN_LOCKS)
    # A history does not know at what time it will run: long ago, or far away.
    return [lock], [_token(random, model, lock), random.choice((b"0", b"1", b"4000000000000", b"4100000000000"))]


# -- Guards with a fence

FENCED: Final = (b"stock", b"{shop}stock")


def fence_of(key: bytes) -> bytes:
    return b"pyredisson_fence:" + (key if b"{" in key else b"{" + key + b"}")


_fence = ("1", "2", "9", "10", "99", "9223372036854775806", "9223372036854775807")


@generates("fence_set")
def _fence_set(random: Random, model: SimulatedRedis) -> Call:
    key, token = random.choice(FENCED), random.choice(_fence).encode()
    return [key, fence_of(key)], [token, random.choice((b"v", b"", b"7")), random.choice((b"", *LEASES))]


@generates("fence_hset")
def _fence_hset(random: Random, model: SimulatedRedis) -> Call:
    pairs = [random.choice((b"a", b"b", b"", b"7")) for _ in range(2 * random.randrange(4))]
    return [random.choice((*FENCED, b"goods"))], [random.choice(_fence).encode(), b"fence", *pairs]


@generates("fence_advance")
def _fence_advance(random: Random, model: SimulatedRedis) -> Call:
    return [fence_of(random.choice(FENCED))], [random.choice(_fence).encode()]


def _meddle_with_tokens(random: Random, model: SimulatedRedis) -> Step:
    lock = random.choice((*TOKEN_LOCKS, *FENCED))
    return command_step(
        *random.choice(
            (
                ("DEL", lock),
                ("PEXPIRE", lock, 300_000),
                ("PERSIST", lock),
                ("SET", lock, random.choice((*TOKENS, b""))),
                ("SET", lock, random.choice(TOKENS), "NX", "PX", 30_000),
                ("HSET", lock, "f", "1"),
            )
        )
    )


def _meddle(random: Random, model: SimulatedRedis) -> Step:
    """What others do to the keys of a lock: expiry, PERSIST, another type, another count."""
    lock, owner = random.choice(LOCKS), random.choice(OWNERS)
    epoch = epoch_of(lock, owner)
    key = random.choice((lock, lock, epoch))
    return command_step(
        *random.choice(
            (
                ("DEL", key),
                ("PEXPIRE", key, 0),
                ("PEXPIRE", key, 300_000),
                ("PERSIST", key),
                ("SET", key, random.choice(("1", "x", ""))),
                ("RPUSH", key, owner),
                ("ZADD", key, 1, owner),
                ("HSET", key, owner, random.choice(("0", "1", "2", "-1", "x"))),
                ("HSET", lock, "mode", "read"),
                ("HINCRBY", lock, owner, 1),
                ("SET", epoch, random.randrange(4)),
                ("FLUSHALL",),
            )
        )
    )


MEDDLERS: Final = (_meddle, _meddle_with_queue, _meddle_with_readers, _meddle_with_counters, _meddle_with_tokens)


def script_steps(random: Random, model: SimulatedRedis, version: str) -> Iterator[Step]:
    """Calls of all scripts, for ever, and now and then somebody else meddling. The model takes each before the next."""
    names = sorted(GENERATORS)
    while True:
        chance = random.random()
        if chance < 0.85:
            name = random.choice(names)
            keys, args = GENERATORS[name](random, model)
            if version == "6.2":
                args = [b"PUBLISH" if arg == b"SPUBLISH" else arg for arg in args]
            yield script_step(name, keys, args)
        elif chance < 0.97:
            yield random.choice((_meddle, _meddle_with_readers, _meddle_with_counters, _meddle_with_tokens))(
                random, model
            )
        else:
            yield memory_step(not model.maxmemory_reached)


# -- Plain commands

_INTEGERS: Final = ("0", "1", "-1", "2", "7", "-7", "1000000")
_BAD_INTEGERS: Final = ("x", "", "1.5", " 1", "+1", "01", "-0", "9223372036854775808", "1_0", "\u0661")
_SCORES: Final = ("0", "1", "-1", "2.5", "1e3", "1785000330000", "922337203685477")
_ODD_SCORES: Final = ("inf", "-inf", "+Inf", "(1", "(2.5", "(", "nan", "x", "", "1_0", "1e400")
_MEMBERS: Final = ("a", "b", "c", "d")
_FIELDS: Final = ("f", "g", "field three", "")
_SHA_OF_RETURN_1: Final = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"


Slot: TypeAlias = Callable[[Random], list[str]]
"""Makes the arguments for one place of a command: none, one or more."""


def _one(*choices: str) -> Slot:
    return lambda random: [random.choice(choices)]


def _some(slot: Slot, low: int, high: int) -> Slot:
    return lambda random: [text for _ in range(random.randint(low, high)) for text in slot(random)]


def _all(*slots: Slot) -> Slot:
    return lambda random: [text for slot in slots for text in slot(random)]


def _words(*choices: str) -> Slot:
    return lambda random: random.choice(choices).split()


def _mostly(usual: Slot, share: float, rare: Slot) -> Slot:
    return lambda random: (usual if random.random() < share else rare)(random)


_key = _one("s", "h", "l", "z", "new")
_integer = _mostly(_one(*_INTEGERS), 0.94, _one(*_BAD_INTEGERS))
_milliseconds = _mostly(_one("20000", "60000", "600000", "0", "-1"), 0.94, _one(*_BAD_INTEGERS))
_value = _one("v", "", "1", "12", "-3", "x y")
_field = _one(*_FIELDS)
_member = _one(*_MEMBERS)
_score = _mostly(_one(*_SCORES), 0.8, _one(*_SCORES, *_ODD_SCORES))
_limit = _mostly(_one("-inf", "+inf", "(1", "(2.5", *_SCORES), 0.9, _one(*_ODD_SCORES))
_expire_flags = _some(_one("NX", "XX", "gt", "LT", "lt", "FOO"), 0, 2)
_set_option = _words("NX", "XX", "KEEPTTL", "get", "PX 30000", "EX 30", "ex 60", "PX", "PX x", "PX 0", "FOO")
_patterns = _one("*", "?", "[hs]", "n*", "*w", "[^h]", "[a-m]", "\\h", "n?w", "[", "z[", "ne[v-x]", "h*?", "")
_code = _one("return 1", "return {KEYS[1] or false, ARGV[1] or false}", "return redis.call('get', 's')", "not Lua")
_number_of_keys = _one("0", "0", "1", "1", "2", "9", "-1", "x")
_sha = _one("f" * 40, _SHA_OF_RETURN_1, _SHA_OF_RETURN_1.upper(), "x")
_by_score_option = _mostly(_one("withscores"), 0.5, _all(_one("LIMIT"), _some(_integer, 1, 2)))
_flush = _words("", "", "SYNC", "async", "FOO")

# For each command the key that has the right type, and the arguments.
_COMMANDS: Final[dict[str, tuple[str, list[Slot]]]] = {
    "GET": ("s", [_key]),
    "SET": ("s", [_key, _value, _some(_set_option, 0, 2)]),
    "DEL": ("", [_key, _some(_key, 0, 2)]),
    "EXISTS": ("", [_key, _some(_key, 0, 2)]),
    "TYPE": ("", [_key]),
    "PTTL": ("", [_key]),
    "TTL": ("", [_key]),
    "PEXPIRE": ("", [_key, _milliseconds, _expire_flags]),
    "PEXPIREAT": ("", [_key, _one("0", "1", "99999999999999", "x", "-5"), _expire_flags]),
    "PERSIST": ("", [_key]),
    "HSET": ("h", [_key, _field, _value, _some(_all(_field, _integer), 0, 2)]),
    "HGET": ("h", [_key, _field]),
    "HRANDFIELD": ("", [_one("none"), _some(_integer, 0, 1)]),
    "HMGET": ("h", [_key, _field, _some(_field, 0, 2)]),
    "HDEL": ("h", [_key, _field, _some(_field, 0, 2)]),
    "HEXISTS": ("h", [_key, _field]),
    "HINCRBY": ("h", [_key, _field, _integer]),
    "HKEYS": ("h", [_key]),
    "HLEN": ("h", [_key]),
    "HGETALL": ("h", [_key]),
    "INCR": ("s", [_key]),
    "INCRBY": ("s", [_key, _integer]),
    "DECR": ("s", [_key]),
    "DECRBY": ("s", [_key, _integer]),
    "LINDEX": ("l", [_key, _integer]),
    "LPOP": ("l", [_key, _words("", "", "1", "2", "-1", "x", "100", "0")]),
    "LPUSH": ("l", [_key, _some(_member, 1, 3)]),
    "RPUSH": ("l", [_key, _some(_member, 1, 3)]),
    "LRANGE": ("l", [_key, _integer, _integer]),
    "LREM": ("l", [_key, _integer, _member]),
    "LLEN": ("l", [_key]),
    "ZADD": ("z", [_key, _some(_one("NX", "XX", "gt", "LT", "CH", "incr"), 0, 2), _some(_all(_score, _member), 1, 3)]),
    "ZADD once": ("z", [_key, _score, _member]),
    "ZCARD": ("z", [_key]),
    "ZCOUNT": ("z", [_key, _limit, _limit]),
    "ZINCRBY": ("z", [_key, _score, _member]),
    "ZRANGE": ("z", [_key, _integer, _integer, _words("", "withscores", "WITHSCORES", "FOO", "WITHSCORES WITHSCORES")]),
    "ZRANGEBYSCORE": ("z", [_key, _limit, _limit, _some(_by_score_option, 0, 2)]),
    "ZREM": ("z", [_key, _some(_member, 1, 3)]),
    "ZSCORE": ("z", [_key, _member]),
    "ZRANK": ("z", [_key, _member]),
    "PUBLISH": ("", [_one("channel", "{a}b"), _value]),
    "SPUBLISH": ("", [_one("channel", "{a}b"), _value]),
    "TIME": ("", []),
    "FLUSHALL": ("", [_flush]),
    "DBSIZE": ("", []),
    "KEYS": ("", [_patterns]),
    "PING": ("", [_words("", "hello")]),
    "WAIT": ("", [_words("0 0", "x 0", "0 x", "0 -1", "0")]),
    "EVAL": ("", [_code, _number_of_keys, _some(_field, 0, 2)]),
    "EVALSHA": ("", [_sha, _number_of_keys, _some(_field, 0, 2)]),
    "SCRIPT load": ("", [_one("LOAD"), _code]),
    "SCRIPT exists": ("", [_one("exists"), _one("f" * 40, _SHA_OF_RETURN_1)]),
    "SCRIPT flush": ("", [_one("Flush"), _flush]),
    "NOSUCH": ("", [_some(_field, 0, 2)]),
}
_NAMES: Final = sorted(_COMMANDS)


def _means_otherwise(version: str, name: str, args: list[str]) -> bool:
    """Whether this build lacks the command, or means something else by it than Redis 7.0."""
    name, options = name.upper(), {arg.upper() for arg in args[2:]}
    if version == "9.1":
        return name == "ZRANK" and len(args) > 2
    return version == "6.2" and (
        name == "SPUBLISH"
        or (name in ("PEXPIRE", "PEXPIREAT") and len(args) > 2)
        or (name == "SET" and {"GET", "NX"} <= options)
        or (name == "LPOP" and args[1:] == ["0"])
        or (name == "SCRIPT EXISTS" and len(args) < 2)
    )


def plain_command(random: Random, version: str) -> tuple[bytes, ...]:
    """A command; one in a few is wrong in some way. None that this version has not, or means otherwise."""
    while True:
        name = random.choice(_NAMES)
        key, slots = _COMMANDS[name]
        args = [text for slot in slots for text in slot(random)]
        if key and random.random() < 0.75:
            args[0] = key
        if random.random() < 0.03:
            args = args[:-1] if random.random() < 0.5 else [*args, "more"]
        if _means_otherwise(version, name, args):
            continue
        spelt = random.choice((str.upper, str.lower, str.capitalize))(name) if random.random() < 0.2 else name
        return encoded(spelt.partition(" ")[0], *args)


def plain_steps(random: Random, model: SimulatedRedis, version: str) -> Iterator[Step]:
    """Plain commands, for ever, and sometimes there is no memory."""
    while True:
        if random.random() < (0.1 if model.maxmemory_reached else 0.01):
            yield memory_step(not model.maxmemory_reached)
        yield command_step(*plain_command(random, version))


def _literal(random: Random, text: bytes) -> str:
    """The argument in Lua: in quotes, or if it is a number that all servers spell alike, often without."""
    if re.fullmatch(rb"-?[1-9]\d{0,9}|0|2\.5", text) and random.random() < 0.5:
        return text.decode()
    return '"' + "".join(f"\\{byte:03}" for byte in text) + '"'


def program(random: Random, version: str) -> str:
    """A script of a few commands that replies with all their replies."""
    lines = ["local replies = {}"]
    for _ in range(random.randint(1, 4)):
        name, *args = plain_command(random, version)
        if name.upper() not in (b"TIME", b"TTL", b"KEYS", b"EVAL", b"EVALSHA", b"SCRIPT", b"WAIT", b"NOSUCH"):
            call = "call" if random.random() < 0.8 else "pcall"
            words = ", ".join([f"'{name.decode()}'", *(_literal(random, arg) for arg in args)])
            lines.append(f"replies[#replies + 1] = redis.{call}({words})")
    lines.append(random.choice(("return replies", "return replies", "return replies[1]", "return type(replies[1])")))
    return "\n".join(lines)


def program_steps(random: Random, model: SimulatedRedis, version: str) -> Iterator[Step]:
    """Random scripts, for ever, between plain commands."""
    for step in plain_steps(random, model, version):
        yield step
        text = program(random, version)
        yield Step(encoded("EVAL", text, 0), text)
