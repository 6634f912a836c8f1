"""The client's one watchdog: renews holds without a fixed lease, reports losses, settles unfinished requests.

What it renews or settles is always an :class:`Ownership`: of a lock, of the permits of a block, or of a member of a
multi-lock. Its kind makes the request, and the ownership draws the consequences of the reply.

It is a loop, not a timer a lock. Every third of the watchdog timeout one round renews everything, a hundred locks a
request. A renewal has three outcomes: kept; lost (its holder is notified at once); unknown (retried after a moment,
until the deadline, at which the lock is lost with or without an answer). While the loop waits for a server, a timer
reports what is lost.

On a cluster a request is about names of one slot, which makes many small requests: these are sent in waves, and those
without an answer are retried after all others, so that a node that is down costs no lock on the other nodes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from pyredisson._core import events
from pyredisson._core.acquiring import settle
from pyredisson._core.deadline import CLEANUP_BUDGET, RETRY, certain_for, lease_ms
from pyredisson._core.failures import Failure, Rejected, Unusable, as_failure
from pyredisson._core.hold import gone_hint, holder_alive
from pyredisson._core.presence import Presence
from pyredisson._core.requests import read_renewed
from pyredisson._core.runtime import ServerRequest, Work

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership import Ownership

T = TypeVar("T")

# ---- renewal ---------------------------------------------------------------------------------------------------------
# One request that renews the holds of many owners: which of them it is about, and its answer for each.


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


class Renewal(ServerRequest):
    """A request that renews the holds of these owners.

    Args:
        client: The client of their server.
        ownerships: One of the :func:`batches`.
        lease_ms: The lease.
        timeout: As for :class:`ServerRequest`.
        counts: Whether it is one of the renewals of which a hold may have a limited number.

    Attributes:
        effective: Whether what the answer confirms is certain for as long: not what has changed or ended meanwhile.
        ownerships: As above.
    """

    __slots__ = ("_client", "_counts", "_generations", "_lease_ms", "_sent", "effective", "ownerships")

    def __init__(
        self, client: ClientCore, ownerships: list[Ownership], lease_ms: int, timeout: float, *, counts: bool = False
    ) -> None:
        kind = ownerships[0].kind
        assert kind is not None, "an ownership is renewed that no kind of lock has acquired"
        held = [(client.key_of(ownership.name), kind.stored_as(ownership)) for ownership in ownerships]
        super().__init__(client.runtime, kind.renew(client.runtime, held, lease_ms=lease_ms), timeout)
        self.effective: bool = True
        self.ownerships: list[Ownership] = ownerships
        self._client = client
        self._counts = counts
        self._lease_ms = lease_ms
        self._generations = [ownership.generation for ownership in ownerships]
        self._sent = client.runtime.now()

    async def send(self) -> None:
        """Send it alone. Whatever is raised is its answer."""
        try:
            self.answer = await self.runtime.eval(self.prepared, self.timeout)
        except Exception as error:
            self.answer = as_failure(error)

    def _note_node(self, failure: Failure | None) -> None:
        """Let a quorum know whether its node answers."""
        if isinstance(failure, Rejected):
            return
        for hold in (hold for own in self.ownerships for hold in own.holds):
            if hold.whole is not None:
                hold.whole.note_client(self._client, failure)
                return

    async def note(self) -> Failure | None:
        """Note the answer in the ownerships, and report those that are lost, with what the server says of the cause.

        Returns why there is no answer of use.
        """
        try:
            if isinstance(self.answer, Failure):
                raise self.answer
            renewed = read_renewed(self.answer, len(self.ownerships))
        except Failure as failure:
            self._note_node(failure)
            return failure
        if self._client.away_since is not None:
            self._note_node(None)
        lost = next((own for own, kept in zip(self.ownerships, renewed, strict=True) if not kept), None)
        if lost is not None:
            await self._client.learn_cause(lost.name)
        self._client.server.heard(name=self.ownerships[0].name)
        deadline = self._sent + self._client.certain_for(self._lease_ms)
        for ownership, generation, kept in zip(self.ownerships, self._generations, renewed, strict=True):
            if kept:
                now = self._client.runtime.now()
                self.effective = ownership.renewed(generation, deadline, now, counts=self._counts) and self.effective
            else:
                self.effective = False  # Else it is lost, unless its owner's holds have changed meanwhile.
                self._client.report_lost(ownership, ownership.lose(self._client.cause_of(ownership), generation))
        return None


# ---- gc notice -------------------------------------------------------------------------------------------------------
# A client that is garbage-collected while it holds locks: they cannot be released any more.
#
# The garbage collector may run anywhere, in the middle of one of our own methods, too. So functions for a finalizer
# only read, and take no mutex; the rest is done where the client's watchdog runs.


#: How many names are reported.
NAMES = 10

REASON = "its client was garbage-collected"


def what_it_held(client: ClientCore) -> events.ClientCollected | None:
    """Describe the locks that a client holds that was not closed; ``None`` if there are none. For a finalizer."""
    watched = [ownership for ownership in client.watchdog.ownerships() if ownership.watched()]
    held = [hold.whole.name if hold.whole else own.name for own in watched for hold in own.holds]
    held = list(dict.fromkeys(held))
    if client.closed or not held:
        return None
    return events.ClientCollected(client.id, tuple(held[:NAMES]), len(held))


def report_collected(client: ClientCore, event: events.ClientCollected) -> None:
    """Notify the listeners, and each holder's ``on_lock_lost``. Not for a finalizer."""
    client.emit(event)
    for ownership in client.watchdog.ownerships():
        client.report_lost(ownership, ownership.lose(REASON), quietly=True)


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
        self.certain: float = client.certain_for(self.lease_ms)
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
        self._mutex = client.runtime.mutex()
        self._earliest = math.inf  # No watched ownership's deadline is before this.
        self._grace = max(LATE, self._period)
        self._late_at = math.inf  # If the loop has not gone on by then, no thread or task runs it.
        self._late_reported = False
        self._wall_clock = client.runtime.unix_time() - client.runtime.now()  # Ahead of ours, when a round began.
        self._stepping = False
        self._cancel_report: Callable[[], object] = int  # See report_when_closed().
        self._asks_until = -math.inf  # So long the loop may wait for a server.
        self._cancel_early_report: Callable[[], object] = int  # Of a loss that is due before that.
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
            self._note_earliest(deadline)
            if deadline < self._asks_until:
                self._report_meanwhile()
        if self._next_round == math.inf:
            self._next_round = self._runtime.now() + self._period
        if self._client.closed:  # It was acquired during that, and no loop steps any more.
            with suppress(RuntimeError):  # The event loop is gone.
                self.report_when_closed()
        elif deadline < self._wakes_at or self._next_round < self._wakes_at:
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

    def renew_every_third(self, ownership: Ownership, certain: float) -> None:
        """Renew an ownership by a shorter lease than the usual one, until it is left alone or has a longer one.

        ``certain``: for how many seconds that lease is.
        """
        self._short[ownership] = at = self._runtime.now() + certain / 3
        self.watch(ownership)
        self.wake_by(at)

    def settle_later(self, ownership: Ownership) -> None:
        """Let the background settle the pending request of this ownership, until its lease has expired."""
        mine = ownership.owner.startswith(self._client.id)  # Else it is the parent's, or the original's.
        if mine and self._backlog.settle_later(ownership):
            self._nudge()

    def in_backlog(self, ownership: Ownership) -> bool:
        """Whether the pending request of this ownership is left to the background."""
        return ownership in self._unsettled

    def wake_by(self, at: float) -> None:
        """Wake up by then, for what the client's presence has due."""
        if at < self._wakes_at:
            self._nudge()

    def do_later(self, work: Work, until: float, at: float | None = None) -> None:
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
        elif not self._watched:
            self._client.ownerships.end_unless_needed()

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

    def _go_on_within(self, seconds: float) -> None:
        """Warn if the loop is late, and note that it goes on within this time, whether or not a server answers.

        A request may take its timeout twice: a connection that is made first has as long.
        """
        self._warn_if_late()
        self._late_at = self._runtime.now() + seconds + self._grace

    async def _ask(self, request: Awaitable[T], seconds: float) -> T:
        """Wait for a server, for so long at most: see :meth:`_go_on_within`. Losses are reported meanwhile."""
        self._go_on_within(seconds)
        self._asks_until = self._runtime.now() + seconds
        self._report_meanwhile()
        try:
            return await request
        finally:
            self._asks_until = -math.inf
            self._cancel_early_report()

    def _report_meanwhile(self) -> None:
        if self._earliest < self._asks_until:
            self._cancel_early_report()
            with suppress(RuntimeError):  # There is no event loop here.
                left = max(0.0, self._earliest - self._runtime.now())
                self._cancel_early_report = self._runtime.call_later(left, self._report_and_go_on)

    def _report_and_go_on(self) -> None:
        self._report_expired()
        self._report_meanwhile()

    # ---- the loop ------------------------------------------------------------------------------------------------

    async def step(self) -> float:
        """Do what is due, and return after how many seconds there will be more."""
        if self._client.copied():
            return SLICE  # A copy renews nothing of the original; its client has another watchdog now.
        self._go_on_within(SLICE)  # For that long it pauses if this raises an error.
        self._stepping = True
        self._check_clocks()
        self._report_expired()
        if self._runtime.now() >= self._next_round:
            self._begin_round()
        await self._renew()
        if self._short:
            await self._renew_short()
        if self._backlog.due() <= self._runtime.now():
            over = ROUND + 2 * max(CLEANUP_BUDGET, self._client.attempt_timeout(self.lease_ms))
            await self._ask(self._backlog.step(), over)
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
        pause = max(0.0, self._wakes_at - now)
        self._go_on_within(pause)
        return pause

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
        self._note_earliest(min([ownership.deadline for ownership in list(self._watched)], default=math.inf))

    def _note_earliest(self, deadline: float) -> None:
        with self._mutex:  # The loop, the thread that reports losses, and those who acquire.
            self._earliest = min(self._earliest, deadline)

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
        if ahead <= self.lease_ms / 1000 - certain_for(self.lease_ms) or not self._watched:
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
        alive: list[Ownership] = []
        dead: list[Ownership] = []
        for ownership in list(self._watched):
            (alive if holder_alive(ownership) else dead).append(ownership)
        self._forget_dead_holders(dead)
        # Anew: one that does not answer is asked again with the others, and keeps none of them waiting.
        self._round = deque(batches(self._client, alive, self._batch))
        self._next_retry = now
        self._round_size = self._round_requests = 0
        self._find_earliest()

    def _forget_dead_holders(self, dead: Sequence[Ownership]) -> None:
        """Leave what no one can release to its lease. All members of a multi-lock first: its thread may go on then."""
        # Holds that are being released were left by their holder.
        found = [(own, [hold for hold in own.holds if hold not in own.claimed()]) for own in dead]
        # What a closed owner has left was reported when it was closed.
        hints = [gone_hint(own, left) if own.renewable() or not own.who.closed() else "" for own, left in found]
        for ownership in dead:
            self._watched.pop(ownership, None)
            self._short.pop(ownership, None)
            if ownership.who.closed() and ownership.renew_no_longer():
                self.watch(ownership)
            elif ownership.who.is_shared and ownership.who.alive():
                # Its number is the thread's, for which the server lets other call chains in.
                ownership.leave_to_lease()
            elif ownership.pending is None:
                # Else its owner, who may live, would begin anew while a release is under way.
                self._client.ownerships.drop(ownership)
        for (ownership, left), hint in zip(found, hints, strict=True):
            if hint and any(hold.whole is None for hold in left):
                who = ownership.who.describe()
                self._client.emit(events.HolderGone(ownership.name, ownership.owner, hint, who=who))
            for hold in left:
                if hint and hold.whole is not None:
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
            renewed = [hold for hold in ownership.holds if hold.watchdog]
            leases = [hold.lease_ms for hold in renewed]
            if min(leases, default=self.lease_ms) >= self.lease_ms or not ownership.renewable():
                self._short.pop(ownership, None)  # The usual rounds do for it.
                continue
            lease = max(leases)
            self._short[ownership] = now + min(hold.certain for hold in renewed) / 3
            renewal = Renewal(self._client, [ownership], lease, self._answer_timeout())
            await self._ask(renewal.send(), 2 * renewal.timeout)
            if isinstance(renewal.answer, Failure):
                self._short[ownership] = now + min(RETRY.first, lease / 10_000)
            await renewal.note()

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
        timeout = self._answer_timeout()
        renewals = [Renewal(self._client, batch, self.lease_ms, timeout, counts=True) for batch in wave]
        self._round_requests += len(renewals)
        if len(renewals) > 1:
            request = self._runtime.eval_all([renewal.prepared for renewal in renewals], timeout)
            for renewal, answer in zip(renewals, await self._ask(request, 2 * timeout), strict=True):
                renewal.answer = answer
        else:
            await self._ask(renewals[0].send(), 2 * timeout)
        unknown: list[Ownership] = []
        failed: Failure | None = None
        for renewal in renewals:
            without_answer = await renewal.note()
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

    def _answer_timeout(self) -> float:
        """How long to wait for one answer. A loss that is due meanwhile cuts no wait short: others may be kept by it.

        On a cluster it may be one node that does not answer: waits for it, before a round and in it, delay renewals on
        the others by less than half an interval.
        """
        most = self._client.attempt_timeout(self.lease_ms)
        return min(most, self._period / 6) if self._several else most


# ---- backlog ---------------------------------------------------------------------------------------------------------
# The requests and other work that a client's callers left unfinished; the watchdog settles them in the background.
#
# Rules kept here:
# 1. Each entry has its back-off, and entries with fewer failures are settled earlier: none delays the others. An
#    unexpected error (no ``Failure``) concerns the entry that raised it, and is reported.
# 2. A round is bounded, so that renewals are never delayed for long: by time, and by how often the server may fail to
#    answer. On one server that is once, since the others would fail too; on a cluster it may be one node that is down.


#: A round takes this number of seconds, and one request more.
ROUND = 1.0

#: How often a cluster may fail to answer in one round: many entries may wait for one node.
UNANSWERED_AT_MOST = 16

#: Seconds to wait for a node of a cluster that did not answer before, except at each fourth attempt.
QUICK = 0.25


class BacklogEntry:
    """One entry of the backlog: an ownership to be settled, or other work.

    Attributes:
        at: When to try it.
        until: When other work is no longer worth doing.
        ownership: The ownership; ``None``: it is other work.
        work: That: it is to be tried until it raises no ``Failure``.
        request_id: Of an ownership, the request that it left open.
        failures: How often that failed.
    """

    __slots__ = ("at", "failures", "ownership", "request_id", "until", "work")

    def __init__(self, at: float, ownership: Ownership | None, work: Work | None = None, until: float = 0.0) -> None:
        self.at: float = at
        self.ownership: Ownership | None = ownership
        self.work: Work | None = work
        self.until: float = until
        self.request_id: int = 0 if ownership is None else ownership.request_id
        self.failures: int = 0


class Backlog:
    """The entries of one client.

    Args:
        client: The client.
        answer_timeout: How long the watchdog may wait for one answer.
        next_round: When it has to renew again.

    Attributes:
        ownerships: Those with a request, or a debt, to be settled.
    """

    def __init__(
        self,
        client: ClientCore,
        answer_timeout: Callable[[], float],
        next_round: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._client = client
        self._runtime = client.runtime
        self._answer_timeout = answer_timeout
        self._next_round = next_round
        self._several = client.runtime.place("") is not None
        self.ownerships: dict[Ownership, BacklogEntry] = {}
        self._work_entries: dict[BacklogEntry, None] = {}
        self._unanswered_rounds = 0
        self._paused_until = -math.inf
        self._new_at = math.inf  # When the first entry is due that was added since the round began.

    def settle_later(self, ownership: Ownership) -> bool:
        """Add an ownership with a pending request. Returns whether it was not in the backlog yet."""
        known = self.ownerships.get(ownership)
        if known is not None:
            known.request_id = ownership.request_id
            return False
        self.ownerships[ownership] = BacklogEntry(self._soon(), ownership)
        return True

    def do(self, work: Work, until: float, at: float | None = None) -> None:
        """Do this work, until it raises no ``Failure`` or ``until`` has passed; first ``at`` that time, or soon."""
        self._work_entries[BacklogEntry(self._soon() if at is None else at, None, work, until)] = None

    def _soon(self) -> float:
        at = self._runtime.now() + RETRY.first
        self._new_at = min(self._new_at, at)
        return at

    def due(self) -> float:
        """When :meth:`step` has something to do; infinite if never."""
        return min([self._due(each) for each in self._all()], default=math.inf)

    def _all(self) -> list[BacklogEntry]:
        return [*list(self.ownerships.values()), *list(self._work_entries)]

    def _due(self, each: BacklogEntry) -> float:
        """When to try an entry: a new one need not wait, although the server did not answer others."""
        return max(each.at, self._paused_until) if each.failures else each.at

    async def step(self) -> None:
        """Try the entries that are due."""
        now = self._runtime.now()
        due = [each for each in self._all() if self._due(each) <= now]
        due.sort(key=lambda each: (each.failures, each.at))  # The least failed first.
        self._new_at = math.inf
        unanswered = 0
        over = min(now + ROUND, max(now, self._next_round()))
        for each in due:
            if (at := self._runtime.now()) > now and at >= (min(over, self._new_at) if each.failures else over):
                return
            if await self._try(each):
                continue
            unanswered += 1
            if unanswered >= (UNANSWERED_AT_MOST if self._several else 1):
                self._paused_until = self._runtime.now() + RETRY.longest(self._unanswered_rounds)
                self._unanswered_rounds += 1
                return
        if due:
            self._unanswered_rounds = 0

    async def end(self) -> None:
        """Do the work of a closed client now, once: what is not done then expires by itself.

        That is also what blocks held that were left behind a call.
        """
        until = self._runtime.now() + ROUND
        left = [each for own, each in list(self.ownerships.items()) if own.in_flight.due]
        for each in (*left, *list(self._work_entries)):
            if self._runtime.now() >= until or not await self._try(each):
                return

    async def _try(self, each: BacklogEntry) -> bool:
        """Try one entry. Returns whether the server answers, as far as is known."""
        try:
            if each.ownership is not None:
                await self._settle(each.ownership, each)
            elif each.work is not None:
                if self._runtime.now() < each.until:
                    timeout = math.inf if self._client.closed else self._timeout(each)
                    await each.work(min(CLEANUP_BUDGET, timeout))
                self._work_entries.pop(each, None)
        except (Rejected, Unusable):
            self._later(each)
        except Failure:
            self._later(each)
            return False
        except Exception as error:
            if not each.failures:
                self._client.emit(events.BackgroundFailed(repr(each.ownership or each.work), error))
            self._later(each)
        return True

    def _timeout(self, each: BacklogEntry) -> float:
        timeout = self._answer_timeout()
        return min(timeout, QUICK) if self._several and each.failures % 4 else timeout

    def _later(self, each: BacklogEntry) -> None:
        each.at = self._runtime.now() + RETRY.pause(each.failures, self._runtime.jitter)
        each.failures += 1

    async def _settle(self, ownership: Ownership, each: BacklogEntry) -> None:
        if ownership.in_flight.due:
            each.request_id = ownership.request_id  # Its owner may have gone on, and left this to us.
        request_id = each.request_id
        if (ownership.pending is not None or ownership.in_flight.due) and ownership.request_id == request_id:
            now = self._runtime.now()
            if ownership.busy():  # First: for how long its request is worth settling is not known yet.
                self._later(each)
                return
            if now >= (ownership.in_flight.open_until() if ownership.pending is not None else ownership.deadline):
                ownership.abandon(request_id)
            else:
                await settle(self._client, ownership, self._timeout(each), since=request_id, behind=True)
                self._client.server.heard(name=ownership.name)
        # Else its owner has begun something new, and settles what that leaves open.
        if each.request_id == request_id:
            self.ownerships.pop(ownership, None)
            if ownership.in_flight.due:  # Looked at then: who adds to it, and finds no entry, makes one.
                self.settle_later(ownership)
