"""Random things to do to a server: calls of the shipped scripts, and what others may do to their keys.

:data:`CALLS` says in words what the KEYS and ARGV of each script are, and :class:`Words` what a word stands for in one
call. It looks into a model, so that a call can often do what makes sense then. Other words stand for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from random import Random
from typing import Final, NamedTuple

from pyredisson._lua import script_names, script_text
from tests.simulated.engine.redis import ServerError, SimulatedRedis

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


def encoded(*args: bytes | str | int) -> tuple[bytes, ...]:
    return tuple(arg if isinstance(arg, bytes) else str(arg).encode() for arg in args)


def script_step(name: str, keys: Sequence[bytes], args: Sequence[bytes]) -> Step:
    return Step(encoded("EVAL", SCRIPTS[name], len(keys), *keys, *args), f"{name} {list(keys)} {list(args)}")


def command_step(*args: bytes | str | int) -> Step:
    return Step(encoded(*args), repr(encoded(*args)))


def memory_step(out: bool) -> Step:
    return Step(encoded("CONFIG", "SET", "maxmemory", int(out)), f"out of memory: {out}", out_of_memory=out)


# -- What the scripts are called with

LOCKS: Final = (b"orders", b"{shop}orders")
READ_WRITE_LOCKS: Final = (b"prices", b"{shop}prices")
#: Their keys have names of their own, so that what they hold is often what a script expects.
COUNTERS: Final = (b"seats", b"{shop}seats")
TOKEN_LOCKS: Final = (b"plain", b"{shop}plain")
NAMES: Final = {
    "lock": LOCKS,
    "read": READ_WRITE_LOCKS,
    "write": READ_WRITE_LOCKS,
    "counter": COUNTERS,
    "token": TOKEN_LOCKS,
    "fence": (b"stock", b"{shop}stock"),
}
OWNERS: Final = (b"C:7", b"C:9", b"8743c9c0-0795-4907-87fd-6c719a6b4586:9223372036854775807")
TOKENS: Final = (b"5f1c0a", b"77ab1c", b"e0d2f3")
PERMITS: Final = tuple(bytes([number]) * 16 for number in range(1, 6))
FENCE_TOKENS: Final = (b"1", b"2", b"9", b"10", b"99", b"9223372036854775806", b"9223372036854775807")
# None ends while a history runs, and none is so near another that a late millisecond decides which is longer.
LEASES: Final = (b"20000", b"30000", b"90000", b"600000")
# Sums and differences of these and of leases are never between a millisecond and some seconds.
WAITS: Final = (b"25000", b"45000", b"310000")
# Clients that wait, and for how long: each for another time, so that a late millisecond never decides who is first.
READERS: Final = {b"C.read:3": 5_000, b"D.read:4": 15_000, b"E.read:3": 25_000}
WRITERS: Final = {b"C.write:5": 10_000 - 10**14, b"D.write:6": 20_000 - 10**14, b"E.write:5": 30_000 - 10**14}
WAITERS: Final = {
    "lock": {b"C:3": 5_000, b"C:4": 15_000, b"D:3": 25_000, b"E:1": 35_000, b"F:1": 45_000},
    "read": READERS,
    "write": WRITERS,
    "counter": {b"a:1:1": 90_000, b"b:1:2": 70_000, b"c:1:1": 50_000, b"d:3:3": 30_000},
}


def braced(name: bytes) -> bytes:
    return name if b"{" in name else b"{%b}" % name


#: Who waits for a condition, or at a barrier; and what is longer than any history.
VISITORS: Final = (b"a:1", b"a:2", b"b:1")
LONG: Final = b"1000000000000"

#: Where messages go; a subscriber has to name those of SPUBLISH. The clients that are not here are gone.
SHARDED_CHANNELS: Final = (
    b"channel",
    *(b"redisson_countdownlatch__channel__{%b}" % name for name in COUNTERS),
    *(
        prefix + braced(name) + suffix
        for prefix, names, suffixes in (
            (b"redisson_lock__channel:", LOCKS, (b"", *(b":" + owner for owner in (*OWNERS, b"gone")))),
            (b"redisson_rwlock:", READ_WRITE_LOCKS, (b"",)),
            (b"redisson_sc:", COUNTERS, (b"",)),
            (b"pyredisson_elected:", LOCKS, (b"",)),
            (b"pyredisson_barrier:", COUNTERS, (b"",)),
            (b"pyredisson_condition:", LOCKS, (b":a", b":b")),
            (b"pyredisson_waiting:", LOCKS, (b"", b":C", b":D")),
            (b"pyredisson_waiting:", READ_WRITE_LOCKS, (b"", b":C.read", b":D.read", b":C.write", b":D.write")),
            (b"pyredisson_waiting:", COUNTERS, (b"", b":a", b":b", b":c", b":d")),
        )
        for name in names
        for suffix in suffixes
    ),
)


class Words:
    """What the words of one random call stand for."""

    def __init__(self, random: Random, model: SimulatedRedis, family: str) -> None:
        self.random, self.model, self.family = random, model, family
        self.name = random.choice(NAMES[family])
        self.reader = random.choice(OWNERS)
        self.owner = self.reader + b":write" if family == "write" else self.reader

    def key(self, prefix: bytes, *suffix: bytes) -> bytes:
        return b":".join((prefix, braced(self.name), *suffix))

    def hold(self, number: int) -> bytes:
        return b"%b:%b:rwlock_timeout:%d" % (braced(self.name), self.reader, number)

    def stored(self, *command: bytes) -> bytes:
        """A string that is stored, or ``0``."""
        try:
            value = self.model.command(*command)
        except ServerError:
            return b"0"
        return value if isinstance(value, bytes) else b"0"

    def near(self, stored: bytes, *steps: int) -> bytes:
        """A stored number: mostly the truth, or off by a little as after a lost reply."""
        if self.random.random() < 0.7 or not stored.isdigit():
            return stored
        return b"%d" % max(0, int(stored) + self.random.choice(steps))

    @cached_property
    def counted(self) -> bytes:
        """How many holds the client says it has."""
        return self.near(self.stored(b"HGET", self.name, self.owner), -1, 1, 2)

    @property
    def count(self) -> int:
        return int(self.counted) if self.counted.isdigit() else 0

    @cached_property
    def lease(self) -> bytes:
        return self.random.choice(LEASES)

    @cached_property
    def number(self) -> bytes:
        """The number of a request: mostly the next one, sometimes a repeat, or one that comes late."""
        last = self.stored(b"GET", KEYS["done"](self)).split(b" ")[0]
        return b"%d" % max(1, (int(last) if last.isdigit() else 0) + self.random.choice((1, 1, 1, 2, 0, 0, -1)))

    @cached_property
    def few(self) -> bytes:
        return self.random.choice((b"1", b"1", b"1", b"2", b"3", b"0"))

    def token(self) -> bytes:
        """A hold's token: often that which is stored."""
        return self.stored(b"GET", self.name) if self.random.random() < 0.4 else self.random.choice(TOKENS)

    def wait(self) -> list[bytes]:
        """The arguments of an attempt that concern the queue."""
        me, waited = self.random.choice(list(WAITERS[self.family].items()))
        rest, kept = self.random.choice((-1, -1, waited)), self.random.choice((30_000, 90_000))
        return [*encoded(me, waited, rest, self.random.choice((0, 1)), kept), PUBLISH(self)]

    def waits_of_owners(self) -> list[bytes]:
        owners = self.random.sample(OWNERS, self.random.randrange(len(OWNERS) + 1))
        return [word for each in owners for word in (each, self.random.choice(WAITS), self.random.choice(WAITS))]


def one_of(*choices: bytes) -> Callable[[Words], bytes]:
    return lambda words: words.random.choice(choices)


PUBLISH: Final = one_of(b"PUBLISH", b"PUBLISH", b"PUBLISH", b"SPUBLISH")
KEYS: Final[dict[str, Callable[[Words], bytes]]] = {
    "name": lambda words: words.name,
    "epoch_key": lambda words: words.key(b"pyredisson_epoch", words.owner),
    "waiting": lambda words: words.key(b"pyredisson_waiting"),
    "channel": lambda words: words.key(b"redisson_lock__channel"),
    "token_key": lambda words: words.key(b"redisson_lock_token"),
    "queue": lambda words: words.key(b"redisson_lock_queue"),
    "timeouts": lambda words: words.key(b"redisson_lock_timeout"),
    "alive": lambda words: words.key(b"pyredisson_lock_alive"),
    "rw_channel": lambda words: words.key(b"redisson_rwlock"),
    "first_hold": lambda words: words.hold(1),
    "next_hold": lambda words: words.hold(words.count + 1),
    "last_hold": lambda words: words.hold(max(words.count, 1)),
    "any_hold": lambda words: words.hold(words.random.randint(1, 3)),
    "done": lambda words: words.key(b"pyredisson_done", words.owner),
    "permits_channel": lambda words: words.key(b"redisson_sc"),
    "latch_channel": lambda words: b"redisson_countdownlatch__channel__{%b}" % words.name,
    "total": lambda words: words.key(b"pyredisson_permits"),
    "taken": lambda words: braced(words.name) + b":timeout",
    "elected": lambda words: words.key(b"pyredisson_elected"),
    "condition": lambda words: words.key(b"pyredisson_condition"),
    "barrier": lambda words: words.key(b"pyredisson_barrier"),
    "fence_key": lambda words: words.key(b"pyredisson_fence"),
}
ARGS: Final[dict[str, Callable[[Words], bytes | list[bytes]]]] = {
    "owner": lambda words: words.owner,
    "reader": lambda words: words.reader,
    "writer": lambda words: words.reader + b":write",
    "epoch": lambda words: words.near(words.stored(b"GET", KEYS["epoch_key"](words)), -1, 1, 1, 9),
    "repeat": one_of(b"0", b"0", b"1"),
    "flag": one_of(b"0", b"1"),
    "lease": lambda words: words.lease,
    "leases": lambda words: b"%d" % ((words.count + 1) * int(words.lease)),
    "counted": lambda words: words.counted,
    "joins": one_of(b"", b"", b"7"),
    "publish": PUBLISH,
    # As publish, or without a message.
    "announce": one_of(b"PUBLISH", b"PUBLISH", b"SPUBLISH", b""),
    "wait": lambda words: words.wait(),
    "waiter": lambda words: words.random.choice(list(WAITERS[words.family])),
    "patience": one_of(*WAITS),
    "waits": lambda words: words.waits_of_owners(),
    "side": one_of(b"read", b"write"),
    "number": lambda words: words.number,
    "undone": lambda words: b"%d" % (int(words.number) - words.random.choice((1, 1, 1, 2))),
    "few": lambda words: words.few,
    "signed": one_of(b"-5", b"-1", b"0", b"1", b"2", b"5"),
    "known": one_of(b"", b"", b"2", b"5"),
    "expiry": one_of(b"0", b"-1", *LEASES),
    "none": one_of(b""),
    "permit": one_of(*PERMITS),
    "permits": lambda words: b"".join(words.random.sample(PERMITS, words.random.choice((1, 1, 2, 3)))),
    "any_permit": one_of(b"", *PERMITS),
    "permit_lease": one_of(b"-1", b"-1", b"30000", b"600000", b"1000000000000000"),
    "token": lambda words: words.token(),
    "former": lambda words: b"" if words.random.random() < 0.6 else words.token(),
    # A history does not know at what time it will run: long ago, or far away.
    "moment": one_of(b"0", b"1", b"4000000000000", b"4100000000000"),
    "fence_token": one_of(*FENCE_TOKENS),
    "value": one_of(b"v", b"", b"7"),
    "ttl": one_of(b"", *LEASES),
    "ttl_ms": one_of(b"0", *LEASES),
    "fields": lambda words: words.random.choices((b"a", b"b", b"", b"7"), k=2 * words.random.randrange(4)),
    "visitor": one_of(*VISITORS),
    "member": one_of(b"", *VISITORS),
    "long": one_of(LONG),
    "visit": one_of(b"wait", b"wait", b"wait", b"leave", b"break", b"reset", b"count"),
    "generation": one_of(b"", b"", b"0", b"1", b"2"),
    "opens": one_of(b"never", b"last", b"now"),
    "bound": one_of(b"2", b"5"),
    # What others write.
    "count": one_of(b"0", b"1", b"2", b"3", b"-2", b"x", b""),
    "record": one_of(b"1 1", b"3 -2", b"7 0", b"x", b"5", b"5 x"),
    "time": one_of(b"1", b"1000", b"1785000330000", b"922337203685477"),
    "any_mode": one_of(b"read", b"write", b"odd"),
}

_ACQUIRE: Final = "owner epoch repeat lease counted"
_FAIR: Final = "queue timeouts alive"

#: The family, the KEYS and the ARGV of each script. A wait queue with ``?`` is missing sometimes: some users may not
#: use it. No token is drawn from the clock: those of two servers are never the same.
CALLS: Final[list[tuple[str, str, str, str]]] = [
    ("lock_acquire", "lock", "name epoch_key", _ACQUIRE),
    ("lock_acquire_waiting", "lock", "name epoch_key waiting", f"{_ACQUIRE} wait"),
    ("lock_stop_waiting", "lock", "name waiting", "waiter publish"),
    ("lock_release", "lock", "name epoch_key channel waiting?", f"{_ACQUIRE} announce 0"),
    ("lock_force_unlock", "lock", "name epoch_key channel waiting?", "owner epoch repeat announce 0"),
    ("fenced_acquire", "lock", "name epoch_key token_key", f"{_ACQUIRE} joins 0"),
    ("fenced_acquire_waiting", "lock", "name epoch_key token_key waiting", f"{_ACQUIRE} joins 0 wait"),
    ("run_once_release", "lock", "name epoch_key", "owner epoch repeat 600000 ttl_ms value 10"),
    ("election_acquire", "lock", "name epoch_key token_key elected", f"{_ACQUIRE} joins 0 publish"),
    (
        "election_acquire_waiting",
        "lock",
        "name epoch_key token_key elected waiting",
        f"{_ACQUIRE} joins 0 publish wait",
    ),
    (
        "condition_wait",
        "lock",
        "name epoch_key channel waiting? condition",
        "owner epoch repeat lease 0 announce 0 member",
    ),
    (
        "condition_fair_wait",
        "lock",
        f"name epoch_key {_FAIR} channel condition",
        "owner epoch repeat lease 0 announce 0 0 member",
    ),
    ("condition_notify", "lock", "name done condition", "number publish long few owner"),
    ("condition_leave", "lock", "name done condition", "number publish long few visitor"),
    ("condition_look", "lock", "condition", "visitor"),
    ("fair_acquire", "lock", f"name epoch_key {_FAIR}", f"{_ACQUIRE} patience patience flag patience"),
    ("fair_release", "lock", f"name epoch_key {_FAIR} channel", f"{_ACQUIRE} announce 0 0"),
    ("fair_release", "lock", f"name epoch_key {_FAIR} channel", f"{_ACQUIRE} announce 0 patience"),
    ("fair_force_unlock", "lock", f"name epoch_key {_FAIR} channel", "owner epoch repeat announce 0"),
    ("fair_look", "lock", f"name {_FAIR}", "patience waits"),
    ("read_lock_acquire", "read", "name epoch_key next_hold", _ACQUIRE),
    ("read_lock_acquire_waiting", "read", "name epoch_key next_hold waiting", f"{_ACQUIRE} wait"),
    ("read_lock_release", "read", "name epoch_key rw_channel last_hold waiting?", f"{_ACQUIRE} announce 0"),
    ("write_lock_acquire", "write", "name epoch_key first_hold", f"{_ACQUIRE} reader leases"),
    ("write_lock_acquire_waiting", "write", "name epoch_key first_hold waiting", f"{_ACQUIRE} reader leases wait"),
    ("write_lock_release", "write", "name epoch_key rw_channel waiting?", f"{_ACQUIRE} announce 1"),
    ("read_write_lock_stop_waiting", "read", "name waiting", "waiter publish"),
    ("read_write_lock_stop_waiting", "write", "name waiting", "waiter publish"),
    ("read_write_lock_force_unlock", "read", "name epoch_key rw_channel waiting?", "owner epoch repeat publish 0 side"),
    ("counter_set", "counter", "name done latch_channel", "number few publish 1 ttl 0"),
    ("counter_set", "counter", "name done permits_channel waiting?", "number few publish few ttl 0"),
    ("counter_set", "counter", "name done permits_channel total waiting?", "number few publish few ttl 1"),
    ("counter_expire", "counter", "name done permits_channel total", "number expiry publish none"),
    ("counter_expire", "counter", "name done permits_channel taken", "number expiry publish none"),
    ("counter_expire", "counter", "name done latch_channel", "number expiry publish 0"),
    ("event_change", "counter", "name done latch_channel", "number flag 0 publish"),
    ("barrier_visit", "counter", "name done barrier", "number publish visit 2 visitor generation long opens"),
    ("latch_count_down", "counter", "name done latch_channel", "number 0 publish"),
    ("semaphore_acquire", "counter", "name done", "number few"),
    ("semaphore_acquire", "counter", "name done taken", "number few"),
    ("semaphore_acquire_waiting", "counter", "name done waiting", "number few wait"),
    ("semaphore_stop_waiting", "counter", "name waiting", "waiter publish"),
    ("semaphore_stop_waiting", "counter", "name waiting taken", "waiter publish"),
    ("semaphore_release", "counter", "name done permits_channel waiting?", "number few publish"),
    ("semaphore_release", "counter", "name done permits_channel waiting?", "number few publish bound"),
    ("semaphore_add", "counter", "name done permits_channel total waiting?", "number signed publish"),
    ("semaphore_resize", "counter", "name done permits_channel total waiting?", "number few publish known"),
    ("semaphore_drain", "counter", "name done total", "number"),
    ("semaphore_undo", "counter", "name done permits_channel waiting?", "number undone publish"),
    ("permit_acquire", "counter", "name done permits_channel taken", "number permits publish permit_lease"),
    ("permit_acquire", "counter", "name done permits_channel taken total", "number permits publish permit_lease"),
    (
        "permit_acquire_waiting",
        "counter",
        "name done permits_channel taken waiting",
        "number permits publish permit_lease wait",
    ),
    ("permit_release", "counter", "name done permits_channel taken waiting?", "number permit publish"),
    ("permit_release_all", "counter", "name done permits_channel taken waiting?", "number permits publish"),
    ("permit_lease", "counter", "name done permits_channel taken waiting?", "number permit publish permit_lease"),
    ("permit_count", "counter", "name taken permits_channel waiting?", "publish any_permit"),
    ("permit_set", "counter", "name done permits_channel taken waiting?", "number few publish"),
    ("permit_add", "counter", "name done permits_channel waiting?", "number signed publish"),
    ("token_acquire", "token", "name epoch_key", "token epoch repeat lease former"),
    ("token_release", "token", "name epoch_key", "token epoch repeat lease"),
    ("token_force_unlock", "token", "name epoch_key", "owner epoch repeat"),
    ("token_extend", "token", "name", "token moment"),
    ("fence_set", "fence", "name fence_key", "fence_token value ttl"),
    ("fence_hset", "fence", "name", "fence_token fence fields"),
    ("fence_advance", "fence", "fence_key", "fence_token"),
]
#: The scripts for many locks: the family, the KEYS for each lock, and the argument for each.
RENEWALS: Final = [
    ("lock_renew", "lock", "name", "owner"),
    ("read_lock_renew", "read", "name first_hold", "owner"),
    ("permit_renew", "counter", "taken", "permit"),
    ("token_renew", "token", "name", "token"),
]

#: What others do to the keys of a family: they delete and persist them, and store another type or another number.
MEDDLING: Final = {
    "lock": """
        DEL name; DEL epoch_key; PEXPIRE name 0; PEXPIRE name 300000; PERSIST name; SET name count; SET epoch_key count;
        RPUSH epoch_key owner; ZADD name 1 owner; HSET name owner count; HSET name mode read; HINCRBY name owner 1;
        DEL queue; DEL timeouts; DEL alive; RPUSH queue owner; LPUSH queue gone; ZADD timeouts time owner;
        ZREM timeouts owner; SET queue 1; SET timeouts 1; SET alive 1; HSET alive owner time; FLUSHALL""",
    "read": """
        DEL any_hold; DEL name; PERSIST any_hold; PERSIST name; PEXPIRE any_hold 300000; PEXPIRE name 300000;
        HSET name owner count; HSET name mode any_mode; HDEL name mode; HSET name writer count; SET name 1""",
    "counter": """
        DEL name; DEL taken; DEL total; DEL done; SET total count;
        PEXPIRE name 300000; PERSIST name; SET name count; SET done record;
        ZADD taken time permit; ZADD taken 1 permit 2 permit 3 permit; HSET name f v; HSET taken f v""",
    "token": "DEL name; PEXPIRE name 300000; PERSIST name; SET name token; SET name token NX PX 30000; HSET name f 1",
    "fence": "DEL name; SET name value; PEXPIRE name 300000; HSET name f 1",
}


def meant(words: Words, text: str) -> list[bytes]:
    """What a line of words stands for."""
    found: list[bytes] = []
    for word in text.split():
        if word == "waiting?":
            found += [KEYS["waiting"](words)] if words.random.random() < 0.75 else []
        else:
            word_for = KEYS.get(word) or ARGS.get(word)
            value = word.encode() if word_for is None else word_for(words)
            found += value if isinstance(value, list) else [value]
    return found


def script_call(random: Random, model: SimulatedRedis) -> Step:
    """A call of any script."""
    name, family, keys, args = random.choice([*CALLS, *RENEWALS])
    if name.endswith("_renew"):
        each = [Words(random, model, family) for _ in range(random.randrange(5))]
        renewed = [key for words in each for key in meant(words, keys)]
        return script_step(
            name, renewed, [random.choice(LEASES), *(arg for words in each for arg in meant(words, args))]
        )
    words = Words(random, model, family)
    return script_step(name, meant(words, keys), meant(words, args))


def script_steps(random: Random, model: SimulatedRedis, version: str) -> Iterator[Step]:
    """Calls of all scripts, for ever, and now and then somebody else meddling. The model takes each before the next."""
    while True:
        chance = random.random()
        if chance < 0.85:
            step = script_call(random, model)
            if version == "6.2":
                step = step._replace(command=tuple(b"PUBLISH" if arg == b"SPUBLISH" else arg for arg in step.command))
            if step.about.startswith("barrier_visit ") and not model.command(b"EXISTS", step.command[3]):
                # One that is visited for the first time begins to count by the clock, to the microsecond.
                if model.maxmemory_reached:
                    continue
                yield command_step("SET", step.command[3], 1)
            yield step
        elif chance < 0.97:
            family = random.choice(list(MEDDLING))
            command = random.choice(MEDDLING[family].split(";"))
            yield command_step(*meant(Words(random, model, family), command))
        else:
            yield memory_step(not model.maxmemory_reached)
