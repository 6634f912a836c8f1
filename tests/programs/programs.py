"""Drawing a program: each step with the model in hand, so that most can be done, and at last all is released."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from tests.programs.model import HELD, Hold, MultiHold, Unclear
from tests.programs.numbers import Permit
from tests.programs.outcomes import Model
from tests.programs.steps import IN_VAIN, LONG, PLACES, SHORT, Step, Target, targets_of

#: How often each kind is drawn.
KINDS = {"lock": 9, "fair": 3, "spin": 2, "fenced": 2, "rw": 4, "token": 1, "once": 1, "oncefair": 1}
NUMBERED = ("sem1", "sem2", "permits1", "permits2", "bounded1", "latch1", "latch2", "event1", "barrier1")

#: How much may be held at once before more is released than acquired.
MUCH = 8


@dataclass(frozen=True)
class Setting:
    """Where programs run.

    Attributes:
        name: Its name on the command line.
        tasks: Whether the actors are tasks.
        actors: How many of them.
        contexts: Whether threads have several contexts.
        clients: The clients at first.
    """

    name: str
    tasks: bool = False
    actors: int = 1
    contexts: bool = False
    clients: tuple[int, ...] = (0,)


SETTINGS = {
    each.name: each
    for each in (
        Setting("thread"),
        Setting("contexts", contexts=True),
        Setting("threads", actors=4, contexts=True),
        Setting("clients", actors=3, contexts=True, clients=(0, 1, 2, 3)),
        Setting("greenlets", actors=4, contexts=True),
        Setting("task", tasks=True),
        Setting("tasks", tasks=True, actors=6, clients=(0, 3)),
    )
}


def spell(target: Target) -> str:
    """How a step names a lock."""
    return f"{target.client}:" * bool(target.client) + target.name + f".{target.side}" * bool(target.side)


def spell_multi(multi: MultiHold) -> str:
    """How a step names a multi-lock."""
    return "+".join(map(spell, multi.targets)) + "+" * (len(multi.targets) == 1)


def target_of(hold: Hold) -> Target:
    """The lock of a hold, as its own client has it."""
    return Target(hold.own.who.client, hold.own.who.lock.target.name, hold.own.side)


class Drawing:
    """Draws the steps of one program."""

    def __init__(self, setting: Setting, random: Random, model: Model) -> None:
        self.setting, self.random, self.model = setting, random, model
        self.number = 0
        self.clients = list(setting.clients)
        self.threads = list(range(setting.actors))
        self.contexts = [0]
        self.often = [self._new_name() for _ in range(4)]
        self.recent: list[str] = []
        self.multis: list[str] = []
        self.owners = [1, 2]
        self.since_short = 0
        weights = {
            self._acquire: 30,
            self._enter: 12,
            self._release: 30,
            self._leave: 12,
            self._extend: 2,
            self._extend_block: 2,
            self._force: 2,
            self._delete: 1,
            self._cond_wait: 3,
            self._notify: 1,
            self._forget: 1,
            self._count: 10,
            self._copy: 4 * setting.contexts,
            self._cancel: 3 * setting.tasks,
            self._end_thread: int(setting.actors > 1),
            self._close: int(len(setting.clients) > 1),
        }
        self.draws = [draw for draw, weight in weights.items() for _ in range(weight)]

    def step(self) -> Step:
        """The next step."""
        while True:
            step = self._let_end() or self._leave_given_up() or self.random.choice(self.draws)()
            if step is not None and self._may_be_done(step):
                return step

    def _may_be_done(self, step: Step) -> bool:
        try:
            plan = self.model(step)
        except Unclear:
            return False
        # Someone has to be left who lets the others go on.
        return plan.waiter is None or len(self.model.waiters) + 1 < len(self.threads)

    # ---- names and actors ----------------------------------------------------------------------------------------

    def _new_name(self) -> str:
        kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
        self.number += 1
        return f"{kind}{self.number}"

    def _name(self) -> str:
        chance = self.random.random()
        if chance < 0.5:
            return self.random.choice(self.often)
        if chance < 0.7 and self.recent:
            return self.random.choice(self.recent)
        self.recent = [*self.recent[-7:], self._new_name()]
        return self.recent[-1]

    def _target(self) -> str:
        name = self._name()
        side = self.random.choice(("read", "write")) if name.startswith("rw") else ""
        return spell(Target(self.random.choice(self.clients), name, side))

    def _on(self) -> str:
        if self.random.random() < 0.65:
            return self._target()
        if self.multis and self.random.random() < 0.6:
            return self.random.choice(self.multis[-4:])
        members = list(dict.fromkeys(self._target() for _ in range(self.random.choice((1, 2, 2, 2, 3)))))
        targets = targets_of("+".join(members))
        if len({target.place[1] for target in targets}) == 1 and len({target.client for target in targets}) > 1:
            return members[0]  # That would be a quorum.
        on = members[0] + "+" if len(members) == 1 else "+".join(members)
        self.multis.append(on)
        return on

    def _by(self) -> str:
        thread = self.random.choice(self._free())
        context = self.random.choice(self.contexts)
        return f"{thread}.{context}" if context else str(thread)

    def _free(self) -> list[int]:
        """The threads or tasks that do not wait."""
        return [thread for thread in self.threads if thread not in self.model.waiters]

    def _fresh(self) -> bool:
        return self.random.random() < 0.5

    def _owner(self) -> int:
        return self.random.choice(self.owners) if self.random.random() < 0.06 else 0

    def _lease(self, on: str) -> float | None:
        chance = self.random.random()
        if chance < 0.06 and "rw" not in on:
            return SHORT
        return LONG if chance < 0.3 else None

    def _wait(self) -> float | None:
        chance = self.random.random()
        if chance < 0.2 and self.setting.actors > 1:
            return None
        return IN_VAIN if chance > 0.97 else 0

    # ---- what is held --------------------------------------------------------------------------------------------

    def _holds(self) -> list[Hold]:
        """The holds that can be released, or are to be unlocked, and are of no multi-lock."""
        locks = self.model.locks.values()
        holds = [hold for lock in locks for own in lock.owns() for hold in own.holds]
        holds += [hold for lock in locks for hold in lock.ended]
        return [hold for hold in holds if hold.multi is None and hold.own.who.client not in self.model.closed]

    def _released(self) -> Iterator[tuple[str, Hold, int]]:
        """What was acquired without a block: its name, a hold, and its owner, if that was made."""
        for hold in self._holds():
            if not hold.block:
                yield spell(target_of(hold)), hold, max(-hold.own.who.thread, 0)
        for multi in self.model.multis:
            if not multi.block:
                yield spell_multi(multi), multi.parts[0], max(-multi.thread, 0)

    def _seers(self, hold: Hold) -> list[str]:
        """The actors that see a hold."""
        thread = hold.own.who.thread
        if thread < 0:
            return [str(thread) for thread in self._free()]
        if self.model.tasks:
            return [str(thread)]
        seen = self.model.seen.items()
        return [
            f"{thread}.{key[1]}" if key[1] else str(thread)
            for key, known in seen
            if hold in known and key[0] in (0, thread)
        ]

    def _held(self, chance: float, kinds: tuple[str, ...] = ()) -> tuple[str, str, int] | None:
        """An actor, and the name of something that it holds, with this chance; else any."""
        held = [
            each for each in self._released() if not kinds or ("+" not in each[0] and target_of(each[1]).kind in kinds)
        ]
        if not held or self.random.random() > chance:
            return None if kinds else (self._by(), self._on(), self._owner())
        on, hold, owner = self.random.choice(held)
        seers = self._seers(hold)
        return self.random.choice(seers) if seers and self.random.random() < 0.8 else self._by(), on, owner

    # ---- steps on locks ------------------------------------------------------------------------------------------

    def _is_much(self) -> bool:
        held = len(self.model.multis) + len(self._holds())
        return held >= MUCH + 2 * self.setting.actors and self.random.random() < 0.7

    def _acquire(self) -> Step | None:
        if self._is_much():
            return None
        on = self._on()
        lease = self._lease(on)
        faces = ["", "", "lock"] + ["acquire", "with"] * (lease is None)
        faces += ["token"] * ("fenced" in on and "+" not in on)
        face = self.random.choice(faces)
        return Step("acquire", self._by(), on, lease, self._wait(), 0, face, self._owner(), self._fresh())

    def _enter(self) -> Step | None:
        if self._is_much():
            return None
        on = self._on()
        self.number += 1
        face = self.random.choice(("", "", "generator", "stack"))
        return Step(
            "enter", self._by(), on, self._lease(on), self._wait(), self.number, face, self._owner(), self._fresh()
        )

    def _release(self) -> Step | None:
        found = self._held(0.9)
        if found is None:
            return None
        by, on, owner = found
        face = self.random.choice(("", "", "", "release", "with", "error"))
        return Step("release", by, on, face=face, owner=owner, fresh=self._fresh())

    def _leave(self) -> Step | None:
        if not self.model.blocks:
            return None
        face = "error" if self.random.random() < 0.2 else ""
        return Step("leave", self._by(), n=self.random.choice(list(self.model.blocks)), face=face)

    def _leave_given_up(self) -> Step | None:
        """A block whose hold is given up for a wait is often left before that ends."""
        given_up = [hold for waiter in self.model.waiters.values() for hold in waiter.holds]
        blocks = [
            number
            for number, block in self.model.blocks.items()
            if any(part in given_up for part in getattr(block.hold, "parts", [block.hold]))
        ]
        return Step("leave", self._by(), n=blocks[0]) if blocks and self.random.random() < 0.2 else None

    def _extend(self) -> Step | None:
        found = self._held(0.8)
        lease = self.random.choice((LONG, SHORT))
        return found and Step("extend", found[0], found[1], lease, owner=found[2], fresh=self._fresh())

    def _extend_block(self) -> Step | None:
        blocks = [number for number, block in self.model.blocks.items() if not isinstance(block.hold, Permit)]
        return Step("extend_block", self._by(), n=self.random.choice(blocks), lease=LONG) if blocks else None

    def _force(self) -> Step | None:
        found = self._held(0.7)
        return found and Step("force", self._by(), found[1], owner=found[2] * self._fresh(), fresh=self._fresh())

    def _delete(self) -> Step | None:
        held = [on for on, _, _ in self._released() if "+" not in on]
        return Step("delete", self._by(), self.random.choice(held)) if held else None

    def _cond_wait(self) -> Step | None:
        found = self._held(1, ("lock", "fair"))
        wait = self.random.choice((0, IN_VAIN, None) if self.setting.actors > 1 else (0, IN_VAIN))
        return found and Step("cond_wait", found[0], found[1], wait=wait, owner=found[2], fresh=self._fresh())

    def _notify(self) -> Step | None:
        found = self._held(1, ("lock", "fair"))
        return found and Step("notify", found[0], found[1], owner=found[2], fresh=self._fresh())

    def _forget(self) -> Step:
        return Step("forget", self._by())

    def _let_end(self) -> Step | None:
        """Short leases end soon after they have begun."""
        if not self.model.spans():
            self.since_short = 0
            return None
        self.since_short += 1
        return Step("let_end", self._by()) if self.random.random() < self.since_short / 6 else None

    # ---- other steps ---------------------------------------------------------------------------------------------

    def _count(self) -> Step | None:
        on = self.random.choice(NUMBERED)
        client = self.random.choice(self.clients)
        on, by, kind = f"{client}:" * bool(client) + on, self._by(), on.rstrip("0123456789")
        count, wait, fresh, self.number = self.random.choice((1, 1, 2)), self._wait(), self._fresh(), self.number + 1
        if kind == "barrier" or kind == "event":
            faces = ("reset", "abort", "reset") if kind == "barrier" else ("set", "clear")
            flag = Step("flag", by, on, face=self.random.choice(faces), fresh=fresh)
            return self.random.choice(
                (flag, Step("wait_for", by, on, wait=wait or (IN_VAIN if wait == 0 else None), fresh=fresh))
            )
        steps = [Step("set", by, on, n=2 * count, fresh=fresh)] * (kind != "bounded")
        if kind == "latch":
            steps += [Step("down", by, on, fresh=fresh), Step("wait_for", by, on, wait=wait, fresh=fresh)]
        elif kind == "permits":
            lease = self.random.choice((None, None, LONG, SHORT))
            permits = list(self.model.number(Step("give", by, on)).permits)[-6:] or [0]
            give = Step(
                "give", by, on, n=self.random.choice(permits), face=self.random.choice(("", "try")), fresh=fresh
            )
            steps += [Step("take", by, on, lease, wait, self.number, fresh=fresh), give]
        else:
            steps += [Step("take", by, on, None, wait, count, fresh=fresh), Step("give", by, on, n=count, fresh=fresh)]
        if kind in ("sem", "permits"):
            steps.append(Step("enter", by, on, None, wait, self.number, self.random.choice(("", "stack")), fresh=fresh))
            steps += [Step("wipe", by, on, fresh=fresh)] * (self.random.random() < 0.2)
            steps += [Step("drain", by, on, fresh=fresh)] * (kind == "sem" and self.random.random() < 0.3)
        return self.random.choice(steps)

    def _copy(self) -> Step:
        self.number += 1
        by = self._by()
        self.contexts = [0, *self.contexts[1:][-4:], self.number]
        return Step("copy", by, n=self.number)

    def _cancel(self) -> Step | None:
        waiting = list(self.model.waiters)
        return Step("cancel", self._by(), n=self.random.choice(waiting)) if waiting else None

    def _end_thread(self) -> Step | None:
        """A thread ends, and another one begins."""
        step = Step("end_thread", self._by(), n=self.random.choice(self.threads))
        if self.random.random() < 0.5 or not self._may_be_done(step):
            return None
        self.threads = [max(self.threads) + 1 if thread == step.n else thread for thread in self.threads]
        return step

    def _close(self) -> Step | None:
        """A client is closed, and another one of the same place is made."""
        step = Step("close", self._by(), n=self.random.choice(self.clients))
        if self.random.random() < 0.7 or not self._may_be_done(step):
            return None
        new = step.n + len(PLACES)
        while new in self.clients or new in self.model.closed:
            new += len(PLACES)
        self.clients = [new if client == step.n else client for client in self.clients]
        self.multis = [
            on
            for on in self.multis
            if not self.model.is_closed(targets_of(on)) and step.n not in {t.client for t in targets_of(on)}
        ]
        return step

    # ---- the end -------------------------------------------------------------------------------------------------

    def unwind(self) -> Step | None:
        """The next step that releases something; ``None`` if nothing is held."""
        return next((step for step in self._unwinding() if self._may_be_done(step)), None)

    def _unwinding(self) -> Iterator[Step]:
        model = self.model
        by = next(str(thread) for thread in itertools.count() if thread not in {*model.waiters, *model.ended_threads})
        if model.spans():
            yield Step("let_end", by)
        waiting = [waiter for waiter in model.waiters.values() if waiter.left is not None]
        waiting = [waiter for waiter in waiting if not waiter.notified and not waiter.cancelled]
        for waiter in waiting:
            for own in waiter.left.who.lock.owns() if waiter.left is not None else ():
                if own.gone or own.who.client in model.closed:
                    continue
                for seer in self._seers(own.holds[-1]):
                    yield Step("notify", seer, spell(target_of(own.holds[-1])), owner=max(-own.who.thread, 0))
        for number in model.blocks:
            yield Step("leave", by, n=number)
        for on, hold, owner in reversed(list(self._released())):
            for seer in self._seers(hold):
                yield Step("release", seer, on, owner=owner)
        for number in model.stored.values():
            on = spell(Target(self._open(number.target), number.target.name))
            for name in [name for name, permit in number.permits.items() if permit.state is HELD]:
                yield Step("give", by, on, n=name)
            if number.waiters:
                open_ = {"latch": Step("down", by, on), "event": Step("flag", by, on, face="set")}
                open_["barrier"] = Step("flag", by, on, face="reset")
                yield open_.get(number.target.kind, Step("give", by, on, n=1))
        for waiter in waiting:
            if waiter.left is not None and not any(waiter.left.who.lock.owns()):
                yield Step("acquire", by, waiter.step.on)
        for lock in model.locks.values():
            for own in [own for own in lock.owns() if own.who.client in model.closed]:
                yield Step("force", by, spell(Target(self._open(lock.target), lock.target.name, own.side)))

    def _open(self, target: Target) -> int:
        """A client of a place that is not closed."""
        clients = itertools.count(target.client % len(PLACES), len(PLACES))
        return next(client for client in clients if client not in self.model.closed)


def drawn(setting: Setting, seed: int, count: int) -> Callable[[Model], Iterator[Step]]:
    """A random program of so many steps, and those that release what is held then."""

    def steps(model: Model) -> Iterator[Step]:
        drawing = Drawing(setting, Random(seed), model)
        for _ in range(count):
            yield drawing.step()
        yield from iter(drawing.unwind, None)

    return steps


def given(setting: Setting, steps: list[Step]) -> Callable[[Model], Iterator[Step]]:
    """A program of these steps, and those that release what is held then."""

    def each(model: Model) -> Iterator[Step]:
        yield from steps
        yield from iter(Drawing(setting, Random(0), model).unwind, None)

    return each
