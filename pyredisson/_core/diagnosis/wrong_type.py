"""A key that holds something else: the error that says what, and what fits. Asked only after the server complained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.failures import Failure
from pyredisson._core.names import WAITING, prefixed
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.diagnosis.holder_lookup import Finder

#: What of ours is stored as what, under its own name.
FITS = {
    "string": "get_token_lock() (and redis-py's Lock), get_semaphore() and get_count_down_latch() store strings",
    "hash": "get_lock(), get_fair_lock(), get_fenced_lock() and get_spin_lock() store such hashes",
    "read-write hash": "get_read_write_lock() stores such hashes, with a field 'mode'",
}
NOTHING = "no lock of pyredisson or Redisson is stored like that"


#: What a server says of a string that is to be counted with. It may have put "ERR" before it, and the script behind it.
NO_NUMBER = "value is not an integer or out of range"


def is_wrong_type(error: BaseException) -> bool:
    """Whether the server says that a key holds something of another type."""
    return str(error).startswith("WRONGTYPE")


def no_number(name: str, key: str) -> LockError:
    """The error for a string that is to be counted with, and is no number."""
    return LockError(
        f"the value of key {key!r} is not an integer: another program uses this key. get_token_lock() (and "
        "redis-py's Lock) stores such strings. Use this, or another name",
        name=name,
    )


async def explain_type(
    finder: Finder, error: Exception, name: str, kind: str = "", where: str = "", *, key: str | None = None
) -> Exception:
    """Return the error to show for one that the server gave to a request about this key; itself, if it is another one.

    Args:
        finder: That of the client whose request it was.
        error: The server's error.
        name: The name of the lock, semaphore or latch.
        kind: What was asked for, in words; empty if it was only looked at.
        where: Where the key is, in words, if others have its name.
        key: The key, if it is not that of the name.
    """
    client = finder.client
    key = client.key_of(name) if key is None else key
    if str(error).removeprefix("ERR ").startswith(NO_NUMBER) and await _is_text(client, key):
        explained = no_number(name, key)
    elif is_wrong_type(error):
        explained = LockError(await _wrong_type(finder, error, name, kind, where, key), name=name)
    else:
        return error
    explained.__cause__ = error
    return explained


async def _wrong_type(finder: Finder, error: Exception, name: str, kind: str, where: str, key: str) -> str:
    client = finder.client
    held = await _type_of(client, waiting := prefixed(WAITING, key))
    if held not in ("", "none", "sorted set"):
        return (
            f"the key {waiting!r} holds a {held}, but the clients that wait for {name!r} are listed there: {NOTHING}. "
            "Delete this key, or use another name"
        )
    held = await _type_of(client, key)
    wanted = f", but a {kind} is stored differently" if kind else ""
    if not held:
        return f"the key {key!r}{where} holds something of another type{wanted}. Use another name"
    if held == "none":
        return f"a key that belongs to {name!r}{where} is of another type: {error}"
    what = "a hash of a read-write lock" if held == "read-write hash" else f"a {held}"
    fits = f"{FITS[held]}. Use one of these, or another name" if held in FITS else f"{NOTHING}. Use another name"
    text = f"the key {key!r}{where} holds {what}{wanted}: {fits}"
    if key == client.key_of(name) and (found := await finder.find(name)).holder is not None:
        text += f". It is {found.describe()}"
    return text


async def _is_text(client: ClientCore, key: str) -> bool:
    """Whether a key holds a string that is no number."""
    try:
        held = await client.runtime.ask(("GET", key), client.config.timeout / 3)
        int(held if isinstance(held, bytes) else 0)
    except Failure:
        return False
    except ValueError:
        return True
    return False


async def _type_of(client: ClientCore, key: str) -> str:
    """What a key holds, in Redis's word; empty if the server does not say."""
    patience = client.config.timeout / 3
    try:
        held = await client.runtime.ask(("TYPE", key), patience)
        if held == b"hash" and await client.runtime.ask(("HGET", key, "mode"), patience) in (b"read", b"write"):
            return "read-write hash"
    except Failure:
        return ""
    return {b"zset": "sorted set"}.get(held, held.decode(errors="replace")) if isinstance(held, bytes) else ""
