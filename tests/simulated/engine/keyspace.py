"""What a simulated server stores, and the commands on it.

Modelled on Redis 7.0 under RESP2. Where Redis 6.2 and Valkey 9.1 answer something else, it is said in
:mod:`tests.simulated.engine.redis`. A command is a method; :data:`COMMANDS` finds it by its name.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from typing_extensions import Self

Reply: TypeAlias = "int | bytes | list[Any] | None"
"""What a command or script replies: an integer, a (bulk or status) string, an array of replies, or null."""

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1


class ServerError(Exception):
    """An error reply.

    Attributes:
        code: Its first word: ``WRONGTYPE``, ``OOM``, ``NOSCRIPT``, ``ERR``, ...
        message: The rest.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    @classmethod
    def from_text(cls, text: str) -> ServerError:
        """The error whose line on the wire, without the leading ``-``, is ``text``."""
        code, _, message = text.partition(" ")
        return cls(code, message)

    def __str__(self) -> str:
        return f"{self.code} {self.message}" if self.message else self.code


class Status(bytes):
    """A status reply (``+OK``). A client sees the bytes; a script sees a table with the field ``ok``."""

    __slots__ = ()


OK: Final = Status(b"OK")


class SortedSet:
    """Members with scores, in the order of score, then member."""

    __slots__ = ("_order", "scores")

    def __init__(self, scores: dict[bytes, float] | None = None) -> None:
        self.scores = scores or {}
        self._order: list[tuple[float, bytes]] | None = None

    def __len__(self) -> int:
        return len(self.scores)

    def copy(self) -> Self:
        """Another one with the same members."""
        return type(self)(self.scores.copy())

    def put(self, member: bytes, score: float) -> None:
        """Add a member, or change its score."""
        self.scores[member] = score
        self._order = None

    def remove(self, member: bytes) -> bool:
        """Take a member out. Returns whether it was there."""
        self._order = None
        return self.scores.pop(member, None) is not None

    def in_order(self) -> list[tuple[float, bytes]]:
        """All members by score, and by bytes where scores are equal."""
        if self._order is None:
            self._order = sorted((score, member) for member, score in self.scores.items())
        return self._order

    def between(self, low: _Bound, high: _Bound) -> list[tuple[float, bytes]]:
        """The members whose scores lie within the bounds, in order."""
        order = self.in_order()
        scores = [score for score, _ in order]
        first = (bisect_right if low.exclusive else bisect_left)(scores, low.score)
        last = (bisect_left if high.exclusive else bisect_right)(scores, high.score)
        return order[first:last]


class _Bound(NamedTuple):
    score: float
    exclusive: bool


AnyValue = TypeVar("AnyValue", "dict[bytes, bytes]", "list[bytes]", SortedSet)

Value: TypeAlias = "bytes | dict[bytes, bytes] | list[bytes] | SortedSet"

TYPES: Final[dict[type, str]] = {bytes: "string", dict: "hash", list: "list", SortedSet: "zset"}
"""What ``TYPE`` calls a value."""


class Command(NamedTuple):
    """How to run a command.

    Attributes:
        run: Called with the keyspace and the arguments.
        writes: Whether it may change a key. (PUBLISH does not.)
        deny_oom: Whether a server out of memory refuses it.
        name: In lower case.
    """

    run: Callable[..., Reply]
    writes: bool
    deny_oom: bool
    name: str


COMMANDS: Final[dict[bytes, Command]] = {}
"""Every command, by its name in lower and in upper case."""


def find_command(name: bytes) -> Command | None:
    """The command of that name, however it is spelt."""
    return COMMANDS.get(name) or COMMANDS.get(name.lower())


_Method = TypeVar("_Method", bound=Callable[..., Any])


def redis_command(name: str, *, writes: bool = False, deny_oom: bool = False) -> Callable[[_Method], _Method]:
    """Enter a method into :data:`COMMANDS`. Its arguments are those of the command: others are a ``TypeError``."""

    def enter(method: _Method) -> _Method:
        entry = Command(method, writes, deny_oom, name.lower())
        COMMANDS[name.lower().encode()] = COMMANDS[name.upper().encode()] = entry
        return method

    return enter


def _wrong_type() -> ServerError:
    return ServerError("WRONGTYPE", "Operation against a key holding the wrong kind of value")


def _syntax_error() -> ServerError:
    return ServerError("ERR", "syntax error")


def _not_an_integer() -> ServerError:
    return ServerError("ERR", "value is not an integer or out of range")


def parse_integer(text: bytes, error: Callable[[], ServerError] = _not_an_integer) -> int:
    """A 64-bit integer, in the one spelling that Redis accepts: no ``+``, blanks, or leading zeros."""
    number = _integer_or_none(text)
    if number is None:
        raise error()
    return number


@lru_cache(maxsize=4096)
def _integer_or_none(text: bytes) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if b"%d" % number == text and INT64_MIN <= number <= INT64_MAX else None


def _float(text: bytes, error: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ServerError("ERR", error) from None
    if math.isnan(number):
        raise ServerError("ERR", error)
    return number


def _score(text: bytes) -> float:
    return _float(text, "value is not a valid float")


def _bound(text: bytes) -> _Bound:
    exclusive = text.startswith(b"(")
    return _Bound(_float(text[exclusive:], "min or max is not a float"), exclusive)


def score_text(score: float) -> bytes:
    """How the server spells a score."""
    return b"%.17g" % (score or 0.0)  # 0.0 for -0.0


def _slice(length: int, start: int, stop: int) -> slice:
    """Redis's inclusive range with negative indexes from the end, as Python's."""
    first = max(start + length if start < 0 else start, 0)
    last = stop + length if stop < 0 else stop
    return slice(first, max(last + 1, 0))


class Keyspace:
    """The keys of one server. Time is what :attr:`now_us` says; whoever runs a command sets it first.

    Attributes:
        now_us: The server's wall clock in microseconds since the Unix epoch.
    """

    def __init__(self) -> None:
        self.now_us = 0
        self._values: dict[bytes, Value] = {}
        self._deadlines: dict[bytes, int] = {}

    # -- Keys

    @property
    def _now_ms(self) -> int:
        return self.now_us // 1000

    def _find(self, key: bytes) -> Value | None:
        deadline = self._deadlines.get(key)
        if deadline is not None and self.now_us // 1000 > deadline:  # in its last millisecond it is still there
            self._forget(key)
            return None
        return self._values.get(key)

    def _forget(self, key: bytes) -> bool:
        self._deadlines.pop(key, None)
        return self._values.pop(key, None) is not None

    def _string(self, key: bytes) -> bytes | None:
        value = self._find(key)
        if value is None or type(value) is bytes:
            return value
        raise _wrong_type()

    def _typed(self, key: bytes, kind: type[AnyValue]) -> AnyValue:
        """The value of a key; of one that is missing, a new one, which is not stored."""
        value = self._find(key)
        if value is None:
            return kind()
        if type(value) is kind:
            return value
        raise _wrong_type()

    def _store(self, key: bytes, value: dict[bytes, bytes] | list[bytes] | SortedSet) -> None:
        """Store what was changed. What is empty is no key."""
        if value:
            self._values[key] = value
        else:
            self._forget(key)

    def _live_keys(self) -> list[bytes]:
        gone = {key for key, deadline in self._deadlines.items() if self._now_ms > deadline}
        return [key for key in self._values if key not in gone]

    @redis_command("DEL", writes=True)
    def _del(self, key: bytes, *more: bytes) -> Reply:
        return sum(self._find(each) is not None and self._forget(each) for each in (key, *more))

    @redis_command("EXISTS")
    def _exists(self, key: bytes, *more: bytes) -> Reply:
        if not more:
            return 1 if self._find(key) is not None else 0
        return sum(self._find(each) is not None for each in (key, *more))

    @redis_command("TYPE")
    def _type(self, key: bytes) -> Reply:
        value = self._find(key)
        return Status(b"none" if value is None else TYPES[type(value)].encode())

    @redis_command("KEYS")
    def _keys(self, pattern: bytes) -> Reply:
        assert pattern == b"*", "only all keys can be listed"
        return list(self._live_keys())

    @redis_command("FLUSHALL", writes=True)
    def _flushall(self) -> Reply:
        self._values.clear()
        self._deadlines.clear()
        return OK

    # -- Time

    @redis_command("TIME")
    def _time(self) -> Reply:
        seconds, microseconds = divmod(self.now_us, 1_000_000)
        return [b"%d" % seconds, b"%d" % microseconds]

    @redis_command("PTTL")
    def _pttl(self, key: bytes) -> int:
        if self._find(key) is None:
            return -2
        deadline = self._deadlines.get(key)
        return -1 if deadline is None else deadline - self.now_us // 1000

    @redis_command("PEXPIRE", writes=True)
    def _pexpire(self, key: bytes, milliseconds: bytes) -> Reply:
        deadline = parse_integer(milliseconds) + self._now_ms
        if deadline > INT64_MAX:
            raise ServerError("ERR", "invalid expire time in 'pexpire' command")
        if self._find(key) is None:
            return 0
        if deadline <= self._now_ms:
            self._forget(key)
        else:
            self._deadlines[key] = deadline
        return 1

    @redis_command("PERSIST", writes=True)
    def _persist(self, key: bytes) -> Reply:
        return 0 if self._find(key) is None or self._deadlines.pop(key, None) is None else 1

    # -- Strings

    @redis_command("GET")
    def _get(self, key: bytes) -> Reply:
        return self._string(key)

    @redis_command("SET", writes=True, deny_oom=True)
    def _set(self, key: bytes, value: bytes, *options: bytes) -> Reply:
        if not options:
            self._values[key] = value
            self._deadlines.pop(key, None)
            return OK
        only_if_missing, lasts = False, None
        match tuple(option.upper() for option in options):
            case (b"NX",):
                only_if_missing = True
            case (b"PX", milliseconds):
                lasts = parse_integer(milliseconds)
            case (b"NX", b"PX", milliseconds) | (b"PX", milliseconds, b"NX"):
                only_if_missing, lasts = True, parse_integer(milliseconds)
            case _:
                raise _syntax_error()
        if self._find(key) is not None and only_if_missing:
            return None
        self._values[key] = value
        self._deadlines.pop(key, None)
        if lasts is not None:
            self._deadlines[key] = lasts + self._now_ms
        return OK

    def _add(self, key: bytes, amount: int) -> int:
        old = self._string(key)
        new = (parse_integer(old) if old is not None else 0) + amount
        if not INT64_MIN <= new <= INT64_MAX:
            raise ServerError("ERR", "increment or decrement would overflow")
        self._values[key] = b"%d" % new
        return new

    @redis_command("INCR", writes=True, deny_oom=True)
    def _incr(self, key: bytes) -> Reply:
        return self._add(key, 1)

    @redis_command("DECR", writes=True, deny_oom=True)
    def _decr(self, key: bytes) -> Reply:
        return self._add(key, -1)

    @redis_command("INCRBY", writes=True, deny_oom=True)
    def _incrby(self, key: bytes, increment: bytes) -> Reply:
        return self._add(key, parse_integer(increment))

    @redis_command("DECRBY", writes=True, deny_oom=True)
    def _decrby(self, key: bytes, decrement: bytes) -> Reply:
        return self._add(key, -parse_integer(decrement))

    # -- Hashes

    @redis_command("HSET", writes=True, deny_oom=True)
    def _hset(self, key: bytes, field: bytes, value: bytes, *more: bytes) -> Reply:
        fields = self._typed(key, dict)
        before = len(fields)
        fields[field] = value
        if more:
            fields.update(zip(more[::2], more[1::2], strict=True))
        self._store(key, fields)
        return len(fields) - before

    @redis_command("HGET")
    def _hget(self, key: bytes, field: bytes) -> Reply:
        return self._typed(key, dict).get(field)

    @redis_command("HMGET")
    def _hmget(self, key: bytes, field: bytes, *more: bytes) -> Reply:
        fields = self._typed(key, dict)
        return [fields.get(each) for each in (field, *more)]

    @redis_command("HRANDFIELD")
    def _hrandfield(self, key: bytes, count: bytes) -> Reply:
        # Nothing here is left to chance: the last ones are drawn. No script may depend on which they are.
        return list(reversed(self._typed(key, dict)))[: parse_integer(count)]

    @redis_command("HDEL", writes=True)
    def _hdel(self, key: bytes, field: bytes, *more: bytes) -> Reply:
        fields = self._typed(key, dict)
        gone = sum(fields.pop(each, None) is not None for each in (field, *more))
        self._store(key, fields)
        return gone

    @redis_command("HEXISTS")
    def _hexists(self, key: bytes, field: bytes) -> Reply:
        return int(field in self._typed(key, dict))

    @redis_command("HINCRBY", writes=True, deny_oom=True)
    def _hincrby(self, key: bytes, field: bytes, increment: bytes) -> Reply:
        amount = parse_integer(increment)
        fields = self._typed(key, dict)
        old = fields.get(field)
        new = amount if old is None else parse_integer(old, _hash_value_is_not_an_integer) + amount
        if not INT64_MIN <= new <= INT64_MAX:
            raise ServerError("ERR", "increment or decrement would overflow")
        fields[field] = b"%d" % new
        self._store(key, fields)
        return new

    @redis_command("HKEYS")
    def _hkeys(self, key: bytes) -> Reply:
        return list(self._typed(key, dict))

    @redis_command("HLEN")
    def _hlen(self, key: bytes) -> Reply:
        return len(self._typed(key, dict))

    @redis_command("HGETALL")
    def _hgetall(self, key: bytes) -> Reply:
        return [text for pair in (self._typed(key, dict)).items() for text in pair]

    # -- Lists

    @redis_command("LINDEX")
    def _lindex(self, key: bytes, index: bytes) -> Reply:
        items, at = self._typed(key, list), parse_integer(index)
        return items[at] if -len(items) <= at < len(items) else None

    @redis_command("LPOP", writes=True)
    def _lpop(self, key: bytes) -> Reply:
        items = self._typed(key, list)
        taken = items.pop(0) if items else None
        self._store(key, items)
        return taken

    @redis_command("LPUSH", writes=True, deny_oom=True)
    def _lpush(self, key: bytes, item: bytes, *more: bytes) -> Reply:
        items = self._typed(key, list)
        items[:0] = reversed((item, *more))
        self._store(key, items)
        return len(items)

    @redis_command("RPUSH", writes=True, deny_oom=True)
    def _rpush(self, key: bytes, item: bytes, *more: bytes) -> Reply:
        items = self._typed(key, list)
        items += (item, *more)
        self._store(key, items)
        return len(items)

    @redis_command("LRANGE")
    def _lrange(self, key: bytes, start: bytes, stop: bytes) -> Reply:
        first, last = parse_integer(start), parse_integer(stop)
        items = self._typed(key, list)
        return items[_slice(len(items), first, last)]

    @redis_command("LREM", writes=True)
    def _lrem(self, key: bytes, count: bytes, item: bytes) -> Reply:
        wanted = parse_integer(count)
        items = self._typed(key, list)
        places = [at for at, each in enumerate(items) if each == item]
        if wanted:
            places = places[:wanted] if wanted > 0 else places[wanted:]
        for at in reversed(places):
            del items[at]
        self._store(key, items)
        return len(places)

    # -- Sorted sets

    @redis_command("ZADD", writes=True, deny_oom=True)
    def _zadd(self, key: bytes, option_or_score: bytes, next_one: bytes, *more: bytes) -> Reply:
        pairs = (option_or_score, next_one, *more)
        option = option_or_score.upper()
        if option in (b"XX", b"NX"):
            pairs = pairs[1:]
        if len(pairs) % 2:
            raise _syntax_error()
        scores = [_score(text) for text in pairs[::2]]
        members = self._typed(key, SortedSet)
        added = 0
        for score, member in zip(scores, pairs[1::2], strict=True):
            is_new = member not in members.scores
            if option not in (b"XX", b"NX") or is_new == (option == b"NX"):
                members.put(member, score)
                added += is_new
        self._store(key, members)
        return added

    @redis_command("ZINCRBY", writes=True, deny_oom=True)
    def _zincrby(self, key: bytes, increment: bytes, member: bytes) -> Reply:
        added = _score(increment)
        members = self._typed(key, SortedSet)
        members.put(member, members.scores.get(member, 0.0) + added)
        self._store(key, members)
        return score_text(members.scores[member])

    @redis_command("ZREM", writes=True)
    def _zrem(self, key: bytes, member: bytes, *more: bytes) -> Reply:
        members = self._typed(key, SortedSet)
        gone = sum(members.remove(each) for each in (member, *more))
        self._store(key, members)
        return gone

    @redis_command("ZSCORE")
    def _zscore(self, key: bytes, member: bytes) -> Reply:
        score = self._typed(key, SortedSet).scores.get(member)
        return None if score is None else score_text(score)

    @redis_command("ZCARD")
    def _zcard(self, key: bytes) -> Reply:
        return len(self._typed(key, SortedSet))

    @redis_command("ZCOUNT")
    def _zcount(self, key: bytes, low: bytes, high: bytes) -> Reply:
        bounds = _bound(low), _bound(high)
        return len(self._typed(key, SortedSet).between(*bounds))

    @redis_command("ZRANGE")
    def _zrange(self, key: bytes, start: bytes, stop: bytes, *options: bytes) -> Reply:
        if any(option.upper() != b"WITHSCORES" for option in options):
            raise _syntax_error()
        first, last = parse_integer(start), parse_integer(stop)
        members = self._typed(key, SortedSet)
        found = members.in_order()[_slice(len(members), first, last)]
        return _members(found, with_scores=bool(options))

    @redis_command("ZRANGEBYSCORE")
    def _zrangebyscore(self, key: bytes, low: bytes, high: bytes, *options: bytes) -> Reply:
        with_scores, offset, limit = False, 0, -1
        while options:
            match options[0].upper(), len(options):
                case b"WITHSCORES", _:
                    with_scores, options = True, options[1:]
                case b"LIMIT", given if given >= 3:
                    offset, limit, options = parse_integer(options[1]), parse_integer(options[2]), options[3:]
                case _:
                    raise _syntax_error()
        bounds = _bound(low), _bound(high)
        members = self._typed(key, SortedSet)
        found = [] if offset < 0 else members.between(*bounds)[offset:]
        return _members(found if limit < 0 else found[:limit], with_scores)


def _hash_value_is_not_an_integer() -> ServerError:
    return ServerError("ERR", "hash value is not an integer")


def _members(found: list[tuple[float, bytes]], with_scores: bool) -> list[Any]:
    if not with_scores:
        return [member for _, member in found]
    return [text for score, member in found for text in (member, score_text(score))]
