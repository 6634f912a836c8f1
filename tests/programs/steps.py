"""A program is a list of steps. A step is one operation by one actor, with plain arguments, so that it can be printed.

Actors are written ``"0"`` (thread or task 0), or ``"0.2"`` (context 2 of :mod:`contextvars`, run in thread 0). A name
says its kind: ``"fair3"`` is a fair lock, ``"rw1.read"`` a side of a read-write lock, ``"1:lock2"`` a lock of client 1
(else of client 0), ``"lock1+rw2.write"`` a multi-lock, ``"lock1+"`` a multi-lock with a single member.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

#: Leases, in seconds: one that does not end while a program runs, and one that the program lets end.
LONG = 200.0
SHORT = 0.16

#: A wait that ends in vain.
IN_VAIN = 0.02

#: The kinds of locks, by how their names begin, and the methods that make their handles.
LOCKS = {
    "lock": "get_lock",
    "fair": "get_fair_lock",
    "spin": "get_spin_lock",
    "fenced": "get_fenced_lock",
    "token": "get_token_lock",
    "once": "get_non_reentrant_lock",
    "oncefair": "get_non_reentrant_fair_lock",
    "rw": "get_read_write_lock",
}
#: The same of what has no owner.
NUMBERS = {
    "sem": "get_semaphore",
    "bounded": "get_bounded_semaphore",
    "permits": "get_permit_expirable_semaphore",
    "latch": "get_count_down_latch",
    "event": "get_event",
    "barrier": "get_barrier",
}
NOT_REENTRANT = ("token", "once", "oncefair")

#: The database and the prefix of a client: number 0, 3, 6... have the first, 1, 4, 7... the second.
PLACES = ((0, ""), (0, "p:"), (1, ""))


@dataclass(frozen=True)
class Step:
    """One operation.

    Attributes:
        op: What is done.
        by: The actor.
        on: The name of what it is done with.
        lease: The lease; ``None``: the watchdog renews it.
        wait: How long it may wait; ``None``: without a time limit.
        n: Which block, context, client or owner; or how many permits.
        face: Which of several methods that do the same.
        owner: The owner, of those that were made, for which the handle acts; 0: none.
        fresh: Whether a new handle is made for it.
    """

    op: str
    by: str = "0"
    on: str = ""
    lease: float | None = None
    wait: float | None = 0
    n: int = 0
    face: str = ""
    owner: int = 0
    fresh: bool = False

    def __repr__(self) -> str:
        words = [repr(self.op), repr(self.by)] + [repr(self.on)] * bool(self.on)
        words += [
            f"{each.name}={value!r}" for each in fields(self)[3:] if (value := getattr(self, each.name)) != each.default
        ]
        return f"Step({', '.join(words)})"

    @property
    def thread(self) -> int:
        """The thread or task."""
        return int(self.by.partition(".")[0])

    @property
    def context(self) -> int:
        """The context; 0: that of the thread itself."""
        return int(self.by.partition(".")[2] or 0)


@dataclass(frozen=True)
class Target:
    """One lock or other thing of one client."""

    client: int
    name: str
    side: str = ""

    @property
    def kind(self) -> str:
        """Its kind."""
        return self.name.rstrip("0123456789")

    @property
    def place(self) -> tuple[int, str]:
        """The database and the key."""
        database, prefix = PLACES[self.client % len(PLACES)]
        return database, prefix + self.name


@lru_cache(maxsize=10_000)
def targets_of(on: str) -> tuple[Target, ...]:
    """What a step is done with: one, or the members of a multi-lock in the order in which they are acquired."""
    found = []
    for word in filter(None, on.split("+")):
        client, _, name = word.rpartition(":")
        name, _, side = name.partition(".")
        found.append(Target(int(client or 0), name, side))
    return tuple(sorted(found, key=lambda each: (each.place[1], each.place[0])))


def multi_name(targets: tuple[Target, ...]) -> str:
    """What messages call a multi-lock."""
    return " + ".join(dict.fromkeys(each.name for each in targets))
