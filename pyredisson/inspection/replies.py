"""How other answers of servers are read: names, subscribers, patterns. Pure, and never an exception.

Who an owner or a client is, is read by :mod:`pyredisson._core.holder_lookup`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_DOUBTFUL = 1000  # strings that may be locks or data; more are data


def decode_name(name: bytes) -> str:
    """Return a key as text that can be encoded and printed anywhere; bytes that are no UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


def encode_name(name: str | bytes) -> bytes:
    """Return the key of a name. Arguments of a command line that are no UTF-8 come back as the bytes they were."""
    return name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")


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
    text = glob.decode("latin-1").replace("[^", "[!")
    # A backslash makes the next character a plain one; fnmatch knows brackets alone for that.
    text = re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], text, flags=re.DOTALL)
    return re.compile(fnmatch.translate(text).encode("latin-1"))
