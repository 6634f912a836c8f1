"""The client's one watchdog: renews holds without a fixed lease, reports losses, settles unfinished requests.

It is a loop, not a timer a lock. Every third of the watchdog timeout one round renews everything, a hundred locks a
request. A renewal has three outcomes: kept; lost (its holder is notified at once); unknown (retried at once, until the
deadline, at which the lock is lost with or without an answer).

On a cluster a request is about names of one slot, which makes many small requests: these are sent in waves, and those
without an answer are retried after all others, so that a node that is down costs no lock on the other nodes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from pyredisson._core import events
from pyredisson._core.background.backlog import Backlog
from pyredisson._core.background.renewal import Renewal, batches
from pyredisson._core.backoff import DoublingBackoff
from pyredisson._core.deadline import certain_for, lease_ms
from pyredisson._core.diagnosis.presence import Presence
from pyredisson._core.failures import Failure, as_failure
from pyredisson._core.ownership.liveness import gone_hint, holder_alive

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership.ownership import Ownership

RETRY = DoublingBackoff(first=0.05, maximum=1.0)

#: The number of requests that may be in flight at once on a cluster.
WAVE = 1000

#: The longest sleep of a closed client until it reports losses: clocks of sleeps may stand still.
SLICE = 1.0

#: Seconds, at least, by which a watchdog is late before that is worth a warning.
LATE = 1.0


class Watchdog:
    """Renews, warns and settles for one client. Plain methods note what to do; :meth:`step` does it."""

    def __init__(self, client: ClientCore) -> None:
        self._client = client
        self._runtime = client.runtime
        timeout = client.config.lock_watchdog_timeout
        self.lease_ms: int = lease_ms(timeout)
        self.certain: float = certain_for(self.lease_ms)
        self._period = timeout / 3
        self._batch = client.config.lock_watchdog_batch_size
        self._watched: dict[Ownership, None] = {}
        self._short: dict[Ownership, float] = {}  # When to renew what has a shorter lease than the usual one.
        self._several = client.runtime.place("") is not None
        self._round: deque[list[Ownership]] = deque()
        self._round_size = 0
        self._round_requests = 0
        self._next_round = math.inf
        self._next_retry = 0.0
        self._failed = 0
        self._wakes_at = math.inf
        self._earliest = math.inf  # No watched ownership's deadline is before this.
        self._grace = max(LATE, self._period)
        self._late_at = math.inf  # If the next step has not begun by then, no thread or task runs it.
        self._late_reported = False
        self._wall_clock = client.runtime.unix_time() - client.runtime.now()  # Ahead of ours, when a round began.
        self._stepping = False
        self._cancel_report: Callable[[], object] = int  # See report_when_closed().
        self._backlog = Backlog(client, self._answer_timeout, lambda: self._next_round)
        self._unsettled = self._backlog.ownerships
        #: What the client publishes of itself, as a step of the loop.
        self.presence: Presence = Presence(client, self.wake_by, self.ownerships)
        self._background = client.runtime.spawn(self.step, "watchdog")

    # ---- plain: for those who acquire and release ----------------------------------------------------------------

    def watch(self, ownership: Ownership) -> None:
        """Renew this ownership if it wants that, and notify its holder when it is lost."""
        self._watched[ownership] = None
        deadline = ownership.deadline
        if deadline - self.certain > self._late_at:  # A lease of the usual length begins about now.
            self._warn_if_late()
        if deadline < self._earliest:
            self._earliest = deadline
        if self._next_round == math.inf:
            self._next_round = self._runtime.now() + self._period
        if deadline < self._wakes_at or self._next_round < self._wakes_at:
            self._nudge()

    def unwatch(self, ownership: Ownership) -> None:
        """Leave this ownership alone, unless its holder is to be notified: another thread may hold it anew by now."""
        if self._late_at < math.inf and self._runtime.now() > self._late_at:
            self._warn_if_late()
        self._watched.pop(ownership, None)
        if ownership.holds and ownership.watched():
            self.watch(ownership)
        else:
            self._short.pop(ownership, None)

    def renew_every_third(self, ownership: Ownership, lease_ms: int) -> None:
        """Renew an ownership by a shorter lease than the usual one, until it is left alone or has a longer one."""
        self._short[ownership] = self._runtime.now() + lease_ms / 3000
        self.watch(ownership)
        self.wake_by(self._short[ownership])

    def settle(self, ownership: Ownership) -> None:
        """Settle the pending request of this ownership in the background, until its lease has expired."""
        mine = ownership.owner.startswith(self._client.id)  # Else it is the parent's, or the original's.
        if mine and self._backlog.settle(ownership):
            self._nudge()

    def settles(self, ownership: Ownership) -> bool:
        """Whether the pending request of this ownership is left to the background."""
        return ownership in self._unsettled

    def wake_by(self, at: float) -> None:
        """Wake up by then, for what the client's presence has due."""
        if at < self._wakes_at:
            self._nudge()

    def do_later(self, work: Callable[[], Coroutine[Any, Any, object]], until: float, at: float | None = None) -> None:
        """Do this work in the background; see :meth:`Backlog.do`."""
        self._backlog.do(work, until, at)
        self._nudge()

    async def end(self) -> None:
        """Finish the background work of a closed client. Ownerships are left to their leases."""
        await self._backlog.end()

    def check_holds(self) -> None:
        """Renew all that is held now: the server may no longer have it."""
        if self._watched:
            self._next_round = self._runtime.now()
            self._nudge()

    def report_when_closed(self) -> None:
        """Report what has expired of a closed client, now and when the rest does: that is certain no longer than so."""
        self._cancel_report()
        self._check_clocks()
        self._report_expired()
        self._find_earliest()
        if self._earliest < math.inf:
            left = min(SLICE, max(0.0, self._earliest - self._runtime.now()))
            self._cancel_report = self._runtime.call_later(left, self.report_when_closed)

    def watching(self) -> int:
        """How many ownerships are watched."""
        return len(self._watched)

    def ownerships(self) -> list[Ownership]:
        """The ownerships that are watched."""
        return list(self._watched)

    def _nudge(self) -> None:
        if not self._stepping:  # Else it runs, and waits for a server.
            self._late_at = min(self._late_at, self._runtime.now() + self._grace)
        self._background.nudge()

    def _warn_if_late(self) -> None:
        """Warn, once, if the loop is late: in some processes threads do not run."""
        late_at = self._late_at
        if self._runtime.now() > late_at and not self._client.closed:  # Else no loop is to come round.
            self._late_at = math.inf
            if not self._late_reported:
                self._late_reported = True
                self._client.emit(events.WatchdogLate(self._runtime.now() - late_at + self._grace))

    # ---- the loop ------------------------------------------------------------------------------------------------

    async def step(self) -> float:
        """Do what is due, and return after how many seconds there will be more."""
        if self._client.copied():
            return SLICE  # A copy renews nothing of the original; its client has another watchdog now.
        self._warn_if_late()
        self._late_at = math.inf
        self._stepping = True
        self._check_clocks()
        self._report_expired()
        if self._runtime.now() >= self._next_round:
            self._begin_round()
        await self._renew()
        if self._short:
            await self._renew_short()
        await self._backlog.step()
        if self._runtime.now() >= self.presence.due():
            await self.presence.step(self._due() - self._runtime.now())
        return self._sleep()

    def _sleep(self) -> float:
        self._stepping = False
        if self._earliest < self._next_round:  # Else the next round does it.
            self._find_earliest()
        now = self._runtime.now()
        if not self._watched:
            self._next_round = math.inf
            self._wall_clock = self._runtime.unix_time() - now
        if self._watched and self._next_round == math.inf:  # One was added meanwhile.
            self._next_round = now + self._period
        if self._watched:
            self.presence.expect_from(now)
        self._wakes_at = min(self._due(), self.presence.due())
        self._late_at = self._wakes_at + self._grace
        return max(0.0, self._wakes_at - now)

    def _due(self) -> float:
        """When locks have to be renewed, settled or reported next."""
        return min(
            min(self._next_retry, self._next_round) if self._round else self._next_round,
            self._backlog.due(),
            self._earliest,
            min(list(self._short.values()), default=math.inf),
        )

    def _find_earliest(self) -> None:
        # Set first: an ownership that is noted while we look lowers it again. The copy is for the same reason.
        self._earliest = math.inf
        earliest = min([ownership.deadline for ownership in list(self._watched)], default=math.inf)
        self._earliest = min(self._earliest, earliest)

    def _report_expired(self) -> None:
        now = self._runtime.now()
        if now < self._earliest:
            return
        for ownership in list(self._watched):
            if ownership.deadline <= now:
                self._client.report_lost(ownership, ownership.expire(now))
                if not ownership.watched():
                    self.unwatch(ownership)
        self._find_earliest()

    def _check_clocks(self) -> None:
        """Renew all at once if the wall clock has run ahead of ours: that may have stood still, unlike the server's.

        So it is where a host has paused its guest. What is not confirmed soon is lost.
        """
        now = self._runtime.now()
        ahead = self._runtime.unix_time() - now - self._wall_clock
        if ahead <= self.lease_ms / 1000 - self.certain or not self._watched:
            return
        self._next_round = now
        self._wall_clock += ahead
        soon = now + 2 * self._client.attempt_timeout(self.lease_ms)
        for ownership in list(self._watched):
            renewable = ownership.renewable() and not self._client.closed
            ownership.certain_until(soon if renewable else ownership.deadline - ahead)
        self._find_earliest()

    def _begin_round(self) -> None:
        now = self._runtime.now()
        self._wall_clock = self._runtime.unix_time() - now
        self._next_round = now + self._period
        alive = []
        for ownership in list(self._watched):
            if holder_alive(ownership):
                alive.append(ownership)
            else:
                self._forget_dead_holder(ownership)
        # Anew: one that does not answer is asked again with the others, and keeps none of them waiting.
        self._round = deque(batches(self._client, alive, self._batch))
        self._next_retry = now
        self._round_size = self._round_requests = 0
        self._find_earliest()

    def _forget_dead_holder(self, ownership: Ownership) -> None:
        self._watched.pop(ownership, None)
        self._short.pop(ownership, None)
        hint = gone_hint(ownership)
        if ownership.who.shared and ownership.who.alive():
            ownership.leave_to_lease()  # Its number is the thread's, for which the server lets other call chains in.
        elif ownership.pending is None:  # Else its owner, who may live, would begin anew while a release is under way.
            self._client.ownerships.drop(ownership)
        if not ownership.holds or any(hold.whole is None for hold in ownership.holds):
            self._client.emit(events.HolderGone(ownership.name, ownership.owner, hint, who=ownership.who.describe()))
        for hold in list(ownership.holds):
            if hold.whole is not None:
                hold.whole.holder_gone(hint)

    async def _renew(self) -> None:
        while self._round and self._runtime.now() >= self._next_retry:
            unknown = await self._renew_wave(self._next_wave())
            if unknown:
                # While a slot moves to another node, names that are here and there cannot be in one request.
                self._round.extend(batches(self._client, unknown, 1 if self._several else self._batch))
                self._next_retry = self._runtime.now() + RETRY.pause(self._failed - 1, self._runtime.jitter)
                return
            self._report_expired()
        if self._round_requests and not self._round:
            self._client.emit(events.Renewed(self._round_size, self._round_requests))
            self._round_size = self._round_requests = 0

    async def _renew_short(self) -> None:
        """Renew what has a shorter lease, and is due: members of multi-locks that wait for others."""
        now = self._runtime.now()
        for ownership in [each for each, at in list(self._short.items()) if at <= now]:
            leases = [hold.lease_ms for hold in ownership.holds if hold.watchdog]
            if min(leases, default=self.lease_ms) >= self.lease_ms or not ownership.renewable():
                self._short.pop(ownership, None)  # The usual rounds do for it.
                continue
            lease = max(leases)
            self._short[ownership] = now + min(leases) / 3000
            renewal = Renewal(self._client, [ownership], lease, self._answer_timeout(now))
            try:
                renewal.answer = await self._runtime.eval(renewal.request, renewal.timeout)
            except Exception as error:
                renewal.answer = as_failure(error)
                self._short[ownership] = now + min(RETRY.first, lease / 10_000)
            await renewal.learn_cause()
            renewal.note()

    def _next_wave(self) -> list[list[Ownership]]:
        """Take the next requests of the round off it, each as the ownerships that it renews."""
        wave: list[list[Ownership]] = []
        while self._round and len(wave) < (WAVE if self._several else 1):
            batch = [each for each in self._round.popleft() if each.renewable() and each not in self._short]
            wave += batches(self._client, batch, self._batch)  # Again: another kind may have acquired one meanwhile.
        return wave

    async def _renew_wave(self, wave: list[list[Ownership]]) -> list[Ownership]:
        """Renew ownerships, up to a hundred a request. Returns those of which the outcome is unknown."""
        if not wave:
            return []
        timeout = self._answer_timeout(self._runtime.now())
        renewals = [Renewal(self._client, batch, self.lease_ms, timeout, counts=True) for batch in wave]
        self._round_requests += len(renewals)
        if len(renewals) > 1:
            answers = await self._runtime.eval_all([renewal.request for renewal in renewals], timeout)
            for renewal, answer in zip(renewals, answers, strict=True):
                renewal.answer = answer
        else:
            try:
                renewals[0].answer = await self._runtime.eval(renewals[0].request, timeout)
            except Exception as error:
                renewals[0].answer = as_failure(error)
        unknown: list[Ownership] = []
        failed: Failure | None = None
        for renewal in renewals:
            await renewal.learn_cause()
            without_answer = renewal.note()
            if without_answer is None:
                self._round_size += len(renewal.ownerships)
            else:
                failed = failed or without_answer
                unknown += renewal.ownerships
        if failed is not None:
            self._failed += 1
            if not self._client.closed:
                self._client.emit(events.RenewalFailed(len(unknown), failed.cause, self._failed, unknown[0].name))
        else:
            self._failed = 0
        return unknown

    def _answer_timeout(self, now: float) -> float:
        """How long to wait for one answer.

        Never past the next deadline, at which a loss has to be reported. On a cluster it may be one node that does not
        answer: waits for it, before a round and in it, delay renewals on the others by less than half an interval.
        """
        most = self._client.attempt_timeout(self.lease_ms)
        if self._several:
            most = min(most, self._period / 6)
        return max(0.001, min(most, self._earliest - now))
