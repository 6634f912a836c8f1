"""Drawing a program: each step is drawn with the model in hand, so that most can be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.programs.model import HELD, LOST, Hold, MultiHold, Unclear
from tests.programs.outcomes import Model
from tests.programs.steps import IN_VAIN, LOCKS, LONG, NOT_REENTRANT, SHORT, Step, Target

#: How often each kind of lock is drawn.
KINDS = {"lock": 9, "fair": 3, "spin": 2, "fenced": 2, "rw": 4, "token": 1, "once": 1, "oncefair": 1}

#: How much may be held at once before more is released than acquired.
MUCH = 8


def spell(target: Target) -> str:
    """How a step names a lock."""
    return f"{target.client}:" * bool(target.client) + target.name + f".{target.side}" * bool(target.side)


@dataclass(frozen=True)
class Setting:
    """Where programs run.

    Attributes:
        contexts: Whether there are contexts.
        multi: Whether there are multi-locks.
    """

    name: str
    form: str = "threads"
    actors: int = 1
    contexts: bool = False
    clients: tuple[int, ...] = (0,)
    multi: bool = True


SETTINGS = {
    each.name: each
    for each in (
        Setting("thread"),
        Setting("contexts", contexts=True),
        Setting("threads", "threads", 4, contexts=True),
        Setting("clients", "threads", 3, contexts=True, clients=(0, 1, 2, 3)),
        Setting("task", "tasks"),
        Setting("tasks", "tasks", 6),
        Setting("greenlets", "threads", 4, contexts=True),
    )
}


class Drawing:
    """Draws the steps of one program."""

    def __init__(self, setting: Setting, random: Random, model: Model) -> None:
        self.setting, self.random, self.model = setting, random, model
        self.number = 0
        self.clients = list(setting.clients)
        self.often = [self._new_name() for _ in range(4)]
        self.recent: list[str] = []
        self.multis: list[str] = []
        self.contexts = [0]
        self.since_short = 0

    def step(self) -> Step:
        """The next step."""
        while True:
            step = self._let_end() or self._drawn()
            if step is not None and self._may_be_done(step):
                return step

    def _may_be_done(self, step: Step) -> bool:
        try:
            self.model(step)
        except Unclear:
            return False
        return True

    def _drawn(self) -> Step | None:
        held = len(self.model.multis) + sum(1 for _ in self._own_holds())
        more = 3 if held < MUCH else 1
        choices: list[tuple[Callable[[], Step | None], int]] = [
            (self._acquire, 10 * more),
            (self._enter, 4 * more),
            (self._release, 30),
            (self._leave, 12),
            (self._extend, 2),
            (self._extend_block, 2),
            (self._force, 2),
            (self._delete, 1),
            (self._cond_wait, 3),
            (self._notify, 1),
            (self._forget, 1),
        ]
        if self.setting.contexts:
            choices.append((self._copy, 4))
        draw = self.random.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]
        return draw()

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
        if __import__("os").environ.get("NOMULTI") or self.random.random() < 0.65:
            return self._target()
        if self.multis and self.random.random() < 0.6:
            return self.random.choice(self.multis[-4:])
        members = list(dict.fromkeys(self._target() for _ in range(self.random.choice((1, 2, 2, 2, 3) if not __import__("os").environ.get("AVOID") else (2, 2, 3)))))
        if len(members) == 1 and __import__("os").environ.get("AVOID"): return members[0]
        on = members[0] + "+" if len(members) == 1 else "+".join(members)
        self.multis.append(on)
        return on

    def _by(self) -> str:
        context = self.random.choice(self.contexts)
        return f"0.{context}" if context else "0"

    def _lease(self, on: str) -> float | None:
        lease = self.random.choice((None, None, None, LONG, SHORT))
        return LONG if lease == SHORT and "rw" in on else lease

    # ---- what is held --------------------------------------------------------------------------------------------

    def _own_holds(self) -> list[Hold]:
        return [hold for lock in self.model.locks.values() for own in lock.owns() for hold in [*own.holds] if not hold.multi] + [
            hold for lock in self.model.locks.values() for hold in lock.ended if not hold.multi
        ]

    def _releasable(self) -> list[str]:
        """What was acquired without a block."""
        names = [
            spell(Target(hold.own.who.client, hold.own.who.lock.target.name, hold.own.side))
            for hold in self._own_holds()
            if not hold.block
        ]
        return names + [self._spell_multi(multi) for multi in self.model.multis if not multi.block]

    @staticmethod
    def _spell_multi(multi: MultiHold) -> str:
        return "+".join(map(spell, multi.targets)) + "+" * (len(multi.targets) == 1)

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _fresh(self) -> bool:
        return self.random.random() < 0.5

    def _acquire(self) -> Step:
        on = self._on()
        lease = self._lease(on)
        faces = ["", "", "lock"] + ["acquire", "with"] * (lease is None) + ["token"] * (on.startswith("fenced") and "+" not in on)
        wait = self.random.choice((0, 0, 0, 0, 0, IN_VAIN))
        return Step("acquire", self._by(), on, lease, wait, face=self.random.choice(faces), fresh=self._fresh())

    def _enter(self) -> Step:
        on = self._on()
        self.number += 1
        face = self.random.choice(("", "", "generator", "stack"))
        return Step("enter", self._by(), on, self._lease(on), 0, self.number, face, fresh=self._fresh())

    def _release(self) -> Step | None:
        held = self._releasable()
        if not held and self.random.random() < 0.8:
            return None
        on = self.random.choice(held) if held and self.random.random() < 0.9 else self._on()
        face = self.random.choice(("", "", "", "release", "with", "error"))
        return Step("release", self._by(), on, face=face, fresh=self._fresh())

    def _leave(self) -> Step | None:
        if not self.model.blocks:
            return None
        face = "error" if self.random.random() < 0.2 else ""
        return Step("leave", self._by(), n=self.random.choice(list(self.model.blocks)), face=face)

    def _extend(self) -> Step:
        held = self._releasable()
        on = self.random.choice(held) if held and self.random.random() < 0.8 else self._on()
        return Step("extend", self._by(), on, self.random.choice((LONG, SHORT)), fresh=self._fresh())

    def _extend_block(self) -> Step | None:
        blocks = list(self.model.blocks)
        return Step("extend_block", self._by(), n=self.random.choice(blocks), lease=LONG) if blocks else None

    def _force(self) -> Step:
        held = self._releasable()
        on = self.random.choice(held) if held and self.random.random() < 0.7 else self._on()
        return Step("force", self._by(), on, fresh=self._fresh())

    def _delete(self) -> Step | None:
        held = [each for each in self._releasable() if "+" not in each]
        return Step("delete", self._by(), self.random.choice(held)) if held else None

    def _condition_name(self) -> str | None:
        held = [each for each in self._releasable() if "+" not in each and each.rpartition(":")[2].startswith(("lock", "fair"))]
        return self.random.choice(held) if held else None

    def _cond_wait(self) -> Step | None:
        on = self._condition_name()
        return Step("cond_wait", self._by(), on, wait=self.random.choice((0, IN_VAIN)), fresh=self._fresh()) if on else None

    def _notify(self) -> Step | None:
        on = self._condition_name()
        return Step("notify", self._by(), on, fresh=self._fresh()) if on else None

    def _forget(self) -> Step:
        return Step("forget", self._by())

    def _copy(self) -> Step:
        self.number += 1
        by = self._by()
        self.contexts = [0, *self.contexts[1:][-4:], self.number]
        return Step("copy", by, n=self.number)

    def _let_end(self) -> Step | None:
        """Short leases end soon after they have begun."""
        if not self.model.spans():
            self.since_short = 0
            return None
        self.since_short += 1
        chance = self.since_short / 6
        return Step("let_end", "0") if self.random.random() < chance else None

    # ---- the end -------------------------------------------------------------------------------------------------

    def unwind(self) -> Step | None:
        """The next step that releases something; ``None`` if nothing is held."""
        model = self.model
        for number in model.blocks:
            return self._first(Step("leave", "0", n=number))
        for multi in reversed(model.multis):
            for by in self._seers(multi.parts[0]):
                if step := self._first(Step("release", by, self._spell_multi(multi))):
                    return step
        for hold in reversed(self._own_holds()):
            on = spell(Target(hold.own.who.client, hold.own.who.lock.target.name, hold.own.side))
            for by in self._seers(hold):
                if step := self._first(Step("release", by, on)):
                    return step
        for lock in model.locks.values():
            for own in lock.owns():
                if step := self._first(Step("force", "0", spell(Target(own.who.client, lock.target.name, own.side)))):
                    return step
        return None

    def _first(self, step: Step) -> Step | None:
        return step if self._may_be_done(step) else None

    def _seers(self, hold: Hold) -> list[str]:
        """The actors that see a hold."""
        found = []
        for (thread, context), seen in self.model.seen.items():
            if hold in seen:
                found.append(f"{max(hold.own.who.thread, 0)}.{context}" if context else str(thread))
        return found
