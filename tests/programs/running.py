"""Running a program: each step is done by its actor, and what happens is compared with what the model says."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import redis

import pyredisson
import pyredisson.asyncio
from pyredisson._core.runtime import run as step_through
from tests.forms import ended, enter_of, exit_of
from tests.programs.actors import TaskActors, ThreadActors
from tests.programs.model import HELD, Lock, MultiHold, Own, Plan, Unclear, Waiter, Way
from tests.programs.numbers import PARTIES, VALUE, Permit
from tests.programs.outcomes import Model
from tests.programs.steps import LOCKS, NUMBERS, PLACES, SHORT, Step, targets_of

#: Seconds within which a holder is told, and a waiter goes on.
SOON = 20.0

#: The watchdog's timeout: nothing is to be renewed while a program runs.
TIMEOUT = 300.0

#: What the line of a loss says.
LOST_LINE = "was lost"

#: What makes the handles.
MAKERS = {**LOCKS, **NUMBERS}
ARGUMENTS = {"bounded": (VALUE,), "barrier": (PARTIES,)}

#: What may be left in Redis: numbers, the last token of fenced locks, and what ends by itself.
LEFT = re.compile(rb"(sem|permits|bounded|latch|event|barrier)\d|redisson_lock_token:|:rwlock_timeout:|pyredisson_")


class Fault(AssertionError):
    """The program met something that the model does not say.

    Attributes:
        kind: What, in short: two faults of one kind are alike.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Undecided(Exception):
    """The program says nothing: a lease may have ended before it let it, or a waiter may go on or not."""


class Records(logging.Handler):
    """The log, from WARNING up, and the line of each loss: of many at one time only the first is a WARNING."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        if (record.levelno >= logging.WARNING or LOST_LINE in record.msg) and " lost within " not in record.msg:
            self.records.append(record)


class Body(Exception):
    """The error that ends the body of a block."""


class Entered:
    """A block of either form, entered and left by itself, in a generator, or by an exit stack."""

    def __init__(self, block: Any, face: str) -> None:
        self.lease: Any = None
        self._face = face
        self._sync = hasattr(block, "__enter__")
        if face == "generator":
            self._block = self._within(block) if self._sync else self._within_async(block)
        else:
            self._block = block

    @staticmethod
    def _within(block: Any) -> Any:
        with block as lease:
            yield lease

    @staticmethod
    async def _within_async(block: Any) -> Any:
        async with block as lease:
            yield lease

    async def enter(self) -> None:
        """Enter it."""
        if self._face == "generator":
            self.lease = next(self._block) if self._sync else await self._block.__anext__()
        elif self._face == "stack":
            stack = contextlib.ExitStack() if self._sync else contextlib.AsyncExitStack()
            enter = stack.enter_context if self._sync else stack.enter_async_context
            self.lease = await ended(enter(self._block))
            self._block = stack
        else:
            self.lease = await ended(enter_of(self._block)())

    async def leave(self, *, error: bool) -> None:
        """Leave it, as its body ends or raises an error."""
        raised = Body()
        try:
            if self._face != "generator":
                await ended(exit_of(self._block)(*((Body, raised, None) if error else (None, None, None))))
            elif error:
                await ended(self._block.throw(raised) if self._sync else self._block.athrow(raised))
            elif self._sync:
                next(self._block, None)
            else:
                with contextlib.suppress(StopAsyncIteration):
                    await self._block.__anext__()
        except Body:
            if not error:
                raise


class Run:
    """A program, as far as it has run.

    Args:
        port: The server's.
        actors: Those who do its steps.
    """

    def __init__(self, port: int, actors: ThreadActors | TaskActors) -> None:
        self.port = port
        self.actors = actors
        self.api: Any = pyredisson.asyncio if actors.tasks else pyredisson
        self.model = Model(tasks=actors.tasks, timeout=TIMEOUT)
        self.steps: list[Step] = []
        self.told: list[tuple[int, str, int]] = []
        self._clients: dict[int, Any] = {}
        self._connecting = threading.Lock()  # Two actors may use a client first.
        self._numbers: dict[int, int] = {}
        self._handles: dict[tuple[str, int], Any] = {}
        self._owners: dict[int, Any] = {}
        self._blocks: dict[int, Entered] = {}
        self._permits: dict[int, str] = {}
        self._waiting: dict[int, Any] = {}
        self._left_behind: set[str] = set()
        self._log = Records()
        self._threads = set(threading.enumerate())
        self._stores = [redis.Redis(port=port, db=database) for database in sorted({place[0] for place in PLACES})]

    def __enter__(self) -> Run:
        for store in self._stores:
            store.flushdb()
        logging.getLogger("pyredisson").addHandler(self._log)
        logging.getLogger("pyredisson.lock").setLevel(logging.INFO)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger("pyredisson").removeHandler(self._log)
        logging.getLogger("pyredisson.lock").setLevel(logging.NOTSET)
        for store in self._stores:
            store.close()

    async def close(self) -> None:
        """Close the clients, which ends all waits, and then the actors."""
        for client in self._clients.values():
            await ended(client.close())
        await self.actors.close()

    # ---- handles -------------------------------------------------------------------------------------------------

    def client(self, number: int) -> Any:
        """A client, connected at first use."""
        with self._connecting:
            if number not in self._clients:
                database, prefix = PLACES[number % len(PLACES)]
                config = pyredisson.Config(
                    prefix=prefix,
                    lock_watchdog_timeout=TIMEOUT,
                    max_wait_without_check=TIMEOUT,  # A waiter that is not notified does not return.
                    on_lock_lost=lambda name, thread: self.told.append((number, name, thread)),
                )
                url = f"redis://127.0.0.1:{self.port}/{database}"
                self._clients[number] = self.api.Redisson.from_url(url, config=config)
            return self._clients[number]

    def handle(self, on: str, owner: int, *, fresh: bool = False) -> Any:
        """A handle, kept from before or made anew."""
        handle = None if fresh else self._handles.get((on, owner))
        if handle is None:
            handle = self._handles[on, owner] = self._new_handle(on, owner)
        return handle

    def _new_handle(self, on: str, owner: int) -> Any:
        if "+" in on:
            return self.api.MultiLock(*[self._new_handle(word, owner) for word in on.split("+") if word])
        (target,) = targets_of(on)
        client = self.client(target.client)
        made = {"owner": self._owner(owner, client)} if owner and target.kind in LOCKS else {}
        handle = getattr(client, MAKERS[target.kind])(target.name, *ARGUMENTS.get(target.kind, ()), **made)
        return getattr(handle, f"{target.side}_lock")() if target.side else handle

    def _owner(self, number: int, client: Any) -> Any:
        if number not in self._owners:
            self._owners[number] = client.new_owner()
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
        await self._introduce(step)
        ends = [] if step.op == "let_end" else [least for least, _ in model.spans()]
        try:
            await self._perform(step, plan)
            await self._compare(step)
        finally:  # What was found is no fault if a lease has ended before its time.
            if any(time.monotonic() > least - 0.02 for least in ends + [least for least, _ in model.spans()]):
                raise Undecided
        return True

    async def _introduce(self, step: Step) -> None:
        """Ask an actor for its number, before its first step."""
        if step.thread not in self._numbers and step.op != "let_end":
            (self._numbers[step.thread],) = await self.actors.result(
                self.actors.start(step, [self.api.current_thread_id])
            )

    async def _perform(self, step: Step, plan: Plan) -> None:
        model = self.model
        model.began = time.monotonic()
        closes_on_waiters = step.op == "close" and bool(model.waiters)
        self._left_behind = model.left_behind(step).union(
            *(model.left_behind(waiter.step) for waiter in model.waiters.values())
        )
        if step.op == "let_end":
            left = max(most for _, most in model.spans()) + 0.01 - time.monotonic()
            if left > SOON:
                raise Undecided  # A wait of its owner may have made it longer.
            await self.actors.pause(left)
            plan.ways[0].effect()
        else:
            if closes_on_waiters:  # What is under way would have an unknown outcome.
                await self.actors.pause(0.05)
            pending = self.actors.start(step, [partial(self._call, step)])
            if plan.waiter is not None:
                model.wait(plan.waiter)
                self._waiting[step.thread] = pending
                await self._until_waiting(plan.waiter.left)
                if step.op == "wait_for":
                    await self._until_joined(step)
            else:
                outcome = await self._result(step, pending)
                model.ended = time.monotonic()
                self._note(step, plan.ways, outcome)
        await self._go_on()
        if closes_on_waiters:  # They leave their queues.
            await self.actors.pause(0.05)

    async def _result(self, step: Step, pending: Any) -> Any:
        try:
            return (await self.actors.result(pending))[0]
        except TimeoutError:
            raise Fault(f"{step.op} does not return", f"{step!r}") from None

    def _note(self, step: Step, ways: list[Way], outcome: Any) -> None:
        way = next((way for way in ways if way.fits(outcome)), None)
        if way is None and step.lease == SHORT and time.monotonic() - self.model.began > SHORT / 3:
            raise Undecided  # It has ended while it was acquired.
        if way is None:
            name = type(outcome).__name__ if isinstance(outcome, BaseException) else repr(outcome)
            allowed = " or ".join(map(repr, ways))
            raise Fault(f"{step.op} ended with {name} instead of {allowed}", f"{step!r}: {outcome!r}")
        token = outcome if step.face == "token" and type(outcome) is int else None
        if token is not None:
            self.model.lock(targets_of(step.on)[0]).token = token
        way.effect()
        if token is not None:
            self.model.act(step, targets_of(step.on)[0]).token = token

    async def _until_waiting(self, left: Own | None) -> None:
        """Until a condition's wait has given its lock up; who waits for something else may begin later."""
        deadline = time.monotonic() + SOON
        while left is not None:
            database, key = left.who.lock.target.place
            if not self._stores[database].hexists(key, self._field(left)):
                return
            if time.monotonic() > deadline:
                raise Fault("not given up", f"{key} for a condition's wait")
            await self.actors.pause(0.001)

    async def _until_joined(self, step: Step) -> None:
        """Until who waits at a barrier has joined it: a reset before that would be none."""
        (target,) = targets_of(step.on)
        database, key = target.place
        waiting = len(self.model.number(step).waiters) if target.kind == "barrier" else 0
        deadline = time.monotonic() + SOON
        while sum(map(bytes.isdigit, self._stores[database].hkeys(f"pyredisson_barrier:{{{key}}}"))) < waiting:
            if time.monotonic() > deadline:
                raise Fault("not joined", f"{key} for {step!r}")
            await self.actors.pause(0.001)

    async def _go_on(self) -> None:
        """Let those go on who have to, and see that the others do not."""
        model = self.model
        while (waiter := self._next_ready()) is not None:
            step = waiter.step
            if waiter.cancelled and waiter.left is None:
                self.actors.cancel(step.thread)
            outcome = await self._result(step, self._waiting.pop(step.thread))
            model.ended = time.monotonic()
            self._note(step, model.go_on(waiter), outcome)
            self._compare_stores({model.lock(target) for target in targets_of(step.on) if target.kind in LOCKS})
        for thread, pending in self._waiting.items():
            if pending.done():
                (outcome,) = await self.actors.result(pending)
                step = model.waiters[thread].step
                raise Fault(f"{step.op} waits no longer", f"{step!r}: {outcome!r}, after {self.steps[-1]!r}")

    def _next_ready(self) -> Waiter | None:
        try:
            return self.model.next_ready()
        except Unclear:
            raise Undecided from None

    # ---- calls ---------------------------------------------------------------------------------------------------

    def _call(self, step: Step) -> Any:
        """Make the call of a step, in its actor."""
        call: Callable[[Step], Any] = getattr(self, f"_do_{step.op}")
        return call(step)

    def _lock(self, step: Step) -> Any:
        return self.handle(step.on, step.owner, fresh=step.fresh)

    def _do_acquire(self, step: Step) -> Any:
        lock, wait, lease = self._lock(step), step.wait, step.lease
        match step.face:
            case "lock":
                return lock.lock(lease)
            case "acquire":
                return lock.acquire(wait != 0, wait or -1)
            case "with":
                return self._enter_and_compare(lock)
            case "token":
                return lock.try_lock_and_get_token(wait, lease)
            case _:
                return lock.try_lock(wait, lease)

    @staticmethod
    async def _enter_and_compare(lock: Any) -> bool:
        return await ended(enter_of(lock)()) is lock

    def _do_release(self, step: Step) -> Any:
        lock = self._lock(step)
        leave = exit_of(lock)
        match step.face:
            case "with":
                return leave(None, None, None)
            case "error":
                return leave(Body, Body(), None)
            case "release":
                return lock.release()
            case _:
                return lock.unlock()

    async def _do_enter(self, step: Step) -> None:
        lock = self._lock(step)
        times = (step.wait,) if targets_of(step.on)[0].kind == "sem" else (step.wait, step.lease)
        entered = Entered(lock.hold(*((1,) * (len(times) == 1)), *times), step.face)
        await entered.enter()
        self._blocks[step.n] = entered

    async def _do_leave(self, step: Step) -> None:
        await self._blocks.pop(step.n).leave(error=step.face == "error")

    def _do_extend(self, step: Step) -> Any:
        return self._lock(step).extend(step.lease)

    def _do_extend_block(self, step: Step) -> Any:
        return self._blocks[step.n].lease.extend(step.lease)

    def _do_force(self, step: Step) -> Any:
        return self._lock(step).force_unlock()

    def _do_delete(self, step: Step) -> Any:
        database, key = targets_of(step.on)[0].place
        return self._stores[database].delete(key)

    def _do_cond_wait(self, step: Step) -> Any:
        return self._condition(step).wait(step.wait)

    def _do_notify(self, step: Step) -> Any:
        return self._condition(step).notify()

    def _condition(self, step: Step) -> Any:
        return self.client(targets_of(step.on)[0].client).get_condition(self._lock(step))

    def _do_copy(self, step: Step) -> None:
        self.actors.contexts[step.n] = contextvars.copy_context()

    def _do_forget(self, step: Step) -> None:
        self._handles.clear()

    def _do_cancel(self, step: Step) -> None:
        if self.model.waiters[step.n].left is not None:  # The others are, once the model knows.
            self.actors.cancel(step.n)

    def _do_end_thread(self, step: Step) -> Any:
        return self.actors.end(step.n)

    def _do_close(self, step: Step) -> Any:
        return self.client(step.n).close()

    def _do_close_owner(self, step: Step) -> None:
        if step.n in self._owners:
            self._owners[step.n].close()

    # Semaphores and the like.

    def _do_set(self, step: Step) -> Any:
        handle = self._lock(step)
        return (handle.try_set_count if "latch" in step.on else handle.try_set_permits)(step.n)

    async def _do_take(self, step: Step) -> Any:
        handle = self._lock(step)
        match targets_of(step.on)[0].kind:
            case "permits":
                permit = await ended(handle.try_acquire(step.wait, step.lease))
                if permit is not None:
                    self._permits[step.n] = permit
                return permit
            case "bounded":
                return await ended(handle.acquire(step.wait != 0, step.wait or None))
            case _:
                return await ended(handle.try_acquire(step.n, step.wait))

    def _do_give(self, step: Step) -> Any:
        handle = self._lock(step)
        if targets_of(step.on)[0].kind != "permits":
            return handle.release(step.n)
        permit = self._permits.get(step.n, "0" * 32)
        return handle.try_release(permit) if step.face == "try" else handle.release(permit)

    def _do_drain(self, step: Step) -> Any:
        return self._lock(step).drain_permits()

    def _do_down(self, step: Step) -> Any:
        return self._lock(step).count_down()

    def _do_wipe(self, step: Step) -> Any:
        return self._lock(step).delete()

    def _do_wait_for(self, step: Step) -> Any:
        return self._lock(step).wait(step.wait)

    def _do_flag(self, step: Step) -> Any:
        return getattr(self._lock(step), step.face)()

    # ---- comparing -----------------------------------------------------------------------------------------------

    async def _compare(self, step: Step) -> None:
        await self._compare_answers(step)
        self._compare_stores({self.model.lock(target) for target in targets_of(step.on) if target.kind in LOCKS})
        self._compare_leases()
        await self._compare_told(step)

    async def _compare_answers(self, step: Step) -> None:
        if not step.on or self.model.is_busy(step):
            return
        answers = self.model.answers(step)
        calls = [getattr(self.handle(word, step.owner), method) for word, method, _ in answers]
        outcomes = await self.actors.result(self.actors.start(step, calls))
        for (word, method, match), outcome in zip(answers, outcomes, strict=True):
            if not Way(match).fits(outcome):
                raise Fault(f"{method} is {outcome!r} instead of {Way(match)!r}", f"{word}, after {step!r}")

    def _compare_stores(self, locks: Iterable[Lock]) -> None:
        by_store: dict[int, list[Lock]] = {}
        for lock in locks:
            if lock.waiter is None:
                by_store.setdefault(lock.target.place[0], []).append(lock)
        for database, several in by_store.items():
            pipe = self._stores[database].pipeline(transaction=False)
            for lock in several:
                key = lock.target.place[1]
                pipe.get(key) if lock.target.kind == "token" else pipe.hgetall(key)
                pipe.pttl(key)
            before, replies = time.monotonic(), pipe.execute()
            for lock, stored, left in zip(several, replies[::2], replies[1::2], strict=True):
                self._compare_stored(lock, stored, left / 1000, before)

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
                if own in sure or fields:
                    self._learn(own, fields)
                    count = fields.pop(self._field(own), 0)
                    if count not in own.counts():
                        raise Fault("stored count", f"{what}: {count} instead of {sorted(own.counts())}")
            if fields:
                raise Fault("stored field", f"{what}: {fields} is not held")
        if sure and all(len(own.counts()) == 1 for own in owns):
            most = lock.most if lock.target.kind == "rw" else max(own.most for own in sure)
            least, most = max(own.least for own in sure) - time.monotonic(), most - before
            if not least - 0.05 <= left <= most + 0.05:
                raise Fault("time to live", f"{what}: {left:.3f} s instead of {least:.3f} to {most:.3f}")

    def _field(self, own: Own) -> str:
        return f"{self._clients[own.who.client].id}:{own.who.number}" + ":write" * (own.side == "write")

    def _learn(self, own: Own, fields: dict[str, int]) -> None:
        """Find out an owner's number, and check that it is the thread's, or is not."""
        who = own.who
        if who.number is not None:
            return
        client = self._clients[who.client].id
        known = {self._field(each) for each in who.lock.owns() if each.who.number is not None}
        new = [
            int(field.split(":")[1])
            for field in fields
            if field.startswith(client) and field not in known and field.endswith(":write") is (own.side == "write")
        ]
        if len(new) != 1:
            raise Fault("stored owner", f"{who.lock.target.name} has {fields}, of which {new} may be of {who.thread}")
        who.number = new[0]
        usual = self._numbers.get(who.thread) if who.thread >= 0 else self._owners[-who.thread].number
        if usual is not None and who.usual is not None and (who.number == usual) is not who.usual:
            raise Fault("number", f"{who.lock.target.name} has {fields}, and the number of the thread is {usual}")

    def _compare_leases(self) -> None:
        for number, block in self.model.blocks.items():
            hold = block.hold
            parts = hold.parts if isinstance(hold, MultiHold) else [hold] if not isinstance(hold, Permit) else []
            unsure = any(part.own.gone or part not in part.own.holds for part in parts)
            if any(client in self.model.closed for client in block.clients) or (hold.state is HELD and unsure):
                continue
            lease, held = self._blocks[number].lease, hold.state is HELD
            if lease.lost is held or (lease.remaining() > 0) is not held:
                raise Fault("lease", f"block {number} of {block.on} is {hold.state}: {lease!r}")

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
        tells = self.model.tells
        while self.told:
            client, name, thread = self.told.pop(0)
            fitting = [tell for tell in tells if not tell.called and (tell.client, tell.name) == (client, name)]
            fitting.sort(key=lambda tell: (not tell.must, tell.who is not None and tell.who.number != thread))
            owns = [own for lock in self.model.locks.values() if lock.target.name == name for own in lock.owns()]
            if not fitting and any(own.gone and own.who.client == client for own in owns):
                raise Undecided  # It is lost indeed, and its client has found that out by itself.
            if not fitting:
                raise Fault("told of a loss that is none", f"{name} of {thread}, after {step!r}")
            fitting[0].called = True
        return not any(tell.must and not tell.called for tell in tells)

    def _check_record(self, step: Step, record: logging.LogRecord) -> None:
        text = record.getMessage()
        name, owner = getattr(record, "lock", None), getattr(record, "owner", "")
        if owner and not any(owner.startswith(client.id) for client in self._clients.values()):
            return  # What a client loses that an earlier program has closed.
        if "watchdog is" in text:
            raise Undecided
        if step.op == "close" and "was closed while it held" in text:
            return
        if LOST_LINE in text:
            tell = next((tell for tell in self.model.tells if tell.name == name and not tell.logged), None)
            if tell is not None:
                tell.logged = True
                return
        if "from an earlier call" in text and name in self._left_behind:
            return
        raise Fault(f"logged {record.msg[:60]}", f"{text}, after {step!r}")

    # ---- the end -------------------------------------------------------------------------------------------------

    async def compare_end(self) -> None:
        """Nothing is held: nothing is left in Redis, in the clients, or of their threads."""
        model = self.model
        if model.waiters or model.multis or any(any(lock.owns()) for lock in model.locks.values()):
            raise Undecided  # They wait for each other, or each release that is left may mean one of two holds.
        for number, client in self._clients.items():
            if number not in model.closed:
                await self._soon(f"nothing in use by client {number}", lambda client=client: in_use(client))
        for store in self._stores:
            left = [key for key in store.scan_iter() if not LEFT.search(key)]
            if left:
                raise Fault("left in Redis", repr(left))
        await self.close()
        await self._soon("no thread more", self._new_threads)

    def _new_threads(self) -> list[threading.Thread]:
        """The threads that are left, but for the process's one that reports what closed clients lose.

        It ends when there is no more of it, which may be of clients from before that are collected only now.
        """
        new = set(threading.enumerate()) - self._threads
        return [thread for thread in new if not thread.name.endswith("losses")]

    async def _soon(self, what: str, left: Callable[[], object]) -> None:
        deadline = time.monotonic() + SOON
        while found := left():
            if time.monotonic() > deadline:
                raise Fault(f"not {what}", repr(found))
            await self.actors.pause(0.002)


def in_use(client: Any) -> list[object]:
    """What a client has to do with still."""
    core = client._core
    owned = [each for each in core.ownerships if each.in_use()]
    return owned + core.watchdog.ownerships() + core.subscriptions.wanted()


def run_steps(steps: Callable[[Model], Iterable[Step]], port: int, *, tasks: bool) -> tuple[Run, Exception | None]:
    """Run a program in a thread of its own, and see that it leaves nothing. Returns the fault that it has met.

    Args:
        steps: Draws the steps, one after another, with the model in hand.
        port: The server's.
        tasks: Whether the actors are tasks.
    """
    found: list[tuple[Run, Exception | None]] = []
    raised: list[BaseException] = []

    async def run() -> None:
        actors = TaskActors() if tasks else ThreadActors()
        async with actors:
            with Run(port, actors) as running:
                fault: Exception | None = None
                try:
                    for step in steps(running.model):
                        await running.do(step)
                    await running.compare_end()
                except (Fault, Undecided) as error:
                    fault = error
                    await running.close()
                found.append((running, fault))

    def work() -> None:
        try:
            asyncio.run(run()) if tasks else step_through(run())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]
