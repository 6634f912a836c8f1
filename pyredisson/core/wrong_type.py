"""A key that holds something else: the error that says what, and what fits. Asked only after the server complained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.runtime import Failure
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore

__all__ = ["explain_type", "is_wrong_type"]

#: What of ours is stored as what, under its own name.
FITS = {
    "string": "get_token_lock() (and redis-py's Lock), get_semaphore() and get_count_down_latch() store strings",
    "hash": "get_lock(), get_fair_lock(), get_fenced_lock() and get_spin_lock() store such hashes",
    "read-write hash": "get_read_write_lock() stores such hashes, with a field 'mode'",
}
NOTHING = "nothing of pyredisson's or Redisson's locks is stored so"


def is_wrong_type(error: BaseException) -> bool:
    """Whether the server says that a key holds something of another type."""
    return str(error).startswith("WRONGTYPE")


async def explain_type(client: ClientCore, error: Exception, name: str, kind: str = "") -> Exception:
    """Return the error to show for one that the server gave to a request about this key; itself, if it is another one.

    Args:
        client: Whose request it was.
        error: What the server said.
        name: The key.
        kind: What was asked for, in words; empty if it was only looked at.
    """
    if not is_wrong_type(error):
        return error
    held = await _type_of(client, name)
    wanted = f", which no {kind} can be" if kind else ""
    if held == "none":
        text = f"a key that belongs to {name!r} is of another type: {error}"
    elif held:
        what = "a hash of a read-write lock" if held == "read-write hash" else f"a {held}"
        fits = f"{FITS[held]}. Use one of these, or another name" if held in FITS else f"{NOTHING}. Use another name"
        text = f"the key {name!r} holds {what}{wanted}: {fits}"
    else:
        text = f"the key {name!r} holds something of another type{wanted}. Use another name"
    explained = LockError(text, name=name)
    explained.__cause__ = error
    return explained


async def _type_of(client: ClientCore, name: str) -> str:
    """What a key holds, in Redis's word; empty if the server does not say."""
    patience = client.config.timeout / 3
    try:
        held = await client.runtime.ask(("TYPE", name), patience)
        if held == b"hash" and await client.runtime.ask(("HGET", name, "mode"), patience) in (b"read", b"write"):
            return "read-write hash"
    except Failure:
        return ""
    return {b"zset": "sorted set"}.get(held, held.decode(errors="replace")) if isinstance(held, bytes) else ""
