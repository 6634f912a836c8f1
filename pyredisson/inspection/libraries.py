"""Locks of other libraries: what they store, how their waiters wait, and how an unlock wakes these. Pure.

Each is a string, ``SET key token NX``. The form of the token narrows down whose it is; some libraries have keys of a
form of their own, too, which makes it certain. What the tools do with each is tested with the libraries themselves, and
listed in docs/_generated/libraries.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from pyredisson._core.holder_lookup import CLIENT_ID, read_count

Tell: TypeAlias = Callable[..., Any]
"""Sends a command to the server of its first key, and returns the reply."""

MAX_TOKEN = 64  # bytes of a string that may be a lock of an unknown library
MAX_VALUE = 321  # bytes of one of a known library: ShedLock's, with the longest name of a host

#: 100 ns steps from the beginning of the Gregorian calendar, from which version 1 UUIDs count, to 1970.
_GREGORIAN = 0x01B21DD213814000
_YEAR = 366 * 86_400


class LazyPattern:
    """What bytes look like: a regular expression, compiled when it is first used. Most servers have few of these."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern.encode()

    def fullmatch(self, text: bytes) -> re.Match[bytes] | None:
        """Match all of the bytes."""
        return re.fullmatch(self._pattern, text, re.DOTALL)


_ANY = LazyPattern(".*")
_UUID = LazyPattern(f"(?i:{CLIENT_ID})")
_UUID_1 = LazyPattern("[0-9a-f]{12}1[0-9a-f]{3}[89ab][0-9a-f]{15}")
_HEX_16 = LazyPattern("[0-9a-f]{32}")
_BASE64_16 = LazyPattern("[0-9A-Za-z+/]{22}==")
_BASE64_18 = LazyPattern("[0-9A-Za-z+/]{24}")
_SHEDLOCK = LazyPattern(rf"ADDED:(\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}})Z@([!-9;-~]{{1,253}})(?::{CLIENT_ID})?")
_RUEIDISLOCK_KEY = LazyPattern("rueidislock:([012]):.+")
_URL_BASE64_16 = LazyPattern("(?=.*[A-Z])(?=.*[a-z])[0-9A-Za-z_-]{22}")  # a word of one case is none


def _push_signal(key: bytes, tell: Tell) -> int:
    """Do what python-redis-lock does when it releases a lock. Returns whether a waiter took the signal."""
    signal = b"lock-signal:" + key.removeprefix(b"lock:")
    if tell("EXISTS", signal):
        return 0  # No one waits for it now: a signal stays until a waiter takes it.
    tell("LPUSH", signal, "1")
    return int(tell("PEXPIRE", signal, "1000") == 0)


def _publish(key: bytes, tell: Tell) -> int:
    """Do what Spring Integration does; which part of the key is the registry is not known. Returns who received it."""
    registries = [key[: found.start()] for found in re.finditer(b":", key)][:8]
    # By registry until versions 6.4.7 and 6.5.2, by registry and key since 6.4.8 and 6.5.3.
    channels = [channel for each in registries for channel in (each + b"-channel", each + b"-channel:" + key)]
    return sum(int(tell("PUBLISH", channel, key)) for channel in channels)


@dataclass(frozen=True)
class Library:
    """A library, as far as what it stores shows.

    Attributes:
        name: Its name.
        value: What its tokens look like.
        sizes: How many bytes they have.
        waits: What its waiters do.
        own_key: What its keys look like, if they have a form of their own.
        key: What they look like if they have none.
        own_value: Whether no other values look like its tokens.
        wake: Wakes its waiters once the key is deleted, and returns how many clients were notified; ``None``: nothing
            has to be sent.
        chosen_values: Whether programs may choose other values.
    """

    name: str
    value: LazyPattern
    sizes: tuple[int, ...] | range
    waits: str
    own_key: LazyPattern | None = None
    key: LazyPattern = _ANY
    own_value: bool = False
    wake: Callable[[bytes, Tell], int] | None = None
    chosen_values: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether what looks like a lock of it is one."""
        return self.own_key is not None or self.own_value

    def has_own(self, key: bytes) -> bool:
        """Whether a key has the form that its keys alone have."""
        return self.own_key is not None and self.own_key.fullmatch(key) is not None


LIBRARIES = (
    Library("celery-once", _UUID_1, (32,), "do not wait: they refuse the task", LazyPattern("qo_.+")),
    Library(
        "python-redis-lock",
        _BASE64_18,
        (24,),
        "wait for a signal",
        LazyPattern("lock:.+"),
        wake=_push_signal,
        chosen_values=True,
    ),
    Library("rueidislock", LazyPattern(".{24}"), (24,), "are notified by the server", _RUEIDISLOCK_KEY),
    Library("pottery", _UUID, (36,), "ask again within 0.2 s", LazyPattern("redlock:.+")),
    Library("RedLock.net", _UUID, (36,), "ask again after the retry time of the program", LazyPattern("redlock:.+")),
    Library("redis-semaphore", _UUID, (36,), "ask again every 0.01 s", LazyPattern("mutex:.+")),
    Library(
        "ShedLock",
        _SHEDLOCK,
        range(33, MAX_VALUE + 1),
        "do not wait: they ask again when the job is due again",
        LazyPattern("job-lock:.+"),
        own_value=True,
    ),
    # These have keys of any form.
    Library("redis-py", _UUID_1, (32,), "ask again every 0.1 s"),
    Library("pyredisson", LazyPattern("[0-9a-f]{40}"), (40,), "ask again by themselves"),
    Library("node-redlock", _HEX_16, (32,), "ask again within 0.3 s"),
    Library("redlock-universal", _HEX_16, (32,), "ask again every 0.1 s"),
    Library("redsync", _BASE64_16, (24,), "ask again within 0.25 s"),
    Library("redislock", _URL_BASE64_16, (22,), "ask again as their retry strategy says"),
    Library("sherlock", _UUID, (36,), "ask again every 0.1 s"),
    Library(
        "Spring Integration",
        _UUID,
        (36,),
        "wait for a message, or ask again every 0.1 s in spin mode",
        key=LazyPattern(".+:.+"),
        wake=_publish,
    ),
)

#: How many bytes the tokens of known libraries have, where that is always the same.
TOKEN_SIZES = frozenset(size for each in LIBRARIES if isinstance(each.sizes, tuple) for size in each.sizes)

_BY_SIZE = [[each for each in LIBRARIES if size in each.sizes] for size in range(MAX_VALUE + 1)]


class TokenView(NamedTuple):
    """What the value of a string says of the lock that it may be.

    Attributes:
        libraries: The libraries that store such a value under such a key. If there are any, few other values do.
        made: When the token was made, in Unix seconds, if it says so.
        host: The machine of the holder, if it says so.
    """

    libraries: tuple[Library, ...]
    made: float | None = None
    host: str | None = None

    @property
    def runtime(self) -> str:
        """The library, if it is the only one; ``"unknown"``: more than one, or none that is known."""
        return self.libraries[0].name if len(self.libraries) == 1 and self.is_known else "unknown"

    @property
    def is_known(self) -> bool:
        """Whether nothing but a lock looks like this, or has the form of our own tokens."""
        return self.made is not None or any(each.is_certain or each.name == "pyredisson" for each in self.libraries)

    def is_listed(self, *, expires: bool) -> bool:
        """Whether it is listed among all keys. Asked for by its name or a pattern, any is."""
        return expires or bool(self.libraries)

    def is_likely(self, *, expires: bool) -> bool:
        """Whether it is a lock rather than the data of a program. Some libraries' need no expiry for that."""
        certain = self.made is not None or any(each.is_certain for each in self.libraries)
        return certain or (expires and bool(self.libraries))


def read_token(key: bytes, value: bytes, now: float) -> TokenView | None:
    """Find out whose token a string may be; ``None`` if it is too long for one, or a number: a semaphore or a latch.

    redis-py's tokens are version 1 UUIDs, which show when they were made: a hash that looks the same is unlikely.
    """
    if not 0 < len(value) <= MAX_VALUE or read_count(value) is not None:
        return None
    made = _made(value, now) if _UUID_1.fullmatch(value) else None
    fitting = [each for each in _BY_SIZE[len(value)] if each.value.fullmatch(value)]
    if made is None:
        fitting = [each for each in fitting if each.value is not _UUID_1]
    if own := [each for each in fitting if each.own_value or each.has_own(key)]:
        said = _SHEDLOCK.fullmatch(value)
        return TokenView(tuple(own), made, None) if said is None else TokenView(tuple(own), *_said(said))
    if len(value) > MAX_TOKEN:
        return None
    found = [each for each in fitting if each.own_key is None and each.key.fullmatch(key)]
    return TokenView(tuple(found[:1] if made is not None else found), made)


def _made(value: bytes, now: float) -> float | None:
    made = (UUID(value.decode()).time - _GREGORIAN) / 1e7
    return made if now - _YEAR < made < now + 86_400 else None


def _said(found: re.Match[bytes]) -> tuple[float | None, str]:
    """Return when the lock was acquired, and on which machine."""
    try:
        made = datetime.fromisoformat(f"{found[1].decode()}+00:00").timestamp()
    except ValueError:
        made = None
    return made, found[2].decode()


def may_be_known(key: bytes, size: int) -> bool:
    """Whether a known library stores strings of this size under such keys, and no other program does."""
    return size <= MAX_VALUE and any(each.has_own(key) for each in _BY_SIZE[size])


def keys_of_lock(key: bytes) -> list[bytes]:
    """Return all keys of the lock that a key belongs to, the first one first: one, but for rueidislock."""
    if (found := _RUEIDISLOCK_KEY.fullmatch(key)) is None:
        return [key]
    start, end = found.span(1)
    return [key[:start] + number + key[end:] for number in (b"0", b"1", b"2")]


def wake_waiters(key: bytes, value: bytes, now: float, tell: Tell) -> tuple[int, str]:
    """Wake the waiters of a lock whose key was deleted, as its library does.

    Returns:
        How many clients were notified, and that or what else is known of its waiters, in words.
    """
    view = read_token(key, value, now)
    libraries = _possible(key, view)
    for each in libraries:
        if each.wake is not None and (count := each.wake(key, tell)):
            return count, f"notified {count} client{'s' if count > 1 else ''} of {each.name}"
    return 0, _waiters_text(view, libraries)


def _waiters_text(view: TokenView | None, libraries: Sequence[Library]) -> str:
    each_says = "; ".join(f"those of {each.name} {each.waits}" for each in libraries)
    if view is not None and view.is_known:
        return each_says
    return f"whether clients wait for it is not known{f': {each_says}' if each_says else ''}"


def _possible(key: bytes, view: TokenView | None) -> tuple[Library, ...]:
    """Return whose lock it may be: of values that no library makes, those who let programs choose them."""
    found = () if view is None else view.libraries
    return found or tuple(each for each in LIBRARIES if each.chosen_values and each.has_own(key))


# ---- foreign ---------------------------------------------------------------------------------------------------------
# A key that is no lock: what it is called, everywhere. Pure.


#: The types of Redis whose names are no words.
_WORDS = {"zset": "sorted set"}

#: How the keys of redis-semaphore's semaphores begin: a sorted set has the permits that are taken.
FOREIGN_SEMAPHORE = b"semaphore:"


def foreign_text(key_type: str, key: bytes) -> str:
    """Return what a key is that holds no lock: ``"no lock: the key holds a hash of another program"``.

    Args:
        key_type: What ``TYPE`` answers for it.
        key: The key.
    """
    is_semaphore = key_type == "zset" and key.startswith(FOREIGN_SEMAPHORE)
    whose = ", as a semaphore of redis-semaphore is" if is_semaphore else " of another program"
    return f"no lock: the key holds a {_WORDS.get(key_type, key_type)}{whose}"
