"""What the handles on semaphores and latches have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar

from pyredisson.core.diagnosis.wrong_type import no_number
from pyredisson.core.names import owner_field
from pyredisson.core.requests.idempotent_request import NumberedCall, Operation, ScriptCall
from pyredisson.core.requests.replies import read_int
from pyredisson.core.runtime import PUBLISH

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.diagnosis.presence import Wait
    from pyredisson.core.driver import Progress
    from pyredisson.core.names import NumberedNames
    from pyredisson.core.runtime import Reply

T = TypeVar("T")

#: Lua does not count exactly beyond it.
MAX_COUNT = 2**53


def count_of(value: object, what: str, *, signed: bool = False) -> int:
    """Return ``value`` if it is a number of permits (or a count).

    Raises:
        TypeError: It is not an ``int``.
        ValueError: It is negative (unless ``signed``), or beyond what a script can count.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < 0 and not signed:
        raise ValueError(f"{what} must not be negative, not {value}")
    if abs(value) > MAX_COUNT:
        raise ValueError(f"{what} must not be beyond {MAX_COUNT}, not {value}")
    return value


def number_in(reply: Reply, names: NumberedNames) -> int:
    """Return the number that the key of these names holds; 0 if there is none."""
    try:
        return int(reply) if isinstance(reply, (bytes, int)) else 0
    except ValueError:
        raise no_number(names.name, names.raw) from None


class NumberedCore:
    """One handle on something that has no owner in Redis. Cheap, without state of its own, and shared at will."""

    __slots__ = ("client", "names")

    #: What it is called in messages.
    kind: ClassVar[str]
    #: What ``get_*`` calls it, for those who look.
    word: ClassVar[str]

    def __init__(self, client: ClientCore, names: NumberedNames) -> None:
        self.client: ClientCore = client
        self.names: NumberedNames = names
        client.check_names(names)

    def describe(self) -> str:
        """Return its state as this client knows it, for ``repr``; asks no server."""
        waiting = self.client.subscriptions.waiting(self.names.channel)
        return f"{self.names.name!r}, {waiting} waiting here" if waiting else repr(self.names.name)

    def begin(self, operation: Operation[T], *, left: bool = False) -> NumberedCall[T]:
        """Prepare an operation of the caller. ``left``: see :class:`NumberedCall`."""
        self.client.check_open()
        return NumberedCall(self.client, self.names, self.kind, operation, left=left)

    def begin_wait(self) -> Wait | None:
        """Note that the caller waits. Returns what to give to ``Presence.end_wait``."""
        client = self.client
        who = client.runtime.owner()
        return client.presence.begin_wait(self.word, self.names.name, owner_field(client.id, who.number), who)

    async def change(self, what: str, script: ScriptCall, progress: Progress | None = None) -> int:
        """Make a change at once, and return what its script replies. ``progress``: see ``run_to_the_end``."""
        return await self.begin(Operation(what, script, read_int)).once(progress)

    async def set_first(self, what: str, value: int, message: str, *waiting: str) -> bool:
        """Set the first value, and return whether there was none.

        ``message`` notifies the waiters; ``waiting`` is the list of the clients that wait, if there is one.
        """
        script = ScriptCall("counter_set", (value, PUBLISH, message), (self.names.channel, *waiting))
        return await self.change(what, script) == 1
