"""A kind of lock, as the engine sees it: what it asks, how it reads the replies, and how its owners wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from pyredisson.core.names import owner_field
from pyredisson.core.outcomes import Acquired
from pyredisson.core.yielding import Yielding

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.names import LockNames
    from pyredisson.core.outcomes import Outcome, Refused
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.runtime import Reply, Request

__all__ = ["LockKind", "OwnRival", "Waiting"]


class Waiting(Protocol):
    """How the owners of one kind wait for a lock: by message, in a queue, or by polling."""

    #: Whether a release is announced, so that a waiter hears of it.
    announced: bool

    def channel(self, kind: LockKind, ownership: Ownership) -> str:
        """Where this owner hears that the lock may be free."""
        ...

    def begin(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """An owner begins to ask, and may wait for so many seconds."""
        ...

    def yields(
        self, client: ClientCore, kind: LockKind, ownership: Ownership, wait: float | None, now: float
    ) -> Refused | None:
        """What to act as if the server had said so, for an owner that lets those who wait come first."""
        ...

    def released(self, client: ClientCore, kind: LockKind, ownership: Ownership, heard: int, sent: float) -> None:
        """A release that was ``sent`` then was heard by so many connections."""
        ...

    async def wait(
        self,
        client: ClientCore,
        kind: LockKind,
        ownership: Ownership,
        hold: Hold,
        refused: Refused,
        seen: int | None,
        deadline: Deadline,
    ) -> bool:
        """After a first attempt was refused: attempt until it is acquired, or until the deadline."""
        ...


class OwnRival(Protocol):
    """Something else that an owner may hold, and that would make it wait for itself."""

    async def refuse(self, client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
        """Raise ``LockError`` if this client knows that its owner holds it."""
        ...

    async def give_up(self, client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
        """The server says that the owner holds it. Raise ``LockError``; if this client knows better, give it up."""
        ...


class LockKind(ABC):
    """What a kind of lock says to the server about one lock. Never changed.

    Attributes:
        client: Whose it is.
        names: The names of the lock.
    """

    #: Waiters of one label on one channel share the server's answers.
    label: ClassVar[str] = "lock"
    #: What it looks like in Redis. Kinds of one layout exclude each other, and share their holds.
    layout: ClassVar[str] = "lock"
    #: What may stand at its key without a time to live, for messages.
    others: ClassVar[str] = "something else"
    #: What the watchdog asks for many ownerships at once; see ``scripts.renew_locks``.
    renew: Callable[..., Request]
    #: Whether a holder may acquire it again; else how the error about that ends.
    reentrant: ClassVar[bool] = True
    not_reentrant_hint: ClassVar[str] = ", or use get_lock() if a holder may acquire it again"
    #: Whether each hold has a fencing token of its own.
    token_per_hold: ClassVar[bool] = False
    #: Whether the nodes of a quorum are to store one token.
    shared_token: ClassVar[bool] = False
    #: Whether it is but one side of a lock, so that forcing it open says nothing about who holds the other.
    one_sided: ClassVar[bool] = False
    #: Whether those who wait stand in a queue in Redis.
    queues: ClassVar[bool] = False
    #: What else its owner may hold that would make it wait for itself.
    own_rival: ClassVar[OwnRival | None] = None
    #: How its owners wait.
    waiting: Waiting

    __slots__ = ("client", "names")

    def __init__(self, client: ClientCore, names: LockNames) -> None:
        self.client: ClientCore = client
        self.names: LockNames = names

    # ---- its owners ----------------------------------------------------------------------------------------------

    def field(self, number: int) -> str:
        """What stands for an owner in Redis."""
        return owner_field(self.client.id, number)

    def new_state(self) -> Any:
        """What it keeps for an owner from one call to the next."""
        return Yielding()

    def stored_as(self, ownership: Ownership) -> str:
        """What stands for an owner's hold in Redis."""
        return ownership.owner

    def holders(self) -> Sequence[Ownership]:
        """The ownerships of this client whose hold keeps others from acquiring it."""
        return [each for each in self.client.ownerships.of(self.names.raw) if each.holds and each.loss is None]

    def ended_by_force(self) -> Sequence[Ownership]:
        """The ownerships of this client that end when the lock is forced open."""
        return self.client.ownerships.of(self.names.raw)

    # ---- what it asks --------------------------------------------------------------------------------------------

    @abstractmethod
    def acquire(self, ownership: Ownership, hold: Hold, count: int, epoch: int, repeat: bool) -> Request:
        """The request to acquire the lock for an owner who holds it ``count`` times as yet."""

    @abstractmethod
    def release(self, ownership: Ownership, lease_ms: int, count: int, epoch: int, repeat: bool) -> Request:
        """The request to take one of ``count`` holds away; ``0``: to give up whatever stands there."""

    @abstractmethod
    def force(self, ownership: Ownership, epoch: int) -> Request:
        """The request to free the lock, whoever holds it."""

    def constant(self, ownership: Ownership) -> bool:
        """Whether its first acquire and its last release are the same each time."""
        return True

    def wait_ms(self, ownership: Ownership) -> int:
        """The wait with which an owner queues up, where there is a queue."""
        return 0

    def with_token(self, token: str) -> LockKind:
        """The same kind, which stores this token; for kinds with ``shared_token``."""
        return self

    # ---- what it is told -----------------------------------------------------------------------------------------

    @abstractmethod
    def reads(self, reply: Reply) -> Outcome:
        """What the reply to an acquire means. Raises ``Unusable``."""

    def acquired(self, reply: Reply) -> bool:
        """Whether the reply to an acquire says that it was acquired."""
        return isinstance(self.reads(reply), Acquired)
