"""What replicas have to say to an acquire: it counts only when enough of them know of it.

Redis replicates behind its answer, so a failover may forget a lock that was granted. ``WAIT``, sent
behind the script that took it and on the same connection, narrows that: it does not close it.

Rules kept here:

1. Only an acquire waits for replicas; a release or a renewal never does, so it cannot fail for them.
2. Asked for are ``Config.min_replicas``, connected or not; without that, one, if any is connected and past its first
   synchronisation. Where there is none nothing more is sent.
3. Too few acknowledged in time: the hold is released, exactly once, and the caller gets an error.
4. Of a node of a quorum only ``Config.min_replicas`` is asked for, within that node's small timeout; too few, and the
   node has no vote. Without it the other nodes are what replicas are elsewhere.
5. Each new connection says whether there are replicas; it is asked again after a ``WAIT`` that failed. A client
   that has seen replicas once, and sees none in step now, looks every ``LOOK_AGAIN`` seconds whether they are back.

Source: Redisson's ``syncedEval``. What differs on purpose: nothing is waited for, or undone, where nothing was taken; a
number of replicas can be demanded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core import events
from pyredisson._core.failures import Failure, Rejected, count_as_ours
from pyredisson.errors import NoSyncedSlavesError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.requests import Reader
    from pyredisson._core.runtime import Reply, Request
    from pyredisson._core.server import ServerFacts

LOOK_AGAIN = 5.0


@count_as_ours
class NotAcknowledged(Exception):
    """Something was taken, and too few replicas know of it. The caller releases it.

    Never let out of the core: callers see :class:`NoSyncedSlavesError`.

    Attributes:
        asked: How many were to acknowledge it.
        acked: How many did.
        within: The seconds that they had.
        setting: The name of that in ``Config``.
        cause: Why they could not be asked, if so.
    """

    def __init__(self, wanted: int, answer: int | Failure, within: float, setting: str) -> None:
        self.wanted = wanted
        self.acked: int = answer if isinstance(answer, int) else 0
        self.within = within
        self.setting = setting
        self.cause: Exception | None = answer.cause if isinstance(answer, Failure) else None
        super().__init__(f"{self.acked} of {wanted}")


class ReplicaAcknowledgement:
    """One request in flight to a server with replicas.

    Attributes:
        count: How many replicas were asked for.
    """

    __slots__ = ("_reader", "_replicas", "count")

    def __init__(self, replicas: Replicas, reader: Reader) -> None:
        self._replicas = replicas
        self._reader = reader
        self.count: int = 0

    def needed(self) -> bool:
        """Whether replicas may be asked for, now that there is a connection."""
        return self._replicas.wanted() > 0

    def wanted(self, reply: Reply) -> int:
        """How many replicas are to acknowledge what this reply says; 0: none."""
        self.count = self._replicas.wanted() if self._reader.acquired(reply) else 0
        return self.count

    def enough(self, answer: int | Failure) -> bool:
        """Whether that number is."""
        return not self.count or (isinstance(answer, int) and answer >= self.count)


class Replicas:
    """What one client asks of the replicas of its server."""

    def __init__(self, client: ClientCore) -> None:
        self._client = client
        self._least = client.config.min_replicas
        self._checks = client.config.check_lock_synced_slaves
        self.begin()
        client.server.on_learned.append(self._learned)

    def begin(self) -> None:
        """Nothing is known yet: the first request finds out."""
        self._seen = self._unsupported = False
        self._client.replica_wait = self if self._least or self._checks else None

    @property
    def given_up(self) -> bool:
        """Whether the server does not let us wait for replicas."""
        return self._unsupported

    def wanted(self) -> int:
        """How many replicas have to acknowledge an acquire now."""
        if self._least:
            return self._least
        facts = self._client.server.facts
        return 1 if self._checks and not self._unsupported and facts is not None and facts.in_step else 0

    def _learned(self, facts: ServerFacts, before: ServerFacts | None) -> None:
        self._seen = self._seen or facts.replicas > 0
        self._decide()

    def _decide(self) -> None:
        """Whether a request has to come here at all: where there never was a replica it need not."""
        worth = self._least or (self._checks and self._seen and not self._unsupported)
        self._client.replica_wait = self if worth else None

    async def acknowledge(self, request: Request, timeout: float, reader: Reader) -> Reply:
        """Run a script that takes something, and let replicas acknowledge it if it did.

        Raises:
            Failure: As ``Runtime.eval``.
            NotAcknowledged: It took something, and too few did.
        """
        client = self._client
        await self._look_again(timeout)
        acknowledgement = ReplicaAcknowledgement(self, reader)
        within = client.config.slaves_sync_timeout
        reply, acked = await client.runtime.eval_synced(request, timeout, acknowledgement, within)
        if client.server.facts is None and client.server.refusal is not None:
            self._decide()  # The server does not say, so there is nothing to go by.
        if acknowledgement.enough(acked):
            return reply
        if isinstance(acked, Rejected):
            if not (self._least or client.config.strict_server):
                self._do_without(acked.cause)
                return reply
        else:
            await self._count_replicas(timeout)
        raise NotAcknowledged(acknowledgement.count, acked, within, "slaves_sync_timeout")

    def _do_without(self, error: Exception) -> None:
        if not self._unsupported:
            self._unsupported = True
            self._client.emit(
                events.ServerUnsafe(
                    "wait",
                    f"the server has replicas, but refuses WAIT ({error}): a failover may lose a held lock. Allow this "
                    "user to run WAIT, or set check_lock_synced_slaves=False to accept that",
                )
            )
        self._decide()

    async def _look_again(self, timeout: float) -> None:
        facts = self._client.server.facts
        if facts is None or facts.in_step or self._least:
            return
        if self._client.runtime.now() - facts.seen_at >= LOOK_AGAIN:
            await self._count_replicas(timeout)

    async def _count_replicas(self, timeout: float) -> None:
        try:
            self._client.server.inspect(await self._client.runtime.execute(("INFO",), timeout))
        except Failure:
            pass  # The next connection shows it.

    def error(self, name: str, short: NotAcknowledged, *, given_back: bool) -> Exception:
        """The error to show to the user, once the acquire is undone, or is being undone."""
        least = f"{short.wanted} replica{'s' * (short.wanted != 1)}"
        then = (
            "It was released again" if given_back else "It could not be released yet: that continues in the background"
        )
        last = "lower min_replicas" if self._least else "set check_lock_synced_slaves=False"
        advice = f"check the replicas and their connections, increase {short.setting}, or {last}"
        if isinstance(short.cause, Exception):
            why = f"WAIT was not answered ({type(short.cause).__name__}: {short.cause})"
        else:
            why = f"{short.acked} did within {short.within:g} s"
        error = NoSyncedSlavesError(
            f"{name!r} was acquired, but {least} had to acknowledge it: {why}. {then}; {advice}", name=name
        )
        error.__cause__ = short.cause
        return error
