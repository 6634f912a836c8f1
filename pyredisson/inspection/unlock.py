"""Freeing a lock from outside: with the kind's own script, and only if those hold it who are meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, final

import redis.exceptions as rx

from pyredisson._core.kind import StoredKind
from pyredisson._core.names import LockNames
from pyredisson._lua import script_text
from pyredisson.inspection.model import LockView
from pyredisson.inspection.servers import Server

_GUARD = (files("pyredisson.inspection") / "only_if_held_by.lua").read_text(encoding="utf-8")

UNLOCKED = "0"
WRITE_UNLOCKED = "1"


@final
@dataclass(frozen=True)
class Unlocked:
    """What an unlock did.

    Attributes:
        name: The lock.
        outcome: ``"freed"``, ``"not_held"``, ``"other_holder"``, or ``"doubtful"``: a string that may be no lock.
        before: The lock as it was seen immediately before; ``None`` if it was free.
        owners: Who was stored as holder, as the script saw it; of a token lock, by what its token is called.
        notified: How many clients were notified, as far as the server says.
        foreign: What the key is, in words, if it is no lock.
        about_waiters: What is known of the waiters of a string that was deleted, in words.
    """

    name: str
    outcome: str
    before: LockView | None = None
    owners: tuple[str, ...] = ()
    notified: int = 0
    foreign: str | None = None
    about_waiters: str = ""

    @property
    def freed(self) -> bool:
        """Whether the lock was freed."""
        return self.outcome == "freed"


def free(
    server: Server, key: bytes, kind: StoredKind, mode: str | None, expected: Sequence[bytes], publish: str
) -> tuple[str, list[bytes], int]:
    """Free a lock in one script, and wake its waiters.

    Args:
        server: The server.
        key: The lock's key.
        kind: As what it is stored. Kinds with one owner look the same, so that one script serves all: the guard before
            it publishes for the waiters on the lock's channel, the script for those in a queue.
        mode: ``"read"`` or ``"write"``, of a read-write lock.
        expected: How each owner, or the token, must begin; empty: any.
        publish: ``PUBLISH`` or ``SPUBLISH``.

    Returns:
        The outcome, who was stored as holder, and how many subscribers received the message.

    Raises:
        redis.exceptions.RedisError: The server does not answer, or refuses.
        OSError: It does not answer.
    """
    text = key.decode("utf-8", "surrogateescape")
    names = kind.names(text)
    assert isinstance(names, LockNames)
    assert kind.force_unlock is not None
    keys = [names.raw, names.epoch("pyredisson")]
    args: list[Any] = ["", "0", "0"]
    if kind.form == "owners":
        keys += [names.queue, names.timeouts, names.alive, names.channel]
        args += [publish, UNLOCKED]
    elif kind.form == "sides":
        keys += [names.channel]
        args += [publish, UNLOCKED if mode == "read" else WRITE_UNLOCKED, mode or "write"]
    guard = [kind.form, mode or "", *expected]
    words = [each.encode("utf-8", "surrogateescape") for each in keys]
    script = _GUARD.replace("    -- script\n", script_text(kind.force_unlock))
    reply = server.tell("EVAL", script, len(words), *words, *args, *guard, len(guard))
    match reply:
        case [bytes() as outcome, int() as notified, *owners]:
            return outcome.decode("ascii", "replace"), [each for each in owners if isinstance(each, bytes)], notified
    raise rx.InvalidResponse("the server's reply to EVAL is none of this script")
