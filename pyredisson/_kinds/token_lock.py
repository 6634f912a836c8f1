"""The token lock: one string in Redis, ``SET name token NX PX lease``, as in all Redlock clients.

Source: "Distributed Locks with Redis" (redis.io), the part on a single instance. It shares its key with redis-py's
``Lock``, pottery, redsync, node-redlock and others. What differs on purpose: a lost reply neither strands a hold nor
releases another owner's; a hold is renewed; its owner is a thread or task, not the holder of the object.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from pyredisson._core.acquiring import expire
from pyredisson._core.deadline import DoublingBackoff
from pyredisson._core.failures import Failure
from pyredisson._core.hold import GONE, lost_error
from pyredisson._core.holder_lookup import token_id
from pyredisson._core.kind import LockKind, StoredKind
from pyredisson._core.names import LockNames, token_field
from pyredisson._core.releasing import not_owned, raise_if_lost
from pyredisson._core.requests import LOST, AcquireCall, HoldLost, ReleaseCall, read_left_ms, unusable
from pyredisson._core.waiting import Delays, Polling, Waiting
from pyredisson._kinds.lock import LockCore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyredisson._core.client import ClientCore
    from pyredisson._core.owners import HandleOwner
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.runtime import Reply, Request, Runtime

POLL = DoublingBackoff(first=0.001, maximum=0.128)

TOKEN_BYTES = 20
"""As the Redis documentation recommends; hexadecimal on the wire."""


def renew_tokens(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """Make the request that renews many locks, given as (key, token)."""
    return runtime.prepare("token_renew", tuple(key for key, _ in held), (lease_ms, *(token for _, token in held)))


def read_hold_end(reply: Reply) -> tuple[int, int | None] | HoldLost:
    """Read the reply of ``token_extend``. Raises ``Unusable``.

    Returns:
        The server's clock and the end of the hold by it, in ms; ``None``: it has no time to live.
    """
    match reply:
        case None:
            return LOST
        case [int() as now_ms, int() as end_ms]:
            return now_ms, read_left_ms(reply, end_ms)
    raise unusable(reply)


class TokenPair:
    """The tokens of one owner.

    Attributes:
        current: The token of its hold, or of the acquire in flight.
        former: The token of the hold before, which may have expired here and not yet on the server.
        until: Until when its owner yields to others: never.
    """

    until: ClassVar[float] = -math.inf

    __slots__ = ("current", "former")

    def __init__(self) -> None:
        self.current: str = ""
        self.former: str = ""

    def use(self, token: str) -> None:
        """Use a new token from now on."""
        self.current, self.former = token, self.current


class TokenKind(LockKind):
    """The token lock. ``token`` is stored instead of random bytes."""

    __slots__ = ("_token", "waiting")

    word = "token_lock"
    label = "token"
    layout = "token lock"
    others = "one of redis-py without a timeout, a semaphore, or a latch"
    renew: Callable[..., Request] = staticmethod(renew_tokens)
    reentrant = False
    not_reentrant_hint = ""  # A reentrant lock of the same name would be another key's type.
    shared_token = True
    ready_once = True

    def __init__(self, client: ClientCore, names: LockNames, waiting: Waiting, token: str | None) -> None:
        super().__init__(client, names)
        self.waiting: Waiting = waiting
        self._token = token

    def with_token(self, token: str) -> TokenKind:
        """See :meth:`LockKind.with_token`."""
        return TokenKind(self.client, self.names, self.waiting, token)

    def field(self, number: int) -> str:
        """See :meth:`LockKind.field`. It is not stored in the lock: the token of the hold is."""
        return token_field(self.client.id, number)

    def new_state(self) -> TokenPair:
        """See :meth:`LockKind.new_state`."""
        return TokenPair()

    def stored_as(self, ownership: Ownership) -> str:
        """Return the token of the owner's hold, or of its last one; empty if it never acquired this lock."""
        tokens = ownership.kind_state
        return tokens.current if isinstance(tokens, TokenPair) else ""

    def token_id(self, ownership: Ownership) -> str | None:
        """See :meth:`LockKind.token_id`; who knows it cannot release the lock."""
        return token_id(self.stored_as(ownership).encode())

    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`; with a new token. A repeat carries the same one."""
        tokens: TokenPair = call.ownership.kind_state
        if not repeat:
            tokens.use(self._token or self.client.runtime.random_bytes(TOKEN_BYTES).hex())
            call.ownership.make_ready(None)  # What was ready has another token.
        args = call.lease_ms, tokens.former
        return self.request("token_acquire", call.ownership, args, epoch=epoch, repeat=repeat, owner=tokens.current)

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`; the lock is released if it still has the token."""
        own = call.ownership
        return self.request("token_release", own, (call.lease_ms,), epoch=epoch, owner=self.stored_as(own))

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`."""
        return self.request("token_force_unlock", ownership, (), epoch=epoch)


class TokenLockCore(LockCore):
    """One handle on a token lock.

    Args:
        client: The client.
        name: The lock's name, which is its key.
        delays: The pauses between attempts; ``None``: the usual ones.
        tries: How many attempts a waiter makes at most.
        owner: The owner, if it is not the calling thread or task.
        token: The token to store instead of random bytes.
    """

    __slots__ = ()

    stored: ClassVar[StoredKind] = StoredKind(
        "token_lock", "token", "token", LockNames, announces=False, subscribes=False, force_unlock="token_force_unlock"
    )

    def __init__(
        self,
        client: ClientCore,
        name: str,
        delays: Delays | None = None,
        tries: int | None = None,
        *,
        owner: HandleOwner | None = None,
        token: str | None = None,
    ) -> None:
        names = LockNames(name, client.config.prefix)
        waiting = Polling(delays or POLL, until_free=True, tries=tries)
        super().__init__(client, names, TokenKind(client, names, waiting, token))
        self.made_for = owner

    # ---- extending -----------------------------------------------------------------------------------------------

    async def extend_by(self, milliseconds: int, *, from_now: bool) -> None:
        """Extend the hold by ``milliseconds``, or to that many ``from_now`` on. It is never shortened.

        The first request reads the end of the hold, the second sets it, so that a repeat has no further effect.
        """
        client = self.client
        client.check_open()
        ownership = self.mine()
        expire(client, ownership)
        hold = ownership.to_unlock()
        if hold is None:
            raise not_owned(self.kind, ownership, releases=False)
        raise_if_lost(ownership, hold)
        generation = ownership.generation
        now_ms, end_ms = await self._extend_until(ownership, generation, 0)
        until_ms = milliseconds + (now_ms if from_now or end_ms is None else max(now_ms, end_ms))
        sent = client.runtime.now()
        now_ms, end_ms = await self._extend_until(ownership, generation, until_ms)
        if end_ms is not None and end_ms > now_ms:
            ownership.renewed(generation, sent + client.certain_for(end_ms - now_ms), client.runtime.now())
        expire(client, ownership)  # The answer may be too late.
        raise_if_lost(ownership, hold)

    async def _extend_until(self, ownership: Ownership, generation: int, until_ms: int) -> tuple[int, int | None]:
        """Let the hold end at ``until_ms`` of the server's clock or later; 0 leaves it as it is."""
        token = self.kind.stored_as(ownership)
        request = self.client.runtime.prepare("token_extend", (self.names.raw,), (token, until_ms))
        try:
            end = read_hold_end(await self.client.perform(request))
        except Failure as failure:
            raise failure.cause from None
        if isinstance(end, HoldLost):
            self.client.report_lost(ownership, ownership.lose(GONE, generation))
            raise lost_error(ownership)
        return end

    def remaining(self) -> float:
        """Return the seconds for which the hold is certain."""
        return self.mine().remaining(self.client.runtime.now())

    def token(self) -> str:
        """Return the token of the hold, or of the last one."""
        return self.kind.stored_as(self.mine())

    def held_token(self) -> str | None:
        """Return the token of the caller's hold; ``None`` if it holds nothing, as far as this client knows."""
        return self.token() if self.remaining() > 0 else None

    # ---- queries -------------------------------------------------------------------------------------------------

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """Return whether that thread or task of this client holds it."""
        self.check_thread_id(thread_id)
        token = await self.client.query("GET", self.names.raw)
        ownership = self.client.ownerships.find((self.names.name, self.kind.field(thread_id)))
        return ownership is not None and self._is_of(token, ownership)

    async def get_hold_count(self) -> int:
        """Return the number of holds of the calling thread or task: 0 or 1."""
        return int(await self.is_held_by_current_thread())

    def _is_of(self, token: Reply, ownership: Ownership) -> bool:
        return token == self.kind.stored_as(ownership).encode()
