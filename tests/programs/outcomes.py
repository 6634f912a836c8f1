"""How each operation on locks may end, and what it changes: one method an operation."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterable
from functools import partial
from typing import Any

from pyredisson import ClientClosedError, LockError, LockLostError, LockNotOwnedError, LockTimeoutError
from tests.programs.model import (
    EITHER,
    HELD,
    LOST,
    OVER,
    RELEASED,
    UNSURE,
    Block,
    Hold,
    Lock,
    MultiHold,
    Own,
    Plan,
    Tell,
    Unclear,
    Waiter,
    Way,
    naming,
    one_of,
)
from tests.programs.numbers import SEMAPHORES, NumberOutcomes, Permit
from tests.programs.steps import LOCKS, SHORT, Step, Target, targets_of


class Model(NumberOutcomes):
    """All operations."""

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def acquire(self, step: Step) -> Plan:
        """``lock()``, ``try_lock()``, ``acquire()``, ``with lock:``, or the token of a fenced lock."""
        return self._acquire(step, partial(self._got, step), block=0)

    def enter(self, step: Step) -> Plan:
        """``hold()``."""
        if step.n in self.blocks:
            raise Unclear
        targets = targets_of(step.on)
        if targets[0].kind in SEMAPHORES:
            clients = (targets[0].client,)
            return self.take_permits(
                step, 1, lambda permit: self.blocks.update({step.n: Block(step.on, permit, clients, 0)})
            )
        return self._acquire(step, lambda: None, block=step.n)

    @staticmethod
    def _got(step: Step) -> Any:
        return {"lock": None, "token": lambda token: type(token) is int}.get(step.face, True)

    def _acquire(self, step: Step, got: Any, block: int) -> Plan:
        targets = targets_of(step.on)
        if self.is_closed(targets):
            return Plan([Way(ClientClosedError)])
        if step.owner in self.closed_owners:
            return Plan([Way(LockError)])
        if len({(target.place, target.client) for target in targets}) > len({target.place for target in targets}):
            raise Unclear  # It would wait for itself.
        owns = self._acting(step, targets)
        results, stuck, blocking = self._attempts(step, targets, owns)
        if False in results and step.wait is None and (len(results) > 1 or len({*stuck}) > 1 or None in stuck):
            raise Unclear  # It may wait for one member first, or fail because of another one.
        if False in results and step.wait != 0 and any(each is not False for each in stuck):
            results[results.index(False)] = LockError
            if step.wait is not None and ("+" in step.on or None in stuck):
                results.append(False)
        elif False in results and step.wait is None:
            return Plan(waiter=self._waiter(step, targets, owns, blocking, block))
        if False in results and step.face in ("lock", "with"):
            raise Unclear
        return Plan([self._way(result, step, targets, owns, block) for result in results])

    def _acting(self, step: Step, targets: tuple[Target, ...]) -> list[Own]:
        """As whom a call acts in each lock: in both sides of one lock as the same."""
        owns: list[Own] = []
        for target in targets:
            same = (own.who for own in owns if (own.who.lock, own.who.client) == (self.lock(target), target.client))
            who = next(same, None) or self.act(step, target).who
            owns.append(who.on(target.side))
        return owns

    def _attempts(
        self, step: Step, targets: tuple[Target, ...], owns: list[Own]
    ) -> tuple[list[Any], list[bool | None], list[Lock]]:
        """What all members may end with: errors, ``False`` or ``True``; and what blocks, and whether for ever."""
        failing: list[Any] = []
        stuck, may_be_granted, blocking = [], True, []
        if "+" in step.on:
            mine = [multi for multi in self._multis_of(step, targets) if self.visible(multi.parts[0], step)]
            if any(multi.state is LOST for multi in mine):
                failing.append(LockLostError)
                may_be_granted = False
            elif any(multi.state is EITHER for multi in mine):
                failing.append(LockLostError)
        for index, (target, own) in enumerate(zip(targets, owns, strict=True)):
            results = self.attempt(own, step, target, targets[:index])
            failing += [result for result in results if result is not True]
            may_be_granted = may_be_granted and True in results
            if False in results:
                stuck.append(self.stuck(step, own))
                blocking.append(own.who.lock)
        if len(failing) > 1 and any(own.gone for own in owns):
            raise Unclear
        if failing and "+" in step.on and any(own.holds and own.short for own in owns) and step.lease != SHORT:
            raise Unclear  # It may have made a short lease longer.
        return [*dict.fromkeys(failing), *[True] * may_be_granted], stuck, blocking

    def _way(self, result: Any, step: Step, targets: tuple[Target, ...], owns: list[Own], block: int) -> Way:
        if result is True:
            got = (lambda outcome: not isinstance(outcome, BaseException)) if block else self._got(step)
            if step.face == "token":
                last, known = owns[0].who.lock.token, owns[0].token if owns[0].holds else None
                got = known or (lambda token: type(token) is int and token > last)
            return Way(got, partial(self._take, step, targets, owns, block))

        def tried(own: Own) -> None:
            if own.gone and result is LockLostError:
                self.find_gone(own)
            elif "+" in step.on and (own.holds or own.side):
                self._tried(own, step)

        if result is False:
            result = LockTimeoutError if block else None if step.face == "token" else False
        return Way(result, lambda: [tried(own) for own in owns])

    def _tried(self, own: Own, step: Step) -> None:
        """A member was acquired once more for a multi-lock, and given back: its time is not shortened then."""
        least = own.least
        for lease in (step.lease, *(hold.lease for hold in own.holds)):
            self.lasts(own, lease, adds=own.side == "write")
        own.least = least

    def _take(self, step: Step, targets: tuple[Target, ...], owns: list[Own], block: int) -> None:
        if "+" not in step.on:
            hold: Hold | MultiHold = self.grant(owns[0], step, block)
        else:
            for multi in self._multis_of(step, targets):
                if multi.state is EITHER:
                    multi.state = OVER
            hold = MultiHold(targets, self.thread_of(step), step.lease, block)
            self.multis.append(hold)
            for own in owns:
                self.grant(own, step, multi=hold)
        if block:
            self.blocks[block] = Block(step.on, hold, tuple(target.client for target in targets), step.owner)

    def _waiter(
        self, step: Step, targets: tuple[Target, ...], owns: list[Own], blocking: list[Lock], block: int
    ) -> Waiter:
        """The actor waits until what it waits for is free."""
        locks = [self.lock(target) for target in targets]
        for lock in locks:
            if lock.waiter is not None:
                raise Unclear
        for lock in blocking:
            for own in lock.owns():
                thread = own.who.thread
                busy = thread in self.waiters or any(thread == -each.step.owner for each in self.waiters.values())
                if busy or thread in (step.thread, -step.owner or None) or own.who.client in self.closed or own.gone:
                    raise Unclear
                if not all((hold.multi or hold).block or self._is_seen_elsewhere(hold, step) for hold in own.holds):
                    raise Unclear
        if len({target.place for target in targets}) < len(targets):
            raise Unclear  # Whether it waits for one side of a lock when it can never have the other is not said.

        def ready() -> bool:
            return False not in self._attempts(step, targets, owns)[0]

        held = [own for own in owns if own.holds and "+" in step.on]

        def lengthen() -> None:
            for own in held:  # A member may have been acquired at once, beside what was held then.
                own.most = max(own.most, self.ended + self.timeout)
                own.who.lock.most = max(own.who.lock.most, own.most)

        def take(way: Way) -> None:
            way.effect()
            lengthen()

        def ways() -> list[Way]:
            results, _, _ = self._attempts(step, targets, owns)
            found = [self._way(result, step, targets, owns, block) for result in results]
            return [Way(way.match, partial(take, way)) for way in found]

        def wait_for(waiter: Waiter | None) -> None:
            for lock in locks:
                lock.waiter = waiter

        waiter = Waiter(
            step, ready, ways, tuple(target.client for target in targets), gone=lambda: (wait_for(None), lengthen())
        )
        waiter.joined = partial(wait_for, waiter)
        return waiter

    def _is_seen_elsewhere(self, hold: Hold, step: Step) -> bool:
        """Whether a hold can be released while the context of a step waits."""
        if self.tasks or hold.own.who.thread < 0 or not step.context:
            return True
        busy = {(0, waiter.step.context) for waiter in self.waiters.values()} | {(0, step.context)}
        return any(hold in seen for key, seen in self.seen.items() if key not in busy or key == (0, 0))

    # ---- releasing -----------------------------------------------------------------------------------------------

    def release(self, step: Step) -> Plan:
        """``unlock()``, ``release()``, or the end of ``with lock:``; its face may say that the body raised an error."""
        targets = targets_of(step.on)
        if self.is_closed(targets):
            ways = [Way(ClientClosedError)]
        else:
            ways = self._unlock_multi(step, targets) if "+" in step.on else self._unlock(step, targets[0])
        if step.face == "error":
            ways = [Way(None, way.effect) for way in ways]
            if len(ways) > 1:
                raise Unclear
        return Plan(ways)

    def _unlock(self, step: Step, target: Target) -> list[Way]:
        own = self.act(step, target)
        if self.may_act_otherwise(own):
            raise Unclear
        mine = [hold for hold in own.holds if hold.multi is None and self.visible(hold, step)]
        ended = [hold for hold in self.left_over(step, target) if hold.multi is None]
        if mine:
            return [self._releasing(mine[-1])]
        if own.holds:
            if own.gone:
                raise Unclear
            ways = self._refused(own, step)
            return ways + [Way(LockLostError, partial(self.drop, hold)) for hold in ended[-1:]]
        if ended:
            return self._ending(ended[-1])
        parts = self.left_over(step, target)
        if parts and any(hold.multi is None for hold in self.left_over(step, target, seen=False)):
            raise Unclear
        ways = [Way(LockNotOwnedError)] + [Way(LockLostError)] * any(part.state is not OVER for part in parts)
        unseen = [hold for hold in self.left_over(step, target, seen=False) if hold.multi is None]
        if unseen:
            ways.append(Way(LockLostError, partial(self.drop, unseen[-1])))
        return ways

    def _ending(self, hold: Hold) -> list[Way]:
        """The end of a hold that has ended before."""
        lost = [each for each in hold.own.who.lock.ended if each.own is hold.own and each.state is LOST]
        if hold.state is LOST and not hold.block and lost[-1] is not hold:
            raise Unclear
        found = (LockLostError, LockNotOwnedError) if hold.state is UNSURE else (LockLostError,)
        return [Way(error, partial(self.drop, hold)) for error in found]

    def _acts_for(self, multi: MultiHold, step: Step) -> bool:
        """Whether the caller acts as the owner of a part, though it may not see this multi-lock."""
        owns = [self.act(step, target) for target in multi.targets]
        return any(part.own.who is own.who for part, own in zip(multi.parts, owns, strict=True))

    def _releasing(self, hold: Hold) -> Way:
        """The release of a hold that is held, as far as its client knows."""
        if not hold.own.gone:
            return Way(None, partial(self.drop, hold))

        def find_out() -> None:
            self.find_gone(hold.own)
            self.drop(hold)

        return Way(LockLostError, find_out)

    def _refused(self, own: Own, step: Step) -> list[Way]:
        """What is held through multi-locks alone is not released or extended by itself."""
        names = [hold.multi.name for hold in own.holds if hold.multi is not None and self.visible(hold, step)]
        if any(hold.multi is not None and hold.multi.state is not HELD for hold in own.holds):
            return [Way(LockNotOwnedError)]
        return [Way(naming(name)) for name in dict.fromkeys(names)] or [Way(LockNotOwnedError)]

    def _multis_of(self, step: Step, targets: tuple[Target, ...]) -> list[MultiHold]:
        thread = self.thread_of(step)
        return [multi for multi in self.multis if set(multi.targets) == set(targets) and multi.thread == thread]

    def _unlock_multi(self, step: Step, targets: tuple[Target, ...]) -> list[Way]:
        multis = self._multis_of(step, targets)
        held = [multi for multi in multis if multi.state is HELD and self.visible(multi.parts[0], step)]
        if held:
            return self._giving_back(held[-1])
        ended = [multi for multi in multis if multi.state is not HELD]
        seen = [multi for multi in ended if self.visible(multi.parts[0], step)]
        if seen:
            lost = [multi for multi in seen if multi.state is LOST]
            if lost and lost[-1] is not seen[-1]:
                raise Unclear  # Whether the innermost one has ended or was lost.
            return self._giving_back(seen[-1])
        ways = [Way(LockNotOwnedError)]
        return ways + [Way(LockLostError, partial(self.give_back, multi)) for multi in ended[-1:]]

    def _giving_back(self, multi: MultiHold) -> list[Way]:
        lost = multi.state is not HELD or any(part.own.gone for part in multi.parts)
        return [Way(LockLostError if lost else None, partial(self.give_back, multi))]

    def leave(self, step: Step) -> Plan:
        """The end of a block, wherever that is; its face may say that the body raised an error."""
        block = self.blocks.get(step.n)
        if block is None or any(block.owner and block.owner == each.step.owner for each in self.waiters.values()):
            raise Unclear
        hold = block.hold
        parts: list[Any] = hold.parts if isinstance(hold, MultiHold) else [hold]
        given_up = [waiter for waiter in self.waiters.values() if any(part in waiter.holds for part in parts)]
        closed = any(client in self.closed for client in block.clients)
        if given_up and (closed or any(waiter.notified or waiter.cancelled for waiter in given_up)):
            raise Unclear  # It may be held again by now.
        if closed:
            ways = self._leaving_closed(hold, parts)
        elif hold.state is RELEASED:
            ways = [Way(LockNotOwnedError)]
        elif isinstance(hold, MultiHold):
            ways = self._giving_back(hold)
        elif isinstance(hold, Permit):
            ways = self.leave_permits(hold)
        elif given_up:
            ways = [Way(None, partial(self.drop, hold))]
        elif hold.state is HELD:
            ways = [self._releasing(hold)]
        else:
            ways = self._ending(hold)

        def left(way: Way) -> None:
            way.effect()
            for waiter in given_up:  # Its wait does not take it again.
                waiter.holds = [each for each in waiter.holds if each not in parts]
            del self.blocks[step.n]

        if step.face == "error":
            return Plan([Way(None, partial(left, ways[0]))])
        return Plan([Way(way.match, partial(left, way)) for way in ways])

    def _leaving_closed(self, hold: Any, parts: list[Any]) -> list[Way]:
        """The end of a block whose client was closed: what it holds still is released."""
        if hold.state is RELEASED and not isinstance(hold, MultiHold):
            return [Way(LockNotOwnedError)]
        held = hold.state is HELD and all(part in part.own.holds for part in parts)
        may_be_lost = not held and hold.state is not RELEASED

        def released() -> None:
            for part in [part for part in parts if part in part.own.holds]:
                self.drop(part)
            whos = [part.own.who for part in parts] if may_be_lost else []
            self.tells += [Tell(who.client, who.lock.target.name, who, must=False) for who in whos]
            if isinstance(hold, MultiHold):
                self.tells += [Tell(who.client, hold.name, None, must=False) for who in whos]

        errors = (LockLostError, ClientClosedError) if may_be_lost else ()
        return [Way(None, released), *(Way(error, released) for error in errors)]

    # ---- extending -----------------------------------------------------------------------------------------------

    def extend(self, step: Step) -> Plan:
        """``extend()`` of a lock."""
        assert step.lease is not None
        targets = targets_of(step.on)
        if self.is_closed(targets):
            return Plan([Way(ClientClosedError)])
        if "+" in step.on:
            return Plan(self._extend_multi(step, targets))
        own = self.act(step, targets[0])
        mine = [hold for hold in own.holds if hold.multi is None and self.visible(hold, step)]
        ended = self.left_over(step, targets[0])
        if own.gone:
            raise Unclear
        if mine:
            return Plan([Way(True, partial(self.lasts, own, step.lease))])
        if own.holds:
            return Plan(self._refused(own, step) + [Way(LockLostError)] * bool(ended))
        if any(hold.multi is None for hold in ended):
            return Plan([Way(LockLostError)])
        unsure = [*ended, *self.left_over(step, targets[0], seen=False)]
        return Plan([Way(LockNotOwnedError)] + [Way(LockLostError)] * bool(unsure))

    def _extend_multi(self, step: Step, targets: tuple[Target, ...]) -> list[Way]:
        multis = self._multis_of(step, targets)
        seen = [multi for multi in multis if self.visible(multi.parts[0], step)]
        held = [multi for multi in seen if multi.state is HELD]
        if any(part.own.gone for multi in multis for part in multi.parts):
            raise Unclear
        if held:
            return [Way(True, lambda: [self.lasts(part.own, step.lease) for part in held[-1].parts])]
        return [Way(LockLostError)] if seen else [Way(LockNotOwnedError)] + [Way(LockLostError)] * bool(multis)

    def extend_block(self, step: Step) -> Plan:
        """``lease.extend()``."""
        block = self.blocks.get(step.n)
        if block is None or any(client in self.closed for client in block.clients):
            raise Unclear
        hold = block.hold
        parts = hold.parts if isinstance(hold, MultiHold) else [hold]
        if any(part.own.gone or part not in part.own.holds for part in parts if part.state is HELD):
            raise Unclear  # Or its owner waits for a condition, and has given it up.
        if hold.state is not HELD:
            return Plan([Way(LockLostError)])
        return Plan([Way(True, lambda: [self.lasts(part.own, step.lease) for part in parts])])

    # ---- taken away ----------------------------------------------------------------------------------------------

    def force(self, step: Step) -> Plan:
        """``force_unlock()``."""
        targets = targets_of(step.on)
        if self.is_closed(targets):
            return Plan([Way(ClientClosedError)])
        if len({target.place for target in targets}) < len(targets):
            raise Unclear  # One client frees what another one holds there.
        who = {target: self.act(step, target).who for target in targets}
        locked = False
        for target in targets:
            lock = self.lock(target)
            owns = self._freed(target)
            parted = any(len(own.counts()) > 1 for own in owns if own.who.client not in self.closed)
            caller = target.client, self.thread_of(step)  # On either side: it may forget what it has lost, by that.
            mine = any((hold.own.who.client, hold.own.who.thread) == caller for hold in lock.ended)
            if mine or parted or any(own.gone for own in lock.owns()) or self._reserved(lock, step):
                raise Unclear
            if self._given_up_with(owns):
                raise Unclear
            locked = locked or bool(owns)

        def freed() -> None:
            owns = {target: self._freed(target) for target in targets}
            if "+" in step.on:
                for multi in [each for each in self._multis_of(step, targets) if each.state is HELD]:
                    parts = [part.own for part in multi.parts]
                    all_freed = all(any(own is part for each in owns.values() for own in each) for part in parts)
                    if all_freed and self.visible(multi.parts[0], step):
                        self.give_back(multi)
            for target in targets:
                for own in owns[target]:
                    self._force_away(own, who[target] is own.who, target.client)

        return Plan([Way(locked, freed)])

    def _freed(self, target: Target) -> list[Own]:
        """What a forced unlock frees: of a read-write lock all, if this is the side that is held."""
        lock = self.lock(target)
        return list(lock.owns()) if target.side in ("", lock.mode()) else []

    def _force_away(self, own: Own, mine: bool, client: int) -> None:
        if own.who.client != client:
            if own.who.client in self.closed:
                own.holds.clear()
            else:
                own.gone = True
        elif not mine:
            self.lose(own, must=True)
        else:
            multis = dict.fromkeys(hold.multi for hold in own.holds if hold.multi is not None)
            for hold in list(own.holds):
                self.drop(hold)
            for multi in multis:
                self.lose_multi(multi, LOST, must=True)
        self.tidy(own.who.lock)

    def _reserved(self, lock: Lock, step: Step) -> bool:
        """Whether a multi-lock that waits for another member may have it."""
        return lock.waiter is not None and lock.waiter.step is not step and "+" in lock.waiter.step.on

    def _is_given_up(self, holds: Iterable[Any]) -> bool:
        """Whether one of these is given up for a condition's wait just now."""
        given_up = [hold for waiter in self.waiters.values() for hold in waiter.holds]
        return any(hold in given_up for hold in holds)

    def _given_up_with(self, owns: Iterable[Own]) -> bool:
        """Whether a member of one of these multi-locks is."""
        multis = dict.fromkeys(hold.multi for own in owns for hold in own.holds if hold.multi is not None)
        return any(self._is_given_up(multi.parts) for multi in multis)

    def delete(self, step: Step) -> Plan:
        """The key is deleted by another program."""
        (target,) = targets_of(step.on)
        lock = self.lock(target)
        owns = list(lock.owns())
        if target.kind == "rw" or not owns or lock.waiter is not None or self._given_up_with(owns):
            raise Unclear
        if any(own.gone or len(own.counts()) > 1 for own in owns):
            raise Unclear

        def deleted() -> None:
            for own in owns:
                own.gone = own.who.client not in self.closed
                if not own.gone:
                    own.holds.clear()
            self.tidy(lock)

        return Plan([Way(1, deleted)])

    def let_end(self, step: Step) -> Plan:
        """Time passes, until the short leases have ended."""
        if not self.spans():
            raise Unclear
        return Plan([Way(None, self.ended_by_time)])

    # ---- conditions ----------------------------------------------------------------------------------------------

    def cond_wait(self, step: Step) -> Plan:
        """``wait()`` of a condition."""
        (target,) = targets_of(step.on)
        if self.is_closed([target]):
            return Plan([Way(ClientClosedError)])
        own, lock = self.act(step, target), self.lock(target)
        ended = [*self.left_over(step, target), *self.left_over(step, target, seen=False)]
        if not own.holds:
            if any(hold.state is not LOST or hold.multi for hold in ended):
                raise Unclear
            return Plan([Way(LockLostError if self.left_over(step, target) else LockNotOwnedError)])
        if ended or len(own.counts()) > 1 or (lock.waiter is not None and step.wait is not None):
            raise Unclear
        if own.gone:
            return Plan([Way(LockLostError, partial(self._find_gone_in_wait, own))])
        if self.stuck(step, own) is not False:
            raise Unclear  # The client does not know yet that another call of this thread has lost it.
        if step.wait is not None:
            return Plan([Way(False, partial(self._held_again, own))])
        return Plan(waiter=self._condition_waiter(step, own, lock))

    def _find_gone_in_wait(self, own: Own) -> None:
        holds = [*own.holds]
        self.find_gone(own)
        for hold in holds:
            hold.state = UNSURE

    def _held_again(self, own: Own) -> None:
        """All holds were given up, and acquired again."""
        own.least = own.most = 0.0
        own.short = True
        for hold in own.holds:
            self.lasts(own, hold.lease)

    def _condition_waiter(self, step: Step, own: Own, lock: Lock) -> Waiter:
        if any(SHORT in (hold.lease, hold.multi and hold.multi.lease) for hold in own.holds):
            raise Unclear

        def join() -> None:
            waiter.holds, own.holds = own.holds, []
            lock.conditions.append(waiter)
            self.tidy(lock)

        def take_again() -> None:
            own.holds, waiter.holds = waiter.holds, []
            if own.holds:
                lock.whos.append(own.who)
                self._held_again(own)

        def gone() -> None:
            lock.conditions.remove(waiter)
            lock.waiter = None if lock.waiter is waiter else lock.waiter
            if waiter.notified and waiter.cancelled:  # It has no use for the notification: the next one has.
                self._notify_first(lock)
            if own.who.client in self.closed:  # What it has given up is not held again, of which its error tells.
                for multi in dict.fromkeys(hold.multi for hold in waiter.holds if hold.multi is not None):
                    self.lose_multi(multi, OVER, must=False)

        waiter = Waiter(
            step,
            ready=lambda: lock.waiter is waiter and not (waiter.holds and lock.conflicts(own)),
            ways=lambda: [Way(CancelledError if waiter.cancelled else True, take_again)],
            clients=(own.who.client,),
            joined=join,
            gone=gone,
            left=own,
        )
        return waiter

    def notify(self, step: Step) -> Plan:
        """``notify()`` of a condition: the one who has waited longest is to have its lock next."""
        (target,) = targets_of(step.on)
        if self.is_closed([target]):
            return Plan([Way(ClientClosedError)])
        own, lock = self.act(step, target), self.lock(target)
        if not own.holds or own.gone:
            return Plan([Way(LockNotOwnedError), Way(LockLostError)])
        if len(own.counts()) > 1:
            raise Unclear
        if lock.conditions and lock.waiter is not None:
            raise Unclear
        return Plan([Way(None, partial(self._notify_first, lock))])

    def _notify_first(self, lock: Lock) -> None:
        for waiter in [each for each in lock.conditions if not each.notified and not each.cancelled][:1]:
            waiter.notified, lock.waiter = True, waiter

    def cancel(self, step: Step) -> Plan:
        """A task that waits is cancelled; one that waits for a condition has the lock again first."""
        waiter = self.waiters.get(step.n)
        if not self.tasks or waiter is None or waiter.cancelled or "barrier" in waiter.step.on:
            raise Unclear
        lock = None if waiter.left is None else waiter.left.who.lock
        if lock is not None and lock.waiter not in (None, waiter):
            raise Unclear

        def cancelled() -> None:
            waiter.cancelled = True
            if lock is not None:
                lock.waiter = waiter

        return Plan([Way(None, cancelled)])

    # ---- contexts, clients, owners -------------------------------------------------------------------------------

    def copy(self, step: Step) -> Plan:
        """``copy_context()`` in the context of the actor."""
        if (0, step.n) in self.seen:
            raise Unclear
        return Plan([Way(None, lambda: self.seen.update({(0, step.n): set(self.sees(step))}))])

    def end_thread(self, step: Step) -> Plan:
        """A thread or task ends that holds nothing but blocks."""
        holds = [hold for lock in self.locks.values() for own in lock.owns() for hold in own.holds]
        holds += [hold for lock in self.locks.values() for hold in lock.ended]
        left = [hold for hold in holds if hold.own.who.thread == step.n and not (hold.multi or hold).block]
        if step.n in self.waiters or left or step.n == step.thread:
            raise Unclear
        return Plan([Way(None, partial(self.ended_threads.add, step.n))])

    def close(self, step: Step) -> Plan:
        """``close()`` of a client: what it holds is left to its leases."""
        client = step.n
        shared = [multi for multi in self.multis if len({target.client for target in multi.targets}) > 1]
        if client in self.closed or any(client == target.client for multi in shared for target in multi.targets):
            raise Unclear
        if any("+" in waiter.step.on or "barrier" in waiter.step.on for waiter in self.waiters.values()):
            raise Unclear
        locks = [lock for lock in self.locks.values() if any(who.client == client for who in lock.whos)]
        if any(lock.waiter is not None and client not in lock.waiter.clients for lock in locks):
            raise Unclear
        if any(isinstance(block.hold, Permit) and client in block.clients for block in self.blocks.values()):
            raise Unclear

        def closed() -> None:
            self.closed.add(client)
            self.multis = [multi for multi in self.multis if multi.targets[0].client != client]
            for lock in self.locks.values():
                lock.ended = [hold for hold in lock.ended if hold.own.who.client != client]
                for own in [own for own in lock.owns() if own.who.client == client and own.gone]:
                    own.holds.clear()
                self.tidy(lock)

        return Plan([Way(None, closed)])

    def close_owner(self, step: Step) -> Plan:
        """``close()`` of an owner that holds nothing."""
        if any(who.thread == -step.n for lock in self.locks.values() for who in lock.whos):
            raise Unclear
        return Plan([Way(None, partial(self.closed_owners.add, step.n))])

    def forget(self, step: Step) -> Plan:
        """The handles that were kept are dropped."""
        return Plan([Way(None)])

    # ---- what can be seen ----------------------------------------------------------------------------------------

    def left_behind(self, step: Step) -> set[str]:
        """What this thread holds for another context, which is worth a warning."""
        found = set()
        owns = [
            own for lock in self.locks.values() if lock.whos for own in lock.owns() if own.who.client not in self.closed
        ]
        for own in owns:
            if own.who.thread == step.thread and own.bound() and not all(hold in self.sees(step) for hold in own.holds):
                found |= {own.who.lock.target.name, *(hold.multi.name for hold in own.holds if hold.multi is not None)}
        return found

    @staticmethod
    def _locked(lock: Lock, side: str) -> set[bool]:
        """Whether a lock may be locked, or not."""
        counts = [own.counts() for own in lock.owns(side)]
        if any(0 not in each for each in counts):
            return {True}
        return {False, *(bool(max(each)) for each in counts)}

    def answers(self, step: Step) -> list[tuple[str, str, Any]]:
        """What the actor of a step is told of what it has touched: name, method and answer."""
        targets = targets_of(step.on)
        if self.is_closed(targets) or step.owner in self.closed_owners or self.is_busy(step):
            return []
        if targets[0].kind not in LOCKS:
            return self.numbers_seen(step)
        found: list[tuple[str, str, Any]] = []
        for word in filter(None, step.on.split("+")):
            (target,) = targets_of(word)
            lock, own = self.lock(target), self.act(step, target)
            if lock.waiter is not None or self.may_act_otherwise(own):
                continue
            counts = own.counts()
            found += [
                (word, "is_locked", one_of(self._locked(lock, target.side))),
                (word, "is_held_by_current_thread", one_of({count > 0 for count in counts})),
                (word, "get_hold_count", one_of(counts)),
            ]
        if "+" in step.on:
            held = [each for each in self._multis_of(step, targets) if each.state is HELD]
            seen = [each for each in held if self.visible(each.parts[0], step)]
            least = 0 if any(part.own.gone for each in held for part in each.parts) else len(seen)
            most = len([each for each in held if each in seen or self._acts_for(each, step)])
            found += [
                (step.on, "is_held_by_current_thread", one_of({least > 0, most > 0})),
                (step.on, "get_hold_count", one_of(range(least, most + 1))),
            ]
        return found

    def __call__(self, step: Step) -> Plan:
        """How a step may end. Raises :class:`Unclear`."""
        if self.is_busy(step) or (step.context and (0, step.context) not in self.seen):
            raise Unclear
        plan: Plan = getattr(self, step.op)(step)
        return plan
