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
from pyredisson.core.ownership.liveness import GONE, gone_hint, holder_alive, lost_error
from pyredisson.core.ownership.table import OwnerTable

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.failures import Failure
    from pyredisson.core.ownership.owner_protocols import Caller
    from pyredisson.core.ownership.ownership import Ownership
    from pyredisson.quorum.ownership import MultiHold, MultiOwnership

RETRY = DoublingBackoff(first=0.05, maximum=1.0)

#: The name of the table for the watchdog.
TABLE = "multi-locks"

#: The number of entries from which the table is searched for those that are idle, or whose owners are gone.
SWEEP_AT = 1000


class MultiOwnershipTable(OwnerTable["MultiOwnership"]):
    """The multi-locks of one client: renews them, and reports their losses.

    Plain methods note what to do; :meth:`step`, called by the client's watchdog, does it.
    """

    def __init__(self, client: ClientCore) -> None:
        super().__init__(client.runtime)
        self._client = client
        self._runtime = client.runtime
        self._watched: dict[MultiOwnership, None] = {}
        self._sweep_at = SWEEP_AT

    # ---- the table -----------------------------------------------------------------------------------------------

    def held_by(self, key: object, who: Caller) -> MultiOwnership | None:
        """The ownership of this owner, if there is one."""
        return self.find((key, who.number))

    def enter(self, owned: MultiOwnership) -> MultiOwnership:
        """Put it into the table, unless there is one: then return that."""
        if len(self) >= self._sweep_at:
            self._sweep()
        return self._list_entry(owned)

    def _list_entry(self, owned: MultiOwnership) -> MultiOwnership:
        listed = super().enter(owned)
        listed.listed_in = self
        return listed

    def drop(self, owned: MultiOwnership) -> None:
        """Take one out whose owner is gone."""
        self._watched.pop(owned, None)
        self._drop_entry(owned)

    def _drop_entry(self, owned: MultiOwnership) -> None:
        owned.listed_in = None
        super().drop(owned)

    def _sweep(self) -> None:
        """Forget idle ownerships, and expired ones of owners that are gone."""
        now = self._runtime.now()
        for owned in self:
            if owned not in self._watched and not (owned.in_use() and (owned.who.alive() or owned.remaining(now))):
                self._drop_entry(owned)
                if owned.in_use() and owned.who.alive():
                    self._list_entry(owned)  # Its owner has just acquired it.
        self._sweep_at = max(SWEEP_AT, 2 * len(self))

    def tidy(self, owned: MultiOwnership) -> None:
        """Its owner has finished with it. If idle, it is kept for the next acquire, until there are too many."""
        if not owned.in_use():
            self._watched.pop(owned, None)
            owned.begin()
        elif owned.listed_in is None:
            self.enter(owned)

    def granted(self, owned: MultiOwnership, hold: MultiHold) -> None:
        """A hold of it was acquired: renew it, and report its loss, if its holder wants that."""
        if owned.listed_in is not self:
            self.enter(owned)
        if hold.watched:
            self.watch(owned)
        else:
            self.unwatch(owned)

    # ---- what is renewed -----------------------------------------------------------------------------------------

    def watch(self, owned: MultiOwnership) -> None:
        """Renew it if it has no fixed lease, and notify its holder when it is lost."""
        if owned.renew_at == math.inf and owned.renewable():
            owned.renew_at = self._runtime.now() + owned.lease_ms() / 3000
        self._watched[owned] = None
        # Without a renewal, its deadline is what comes next.
        at = owned.renew_at
        if at == math.inf and owned.holds:
            at = owned.deadline()
        self._client.watchdog.wake_by(at)

    def unwatch(self, owned: MultiOwnership) -> None:
        """Neither renew it nor report its loss, unless an outer hold needs that."""
        if owned.acquiring is None and not owned.watched():
            self._watched.pop(owned, None)
            owned.renew_at = math.inf

    def watched(self) -> list[MultiOwnership]:
        """Those that are renewed, or whose loss is reported."""
        return list(self._watched)

    def due(self) -> float:
        """When :meth:`step` has something to do next."""
        # A loss is reported at the deadline, and a renewal comes before; both are looked up, since renewals move them.
        return min(
            [min(owned.renew_at, owned.deadline() if owned.holds else math.inf) for owned in self.watched()],
            default=math.inf,
        )

    async def step(self) -> None:
        """Report the losses and send the renewals that are due."""
        self._report_losses()
        now = self._runtime.now()
        due = [owned for owned in self.watched() if owned.renew_at <= now and self._to_renew(owned)]
        if due:
            # Those with a sixth of their lease or less to go until then come along, to save requests later.
            soon = [each for each in self.watched() if now < each.renew_at <= now + each.lease_ms() / 6000]
            await self.renew(due + [owned for owned in soon if self._to_renew(owned)])

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
        self._report_losses()  # An extension after the deadline does not count.
        failed: Failure | None = None
        for renewal in renewals:
            failed = renewal.note() or failed
        for owned in several:
            self._renewed(owned, sent, failed)
        self._report_losses()

    async def extend(self, owned: MultiOwnership, lease_ms: int) -> None:
        """Renew the members of one on all servers at once, by this lease."""
        for renewal in await self._runtime.fan_out(_renewals([owned], lease_ms)):
            renewal.note()
        self._report_losses()

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

    def _report_losses(self) -> None:
        for owned in self.watched():
            self.find_loss(owned)
            self.unwatch(owned)

    def find_loss(self, owned: MultiOwnership) -> str | None:
        """Report a loss that was not noticed before. Returns why it is lost, if it is."""
        if owned.holds and owned.expire(self._runtime.now()):
            self.report_lost(owned)
        return owned.loss

    def raise_if_lost(self, owned: MultiOwnership) -> None:
        """Raise ``LockLostError`` if it is lost."""
        if (lost := self.find_loss(owned)) is not None:
            raise lost_error(owned, lost)

    def report_lost(self, owned: MultiOwnership) -> None:
        """A multi-lock was lost: report it to its holder, and to every client involved."""
        for callback in owned.on_loss:
            callback()
        for client in owned.clients():
            client.emit(events.Lost(owned.name, f"{client.id}:{owned.who.number}", owned.loss or GONE))
            if client.config.on_lock_lost is not None:
                client.runtime.call_back(client.config.on_lock_lost, owned.name, owned.who.number)


def multi_locks_of(client: ClientCore) -> MultiOwnershipTable:
    """Return the table of a client's multi-locks, which is made when it is first asked for."""
    tables: dict[str, MultiOwnershipTable] = client.watchdog.tables
    table = tables.get(TABLE)
    return tables.setdefault(TABLE, MultiOwnershipTable(client)) if table is None else table


def _renewals(several: list[MultiOwnership], lease_ms: int | None = None) -> list[Renewal]:
    """The requests that renew the members of these multi-locks, each by its lease unless one is given."""
    alike: dict[tuple[ClientCore, int, float], list[Ownership]] = {}
    for owned in several:
        lease = lease_ms or owned.lease_ms()
        for member, ownership in owned.renewable_parts():
            alike.setdefault((member.client, lease, member.timeout(lease)), []).append(ownership)
    return [
        Renewal(client, batch, lease, timeout)
        for (client, lease, timeout), ownerships in alike.items()
        for batch in batches(client, ownerships, client.config.lock_watchdog_batch_size)
    ]
