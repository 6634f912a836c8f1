"""What everything is called in Redis. No other module writes a prefix.

The layout is Redisson's, byte for byte, but for the keys that start with ``pyredisson_`` (see each).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Final

MAX_NAME_BYTES = 65_536

#: How the keys and channels of the clients that wait for a lock begin.
WAITING = "pyredisson_waiting"

#: The pattern of the keys of :func:`presence_key`, behind the prefix of all names.
PRESENCE_KEYS = "pyredisson_client:*"


def check_name(name: object) -> str:
    """Return ``name`` if a lock can be called so.

    Raises:
        TypeError: It is not a ``str``.
        ValueError: It is empty, longer than 65,536 bytes in UTF-8, or not encodable (a lone surrogate).
    """
    if not isinstance(name, str):
        raise TypeError(f"a lock's name is a str, not {type(name).__name__}")
    if not name:
        raise ValueError("a lock's name must not be empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"a lock's name must be encodable as UTF-8: {error.reason} at {error.start}") from None
    if size > MAX_NAME_BYTES:
        raise ValueError(f"a lock's name has at most {MAX_NAME_BYTES} bytes in UTF-8, this one has {size}")
    return name


def prefixed(prefix: str, name: str) -> str:
    """Redisson's prefix rule: the name is wrapped in braces, for one cluster slot, unless it has one of its own."""
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


def suffixed(name: str, suffix: str) -> str:
    """Redisson's suffix rule: the same, with what is added behind the name."""
    return f"{name}:{suffix}" if "{" in name else f"{{{name}}}:{suffix}"


def hashed_part(key: str) -> str:
    """What decides on a key's slot in a cluster: what is in its first braces, if anything is, else all of it."""
    start = key.find("{")
    end = key.find("}", start + 1) if start >= 0 else -1
    return key[start + 1 : end] if end > start + 1 else key


def check_one_slot(names: Names) -> None:
    """Raise ``ValueError`` if what belongs to a name is not all in one slot of a cluster.

    Redisson's rules look for an opening brace alone, and wrap a latch's name in any case.
    """
    if len({hashed_part(key) for key in names.together()}) == 1:
        return
    bare = names.name.replace("{", "").replace("}", "") or "name"
    if isinstance(names, LatchNames):
        advice = f"a latch's name must not contain braces on a cluster, as in {bare!r}"
    else:
        advice = (
            f"put the part that determines the slot in braces, as in {f'{{{bare}}}:1'!r}, "
            f"or use no braces, as in {bare!r}"
        )
    raise ValueError(f"the keys of {names.name!r} would not share one slot of the cluster: {advice}")


@lru_cache(maxsize=1024)  # For its memory: the locks that one owner holds share one string.
def owner_field(client_id: str, number: int) -> str:
    """The hash field of a holder."""
    return f"{client_id}:{number}"


def left_field(client_id: str) -> str:
    """In place of an owner: the client itself, which finishes what owners have left. It stands in no lock."""
    return f"{client_id}:left"


def token_field(client_id: str, number: int) -> str:
    """What the owner of a token lock is called. It stands in no lock, only behind its epoch."""
    return f"{client_id}:{number}:token"


def fence_key(key: str) -> str:
    """Ours alone: the greatest fencing token with which a key was written."""
    return prefixed("pyredisson_fence", key)


def presence_key(client_id: str, prefix: str = "") -> str:
    """Ours alone: what a client holds and waits for, in JSON."""
    return f"{prefix}pyredisson_client:{client_id}"


def forced_channel(key: str) -> str:
    """Ours alone: where ``pyredisson unlock`` announces to ``pyredisson watch`` which lock it frees."""
    return f"pyredisson_forced:{{{key}}}"


def watched_channel(key: str) -> str:
    """Ours alone: where nothing is published. Its subscribers watch a lock, on all channels on which clients wait."""
    return prefixed("pyredisson_watched", key)


def elected_channel(key: str) -> str:
    """Ours alone: where a new leader is announced to the observers of an election."""
    return prefixed("pyredisson_elected", key)


class Names(ABC):
    """The keys and the channel of something.

    Args:
        name: Its name.
        prefix: What stands before it in Redis: ``Config.prefix``, or Redisson's ``NameMapper``.

    Attributes:
        name: Its name, as its user knows it.
        raw: Its own key, of which the other keys and the channel are derived.
    """

    __slots__ = ("name", "raw")

    def __init__(self, name: str, prefix: str = "") -> None:
        self.name: str = name
        self.raw: str = prefix + name

    @property
    @abstractmethod
    def channel(self) -> str:
        """Where a release, or another change, is announced."""

    @abstractmethod
    def together(self) -> tuple[str, ...]:
        """What one script has to reach; the other keys are made by the same rules."""


class QueueNames(Names):
    """The key and the channels of the wait queue of something. Ours alone."""

    __slots__ = ()

    @property
    def waiting(self) -> str:
        """Which clients wait, by the time since which they do; also the channel of the observers."""
        return prefixed(WAITING, self.raw)

    def own_channel(self, queued_as: str) -> str:
        """Where one of the clients is notified that it is its turn."""
        return f"{self.waiting}:{queued_as}"


class LockNames(QueueNames):
    """The keys and the channel of one lock."""

    __slots__ = ()

    @property
    def channel(self) -> str:
        """Where an unlock is announced."""
        return prefixed("redisson_lock__channel", self.raw)

    @property
    def token(self) -> str:
        """The fencing token that was handed out last. It is never taken away."""
        return prefixed("redisson_lock_token", self.raw)

    @property
    def queue(self) -> str:
        """Who waits for a fair lock, in order."""
        return prefixed("redisson_lock_queue", self.raw)

    @property
    def timeouts(self) -> str:
        """Until when each of them is believed to be there."""
        return prefixed("redisson_lock_timeout", self.raw)

    @property
    def alive(self) -> str:
        """Ours alone: until when each of ours among them can be alive, by its own last heartbeat."""
        return prefixed("pyredisson_lock_alive", self.raw)

    def together(self) -> tuple[str, ...]:
        """See :meth:`Names.together`."""
        return self.raw, self.channel, suffixed(self.raw, "")

    def channel_of(self, owner: str) -> str:
        """Where one waiter for a fair lock is notified that it is its turn."""
        return f"{self.channel}:{owner}"

    def epoch(self, owner: str) -> str:
        """Ours alone: the lowest epoch that is still accepted from this owner. Exists only after a lost reply."""
        return f"{prefixed('pyredisson_epoch', self.raw)}:{owner}"


def writer_field(client_id: str, number: int) -> str:
    """The hash field of a holder of a write lock."""
    return f"{owner_field(client_id, number)}:write"


class ReadWriteNames(LockNames):
    """The keys and the channel of one read-write lock."""

    __slots__ = ()

    @property
    def channel(self) -> str:
        """Where the end of a read or write lock is announced."""
        return prefixed("redisson_rwlock", self.raw)

    def read_hold(self, owner: str, number: int) -> str:
        """One hold of a reader, counted from 1: it lives as long as its lease."""
        return f"{suffixed(self.raw, owner)}:rwlock_timeout:{number}"


class NumberedNames(Names):
    """The keys of what has no owner in Redis, so that its requests are distinguished by number."""

    __slots__ = ()

    def together(self) -> tuple[str, ...]:
        """See :meth:`Names.together`."""
        return self.raw, self.channel, self.done("")

    def done(self, owner: str) -> str:
        """Ours alone: the number of this owner's last request, and its outcome. Kept for a minute."""
        return f"{prefixed('pyredisson_done', self.raw)}:{owner}"


class SemaphoreNames(QueueNames, NumberedNames):
    """The keys and the channel of a semaphore; its own key holds the number of permits available."""

    __slots__ = ()

    @property
    def channel(self) -> str:
        """Where permits are announced."""
        return prefixed("redisson_sc", self.raw)

    @property
    def taken(self) -> str:
        """The permits taken of one whose permits expire: ids by the time at which they do."""
        return suffixed(self.raw, "timeout")

    @property
    def total(self) -> str:
        """Ours alone: the number of permits in all of one whose permits do not expire."""
        return prefixed("pyredisson_permits", self.raw)


class LatchNames(NumberedNames):
    """The keys and the channel of a latch; its own key holds the count."""

    __slots__ = ()

    @property
    def channel(self) -> str:
        """Where its opening is announced: in braces whatever the name is, as Redisson has it."""
        return f"redisson_countdownlatch__channel__{{{self.raw}}}"


class EventNames(NumberedNames):
    """Ours alone: the key and the channel of an event; its own key holds how often it was set or cleared."""

    __slots__ = ()

    @property
    def channel(self) -> str:
        """Where it is announced that it was set."""
        return prefixed("pyredisson_event", self.raw)


class ConditionNames(NumberedNames):
    """Ours alone: what a condition has in addition to its lock, whose key is its own."""

    __slots__ = ()

    @property
    def channel(self) -> str:
        """Who waits, in the order of their waits; also how the channels of their clients begin."""
        return prefixed("pyredisson_condition", self.raw)

    def own_channel(self, client_id: str) -> str:
        """Where the waiters of one client are notified."""
        return f"{self.channel}:{client_id}"


class BarrierNames(NumberedNames):
    """Ours alone: the keys and the channel of a barrier; its own key holds how often it was opened or broken."""

    __slots__ = ()

    @property
    def channel(self) -> str:
        """Who waits, and whether it is broken; also the channel where each change is announced."""
        return prefixed("pyredisson_barrier", self.raw)


# ---- protocol --------------------------------------------------------------------------------------------------------
# The words, scores and names of the wait queue: the sorted set in Redis of the clients that wait for one lock.
#
# The scripts get them from here (see ``_lua/__init__.py``), and so do the tools.
#
# A client waits under ``<client>:<number>``, or ``<client>:<number>:<permits>``, with the time since which it waits as
# its score, in milliseconds since the epoch. It receives messages on its own channel, ``<key>:<client>``. Observers
# receive messages on the channel that is named as the key is, too.


#: On a client's own channel: it is its turn to attempt.
GO: Final = "go"
#: On a client's own channel: it is an observer from now on.
OBSERVE: Final = "observe"
#: The same, since its own attempt was refused just now: it attempts once more as soon as it receives messages there.
OBSERVE_AND_ATTEMPT: Final = "observe and attempt"
#: On a client's own channel, before a number of milliseconds: taken permits expire then.
EXPIRES: Final = "in "

#: On the channel of the observers: a client was notified; the usual message follows, and is no matter of theirs.
NOTIFIED: Final = "2"
#: On the channel of the observers: the client that was notified has acquired.
ACQUIRED: Final = "3"
#: On the channel of the observers: a client was notified, and no other message follows.
NOTIFIED_ALONE: Final = "4"

#: Where a member says that a client is an observer; its score is when it last was known to listen, plus ``OBSERVERS``.
OBSERVER: Final = "observer:"
#: Where a member says that a client was notified of permits; its score is when that was, plus ``PROMISED``.
PROMISE: Final = "notified:"

#: What is added to the scores of those who wait for the write side of a read-write lock: they stand behind the readers.
WRITERS: Final = "1e14"
#: What is added to the scores of observers.
OBSERVERS: Final = "1e15"
#: What is added to the scores of promises.
PROMISED: Final = "2e15"

#: How many clients are observers.
OBSERVER_COUNT: Final = "2"
#: Milliseconds that a notified client has for its attempt, before others attempt.
NOTIFIED_FOR_MS: Final = "200"

WORDS: Final[dict[str, str]] = {
    name: value for name, value in globals().items() if name.isupper() and isinstance(value, str)
}
"""All of them, by name."""
