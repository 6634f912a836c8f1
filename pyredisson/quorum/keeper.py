"""The table of a client's multi-locks, and their renewal, which the client's watchdog runs.

A multi-lock is in the table of its first member's client. Its members are in no watchdog's rounds: they are renewed
together, by one request for each server and a hundred names.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyredisson.core import events
from pyredisson.core.background.renewal import Renewal, batches
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.ownership.liveness import GONE, gone_hint, holder_alive
from pyredisson.core.ownership.owner_table import OwnerTable

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.failures import Failure
    from pyredisson.core.ownership.owner_protocols import Caller
    from pyredisson.core.ownership.ownership import Ownership
    from pyredisson.quorum.ownership import MultiOwnership

RETRY = DoublingBackoff(first=0.05, maximum=1.0)

#: The number of entries from which the table is searched for those that are idle, or whose owners are gone.
SWEEP_AT = 1000


class Keeper:
    """Renews the multi-locks of one client, and reports their losses.

    Plain methods note what to do; :meth:`step`, called by the client's watchdog, does it.
    """

    def __init__(self, client: ClientCore) -> None:
        self._client = client
        self._runtime = client.runtime
        self._table: OwnerTable[MultiOwnership] = OwnerTable(client.runtime)
        self._kept: dict[MultiOwnership, None] = {}
        self._sweep_at = SWEEP_AT

    # ---- the table -----------------------------------------------------------------------------------------------

    def find(self, key: object, who: Caller) -> MultiOwnership | None:
        """The ownership of this owner, if there is one."""
        return self._table.find((key, who.number))

    def enter(self, owned: MultiOwnership) -> MultiOwnership:
        """Put it into the table, unless there is one: then return that."""
        if len(self._table) >= self._sweep_at:
            self._sweep()
        return self._list(owned)

    def _list(self, owned: MultiOwnership) -> MultiOwnership:
        listed = self._table.enter(owned)
        listed.listed_in = self
        return listed

    def _sweep(self) -> None:
        """Forget idle ownerships, and expired ones of owners that are gone."""
        now = self._runtime.now()
        for owned in self.all():
            if owned.idle() or (not owned.who.alive() and owned not in self._kept and not owned.remaining(now)):
                self._drop(owned)
                if not owned.idle() and owned.who.alive():
                    self._list(owned)  # Its owner has just acquired it.
        self._sweep_at = max(SWEEP_AT, 2 * len(self._table))

    def _drop(self, owned: MultiOwnership) -> None:
        owned.listed_in = None
        self._table.drop(owned)

    def tidy(self, owned: MultiOwnership) -> None:
        """Its owner has finished with it. If idle, it is kept for the next acquire, until there are too many."""
        if owned.idle():
            self._kept.pop(owned, None)
            owned.begin()
        elif owned.listed_in is None:
            self.enter(owned)

    def of(self, key: object) -> list[MultiOwnership]:
        """The ownerships of one multi-lock, by any owner."""
        return self._table.of(key)

    def all(self) -> list[MultiOwnership]:
        """Everything in the table."""
        return list(self._table)

    # ---- what is renewed ------------------------------------------------------------------------------------------

    def keep(self, owned: MultiOwnership) -> None:
        """Renew it if it has no fixed lease, and notify its holder when it is lost."""
        if owned.renew_at == math.inf and owned.renewable():
            owned.renew_at = self._runtime.now() + owned.lease_ms() / 3000
        self._kept[owned] = None
        # Without a renewal, its deadline is what comes next.
        at = owned.renew_at
        if at == math.inf and owned.holds:
            at = owned.deadline()
        self._client.watchdog.look(at)

    def leave_alone(self, owned: MultiOwnership) -> None:
        """Neither renew it nor report its loss, unless an outer hold needs that."""
        if owned.acquiring is None and not (owned.holds and (owned.watched() or owned.renewable())):
            self._kept.pop(owned, None)
            owned.renew_at = math.inf

    def keeping(self) -> int:
        """How many are renewed or watched."""
        return len(self._kept)

    def kept(self) -> list[MultiOwnership]:
        """Those that are renewed or watched."""
        return list(self._kept)

    def drop(self, owned: MultiOwnership) -> None:
        """Its owner is gone."""
        self._kept.pop(owned, None)
        self._drop(owned)

    def due(self) -> float:
        """When :meth:`step` has something to do next."""
        # A loss is reported at the deadline, and a renewal comes before; both are looked up, since renewals move them.
        return min(
            [min(owned.renew_at, owned.deadline() if owned.holds else math.inf) for owned in self.kept()],
            default=math.inf,
        )

    async def step(self) -> None:
        """Report the losses and send the renewals that are due."""
        if not self._kept:
            return
        self._report_lost()
        now = self._runtime.now()
        due = [owned for owned in self.kept() if owned.renew_at <= now and self._to_renew(owned)]
        if due:
            await self.renew(due + [owned for owned in self.kept() if self._may_come_along(owned, now)])

    def _may_come_along(self, owned: MultiOwnership, now: float) -> bool:
        """Whether one that is not due yet is renewed together with those that are, to save requests later."""
        if not now < owned.renew_at < math.inf:
            return False
        return owned.renewable() and owned.renew_at <= now + owned.lease_ms() / 6000 and self._to_renew(owned)

    def _to_renew(self, owned: MultiOwnership) -> bool:
        if not holder_alive(owned):
            self.drop(owned)
            self._client.emit(events.HolderGone(owned.name, owned.owner, gone_hint(owned)))
            return False
        if not owned.renewable() or (owned.acquiring is None and owned.extended_enough()):
            owned.renew_at = math.inf  # It expires, and its holder is notified then.
            return False
        return True

    # ---- renewing ------------------------------------------------------------------------------------------------

    async def renew(self, several: list[MultiOwnership]) -> None:
        """Renew these on all servers at once. A deadline moves if a quorum extends it within its validity."""
        sent = self._runtime.now()
        renewals = await self._runtime.fan_out(_renewals(several))
        self._report_lost()  # An extension after the deadline does not count.
        failed: Failure | None = None
        for renewal in renewals:
            failed = renewal.note() or failed
        for owned in several:
            self._renewed(owned, sent, failed)
        self._report_lost()

    def _renewed(self, owned: MultiOwnership, sent: float, failed: Failure | None) -> None:
        """Set when to renew it next: in a third of its lease if it was extended, else soon."""
        if not owned.renewable():
            owned.renew_at = math.inf
            return
        lease = owned.lease_ms() / 1000
        if owned.certain_until() >= sent + lease / 2:
            owned.extensions += owned.acquiring is None
            owned.renew_at = sent + lease / 3
            owned.failed_renewals = 0
            return
        if failed is not None:
            self._client.emit(events.RenewalFailed(1, failed.cause, 1))
        retry = DoublingBackoff(RETRY.first, min(RETRY.maximum, lease / 10))
        owned.renew_at = self._runtime.now() + retry.pause(owned.failed_renewals, self._runtime.jitter)
        owned.failed_renewals += 1

    # ---- losses --------------------------------------------------------------------------------------------------

    def _report_lost(self) -> None:
        now = self._runtime.now()
        for owned in self.kept():
            if owned.holds and owned.expire(now):
                self.report_lost(owned)
            if owned.acquiring is None and not owned.watched():
                self._kept.pop(owned, None)
                owned.renew_at = math.inf

    def report_lost(self, owned: MultiOwnership) -> None:
        """A multi-lock was lost: report it to its holder, and to every client involved."""
        for callback in owned.on_loss:
            callback()
        for client in owned.clients():
            client.emit(events.Lost(owned.name, f"{client.id}:{owned.who.number}", owned.loss or GONE))
            if client.config.on_lock_lost is not None:
                client.runtime.call_back(client.config.on_lock_lost, owned.name, owned.who.number)


def _renewals(several: list[MultiOwnership]) -> list[Renewal]:
    """The requests that renew the members of these multi-locks."""
    alike: dict[tuple[ClientCore, int, float], list[Ownership]] = {}
    for owned in several:
        lease = owned.lease_ms()
        for member, ownership in owned.renewable_parts():
            alike.setdefault((member.client, lease, member.timeout(lease)), []).append(ownership)
    return [
        Renewal(client, batch, lease, timeout)
        for (client, lease, timeout), ownerships in alike.items()
        for batch in batches(client, ownerships, client.config.lock_watchdog_batch_size)
    ]
