"""How other answers of servers are read: tokens of all libraries, subscribers, patterns. Pure, and never an exception.

Who an owner or a client is, is read by :mod:`pyredisson.core.diagnosis.replies`.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from pyredisson.core.diagnosis.replies import CLIENT_ID, read_count
from pyredisson.inspection.model import RuntimeName

MAX_DOUBTFUL = 1000  # strings that may be locks or data; more are data
MAX_TOKEN = 64  # bytes of the value of a token lock
TOKEN_SIZES = frozenset({22, 24, 32, 36, 40})  # of the tokens of known libraries

_BASE64 = r"(?=.*[A-Z])(?=.*[a-z])[0-9A-Za-z_-]{22}"  # for URLs; a word of one case is none
_TOKEN = re.compile(rf"[0-9a-f]{{32}}|[0-9a-f]{{40}}|[0-9A-Za-z+/]{{22}}==|{_BASE64}|(?i:{CLIENT_ID})".encode())

#: 100 ns steps from the beginning of the Gregorian calendar, from which version 1 UUIDs count, to 1970.
_GREGORIAN = 0x01B21DD213814000
_YEAR = 366 * 86_400


def decode_name(name: bytes) -> str:
    """Return a key as text that can be encoded and printed anywhere; bytes that are no UTF-8 are escaped."""
    return name.decode("utf-8", "backslashreplace")


def encode_name(name: str | bytes) -> bytes:
    """Return the key of a name. Arguments of a command line that are no UTF-8 come back as the bytes they were."""
    return name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")


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
    if re.fullmatch(rb"[0-9a-f]{12}1[0-9a-f]{3}[89ab][0-9a-f]{15}", value):
        made = (UUID(value.decode()).time - _GREGORIAN) / 1e7
        if now - _YEAR < made < now + 86_400:
            return TokenView("redis-py", True, made)
    ours = re.fullmatch(rb"[0-9a-f]{40}", value)
    return TokenView("pyredisson" if ours else "unknown", _TOKEN.fullmatch(value) is not None, None)


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
