"""The words, scores and names of the wait queue: the sorted set in Redis of the clients that wait for one lock.

The scripts get them from here (see ``_lua/__init__.py``), and so do the tools.

A client waits under ``<client>:<number>``, or ``<client>:<number>:<permits>``, with the time since which it waits as
its score, in milliseconds since the epoch. It receives messages on its own channel, ``<key>:<client>``. Observers
receive messages on the channel that is named as the key is, too.
"""

from __future__ import annotations

from typing import Final

#: On a client's own channel: it is its turn to attempt.
GO: Final = "go"
#: On a client's own channel: it is an observer from now on.
OBSERVE: Final = "observe"
#: The same, since its own attempt was refused just now: it attempts once more as soon as it receives messages there.
OBSERVE_AND_ATTEMPT: Final = "observe and attempt"
#: On a client's own channel, before a number of milliseconds: taken permits expire then.
EXPIRES: Final = "in "

#: On the channel of the observers: a client was notified; the usual message follows, and is no matter of theirs.
NOTIFIED: Final = "2"
#: On the channel of the observers: the client that was notified has acquired.
ACQUIRED: Final = "3"
#: On the channel of the observers: a client was notified, and no other message follows.
NOTIFIED_ALONE: Final = "4"

#: Where a member says that a client is an observer; its score is when it last was known to listen, plus ``OBSERVERS``.
OBSERVER: Final = "observer:"
#: Where a member says that a client was notified of permits; its score is when that was, plus ``PROMISED``.
PROMISE: Final = "notified:"

#: What is added to the scores of those who wait for the write side of a read-write lock: they stand behind the readers.
WRITERS: Final = "1e14"
#: What is added to the scores of observers.
OBSERVERS: Final = "1e15"
#: What is added to the scores of promises.
PROMISED: Final = "2e15"

#: How many clients are observers.
OBSERVER_COUNT: Final = "2"
#: Milliseconds that a notified client has for its attempt, before others attempt.
NOTIFIED_FOR_MS: Final = "200"

WORDS: Final[dict[str, str]] = {
    name: value for name, value in globals().items() if name.isupper() and isinstance(value, str)
}
"""All of them, by name."""
