"""Several locks acquired as one: all of them, or a quorum of independent nodes (Redlock).

Sources: "Distributed Locks with Redis" (redis.io), the Redlock algorithm, followed wholly where there is a quorum; and
``org.redisson.RedissonMultiLock``, whose members are ordinary locks, as here. What differs on purpose: time and drift
are taken off the validity; a release goes to every node; an extension needs a quorum; members that all have to be
acquired are acquired in one order, by name and server, so that no clients wait for each other.
"""

from __future__ import annotations

import itertools
from functools import partial
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any

from pyredisson._core.acquiring import (
    FirstRequest,
    acquire,
    begin_attempt,
    check_not_lost,
    check_reentrant,
    end_attempt,
    report_failed,
    report_outcome,
    usual_outcome,
)
from pyredisson._core.deadline import RETRY, Deadline, Seconds, lease_ms
from pyredisson._core.failures import (
    Failure,
    NotNow,
    Unanswered,
    Unusable,
    ended_inside,
    held_here,
    is_interruption,
    not_held,
    timed_out,
)
from pyredisson._core.hold import (
    CLOSED_IN_WAIT,
    LEFT_MEANWHILE,
    CallNote,
    HolderCore,
    HoldState,
    SingleHold,
    lost_error,
)
from pyredisson._core.holder_lookup import BUDGET, found_here
from pyredisson._core.releasing import hand_over, leave_behind_call
from pyredisson._core.requests import LockAcquired
from pyredisson._core.runtime import together
from pyredisson._core.waiting import LOOK_UP
from pyredisson._quorum.hold import (
    KIND,
    Member,
    MultiHold,
    explain_states,
    extend,
    force_part,
    innermost,
    is_part_locked,
    majority,
    release,
    reuse_requests,
    undo,
    undo_interrupted,
    unreachable,
    wait_for_turns,
)
from pyredisson._quorum.redlock import Redlock
from pyredisson.errors import LockLostError, LockNotOwnedError, LockTimeoutError, RedissonError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from pyredisson._core.client import ClientCore
    from pyredisson._core.owners import Caller, HandleOwner
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.runtime import Progress, Requesting
    from pyredisson._kinds.lock import LockCore
    from pyredisson.errors import QuorumUnreachableError
    from pyredisson.holders import Holder
    from pyredisson.lease import Lease


def multi_lock(members: Sequence[LockCore], quorum: int | None) -> MultiLockCore:
    """Make a multi-lock: over a quorum of nodes, or of all its members.

    Args:
        members: The locks.
        quorum: How many of them are needed. ``None``: the majority if all have one name and each belongs to a
            different client, which means independent nodes; otherwise all.

    Raises:
        ValueError: No locks, one of them twice, or a quorum that two holders could have at once.
        TypeError: ``quorum`` is not an ``int``.
    """
    count = len(members)
    if not count:
        raise ValueError("a multi-lock needs at least one lock")
    if len({(id(each.client), each.names.raw, each.kind.layout, each.kind.label) for each in members}) < count:
        raise ValueError("a multi-lock cannot have the same lock of the same client twice")
    independent = len({id(member.client) for member in members}) == count
    one_name = len({member.names.raw for member in members}) == 1
    nodes = one_name and independent and (count > 1 or quorum is not None)
    if quorum is None:
        quorum = majority(count) if nodes else count
    elif isinstance(quorum, bool) or not isinstance(quorum, int):
        raise TypeError(f"quorum must be an int or None, not {type(quorum).__name__}")
    if not majority(count) <= quorum <= count:
        raise ValueError(
            f"a quorum of {count} locks must be between {majority(count)} and {count}, not {quorum}: two owners could "
            "hold a smaller one at the same time"
        )
    if quorum < count and not independent:
        raise ValueError(
            "a quorum needs independent nodes: give each lock a client of its own, for a server of its own"
        )
    return MultiLockCore(members, quorum, nodes=quorum < count or nodes)


class MultiLockCore(HolderCore[MultiHold]):
    """One handle on several locks acquired as one. Cheap, and shared by threads and tasks at will.

    What owners hold is in the ownerships of the members, so all handles on the same members are one lock.

    Args:
        locks: The members.
        quorum: How many of them are needed.
        nodes: Whether they are nodes that are asked at once, and not locks that are acquired in order.
    """

    def __init__(self, locks: Sequence[LockCore], quorum: int, *, nodes: bool) -> None:
        # One order for all clients, whatever order they were given in. Nodes are asked at once.
        ordered = sorted(locks, key=lambda lock: (lock.names.raw, "" if nodes else _place(lock.client)))
        self.locks: tuple[LockCore, ...] = tuple(ordered)
        self.quorum: int = quorum
        self.client: ClientCore = ordered[0].client
        names = list(dict.fromkeys(lock.names.name for lock in ordered))
        self.name: str = names[0] if len(names) == 1 else " + ".join(names)
        self.members: tuple[Member, ...] = tuple(
            Member(lock, _node(index, lock.client.address) if nodes else "") for index, lock in enumerate(ordered, 1)
        )
        self.strategy: Redlock | InOrder = Redlock(self.members, quorum, self.name) if nodes else InOrder(self.client)
        self._nodes = nodes
        self._clients = tuple(dict.fromkeys(lock.client for lock in ordered))
        # Under asyncio each client looks whether this is its event loop; threads are the same to all.
        self._other_loops = [
            client for client in self._clients[1:] if client.runtime.owner is not self.client.runtime.owner
        ]
        self._key = (quorum, frozenset((id(lock.client), lock.names.raw, lock.kind.label) for lock in ordered))
        self.made_for: HandleOwner | None = _one_caller(ordered)

    def describe(self) -> str:
        """Return its state as this client knows it, for ``repr``; asks no server."""
        text, now = f"{self.name!r} ({self.quorum} of {len(self.locks)})", self.client.runtime.now()
        found: dict[str, list[MultiHold]] = {}
        for member in self.members:
            for own in member.client.ownerships.of(member.name):
                for whole in (part.whole for part in (*own.holds, *own.ended) if part.whole is not None):
                    known, stands = found.setdefault(whole.owner, []), whole.watched or whole.certain_until() > now
                    if whole.key == self._key and whole.state is HoldState.HELD and stands and whole not in known:
                        known.append(whole)
        for wholes in filter(None, found.values()):
            state, who = "lost" if wholes[-1].loss or wholes[-1].certain_until() <= now else "held", wholes[-1].who
            text += f" {state} by {wholes[-1].owner[:4]}…:{who.number} ×{len(wholes)}"
        return text

    # ---- whose call it is ----------------------------------------------------------------------------------------

    def mine(self) -> MultiHold | None:
        """Return the innermost hold of the caller."""
        who, found = self.owner(), None
        for index, lock in enumerate(self.locks):
            if found is not None:
                own = found.ownerships[index]
                # Else it is of another lock: that of another handle may have its nodes in another order.
                same = own.table is lock.client.ownerships and own.name == lock.names.name
                if same and own.holds[-1:] == [found.parts[index]]:
                    continue
            found = innermost(lock.ownerships_of(who), self._key, found)
        return found

    def _ownerships(self, who: Caller) -> tuple[Ownership, ...]:
        """Return what the caller holds of each member; of both sides of one lock, by one number."""
        found: list[Ownership] = []
        for lock, member in zip(self.locks, self.members, strict=True):
            twin = (
                found[-1]
                if found and found[-1].name == member.name and found[-1].table is lock.client.ownerships
                else None
            )
            found.append(lock.mine(who) if twin is None else lock.ownership_of(twin.who))
        return tuple(found)

    def _check_open(self) -> None:
        for client in self._clients:
            if client.closed:
                client.check_open()

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def new_hold(self, lease: int | None, *, block: bool = False) -> MultiHold:
        """See :meth:`HolderCore.new_hold`."""
        if lease is not None:
            self.check_lease(lease)
        return MultiHold(self.members, self.quorum, self._key, self.name, self.owner(), lease, block=block)

    def held_with(self, hold: MultiHold) -> tuple[MultiHold, Callable[[int], Coroutine[Any, Any, bool]]]:
        """See :meth:`HolderCore.held_with`."""
        self._check_open()
        return hold, partial(self._extend, hold)

    async def timeout_error(self, wait: float | None, held: MultiHold | None = None) -> LockTimeoutError:
        """See :meth:`HolderCore.timeout_error`."""
        why, holder, _ = await self._other_holder()
        return LockTimeoutError(timed_out("multi-lock", self.name, wait, why), name=self.name, holder=holder)

    async def acquire_as_owner(self, wait: float | None, hold: MultiHold, held: MultiHold | None = None) -> bool:
        """See :meth:`HolderCore.acquire_as_owner`."""
        client, whole = self.client, hold
        began = whole.since = client.runtime.now()
        self._check_open()
        if self.made_for is not None:
            self.made_for.check_open()
        for other in self._other_loops:
            other.runtime.owner()
        whole.ownerships = self._ownerships(whole.who)
        outer = innermost(whole.ownerships, self._key)
        for own in whole.ownerships:
            if outer is None and own.chains is not None and len(own.chains.members) > 1:
                outer = self.mine()  # What has ended may have been held by another number.
        if outer is None:
            client.note_acquire(whole.ownerships[0])
        note = CallNote(client.runtime.thread())
        try:
            whole.note_call(note)
            if outer is not None and not outer.released:
                outer.raise_if_lost()
            acquired = await self.strategy.acquire(whole, wait, began)
            if acquired:
                if outer is not None and outer.released:
                    outer.over()  # Its release was settled, and no one asks after it any more.
                elif outer is not None:
                    outer.raise_if_lost()  # Before the answers were read.
                whole.acquired()
            if client.has_listeners():
                if acquired:
                    whole.since = client.runtime.now()
                key = whole.name, whole.owner
                report_outcome(client, KIND, key, began, acquired, whole.depth(), whole.fixed_lease)
            return acquired
        except BaseException as error:
            if is_interruption(error):
                await undo_interrupted(whole, error)
            else:
                await undo(whole)
                report_failed(client, KIND, (whole.name, whole.owner), began, error)
            raise
        finally:
            note.thread = 0

    async def extend(self, lease_time: Seconds) -> bool:
        """Let what the caller holds last for ``lease_time`` from now on: on enough members, within their validity."""
        lease = lease_ms(lease_time)
        self._check_open()
        whole = self.mine()
        if whole is None:
            raise self._not_owned_here()
        return await self._extend(whole, lease)

    def ensure_held(self) -> None:
        """Raise an error unless the caller holds it for certain at this moment. Asks no server."""
        whole = self.mine()
        if whole is None or whole.released:
            raise self._not_owned_here()
        _raise_if_ended(whole)

    async def _extend(self, whole: MultiHold, lease: int) -> bool:
        for client in self._clients:
            client.check_lease(lease)
        _raise_if_ended(whole)
        sent = self.client.runtime.now()
        confirmed = await extend(whole, lease)
        whole.extended()
        _raise_if_ended(whole)
        return confirmed and whole.certain_until() >= sent + min(client.certain_for(lease) for client in self._clients)

    # ---- releasing -----------------------------------------------------------------------------------------------

    async def unlock_as_owner(self, progress: Progress | None) -> None:
        """See :meth:`HolderCore.unlock_as_owner`."""
        whole = self.mine()
        if whole is None:
            raise await self._not_owned()
        if False not in [client.closed for client in self._clients]:
            self._check_open()  # Else, before an error, all is released that clients hold which are open.
        if not await release(whole, progress):
            await self.unlock_as_owner(progress)

    async def leave_block(self, progress: Progress | None, lease: Lease | None) -> bool:
        """See :meth:`HolderCore.leave_block`."""
        whole = self.held_by_block(lease) if lease is not None else self.mine()
        thread = self.client.runtime.thread()
        if whole is not None and thread and thread in [own.call.thread for own in whole.ownerships]:
            if lease is None:  # The call may be about the innermost hold.
                wholes = {part.whole for own in whole.ownerships for part in own.holds if own.sees(part)} - {None}
                plain = [each for each in wholes if each.key == self._key and each.block is None]
                alike = [each for each in plain if each.state is HoldState.HELD and not each.released]
                whole = min(alike, key=attrgetter("number"), default=whole)
            ended = not whole.released and whole.certain_until() <= self.client.runtime.now()
            lost = whole.loss or (whole.why_ended() if ended else None)
            parts = [(member.client, own, part) for _, member, own, part in whole.each()]
            whole.state = HoldState.OVER  # Nothing is reported any more.
            leave_behind_call(whole, parts, lost)
        elif whole is not None:
            try:
                if not await release(whole, progress, block=True):
                    return await self.leave_block(progress, lease)
            except LockLostError:
                if whole.loss != CLOSED_IN_WAIT:
                    raise
                return False
        elif any(client.closed for client in self._clients):
            return lease is not None
        elif lease is None:
            raise await self._not_owned()
        else:
            raise ended_inside("multi-lock", self.name)
        return True

    def clients(self) -> tuple[str, Sequence[ClientCore]]:
        """See :meth:`HolderCore.clients`."""
        return self.name, self._clients

    async def hand_over(self, held: MultiHold, lease: Lease | None, error: GeneratorExit) -> None:
        """See :meth:`HolderCore.hand_over`."""
        held.over()
        await hand_over([(member.client, own, part) for _, member, own, part in held.each()], error)

    def releases(self, held: MultiHold) -> bool:
        """See :meth:`HolderCore.releases`; what is not of the client that became another one is released."""
        return any(own.owner.startswith(member.client.id) for _, member, own, _ in held.each())

    def held_by_block(self, lease: Lease) -> MultiHold | None:
        """See :meth:`HolderCore.held_by_block`; ``None`` as well if it has ended."""
        whole = super().held_by_block(lease)
        return whole if whole is not None and whole.state is HoldState.HELD else None

    def held_here(self) -> Sequence[MultiHold]:
        """See :meth:`HolderCore.held_here`."""
        mine = self.mine()
        if mine is not None:
            return [mine]
        owns = (own for member in self.members for own in member.client.ownerships.of(member.name))
        parts = ((own.chains, part) for own in owns if own.chains is not None for part in reversed(own.holds))
        seen = (part.whole for chains, part in parts if part.whole is not None and chains.sees(part))
        return [whole for whole in seen if whole.key == self._key]

    async def force_unlock(self) -> bool:
        """Free every member, for any holder. Returns whether any was locked.

        Raises:
            QuorumUnreachableError: Fewer nodes than a quorum have confirmed it.
        """
        self._check_open()
        who = self.owner()
        owns = [own for lock in self.locks for own in lock.ownerships_of(who)]
        mine = {part.whole for own in owns for part in own.holds if part.whole is not None and own.sees(part)}
        mine = {whole for whole in mine if whole.key == self._key and whole.state is HoldState.HELD}
        for whole in mine:
            whole.forced = True  # What its owner ends itself is not lost.
        done = False
        try:
            forced = await (self._force_nodes() if self._nodes else self._ask_each(methodcaller("force_unlock")))
            done = True
        finally:
            for whole in mine:
                whole.forced = False
                # Parts are left if that failed, or of the read side of a lock that its owner has for writing.
                if done and (self._nodes or not whole.held()):
                    whole.over()
                else:
                    whole.lost_part()
        for whole in mine if self._nodes else ():
            await undo(whole)  # On nodes that have not confirmed it.
        return forced

    async def _force_nodes(self) -> bool:
        """Free every node of a quorum, for any holder. Returns whether any was locked."""
        whole, note = self.new_hold(None), CallNote(self.client.runtime.thread())
        whole.ownerships = tuple([lock.ownership_of(lock.caller()) for lock in self.locks])
        try:
            whole.note_call(note)
            await wait_for_turns(whole)
            forced = await self._ask_nodes(
                [partial(force_part, *each) for each in zip(self.members, whole.ownerships, strict=True)],
                # Those that did not answer are asked twice in any case: all are to be free.
                lambda answers, rounds: rounds > 1 and _count(answers, True, False) >= self.quorum,
            )
        finally:
            note.thread = 0
        if _count(forced, True, False) >= self.quorum:
            return True in forced
        raise await self._unreachable(
            forced, ("free", "free"), "too few have confirmed that it is free", "call it again"
        )

    async def _ask_nodes(
        self, requests: list[Callable[[], Requesting[bool]]], enough: Callable[[Sequence[object], int], bool]
    ) -> list[bool | Failure | RedissonError]:
        """Ask every node at once, and those again that may answer yet, within ``Config.timeout`` in all.

        Errors that are about the call, and not about a node, are raised. ``enough``: whether these answers are, after a
        number of rounds.
        """
        for client in (self.client, *self._other_loops):
            client.runtime.owner()
        runtime = self.client.runtime
        until = runtime.now() + self.client.config.timeout
        answers = await together(runtime, [request() for request in requests])
        for rounds in itertools.count(1):
            silent = [index for index, answer in enumerate(answers) if _may_answer(answer)]
            late = runtime.now() + RETRY.longest(rounds - 1) >= until
            if not silent or late or self.client.closed or enough(answers, rounds):
                break
            await runtime.sleep(RETRY.pause(rounds - 1, runtime.jitter))
            again = await together(runtime, [requests[index]() for index in silent])
            for index, answer in zip(silent, again, strict=True):
                answers[index] = answer
        self._check_open()
        for answer in answers:
            if isinstance(answer, RedissonError):
                raise answer
        return answers

    async def _ask_each(self, ask: Callable[[LockCore], Coroutine[Any, Any, bool]], *, one: bool = False) -> bool:
        """Ask the members one after another, also after an error, which is raised in the end. Returns whether any is.

        ``one``: the first that is ends it.
        """
        found, error, failed = False, None, set()
        until = self.client.runtime.now() + self.client.config.timeout
        for lock in self.locks:
            server = lock.client, lock.client.runtime.node_of(lock.names.raw)
            if server in failed and self.client.runtime.now() >= until:
                continue  # One that does not answer costs its time once, not once for each of its members.
            try:
                found |= await ask(lock)
            except Exception as failure:
                if is_interruption(failure):
                    raise
                error = error or failure
                failed.add(server)
            if found and one:
                return True
        if error is not None:
            raise error
        return found

    async def _unreachable(
        self, answers: list[bool | Failure | RedissonError], words: tuple[str, str], why: str, then: str
    ) -> QuorumUnreachableError:
        """Return the error for too few answers. ``words``: for those that are false and true."""
        states: dict[str, object] = {}
        for member, answer in zip(self.members, answers, strict=True):
            states[member.node] = answer.cause if isinstance(answer, Failure) else words[answer is True]
        await explain_states(self.members, states, self.client.runtime.now() + self.client.config.timeout)
        return unreachable(self.new_hold(None), states, why, then=then)

    # ---- asking --------------------------------------------------------------------------------------------------

    def validity(self) -> float:
        """Seconds for which the calling thread's or task's hold is certain; 0 if it holds nothing."""
        whole = self.mine()
        return whole.remaining(self.client.runtime.now()) if whole is not None else 0.0

    async def is_locked(self) -> bool:
        """Return whether enough members are locked, by any owner, that no other can acquire it.

        Raises:
            QuorumUnreachableError: The nodes that have answered do not decide it.
        """
        self._check_open()
        if not self._nodes:
            return await self._ask_each(methodcaller("is_locked"), one=True)
        spare = len(self.members) - self.quorum

        def enough(answers: Sequence[object], rounds: int = 0) -> bool:
            return _count(answers, True) > spare or _count(answers, False) >= self.quorum

        answers = await self._ask_nodes([partial(is_part_locked, member) for member in self.members], enough)
        if enough(answers):
            return _count(answers, True) > spare
        why = "too few have answered to decide whether it is locked"
        raise await self._unreachable(answers, ("free", "locked"), why, "call it again")

    async def is_held_by_current_thread(self) -> bool:
        """Return whether the calling thread or task holds it for certain."""
        self._check_open()
        return self.validity() > 0

    async def get_hold_count(self) -> int:
        """Return how often the calling thread or task holds it."""
        self._check_open()
        whole = self.mine()
        return whole.depth() if whole is not None and whole.remaining(self.client.runtime.now()) > 0 else 0

    # ---- who holds it instead ------------------------------------------------------------------------------------

    async def _not_owned(self) -> LockNotOwnedError:
        self._check_open()  # A signal handler may have closed a client since the call began.
        text, holder, free = await self._other_holder()
        held = text if self._local_holder() is not None else None
        return LockNotOwnedError(
            not_held("multi-lock", self.name, self.owner(), held, free=free), name=self.name, holder=holder
        )

    def _not_owned_here(self) -> LockNotOwnedError:
        """Return the error for a caller that uses what it does not hold, as far as this client knows."""
        other = self._local_holder()
        held, holder = (None, None) if other is None else _as_found(other)
        return LockNotOwnedError(
            not_held("multi-lock", self.name, self.owner(), held, releases=False), name=self.name, holder=holder
        )

    def _local_holder(self) -> MultiHold | None:
        """Return what another owner of this client holds of it, if one does."""
        mine, owns = self.mine(), (own for member in self.members for own in member.client.ownerships.of(member.name))
        wholes = [part.whole for own in owns for part in own.holds if part.whole not in (None, mine)]
        return next((each for each in wholes if each.key == self._key and each.state is HoldState.HELD), None)

    async def _other_holder(self) -> tuple[str | None, Holder | None, bool]:
        """Find out who holds it, or one of its members.

        Returns:
            The holder in words, the holder, and whether it is known that no one holds any member.
        """
        other = self._local_holder()
        if other is not None:
            return *_as_found(other), False
        now = self.client.runtime.now
        until = now() + BUDGET
        free = 0
        for member in self.members:
            found = await member.client.finder.find(member.name)
            free += found.free
            if found.holder is not None or now() >= until:
                text = found.describe()
                if text is not None and member.name != self.name:
                    text = f"{member.name!r} is {text}"
                return text, found.holder, False
        return None, None, free == len(self.members)


def _may_answer(answer: object) -> bool:
    """Whether a node that has not answered may do so soon: it is slow, or its connection is being made."""
    if isinstance(answer, Unusable) or not isinstance(answer, Failure):
        return False
    return isinstance(answer, (Unanswered, NotNow)) or "Timeout" in type(answer.cause).__name__


def _count(answers: Sequence[object], *wanted: bool) -> int:
    return sum(each in wanted for each in answers)


def _raise_if_ended(whole: MultiHold) -> None:
    """Raise ``LockLostError`` unless it is certain to be held."""
    if whole.state is HoldState.OVER:
        raise lost_error(whole, LEFT_MEANWHILE)
    lost = whole.find_loss()
    if lost is not None or whole.certain_until() <= whole.client.runtime.now():
        raise lost_error(whole, lost or whole.why_ended())


def _as_found(other: MultiHold) -> tuple[str, Holder | None]:
    """Return who of this process holds it, in words, and the holder."""
    held = next((own for own in other.ownerships if own.holds), other.ownerships[0])
    return held_here(other.who), found_here(other.client, held).holder


def _node(number: int, address: str | None) -> str:
    return f"node {number} ({address})" if address else f"node {number}"


def _place(client: ClientCore) -> str:
    """Return what distinguishes the server of a client from others, the same in all processes if that is known."""
    return client.place or str(id(client))


def _one_caller(members: Sequence[LockCore]) -> HandleOwner | None:
    """In whose name the members ask, if not in that of the calling thread or task. Raises ``ValueError``."""
    callers = {member.made_for for member in members}
    if len(callers) > 1:
        raise ValueError("the members of a multi-lock must have one owner: pass the same owner= to all, or to none")
    return callers.pop()


# ---- in order --------------------------------------------------------------------------------------------------------
# All of several locks, acquired one after another in one order, so that no clients wait for each other.


#: Of its lease: if the acquires took longer, the lease of a multi-lock begins anew when all are there.
WHILE = 1 / 20


class InOrder:
    """Acquires all members one after another. They are sorted by name, those of one name by their servers' addresses.

    Args:
        client: The client of the first member.
    """

    def __init__(self, client: ClientCore) -> None:
        self._client = client

    async def acquire(self, whole: MultiHold, wait: float | None, began: float) -> bool:
        """Acquire all members, within ``wait`` seconds (``None``: however long it takes).

        If it returns ``False``, nothing is held; if it raises, its caller releases everything.
        """
        runtime = self._client.runtime
        deadline = Deadline.after(wait, began)
        reached = began
        failures = 0
        late: tuple[float, ...] = ()
        while True:
            round_began = runtime.now()
            try:
                acquired = await self._acquire_each(whole, wait, deadline)
            except Failure as failure:
                states: dict[str, object] = {f"{member.name!r}": "not asked" for member in whole.members}
                states |= {f"{member.name!r}": "granted" for _, member, _, _ in whole.held()}
                await undo(whole)
                _check_open(whole)
                now = runtime.now()
                retry_timeout = self._client.config.quorum_retry_timeout
                left = deadline.left(now) if wait is not None else retry_timeout - (now - reached)
                if left <= RETRY.longest(failures) or wait == 0:
                    states["the one that failed"] = failure.cause
                    raise unreachable(whole, states, "too few could be reached in time") from failure.cause
            else:
                if acquired and whole.certain_until() > runtime.now():
                    return True
                took = runtime.now() - round_began
                await undo(whole)
                reached = runtime.now()
                # If they were acquired, one of them expired while others were waited for.
                late = whole.late_again(late, took) if acquired else ()
                if not acquired or deadline.passed(reached):
                    return False
            until = runtime.now() + RETRY.pause(failures, runtime.jitter)
            while (pause := until - runtime.now()) > 0:
                await runtime.sleep(min(pause, LOOK_UP))
                _check_open(whole)
            failures += 1

    async def _acquire_each(self, whole: MultiHold, wait: float | None, deadline: Deadline) -> bool:
        runtime = self._client.runtime
        for member, ownership in zip(whole.members, whole.ownerships, strict=True):
            if ownership.holds or ownership.loss is not None:  # Before anything is acquired.
                check_not_lost(member.client, ownership)
                check_reentrant(member.kind, ownership)
            if not ownership.owner.startswith(member.client.id):
                raise member.client.former(ownership)
            if member.kind.own_rival is not None and not ownership.holds:
                await member.kind.own_rival.refuse(member.kind, ownership)
        began = runtime.now()
        for index, (member, ownership) in enumerate(zip(whole.members, whole.ownerships, strict=True)):
            whole.parts[index] = part = whole.new_part(index)
            if (ready := ownership.ready) is None or ready[:2] != (ownership.epoch, part.lease_ms):
                reuse_requests(member, member.kind, ownership, part)
            acquired = await _acquire_at_once(member, ownership, part)
            if not acquired and wait != 0:
                _keep(whole, renewed=True)  # While this one is waited for.
                left = None if wait is None else deadline.left(runtime.now())
                acquired = await acquire(member.client, member.kind, ownership, part, left, for_multi_lock=True)
            if not acquired:
                return False
        if not whole.watchdog:
            _keep(whole, renewed=False)
        if runtime.now() - began > whole.lease_ms() / 1000 * WHILE:
            await extend(whole, whole.lease_ms())  # The lease begins now, for all of them.
        return True


async def _acquire_at_once(member: Member, ownership: Ownership, part: SingleHold) -> bool:
    """Acquire a member if it is free. What nearly always happens is spelt out: it is done for each member."""
    client, kind, in_flight = member.client, member.kind, ownership.in_flight
    past = ownership.holds or in_flight.pending is not None
    usual = not (past or kind.has_fair_queue or kind.own_rival is not None or client.replica_wait is not None)
    first, started = None, begin_attempt(client, kind, ownership, part) if usual else None
    if started is not None:
        (call, epoch), sent = started, client.runtime.now()
        try:
            timeout = client.attempt_timeout(part.lease_ms)
            reply: Any = await client.runtime.eval(call.request(epoch, call.repeat), timeout)
        except Failure as failure:
            reply = failure
        outcome = usual_outcome(call, reply)
        late = client.replica_wait is not None or client.runtime.now() >= sent + part.certain
        if outcome is not None and not late:
            return type(end_attempt(client, call, outcome, sent)) is LockAcquired
        first = FirstRequest(call, epoch, (reply, sent))
    return await acquire(client, kind, ownership, part, 0, for_multi_lock=True, first=first)


def _check_open(whole: MultiHold) -> None:
    """Raise ``ClientClosedError`` if the client of a member was closed."""
    for client in whole.clients():
        client.check_open()


def _keep(whole: MultiHold, *, renewed: bool) -> None:
    """Let the members that are held be renewed, or not, whatever the lease is."""
    if whole.watchdog:
        return
    for _, member, ownership, part in whole.held():
        part.watchdog, part.watched = renewed, renewed or whole.watched
        if renewed:
            member.client.watchdog.renew_every_third(ownership, part.certain)
        elif not ownership.watched():
            member.client.watchdog.unwatch(ownership)
