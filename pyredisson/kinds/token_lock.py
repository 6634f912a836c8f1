"""The token lock: one string in Redis, ``SET name token NX PX lease``, as every client of the Redlock kind has it.

Source: "Distributed Locks with Redis" (redis.io), the part on a single instance. It shares its key with redis-py's
``Lock``, pottery, redsync, node-redlock and others. What differs on purpose: a lost reply neither strands a hold nor
frees another's; it is renewed; its owner is a thread or task, and not whoever has the object in hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyredisson.core import scripts
from pyredisson.core.attempt import expire
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.holder import GONE, lost_error
from pyredisson.core.kind import LockKind
from pyredisson.core.names import LockNames, token_field
from pyredisson.core.polling import Polling
from pyredisson.core.runtime import Failure
from pyredisson.errors import LockNotOwnedError
from pyredisson.kinds.lock import LockCore

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.kind import Waiting
    from pyredisson.core.outcomes import Outcome
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.runtime import MadeCaller, Reply, Request

__all__ = ["TOKEN_BYTES", "TokenKind", "TokenLockCore", "TokenPair"]

POLL = DoublingBackoff(first=0.001, maximum=0.128)

TOKEN_BYTES = 20
"""As the Redis documentation says. On the wire they are hexadecimal."""


class TokenPair:
    """The tokens of one owner.

    Attributes:
        current: That of its hold, or of the acquire that is under way.
        former: That of the hold before: its lease may be over here, and its key not quite gone on the server.
    """

    __slots__ = ("current", "former")

    def __init__(self) -> None:
        self.current: str = ""
        self.former: str = ""

    def use(self, token: str) -> None:
        """Ask for the lock with a new token."""
        self.current, self.former = token, self.current


class TokenKind(LockKind):
    """What a token lock says to the server. ``token`` is stored instead of random bytes."""

    __slots__ = ("_backoff", "_token", "waiting")

    label = "token"
    layout = "token lock"
    others = "one of redis-py without a timeout, a semaphore, or a latch"
    renew: Callable[..., Request] = staticmethod(scripts.renew_tokens)
    reentrant = False
    not_reentrant_hint = ""  # A reentrant lock of the same name would be another key's type.
    shared_token = True

    def __init__(self, client: ClientCore, names: LockNames, backoff: DoublingBackoff, token: str | None) -> None:
        super().__init__(client, names)
        self.waiting: Waiting = Polling(backoff, until_free=True)
        self._backoff = backoff
        self._token = token

    def with_token(self, token: str) -> TokenKind:
        """See :meth:`LockKind.with_token`."""
        return TokenKind(self.client, self.names, self._backoff, token)

    def field(self, number: int) -> str:
        """What an owner is called in this client. It does not stand in the lock: that is the token of its hold."""
        return token_field(self.client.id, number)

    def new_state(self) -> TokenPair:
        """The tokens of an owner that has held nothing yet."""
        return TokenPair()

    def stored_as(self, ownership: Ownership) -> str:
        """The token of the owner's hold, or of its last one; empty if it never asked for this lock."""
        tokens = ownership.kind_state
        return tokens.current if isinstance(tokens, TokenPair) else ""

    def constant(self, ownership: Ownership) -> bool:
        """No two holds have the same bytes."""
        return False

    def acquire(self, ownership: Ownership, hold: Hold, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`; with a new token. A repeat carries the same one."""
        tokens: TokenPair = ownership.kind_state
        if not repeat:
            tokens.use(self._token or self.client.runtime.random_bytes(TOKEN_BYTES).hex())
        return scripts.acquire_token(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=hold.lease_ms,
            token=tokens.current,
            former=tokens.former,
            epoch=epoch,
            repeat=repeat,
        )

    def release(self, ownership: Ownership, lease_ms: int, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`; if it has the token still."""
        token = self.stored_as(ownership)
        return scripts.release_token(
            self.client.runtime, self.names, ownership.owner, lease_ms=lease_ms, token=token, epoch=epoch
        )

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`."""
        return scripts.force_unlock_token(self.client.runtime, self.names, ownership.owner, epoch=epoch)

    def reads(self, reply: Reply) -> Outcome:
        """See :meth:`LockKind.reads`."""
        return scripts.read_acquire(reply)


class TokenLockCore(LockCore):
    """One handle on a token lock.

    Args:
        client: The client.
        name: The lock's name, which is its key.
        backoff: The pauses between two attempts.
        owner: Who holds it, if not the calling thread or task.
        token: What to store instead of random bytes.
    """

    __slots__ = ()

    def __init__(
        self,
        client: ClientCore,
        name: str,
        backoff: DoublingBackoff = POLL,
        *,
        owner: MadeCaller | None = None,
        token: str | None = None,
    ) -> None:
        names = LockNames(name)
        super().__init__(client, names, TokenKind(client, names, backoff, token))
        self._caller = owner

    # ---- prolonging ----------------------------------------------------------------------------------------------

    async def extend(self, milliseconds: int, *, from_now: bool) -> None:
        """Prolong the hold by so much, or ``from_now`` on for so much at least. It is never shortened.

        First the server is asked when it ends, then told when it shall: so a repeated request counts once.
        """
        client = self.client
        client.check_open()
        ownership = self.mine()
        expire(client, ownership)
        if not ownership.holds or ownership.loss is not None:
            if ownership.holds or ownership.expired:
                raise lost_error(ownership, ownership.loss or "its lease expired")
            raise LockNotOwnedError(
                f"lock {ownership.name!r} is not held by {ownership.who.describe()}", name=ownership.name
            )
        generation = ownership.generation
        now, ends, _ = await self._ask_end(ownership, generation, 0)
        until = milliseconds + (now if from_now else max(now, ends))
        now, ends, sent = await self._ask_end(ownership, generation, until)
        if ends > now:
            ownership.renewed(generation, sent, ends - now)

    async def _ask_end(self, ownership: Ownership, generation: int, until: int) -> tuple[int, int, float]:
        runtime = self.client.runtime
        sent = runtime.now()
        try:
            reply = await self.client.perform(
                scripts.extend_token(runtime, self.names, token=self.kind.stored_as(ownership), until=until)
            )
            answer = scripts.read_extend_token(reply)
        except Failure as failure:
            raise failure.cause from None
        if answer is None:
            if ownership.lose(GONE, generation):
                self.client.watchdog.unwatch(ownership)
                self.client.tell_lost(ownership)
            raise lost_error(ownership)
        return (*answer, sent)

    def remaining(self) -> float:
        """Seconds for which the hold is certain."""
        return self.mine().remaining(self.client.runtime.now())

    def token(self) -> bytes:
        """The token of the hold."""
        return self.kind.stored_as(self.mine()).encode()

    # ---- asking --------------------------------------------------------------------------------------------------

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """Whether that thread or task of this client holds it."""
        self.check_thread_id(thread_id)
        token = await self.client.query("GET", self.names.raw)
        ownership = self.client.ownerships.find((self.names.raw, self.kind.field(thread_id)))
        return ownership is not None and self._is_of(token, ownership)

    async def get_hold_count(self) -> int:
        """How often the calling thread or task holds it: once or not at all."""
        return int(await self.is_held_by_current_thread())

    def _is_of(self, token: Reply, ownership: Ownership) -> bool:
        return token == self.kind.stored_as(ownership).encode()
