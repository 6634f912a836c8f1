"""A key that is no lock: what it is called, everywhere. Pure."""

from __future__ import annotations

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
