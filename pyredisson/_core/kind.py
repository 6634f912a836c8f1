"""A kind of lock, as the engine sees it: its requests, what their replies mean, and how its owners wait."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeAlias, final

from pyredisson._core.event import Record, record
from pyredisson._core.hold import GONE
from pyredisson._core.names import LockNames, NumberedNames, owner_field
from pyredisson._core.requests import LockAcquired, read_acquire
from pyredisson._core.waiting import Fairness

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import AcquireCall, Exchange, Outcome, ReleaseCall
    from pyredisson._core.runtime import Reply, Request
    from pyredisson._core.waiting import QueueUpdate, Waiting


class OwnRival(Protocol):
    """Another hold that an owner may have, for whose release it would wait itself."""

    async def refuse(self, kind: LockKind, ownership: Ownership) -> None:
        """Raise ``LockError`` if the owner has that hold, as far as this client knows."""
        ...

    async def give_up(self, kind: LockKind, ownership: Ownership, exchange: Exchange | None) -> None:
        """Release that hold, of which the server knows; raise ``LockError`` if this client knows of it as well.

        ``exchange``: how to send the request; ``None``: as :meth:`ClientCore.exchange` does.
        """
        ...


class HeldKind(ABC):
    """What is held, as the watchdog and the presence of a client see it.

    Attributes:
        client: The client.
        word: What ``get_*`` calls it, for those who look.
        permits: How many permits a hold is of.
    """

    word: str = "lock"
    permits: int = 1
    #: How it is stored. Kinds of one layout exclude each other, and share their holds.
    layout: ClassVar[str] = "lock"
    #: See :class:`Owned`; empty: as for any lock.
    what: ClassVar[str] = ""
    overlaps: ClassVar[str] = ""
    #: How a loss is explained that the server reported.
    gone: ClassVar[str] = GONE
    #: Makes the request that renews many holds: ``renew(runtime, [(key, stored_as), ...], lease_ms=...)``.
    renew: Callable[..., Request]

    __slots__ = ("client",)

    def __init__(self, client: ClientCore) -> None:
        self.client: ClientCore = client

    @abstractmethod
    def stored_as(self, ownership: Ownership) -> str:
        """Return what stands for an owner's hold in Redis."""

    def new_state(self) -> Any:
        """Return what the kind keeps for an owner from one call to the next, as ``Ownership.kind_state``."""
        return None

    def token_id(self, ownership: Ownership) -> str | None:
        """Return what identifies an owner's hold to those who see what is stored, if that is a secret."""
        return None


class LockKind(HeldKind):
    """A kind of lock: its requests about one lock, and what their replies mean. Immutable.

    Attributes:
        client: The client.
        names: The names of the lock.
    """

    #: Waiters of one label on one channel share the server's answers.
    label: ClassVar[str] = "lock"
    #: What else may be stored at its key without a time to live, for messages.
    others: ClassVar[str] = "something else"
    #: Whether a holder may acquire it again; and how the error ends if not.
    reentrant: ClassVar[bool] = True
    not_reentrant_hint: ClassVar[str] = ", or use get_lock() if a holder may acquire it again"
    #: Whether all nodes of a quorum store the same token.
    shared_token: ClassVar[bool] = False
    #: Whether it is one side of a lock, so that a forced unlock leaves the other side as it is.
    one_sided: ClassVar[bool] = False
    #: Whether its waiters stand in a queue in Redis.
    has_fair_queue: ClassVar[bool] = False
    #: Another hold for which an owner would wait itself.
    own_rival: OwnRival | None = None
    #: Whether clients that wait for it stand in a wait queue, so that a release notifies one of them.
    has_wait_queue: ClassVar[bool] = False
    #: How its owners wait.
    waiting: Waiting
    #: Whether the usual requests of an owner can be made before they are needed, for the fast path.
    has_ready_requests: ClassVar[bool] = True
    #: Whether they differ from one hold to the next.
    ready_once: ClassVar[bool] = False
    #: Reads the token in the usual reply to an acquire; ``None``: that reply is nil.
    token_in: Callable[[Reply], int | None] | None = None
    #: Whether something may stand in the way of an owner's usual acquire; see :meth:`hinders`.
    may_hinder: ClassVar[bool] = False

    __slots__ = ("names",)

    def __init__(self, client: ClientCore, names: LockNames) -> None:
        super().__init__(client)
        self.names: LockNames = names

    # ---- its owners ----------------------------------------------------------------------------------------------

    def field(self, number: int) -> str:
        """Return what stands for an owner in Redis."""
        return owner_field(self.client.id, number)

    def new_state(self) -> Any:
        """Return what the kind keeps for an owner from one call to the next, as ``Ownership.kind_state``."""
        return Fairness()

    def stored_as(self, ownership: Ownership) -> str:
        """Return what stands for an owner's hold in Redis."""
        return ownership.owner

    def listed(self) -> list[Ownership]:
        """Return the ownerships of this client."""
        return self.client.ownerships.of(self.names.name)

    def holders(self) -> Sequence[Ownership]:
        """Return the ownerships of this client that hold the lock, but for those whose release is in flight."""
        now, owns = self.client.runtime.now(), self.client.ownerships.of(self.names.name)
        return [each for each in owns if each.unclaimed() > 0 and each.remaining(now) > 0]

    def ended_by_force(self) -> Sequence[Ownership]:
        """Return the ownerships of this client that a forced unlock ends."""
        return self.client.ownerships.of(self.names.name)

    def queued_as(self) -> str:
        """Return what stands for this client in the wait queue."""
        return self.client.id

    def wait_queue_keys(self) -> tuple[str, ...]:
        """Return the key of the wait queue, for a script that can do without it; see :class:`Subscriptions`."""
        return self.client.subscriptions.wait_queue_keys(self.names) if self.has_wait_queue else ()

    # ---- its requests --------------------------------------------------------------------------------------------

    def request(
        self,
        script: str,
        ownership: Ownership,
        args: tuple[str | int, ...],
        keys: tuple[str, ...] = (),
        *,
        epoch: int,
        repeat: bool = False,
        owner: str | None = None,
        update: QueueUpdate | None = None,
    ) -> Request:
        """Make the call of a script for one lock, in the order of arguments that ``_lua/__init__.py`` names.

        Args:
            script: The script.
            ownership: Its owner's ownership.
            args: ARGV behind the owner, the epoch and the repeat.
            keys: KEYS behind the lock and the owner's epoch.
            epoch: The owner's epoch.
            repeat: Whether an earlier copy may have been executed.
            owner: What stands for the owner in Redis, if it is not the ownership's.
            update: How an acquire changes the wait queue; there is another script for that.
        """
        names, own = self.names, ownership.owner
        if update is not None:
            script, keys = f"{script}_waiting", (*keys, names.waiting)
            args = *args, *update.args(self.client.config.max_wait_without_check)
        return self.client.runtime.prepare(
            script,
            (names.raw, names.epoch(own), *keys),
            (own if owner is None else owner, epoch, int(repeat), *args),
        )

    @abstractmethod
    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """Make the request to acquire the lock."""

    @abstractmethod
    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """Make the request to release one hold, or all that the server knows of."""

    @abstractmethod
    def force(self, ownership: Ownership, epoch: int) -> Request:
        """Make the request to free the lock, for any holder."""

    def leave_queue(self, member: str) -> Request:
        """Make the request that takes a client out of the wait queue, for a kind that has one."""
        raise AssertionError(f"a {self.word} has no wait queue")

    def wait_ms(self, ownership: Ownership) -> int:
        """Return for how long an owner waits in the queue, if there is one."""
        return 0

    def hinders(self, ownership: Ownership) -> bool:
        """Return whether something stands in the way of an owner's usual acquire, for kinds with ``may_hinder``."""
        return False

    def with_token(self, token: str) -> LockKind:
        """Return the same kind with a token to store, for kinds with ``shared_token``."""
        return self

    # ---- their replies -------------------------------------------------------------------------------------------

    #: Reads the reply to an acquire. Raises ``Unusable``.
    reads: Callable[[Reply], Outcome] = staticmethod(read_acquire)

    def acquired(self, reply: Reply) -> bool:
        """Return whether the reply to an acquire says that the lock was acquired."""
        return isinstance(self.reads(reply), LockAcquired)


# ---- stored ----------------------------------------------------------------------------------------------------------
# How a kind is stored in Redis and what lists call it: all that tools know of it. Each kind's file describes it.


#: The script that frees a lock from outside whose key is a hash of owners, whether it has a fair queue or not.
FREES_ALL_OWNERS: Final = "fair_force_unlock"

Form: TypeAlias = Literal["owners", "sides", "token", "number", "permits"]
"""What a key is: a hash with one owner; one with a mode and its owners; a string that is a token; one that is a number;
one that is a number, while a sorted set has the permits that are taken."""


@final
@record
class StoredKind(Record):
    """A kind as an inspection sees it.

    Attributes:
        kind: The word of ``get_*``.
        label: What lists call it.
        form: How it is stored. Kinds of one form look the same, unless another key distinguishes them.
        names: Makes the names of its keys and its channel.
        shown_by: What no other kind of this form has: a queue, a token, or that its holder has run.
        number: What its number counts.
        sides: What lists call its sides, by the words for them.
        shared: The side that many can hold at a time.
        reentrant: Whether an owner that holds it cannot wait for it.
        announces: Whether each release is published on its channel.
        subscribes: Whether those who wait for it are subscribed to its channel, or notified on one of their own.
        force_unlock: The script that frees it; ``None`` if it has no owner that could be deprived of it.
        title: Its name in words, where that is not the one of ``get_*``.
    """

    kind: str
    label: str
    form: Form
    names: Callable[[str], LockNames | NumberedNames]
    shown_by: Literal["queued", "token", "ran"] | None = None
    number: Literal["permits", "count", "changes"] | None = None
    sides: Mapping[str, str] = field(default_factory=dict)
    shared: str | None = None
    reentrant: bool = True
    announces: bool = True
    subscribes: bool = True
    force_unlock: str | None = None
    title: str = ""

    @property
    def words(self) -> str:
        """Its name in words."""
        return self.title or self.kind.replace("_", " ")
