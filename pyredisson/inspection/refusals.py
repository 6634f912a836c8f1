"""What it means that a server refuses a question: it was not answered, and never "no". Decided here, for all tools.

* The key holds something of another type (``WRONGTYPE``): that is an answer.
* The server says that it cannot now (``LOADING``, ``BUSY``, ...): it is there, and it is worth asking again.
* This user may not ask, or the server does not know the command: asking again will not help.
* The server is one node of a cluster, or is no Redis at all: the address is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import redis.exceptions as rx

from pyredisson._core.requests import NO_PASSWORD
from pyredisson._net.refusals import Meaning, meaning_of, reply_error

Answered: TypeAlias = Literal["not", "not now", "refused", "elsewhere"]
"""How a question that failed was answered."""

MAX_SHOWN = 80  # characters of a key


class OneNodeOfACluster(rx.ClusterError):
    """What is asked is one node of a cluster, which knows a part of the locks only."""


def is_of_another_type(answer: object) -> bool:
    """Whether an answer says that the key holds something of another type."""
    return isinstance(answer, rx.ResponseError) and str(answer).startswith(("WRONGTYPE", "no such key", "ERR no such"))


def refusal_of(error: Exception, command: Sequence[str | bytes]) -> Exception:
    """Return the error of a question that was refused: it names the command, and the key if that is what is missing."""
    inner = reply_error(str(error)) if type(error) is rx.ResponseError else error
    text, name = str(inner), str(command[0]).upper()
    if isinstance(inner, rx.MovedError) or text.startswith("MOVED "):
        return one_node_of_a_cluster()
    if "key" in text.lower() and isinstance(inner, rx.NoPermissionError) and len(command) > 1:
        key = command[1] if isinstance(command[1], str) else command[1].decode(errors="backslashreplace")
        inner.args = (f"{text} ({name} {key[:MAX_SHOWN]!r})",)
    elif name.lower() not in text.lower():
        inner.args = (f"{text} ({name})",)
    return inner


def one_node_of_a_cluster() -> OneNodeOfACluster:
    """Return the error for the plain URL of a node of a cluster."""
    return OneNodeOfACluster(
        "it is one node of a cluster, and has only a part of the locks: use redis+cluster://host:port"
    )


def answered(error: BaseException) -> Answered:
    """Return how a question was answered that raised this error."""
    if isinstance(error, (OneNodeOfACluster, rx.MovedError, rx.InvalidResponse)):
        return "elsewhere"
    if isinstance(error, Exception) and meaning_of(error) in (Meaning.PASSES, Meaning.NOT_HERE):
        return "not now"
    if isinstance(error, (rx.ResponseError, rx.AuthenticationError, rx.AuthorizationError)):
        return "refused"
    return "not"


def text_of(error: Exception) -> str:
    """Return why a server refuses, in words."""
    if any(each in str(error) for each in NO_PASSWORD):
        return "it requires a password, and the URL has none: redis://:password@host:port"
    return str(error)
