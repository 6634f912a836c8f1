"""One request that renews the holds of many owners: which of them it is about, and its answer for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyredisson._core.failures import Failure, Rejected
from pyredisson._core.requests.replies import read_renewed
from pyredisson._core.runtime import Ask

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership.ownership import Ownership


def batches(client: ClientCore, ownerships: Iterable[Ownership], size: int) -> list[list[Ownership]]:
    """Return these ownerships by what one request can renew: at most ``size``, of kinds renewed alike, in one place."""
    place = client.runtime.place if client.runtime.place("") is not None else None
    found: list[list[Ownership]] = []
    last: dict[object, list[Ownership]] = {}
    for ownership in ownerships:
        if ownership.kind is not None:
            key = ownership.kind.renew, place and place(client.key_of(ownership.name))
            if len(last.get(key, ())) in (0, size):
                last[key] = []
                found.append(last[key])
            last[key].append(ownership)
    return found


class Renewal(Ask):
    """A request that renews the holds of these owners.

    Args:
        client: The client of their server.
        ownerships: One of the :func:`batches`.
        lease_ms: The lease.
        timeout: As for :class:`Ask`.
        counts: Whether it is one of the renewals of which a hold may have a limited number.

    Attributes:
        ownerships: As above.
    """

    __slots__ = ("_client", "_counts", "_generations", "_lease_ms", "_sent", "ownerships")

    def __init__(
        self, client: ClientCore, ownerships: list[Ownership], lease_ms: int, timeout: float, *, counts: bool = False
    ) -> None:
        kind = ownerships[0].kind
        assert kind is not None, "an ownership is renewed that no kind of lock has acquired"
        held = [(client.key_of(ownership.name), kind.stored_as(ownership)) for ownership in ownerships]
        super().__init__(client.runtime, kind.renew(client.runtime, held, lease_ms=lease_ms), timeout)
        self.ownerships: list[Ownership] = ownerships
        self._client = client
        self._counts = counts
        self._lease_ms = lease_ms
        self._generations = [ownership.generation for ownership in ownerships]
        self._sent = client.runtime.now()

    async def learn_cause(self) -> None:
        """Ask the server what became of what it says is lost, if something is; before :meth:`note`."""
        if isinstance(self.answer, list):
            lost = next((own for own, kept in zip(self.ownerships, self.answer, strict=False) if not kept), None)
            if lost is not None:
                await self._client.learn_cause(lost.name)

    def _note_node(self, failure: Failure | None) -> None:
        """Let a quorum know whether its node answers."""
        if isinstance(failure, Rejected):
            return
        for hold in (hold for own in self.ownerships for hold in own.holds):
            if hold.whole is not None:
                hold.whole.note_client(self._client, failure)
                return

    def note(self) -> Failure | None:
        """Note the answer in the ownerships, and report those that are lost. Returns why there is no answer of use."""
        try:
            if isinstance(self.answer, Failure):
                raise self.answer
            renewed = read_renewed(self.answer, len(self.ownerships))
        except Failure as failure:
            self._note_node(failure)
            return failure
        if self._client.away_since is not None:
            self._note_node(None)
        self._client.server.heard(name=self.ownerships[0].name)
        for ownership, generation, kept in zip(self.ownerships, self._generations, renewed, strict=True):
            if kept:
                ownership.renewed(generation, self._sent, self._lease_ms, counts=self._counts)
            else:
                self._client.report_lost(ownership, ownership.lose(self._client.cause_of(ownership), generation))
        return None
