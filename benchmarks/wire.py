"""The bytes of the lock's two requests, packed by hand from the scripts that the library ships.

The raw contestants send them. They are what the library sends for a first hold with the default lease, byte for byte
but for the owner; the benchmark compares the bytes that the server received from both.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

from pyredisson._core.names import LockNames
from pyredisson._lua import script_text

from .server import Server

__all__ = ["ACQUIRED", "RELEASED", "LockRequests", "load_scripts", "lock_name", "pack", "sha"]

ACQUIRED = b"$-1\r\n"
RELEASED = b":1\r\n"
LEASE_MS = "30000"

CLIENT_ID = str(uuid.uuid4())
STRANGER_ID = str(uuid.uuid4())


def lock_name(number: int) -> str:
    """The name of a lock; all contestants use names of the same length."""
    return f"bench:{number:05}"


def pack(*words: str | bytes) -> bytes:
    """One command in the protocol's form."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word.encode() if isinstance(word, str) else word
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


def script(verb: str) -> str:
    """The text of one of the lock's scripts."""
    return script_text(f"lock_{verb}")


def sha(verb: str) -> str:
    """Under which digest the server knows it."""
    return hashlib.sha1(script(verb).encode()).hexdigest()


def load_scripts(server: Server) -> None:
    """Make the server know both scripts, so that EVALSHA finds them."""
    for verb in ("acquire", "release"):
        loaded = server.admin.script_load(script(verb))
        if loaded != sha(verb):
            raise RuntimeError(f"the server calls lock_{verb}.lua {loaded}")


@dataclass(frozen=True, slots=True)
class LockRequests:
    """A lock's acquire and release as bytes.

    The order of keys and arguments is that of the headers of ``lock_acquire.lua`` and ``lock_release.lua``.
    """

    acquire: bytes
    release: bytes

    @classmethod
    def of(cls, number: int, client_id: str = CLIENT_ID) -> LockRequests:
        """The requests for a lock, by an owner of the raw contestant (or by a stranger)."""
        names = LockNames(lock_name(number))
        owner = f"{client_id}:{1000 + number}"
        lock, channel, epoch = names.raw, names.channel, names.epoch(owner)
        return cls(
            acquire=pack("EVALSHA", sha("acquire"), "2", lock, epoch, owner, "0", "0", LEASE_MS, "0"),
            release=pack(
                *("EVALSHA", sha("release"), "3", lock, epoch, channel),
                *(owner, "0", "0", LEASE_MS, "1", "PUBLISH", "0", names.waiting),
            ),
        )
