"""A key that is no lock: what it is called, everywhere. Pure."""

from __future__ import annotations

#: The types of Redis whose names are no words.
_WORDS = {"zset": "sorted set"}


def foreign_text(key_type: str) -> str:
    """Return what a key is that holds no lock: ``"no lock: the key holds a hash of another program"``.

    Args:
        key_type: What ``TYPE`` answers for it.
    """
    return f"no lock: the key holds a {_WORDS.get(key_type, key_type)} of another program"
