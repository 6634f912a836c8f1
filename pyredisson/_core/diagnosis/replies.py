"""How Redis's answers about owners and clients are read: everywhere, by these functions alone. Pure.

What is stored may be anything: broken, huge, or made to harm. A reader takes what it can use, leaves the rest, and
raises nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple, final

MAX_PRESENCE_BYTES: Final = 64 * 1024
MAX_ENTRIES: Final = 1000  # of one presence entry
MAX_PERIODS: Final = 3  # without a report, after which a client is probably gone
MAX_TEXT: Final = 256  # characters of a name of a thread, an application, a machine
MAX_STACK: Final = 64  # lines

CLIENT_ID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OWNER: Final = re.compile(rf"({CLIENT_ID}):(-?\d{{1,20}})(:write|:ran)?(?::[0-9a-f]{{32}})?".encode())
_CLIENT_NAME: Final = re.compile(rf"pyredisson:([!-9;-~]{{1,64}}):([!-9;-~]{{1,64}}):(\d{{1,10}}):({CLIENT_ID})")
_WORD: Final = re.compile(rf"(?<![^ ])(id|addr|name|age|flags|lib-name|lib-ver)=([^ ]{{0,{MAX_TEXT}}})")
_DIGITS: Final = re.compile(rb"-?\d{1,19}")


def read_count(value: object) -> int | None:
    """Read a number as Redis stores it; ``None`` for anything else."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, bytes) and _DIGITS.fullmatch(value) else None


# ---- owners ---------------------------------------------------------------------------------------------------------


class RanBy(NamedTuple):
    """Who has run what runs once: the application, the machine and the process."""

    app: str | None = None
    host: str | None = None
    pid: int | None = None


class StoredOwner(NamedTuple):
    """The owner that a hash field names.

    Attributes:
        client_id: The client's id.
        thread_id: The number of its thread or task.
        writes: Whether it is the holder of a write lock.
        ran: Whether its run has ended, and the name stays taken.
    """

    client_id: str
    thread_id: int
    writes: bool = False
    ran: bool = False


def read_owner(field: bytes) -> StoredOwner | None:
    """Read a field of a lock's hash; ``None`` if it names no owner."""
    found = _OWNER.fullmatch(field)
    return (
        None
        if found is None
        else StoredOwner(found[1].decode(), int(found[2]), found[3] == b":write", found[3] == b":ran")
    )


def read_runner(value: bytes) -> RanBy:
    """Read who has run what runs once."""
    rest, _, pid = value[: 3 * MAX_TEXT].decode(errors="replace").rpartition(":")
    app, _, host = rest.rpartition(":")
    return RanBy(app or None, host, int(pid)) if host and pid.isdecimal() and len(pid) < 11 else RanBy()


def token_id(token: bytes) -> str:
    """Return what stands for the token of a token lock where it must not be known: the beginning of its digest."""
    return sha256(token).hexdigest()[:8]


# ---- presence -------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class PresenceEntry:
    """What a client reports of one of its holds or waits.

    Attributes:
        kind: The word of ``get_*``.
        name: The key in Redis.
        thread_id: The number of the thread or task.
        thread: Its name.
        since: Since when, in Unix seconds.
        holds: How many nested holds.
        watchdog: Whether the watchdog renews it.
        token_id: The first digits of the SHA-256 of a token lock's token.
        stack: The stack, if it was recorded.
        reason: Why, if ``pyredisson lock`` holds it.
    """

    kind: str
    name: str
    thread_id: int | None = None
    thread: str | None = None
    since: float | None = None
    holds: int = 1
    watchdog: bool | None = None
    token_id: str | None = None
    stack: tuple[str, ...] = ()
    reason: str | None = None


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
        holds=_entries(said.get("holds"), written),
        waits=_entries(said.get("waits"), written),
        more=max(0, _whole(said.get("more")) or 0),
        overdue=written is not None and period is not None and now - written > MAX_PERIODS * period / 1000,
    )


def _entries(said: object, written: float | None) -> tuple[PresenceEntry, ...]:
    listed = said[:MAX_ENTRIES] if isinstance(said, list) else ()
    return tuple(entry for each in listed if (entry := _entry(each, written)) is not None)


def _entry(said: object, written: float | None) -> PresenceEntry | None:
    if not isinstance(said, dict):
        return None
    kind, name = said.get("kind"), said.get("name")
    if not isinstance(kind, str) or not isinstance(name, str) or len(kind) > MAX_TEXT:
        return None
    ago, stack, watchdog = _number(said.get("ms")), said.get("stack"), said.get("watchdog")
    lines = map(_text, stack[:MAX_STACK] if isinstance(stack, list) else ())
    return PresenceEntry(
        kind=_encodable(kind),
        name=_encodable(name),
        thread_id=_whole(said.get("id")),
        thread=_text(said.get("thread")),
        since=written - ago / 1000 if written is not None and ago is not None else None,
        holds=_whole(said.get("holds")) or 1,
        watchdog=watchdog if isinstance(watchdog, bool) else None,
        token_id=_text(said.get("token_id")),
        stack=tuple(line for line in lines if line is not None),
        reason=_text(said.get("reason")),
    )


def _encodable(text: str) -> str:
    """JSON can hold half a character, which cannot be written anywhere."""
    return text.encode("utf-8", "backslashreplace").decode()


def _text(value: object) -> str | None:
    return _encodable(value[:MAX_TEXT]) if isinstance(value, str) and value else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e15 else None  # NaN is not less than anything.


# ---- connections ----------------------------------------------------------------------------------------------------


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
    text = line[: 16 * MAX_TEXT].decode("ascii", "backslashreplace").rstrip("\r")
    said: dict[str, str] = dict(_WORD.findall(text))
    number, age, name = said.get("id", ""), said.get("age", ""), said.get("name", "")
    if not number.isdecimal() or len(number) > 20:
        return None
    ours = _CLIENT_NAME.fullmatch(name)
    app, host, pid, client_id = ours.groups() if ours is not None else (None,) * 4
    return Connection(
        number=int(number),
        address=said.get("addr", ""),
        name=name,
        library=said.get("lib-name", ""),
        version=said.get("lib-ver", ""),
        age_seconds=int(age) if age.isdecimal() and len(age) < 12 else 0,
        kind=said.get("flags", ""),
        client_id=client_id,
        app=None if app == "-" else app,
        host=host,
        pid=None if pid is None else int(pid),
    )
