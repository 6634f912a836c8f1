"""Running a program: each step is done by its actor, and what happens is compared with what the model says."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import redis

import pyredisson
from tests.programs.actors import ThreadActors
from tests.programs.model import HELD, Block, Lock, MultiHold, Own, Plan, Unclear, Way
from tests.programs.outcomes import LockOutcomes
from tests.programs.steps import LOCKS, PLACES, SHORT, Step, Target, targets_of

#: Seconds within which a holder is told, and a waiter goes on.
SOON = 2.0

#: What the watchdog's lease is if nothing is to be renewed while a program runs.
TIMEOUT = 30.0


class Fault(AssertionError):
    """The program met something that the model does not say.

    Attributes:
        kind: What, in short: two faults of one kind are alike.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class TooSlow(Exception):
    """A lease may have ended before the program let it: it says nothing."""


class Records(logging.Handler):
    """The log, from WARNING up."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Body(Exception):
    """The error that ends the body of a block."""


class Entered:
    """A block, left by the same means by which it was entered: itself, a generator, or an ``ExitStack``."""

    def __init__(self, block: Any, face: str) -> None:
        self.face = face
        self.lease: Any = None
        self._block = self._made(block, face)

    @staticmethod
    def _made(block: Any, face: str) -> Any:
        def within() -> Any:
            with block as lease:
                yield lease

        return {"generator": within, "stack": contextlib.ExitStack}.get(face, lambda: block)() if face else block

    def enter(self, block: Any) -> None:
        if self.face == "generator":
            self.lease = next(self._block)
        elif self.face == "stack":
            self.lease = self._block.enter_context(block)
        else:
            self.lease = self._block.__enter__()

    def leave(self, *, error: bool) -> None:
        raised = Body()
        try:
            if self.face == "generator":
                self._block.throw(raised) if error else next(self._block, None)
            elif error:
                self._block.__exit__(Body, raised, None)
            else:
                self._block.__exit__(None, None, None)
        except Body:
            assert error


class Run:
    """A program, as far as it has run."""

    def __init__(self, port: int, *, timeout: float = TIMEOUT) -> None:
        self.port = port
        self.actors = ThreadActors()
        self.model = LockOutcomes(tasks=False, timeout=timeout)
        self.steps: list[Step] = []
        self.clients: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.told: list[tuple[int, str, int]] = []
        self._handles: dict[tuple[str, int], Any] = {}
        self._owners: dict[int, Any] = {}
        self._blocks: dict[int, Entered] = {}
        self._log = Records()
        self._stores = [redis.Redis(port=port, db=database) for database in sorted({place[0] for place in PLACES})]

    def __enter__(self) -> Run:
        for store in self._stores:
            store.flushdb()
        logging.getLogger("pyredisson").addHandler(self._log)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger("pyredisson").removeHandler(self._log)
        for client in self.clients.values():
            client.close()
        for store in self._stores:
            store.close()

    # ---- handles -------------------------------------------------------------------------------------------------

    def client(self, number: int) -> Any:
        """A client, connected at first use."""
        if number not in self.clients:
            database, prefix = PLACES[number % len(PLACES)]
            config = pyredisson.Config(
                prefix=prefix,
                lock_watchdog_timeout=self.model.timeout,
                on_lock_lost=lambda name, thread: self.told.append((number, name, thread)),
            )
            self.clients[number] = pyredisson.Redisson.from_url(
                f"redis://127.0.0.1:{self.port}/{database}", config=config
            )
        return self.clients[number]

    def handle(self, on: str, owner: int, *, fresh: bool) -> Any:
        """A handle, kept from before or made anew."""
        handle = None if fresh else self._handles.get((on, owner))
        if handle is None:
            handle = self._handles[on, owner] = self._new_handle(on, owner)
        return handle

    def _new_handle(self, on: str, owner: int) -> Any:
        if "+" in on:
            return pyredisson.MultiLock(*[self._new_handle(word, owner) for word in on.split("+") if word])
        (target,) = targets_of(on)
        client = self.client(target.client)
        made = {"owner": self._owner(owner)} if owner else {}
        handle = getattr(client, LOCKS[target.kind])(target.name, **made)
        return getattr(handle, f"{target.side}_lock")() if target.side else handle

    def _owner(self, number: int) -> Any:
        if number not in self._owners:
            self._owners[number] = self.client(0).new_owner()
        return self._owners[number]

    # ---- a step --------------------------------------------------------------------------------------------------

    async def do(self, step: Step) -> bool:
        """Do a step, and compare what happens. Returns whether it was done: one that is unclear is not."""
        model = self.model
        try:
            plan = model(step)
        except Unclear:
            return False
        self.steps.append(step)
        await self._perform(step, plan)
        await self._compare(step)
        self._check_in_time()
        return True

    async def _perform(self, step: Step, plan: Plan) -> None:
        model = self.model
        model.began = time.monotonic()
        (outcome,) = await self.actors.result(self.actors.start(step, [partial(self._call, step)]))
        model.ended = time.monotonic()
        self._note(step, plan.ways, outcome)
        if step.op == "let_end":
            self._check_in_time(step)

    def _note(self, step: Step, ways: list[Way], outcome: Any) -> None:
        way = next((way for way in ways if way.fits(outcome)), None)
        if way is None:
            name = type(outcome).__name__ if isinstance(outcome, Exception) else repr(outcome)
            allowed = " or ".join(map(repr, ways))
            raise Fault(f"{step.op} ended with {name} instead of {allowed}", f"{step!r}: {outcome!r}")
        if step.face == "token" and type(outcome) is int:
            self.model.lock(targets_of(step.on)[0]).token = outcome
        way.effect()
        if step.face == "token" and type(outcome) is int:
            self.model.act(step, targets_of(step.on)[0]).token = outcome

    def _check_in_time(self, step: Step | None = None) -> None:
        """Whether no short lease may have ended by itself."""
        ends = [own.least for lock in self.model.locks.values() for own in lock.owns() if own.short]
        if ends and time.monotonic() > min(ends) - 0.02:
            raise TooSlow

    def _call(self, step: Step) -> Any:
        """Make the call of a step, in its actor."""
        call: Callable[[Step], Any] = getattr(self, f"_do_{step.op}")
        return call(step)

    def _lock(self, step: Step) -> Any:
        return self.handle(step.on, step.owner, fresh=step.fresh)

    def _do_acquire(self, step: Step) -> Any:
        lock, lease = self._lock(step), step.lease
        match step.face:
            case "lock":
                return lock.lock(lease)
            case "acquire":
                return lock.acquire(step.wait != 0, -1 if not step.wait else step.wait)
            case "with":
                return lock.__enter__()
            case "token":
                return lock.try_lock_and_get_token(step.wait, lease)
            case _:
                return lock.try_lock(step.wait, lease)

    def _do_release(self, step: Step) -> Any:
        lock = self._lock(step)
        match step.face:
            case "with":
                return lock.__exit__(None, None, None)
            case "error":
                return lock.__exit__(Body, Body(), None)
            case "release":
                return lock.release()
            case _:
                return lock.unlock()

    def _do_enter(self, step: Step) -> Any:
        block = self._lock(step).hold(step.wait, step.lease)
        entered = Entered(block, step.face)
        entered.enter(block)
        self._blocks[step.n] = entered

    def _do_leave(self, step: Step) -> Any:
        return self._blocks.pop(step.n).leave(error=step.face == "error")

    def _do_extend(self, step: Step) -> Any:
        return self._lock(step).extend(step.lease)

    def _do_extend_block(self, step: Step) -> Any:
        return self._blocks[step.n].lease.extend(step.lease)

    def _do_force(self, step: Step) -> Any:
        return self._lock(step).force_unlock()

    def _do_delete(self, step: Step) -> Any:
        database, key = targets_of(step.on)[0].place
        return self._stores[database].delete(key)

    def _do_let_end(self, step: Step) -> None:
        most = [own.most for lock in self.model.locks.values() for own in lock.owns() if own.short]
        time.sleep(max(0.0, max(most) + 0.01 - time.monotonic()))

    def _do_cond_wait(self, step: Step) -> Any:
        return self._condition(step).wait(step.wait)

    def _do_notify(self, step: Step) -> Any:
        return self._condition(step).notify()

    def _condition(self, step: Step) -> Any:
        (target,) = targets_of(step.on)
        return self.client(target.client).get_condition(self._lock(step))

    def _do_copy(self, step: Step) -> None:
        self.actors.contexts[step.n] = contextvars.copy_context()

    def _do_forget(self, step: Step) -> None:
        self._handles.clear()

    # ---- comparing -----------------------------------------------------------------------------------------------

    async def _compare(self, step: Step) -> None:
        await self._compare_answers(step)
        self._compare_stores({self.model.lock(target) for target in targets_of(step.on)})
        self._compare_leases()
        await self._compare_told(step)

    async def _compare_answers(self, step: Step) -> None:
        answers = self.model.answers(step) if step.on else []
        if not answers:
            return
        calls = [getattr(self.handle(word, step.owner, fresh=False), method) for word, method, _ in answers]
        if step.thread not in self.numbers:
            calls.append(pyredisson.current_thread_id)
        outcomes = await self.actors.result(self.actors.start(step, calls))
        if step.thread not in self.numbers:
            self.numbers[step.thread] = outcomes[-1]
        for (word, method, match), outcome in zip(answers, outcomes, strict=False):
            if not Way(match).fits(outcome):
                raise Fault(f"{method} is {outcome!r} instead of {Way(match)!r}", f"{word}, after {step!r}")

    def _compare_stores(self, locks: Iterable[Lock]) -> None:
        by_store: dict[int, list[Lock]] = {}
        for lock in locks:
            by_store.setdefault(lock.target.place[0], []).append(lock)
        for database, several in by_store.items():
            pipe = self._stores[database].pipeline(transaction=False)
            for lock in several:
                key = lock.target.place[1]
                pipe.get(key) if lock.target.kind == "token" else pipe.hgetall(key)
                pipe.pttl(key)
            now, replies = time.monotonic(), pipe.execute()
            for lock, stored, left in zip(several, replies[::2], replies[1::2], strict=True):
                if lock.waiter is None:
                    self._compare_stored(lock, stored, left / 1000, now)

    def _compare_stored(self, lock: Lock, stored: Any, left: float, before: float) -> None:
        what = f"{lock.target.name} is stored as {stored!r}"
        owns = [own for own in lock.owns() if max(own.counts())]
        sure = [own for own in owns if 0 not in own.counts()]
        if lock.target.kind == "token":
            if bool(stored) not in {bool(sure), bool(owns)}:
                raise Fault("stored token", f"{what}, held by {len(owns)}")
        else:
            fields = {key.decode(): int(value) for key, value in (stored or {}).items() if key != b"mode"}
            for own in owns:
                self._learn(own, fields)
                count = fields.pop(self._field(own), 0)
                if count not in own.counts():
                    raise Fault("stored count", f"{what}: {count} instead of {sorted(own.counts())}")
            if fields:
                raise Fault("stored field", f"{what}: {fields} is not held")
        if sure and all(len(own.counts()) == 1 for own in owns):
            now = time.monotonic()
            most = lock.most if lock.target.kind == "rw" else max(own.most for own in sure)
            least, most = max(own.least for own in sure) - now, most - before
            if not least - 0.05 <= left <= most + 0.05:
                raise Fault("time to live", f"{what}: {left:.3f} s instead of {least:.3f} to {most:.3f}")

    def _field(self, own: Own) -> str:
        return f"{self.clients[own.who.client].id}:{own.who.number}" + ":write" * (own.side == "write")

    def _learn(self, own: Own, fields: dict[str, int]) -> None:
        """Find out an owner's number, and check that it is the thread's, or is not."""
        who = own.who
        if who.number is not None:
            return
        client = self.clients[who.client].id
        known = {self._field(each) for each in who.lock.owns() if each.who.number is not None}
        new = [
            int(field.split(":")[1])
            for field in fields
            if field.startswith(client) and field not in known and field.endswith(":write") is (own.side == "write")
        ]
        if len(new) != 1:
            raise Fault("stored owner", f"{who.lock.target.name} has {fields}, of which {new} may be of {who.thread}")
        who.number = new[0]
        usual = self.numbers.get(who.thread) if who.thread >= 0 else self._owners[-who.thread].number
        if who.usual is not None and (who.number == usual) is not who.usual:
            raise Fault("number", f"{who.lock.target.name} has {fields}, and the number of the thread is {usual}")

    def _compare_leases(self) -> None:
        for number, block in self.model.blocks.items():
            if block.hold.state is HELD and (self._is_gone(block) or self.model.is_closed(targets_of(block.on))):
                continue
            lease, held = self._blocks[number].lease, block.hold.state is HELD
            if lease.lost is held or (lease.remaining() > 0) is not held:
                raise Fault("lease", f"block {number} of {block.on} is {block.hold.state}: {lease!r}")

    @staticmethod
    def _is_gone(block: Block) -> bool:
        parts = block.hold.parts if isinstance(block.hold, MultiHold) else [block.hold]
        return any(part.own.gone or part.state is not HELD for part in parts)

    async def _compare_told(self, step: Step) -> None:
        deadline = time.monotonic() + SOON
        while not self._all_told(step):
            if time.monotonic() > deadline:
                missing = [(tell.client, tell.name) for tell in self.model.tells if tell.must and not tell.called]
                raise Fault("not told", f"of the loss of {missing}, after {step!r}")
            await self.actors.pause(0.001)
        while self._log.records:
            self._check_record(step, self._log.records.pop(0))

    def _all_told(self, step: Step) -> bool:
        while self.told:
            client, name, thread = self.told.pop(0)
            tells = [
                tell for tell in self.model.tells if not tell.called and (tell.client, tell.name) == (client, name)
            ]
            tells.sort(key=lambda tell: (not tell.must, tell.who is not None and tell.who.number != thread))
            if not tells:
                raise Fault("told of a loss that is none", f"{name} of {thread}, after {step!r}")
            tells[0].called = True
        return not any(tell.must and not tell.called for tell in self.model.tells)

    def _check_record(self, step: Step, record: logging.LogRecord) -> None:
        text = record.getMessage()
        name = getattr(record, "lock", None)
        if "watchdog is" in text:
            raise TooSlow
        if "was lost" in text:
            tell = next((tell for tell in self.model.tells if tell.name == name and not tell.logged), None)
            if tell is not None:
                tell.logged = True
                return
        if "from an earlier call" in text and name in self.model.left_behind(step):
            return
        raise Fault(f"logged {record.msg[:60]}", f"{text}, after {step!r}")
