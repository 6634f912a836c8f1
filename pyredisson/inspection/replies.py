"""How what servers answer is read: owners, presence entries, lists of clients. Pure, and never an exception.

What is stored may be anything: broken, huge, or made to harm. A reader takes what it can use and leaves the rest.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final
from uuid import UUID

from pyredisson.inspection.model import PresenceEntry, RuntimeName

MAX_PRESENCE_BYTES = 64 * 1024
MAX_ENTRIES = 1000  # of one presence entry
MAX_DOUBTFUL = 1000  # strings that may be locks or data; more are data
MAX_TOKEN = 64  # bytes of the value of a token lock
TOKEN_SIZES = frozenset({22, 24, 32, 36, 40})  # of the tokens of known libraries
MAX_PERIODS = 3  # without a report, after which a client is probably gone
MAX_TEXT = 256  # characters of a name of a thread, an application, a machine
MAX_STACK = 64  # lines

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OWNER = re.compile(rf"({_UUID}):(-?\d{{1,20}})(:write)?(?::[0-9a-f]{{32}})?".encode())
_CLIENT_NAME = re.compile(rf"pyredisson:([!-9;-~]{{1,64}}):([!-9;-~]{{1,64}}):(\d{{1,10}}):({_UUID})")
_DIGITS = re.compile(rb"-?\d{1,19}")
_BASE64 = r"(?=.*[A-Z])(?=.*[a-z])[0-9A-Za-z_-]{22}"  # for URLs; a word of one case is none
_TOKEN = re.compile(rf"[0-9a-f]{{32}}|[0-9a-f]{{40}}|[0-9A-Za-z+/]{{22}}==|{_BASE64}|(?i:{_UUID})".encode())

#: 100 ns steps from the beginning of the Gregorian calendar, from which version 1 UUIDs count, to 1970.
_GREGORIAN = 0x01B21DD213814000
_YEAR = 366 * 86_400


def decode_name(name: bytes) -> str:
    """Return a key as text that can be encoded and printed anywhere; bytes that are no UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


def encode_name(name: str | bytes) -> bytes:
    """Return the key of a name. Arguments of a command line that are no UTF-8 come back as the bytes they were."""
    return name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")


def read_count(value: object) -> int | None:
    """Read a number as Redis stores it; ``None`` for anything else."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, bytes) and _DIGITS.fullmatch(value) else None


# ---- owners and tokens -----------------------------------------------------------------------------------------------


class StoredOwner(NamedTuple):
    """The owner that a hash field names.

    Attributes:
        client_id: The client's id.
        thread_id: The number of its thread or task.
        writes: Whether it is the holder of a write lock.
    """

    client_id: str
    thread_id: int
    writes: bool


def read_owner(field: bytes) -> StoredOwner | None:
    """Read a field of a lock's hash; ``None`` if it names no owner."""
    found = _OWNER.fullmatch(field)
    return None if found is None else StoredOwner(found[1].decode(), int(found[2]), found[3] is not None)


class TokenView(NamedTuple):
    """What the value of a string says of the lock that it may be.

    Attributes:
        runtime: The library whose tokens look like this.
        has_form: Whether it has the form of the tokens of a known library: few other values do.
        made: When the token was made, in Unix seconds, if it says so.
    """

    runtime: RuntimeName
    has_form: bool
    made: float | None

    def is_listed(self, *, expires: bool) -> bool:
        """Whether it is listed among all keys. Asked for by its name or a pattern, any is."""
        return expires or self.has_form

    def is_likely(self, *, expires: bool) -> bool:
        """Whether it is a lock rather than the data of a program. redis-py's tokens need no expiry for that."""
        return self.has_form and (expires or self.made is not None)


def read_token(value: bytes, now: float) -> TokenView | None:
    """Find out whose token a string may be; ``None`` if it is too long for one, or a number: a semaphore or a latch.

    redis-py's tokens are version 1 UUIDs, which show when they were made: a hash that looks the same is unlikely. Ours
    are 40 random hexadecimal digits, as SHA-1 sums are. Other libraries write a UUID (pottery, RedLock.net), 16 or 20
    bytes as hexadecimal digits (node-redlock), or 16 as base64 (redsync, python-redis-lock, redislock).
    """
    if not 0 < len(value) <= MAX_TOKEN or read_count(value) is not None:
        return None
    if re.fullmatch(rb"[0-9a-f]{32}", value):
        made = (_made(UUID(value.decode())) if value[12:13] == b"1" and value[16:17] in b"89ab" else None) or 0.0
        if now - _YEAR < made < now + 86_400:
            return TokenView("redis-py", True, made)
    ours = re.fullmatch(rb"[0-9a-f]{40}", value)
    return TokenView("pyredisson" if ours else "unknown", _TOKEN.fullmatch(value) is not None, None)


def _made(uuid: UUID) -> float:
    return (uuid.time - _GREGORIAN) / 1e7


# ---- presence --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class StoredPresence:
    """What a client says of itself.

    Attributes:
        client_id: The client's id.
        version: Of the library.
        app: ``Config.client_name``.
        host: The machine.
        pid: The process.
        written: When it was written, in Unix seconds.
        holds: What it holds.
        waits: What it waits for.
        more: How many entries did not fit.
        overdue: Whether it should have been written again long ago: the client is probably gone.
    """

    client_id: str
    version: str | None = None
    app: str | None = None
    host: str | None = None
    pid: int | None = None
    written: float | None = None
    holds: tuple[PresenceEntry, ...] = ()
    waits: tuple[PresenceEntry, ...] = ()
    more: int = 0
    overdue: bool = False


def read_presence(client_id: str, value: object, time_to_live_ms: object, now: float) -> StoredPresence | None:
    """Read the presence entry of a client; ``None`` if it is none.

    Args:
        client_id: The client's id: the end of the key.
        value: What is stored.
        time_to_live_ms: The key's time to live.
        now: The time, in Unix seconds.
    """
    if not isinstance(value, bytes) or len(value) > MAX_PRESENCE_BYTES:
        return None
    try:
        said = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    total, left = _number(said.get("ttl_ms")), read_count(time_to_live_ms)
    period = _number(said.get("period_ms"))
    written = now - max(0.0, total - left) / 1000 if total is not None and left is not None and left >= 0 else None
    return StoredPresence(
        client_id=client_id,
        version=_text(said.get("version")),
        app=_text(said.get("app")),
        host=_text(said.get("host")),
        pid=_whole(said.get("pid")),
        written=written,
        holds=tuple(_entries(said.get("holds"), written)),
        waits=tuple(_entries(said.get("waits"), written)),
        more=max(0, _whole(said.get("more")) or 0),
        overdue=written is not None and period is not None and now - written > MAX_PERIODS * period / 1000,
    )


def _entries(said: object, written: float | None) -> Iterable[PresenceEntry]:
    for each in said[:MAX_ENTRIES] if isinstance(said, list) else ():
        if not isinstance(each, dict):
            continue
        kind, name = each.get("kind"), each.get("name")
        if not isinstance(kind, str) or not isinstance(name, str) or len(kind) > MAX_TEXT:
            continue
        ago = _number(each.get("ms"))
        stack = each.get("stack")
        lines = [_text(line) for line in stack[:MAX_STACK]] if isinstance(stack, list) else []
        watchdog = each.get("watchdog")
        yield PresenceEntry(
            kind=_encodable(kind),
            name=_encodable(name),
            thread_id=_whole(each.get("id")),
            thread=_text(each.get("thread")),
            since=written - ago / 1000 if written is not None and ago is not None else None,
            holds=_whole(each.get("holds")) or 1,
            watchdog=watchdog if isinstance(watchdog, bool) else None,
            token_id=_text(each.get("token_id")),
            stack=tuple(line for line in lines if line is not None),
            reason=_text(each.get("reason")),
        )


def _encodable(text: str) -> str:
    """JSON can hold half a character, which cannot be written anywhere."""
    return text.encode("utf-8", "backslashreplace").decode()


def _text(value: object) -> str | None:
    return _encodable(value[:MAX_TEXT]) if isinstance(value, str) and value else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e15:
        return None  # NaN is not less than anything.
    return float(value) if math.isfinite(value) else None


# ---- clients and channels --------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Connection:
    """A connection, as ``CLIENT LIST`` describes it.

    Attributes:
        number: Its number on that server.
        address: Where it comes from.
        name: Its name.
        library: What ``CLIENT SETINFO LIB-NAME`` reported.
        version: And ``LIB-VER``.
        age_seconds: For how long it has been connected.
        kind: Its flags.
        client_id: The id of the client of ours in its name; ``None`` for any other.
        app: And its application.
        host: And its machine.
        pid: And its process.
    """

    number: int
    address: str
    name: str
    library: str
    version: str
    age_seconds: int
    kind: str
    client_id: str | None = None
    app: str | None = None
    host: str | None = None
    pid: int | None = None


def read_client_list(reply: object) -> list[Connection]:
    """Read the reply to ``CLIENT LIST``. A line that cannot be read is left out."""
    if not isinstance(reply, bytes):
        return []
    return [found for line in reply.split(b"\n") if (found := _connection(line)) is not None]


def _connection(line: bytes) -> Connection | None:
    words = line[: 16 * MAX_TEXT].decode("ascii", "backslashreplace").rstrip("\r").split(" ")
    said = {key: value for key, equals, value in (word.partition("=") for word in words) if equals}
    number = said.get("id", "")
    if not number.isdecimal() or len(number) > 20:
        return None
    age = said.get("age", "")
    name = said.get("name", "")
    ours = _CLIENT_NAME.fullmatch(name)
    app, host, pid, client_id = ours.groups() if ours is not None else (None, None, None, None)
    return Connection(
        number=int(number),
        address=said.get("addr", "")[:MAX_TEXT],
        name=name[:MAX_TEXT],
        library=said.get("lib-name", "")[:MAX_TEXT],
        version=said.get("lib-ver", "")[:MAX_TEXT],
        age_seconds=int(age) if age.isdecimal() and len(age) < 12 else 0,
        kind=said.get("flags", "")[:MAX_TEXT],
        client_id=client_id,
        app=None if app == "-" else app,
        host=host,
        pid=None if pid is None else int(pid),
    )


def read_numsub(reply: object) -> Mapping[bytes, int]:
    """Read the reply to ``PUBSUB NUMSUB``: subscribers by channel."""
    if isinstance(reply, dict):
        pairs: Sequence[Any] = list(reply.items())
    elif isinstance(reply, list):
        pairs = list(zip(reply[::2], reply[1::2], strict=False))
    else:
        return {}
    return {each: count for each, count in pairs if isinstance(each, bytes) and isinstance(count, int) and count >= 0}


def glob_to_pattern(glob: bytes) -> re.Pattern[bytes]:
    """Return the regular expression of a pattern as ``SCAN MATCH`` understands it."""
    made, at, size = b"", 0, len(glob)
    while at < size:
        one = glob[at : at + 1]
        at += 1
        if one == b"*":
            made += b"" if made.endswith(b".*") else b".*"
        elif one == b"?":
            made += b"."
        elif one == b"[" and (end := glob.find(b"]", at + 1)) > 0:
            inner = glob[at:end]
            negated, inner = inner[:1] == b"^", inner.lstrip(b"^") if inner[:1] == b"^" else inner
            ranges = b"-".join(re.escape(part) for part in inner.split(b"-"))
            made += b"[" + (b"^" if negated else b"") + (ranges or b"^") + b"]"
            at = end + 1
        else:
            if one == b"\\" and at < size:
                one = glob[at : at + 1]
                at += 1
            made += re.escape(one)
    try:
        return re.compile(made, re.DOTALL)
    except re.error:  # A range that runs backwards, for one: the server decides alone.
        return re.compile(b".*", re.DOTALL)
