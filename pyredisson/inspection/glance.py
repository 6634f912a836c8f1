"""Reading a few locks by one small request to each server, often: holders as they are stored, not who they are."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from pyredisson._core.holder_lookup import read_count
from pyredisson._core.kind import Form
from pyredisson._core.names import OBSERVERS, LockNames, SemaphoreNames, watched_channel
from pyredisson.inspection.foreign import foreign_text
from pyredisson.inspection.inspector import Inspector
from pyredisson.inspection.kinds import stored_kinds, usual_kind
from pyredisson.inspection.libraries import MAX_VALUE, read_token
from pyredisson.inspection.model import LockView, Who
from pyredisson.inspection.people import People
from pyredisson.inspection.reading import Stored
from pyredisson.inspection.replies import decode_name, encode_name, read_numsub
from pyredisson.inspection.servers import Command, Server
from pyredisson.inspection.views import view_of

MOST = 50  # holders of one lock that are read


@final
@dataclass(frozen=True)
class Glance:
    """A lock, semaphore or latch, as one small request shows it.

    Attributes:
        lock: What is stored of it. Its kind is the first of those that look the same. The owner of a string has
            ``"token "`` or ``"string "`` before it; each permit that is taken is a holder, ``"permit "`` and its id.
        queued: How many waiters its queue has; all others are clients.
        foreign: What the key is, in words, if it is no lock.
    """

    lock: LockView
    queued: int = 0
    foreign: str | None = None

    @property
    def waiting(self) -> int:
        """How many wait, as far as this shows."""
        return max(self.queued, self.lock.waiting_clients)


def channels_of(name: str) -> list[str]:
    """Return the channels on which the release of what has this name may be announced."""
    return list(dict.fromkeys(kind.names(name).channel for kind in stored_kinds().values()))


def glance_at(names: Sequence[str], inspector: Inspector) -> list[Glance]:
    """Return what is stored of some locks, also of one that is free.

    Args:
        names: Their names.
        inspector: Where they are; the masters of its servers are known.

    Raises:
        redis.exceptions.RedisError: A server does not answer, or not to this user.
        OSError: A server does not answer.
    """
    by_server: dict[Server, list[bytes]] = defaultdict(list)
    servers, prefix = inspector.servers, inspector.prefix
    keys = [encode_name(prefix + name) for name in names]
    for key in keys:
        by_server[servers.of(key)].append(key)
    found: dict[bytes, Glance] = {}
    for server, some in by_server.items():
        sharded = servers.publishes_by(server) == "SPUBLISH"
        asked = [questions(key, sharded=sharded) for key in some]
        replies = iter(server.ask_many([question for each in asked for question in each]))
        for key, each in zip(some, asked, strict=True):
            found[key] = read_glance(key, [next(replies) for _ in each], node=server.node, prefix=prefix)
    return [found[key] for key in keys]


def questions(key: bytes, *, sharded: bool = False) -> list[Command]:
    """Return the commands whose replies :func:`read_glance` reads; they belong together in one request."""
    text = key.decode("utf-8", "surrogateescape")
    lock = LockNames(text)
    return [
        ("PTTL", key),
        ("HSCAN", key, "0", "COUNT", str(MOST)),
        ("GETRANGE", key, "0", str(MAX_VALUE)),
        ("ZRANGE", encode_name(SemaphoreNames(text).taken), "0", str(MOST - 1)),
        ("GET", encode_name(lock.token)),
        ("LLEN", encode_name(lock.queue)),
        (
            "PUBSUB",
            "SHARDNUMSUB" if sharded else "NUMSUB",
            *map(encode_name, [*channels_of(text), watched_channel(text), lock.waiting]),
        ),
        ("ZCOUNT", encode_name(lock.waiting), "-inf", f"({OBSERVERS}"),
        ("TYPE", key),
    ]


def read_glance(key: bytes, replies: Sequence[Any], *, node: str = "", prefix: str = "") -> Glance:
    """Read the replies to the questions. One of another type than expected counts as missing.

    Raises:
        redis.exceptions.ResponseError: The server does not answer such questions now, or not to this user.
    """
    left, hashed, value, permits, token, queued, subscribed, listed, key_type = replies
    if isinstance(left, Exception):
        raise left
    fields: dict[bytes, bytes] = {}
    match hashed:
        case [_, [*parts]] if all(isinstance(each, bytes) for each in parts):
            fields = dict(list(zip(parts[::2], parts[1::2], strict=False))[:MOST])
    taken = [each for each in permits if isinstance(each, bytes)] if isinstance(permits, list) else []
    value = value if isinstance(value, bytes) and value else None
    text = key.decode("utf-8", "surrogateescape")
    counts = dict(read_numsub(subscribed))
    watching = counts.pop(encode_name(watched_channel(text)), 0)
    # Of the clients in the wait queue some listen to the channel, too: the observers.
    observers = counts.pop(encode_name(LockNames(text).waiting), 0)
    subscribers = sum(max(0, count - watching) for count in counts.values()) - observers
    stored = Stored(
        key,
        usual_kind(_form_of(key, value, fields.get(b"mode"), taken)),
        left_ms=left if isinstance(left, int) else -2,
        fields=fields,
        token=read_count(token),
        value=value,
        taken=len(taken) if taken else None,
        subscribers=max(0, subscribers + (read_count(listed) or 0)),
    )
    lock = view_of(stored, People(), node, prefix, time.time())
    holders = lock.holders
    if stored.kind.form == "token" and (seen := read_token(key, value or b"", time.time())) is not None:
        # Only a program that uses another string knows whether that is a lock.
        holders = tuple(replace(who, owner=f"{'token' if seen.libraries else 'string'} {who.owner}") for who in holders)
    elif taken:
        holders = tuple(Who(owner=f"permit {permit.hex()}") for permit in taken)
    is_lock = bool(holders) or not isinstance(key_type, bytes) or key_type in (b"none", b"string")
    return Glance(
        replace(lock, holders=holders, free_in=stored.left_ms / 1000 if stored.left_ms >= 0 else None),
        queued=queued if isinstance(queued, int) else 0,
        foreign=None if is_lock else foreign_text(decode_name(key_type), key),
    )


def _form_of(key: bytes, value: bytes | None, mode: bytes | None, permits: Sequence[bytes]) -> Form:
    if permits:
        return "permits"
    if value is not None and read_count(value) is not None:
        return "number"
    if value is not None and read_token(key, value, 0.0) is not None:
        return "token"
    return "owners" if mode is None else "sides"
