"""Making a failing program short: steps are taken out, as long as the first fault stays of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.programs.steps import Step


def shrink(steps: list[Step], still_fails: Callable[[list[Step]], bool], most: int = 400) -> list[Step]:
    """Take out halves, quarters... of a program, then single steps, then what its steps need not say.

    Args:
        steps: The program.
        still_fails: Runs a program, and says whether it meets the same fault.
        most: How many programs are run.
    """
    runs = 0

    def try_out(candidate: list[Step]) -> bool:
        nonlocal runs, steps
        runs += 1
        if candidate == steps or runs > most or not still_fails(candidate):
            return False
        steps = candidate
        return True

    size = len(steps) // 2
    while size:
        at = len(steps) - size
        while at >= 0:
            try_out(steps[:at] + steps[at + size :])
            at -= size
        size = size // 2 if size > 1 or not _again(steps, try_out) else 1
    for index in range(len(steps)):
        plain = {"fresh": False, "face": "", "lease": None, "wait": 0}
        if steps[index].op in ("extend", "extend_block"):
            del plain["lease"]
        for name, value in plain.items():
            try_out([*steps[:index], replace(steps[index], **{name: value}), *steps[index + 1 :]])
    return steps


def _again(steps: list[Step], try_out: Callable[[list[Step]], bool]) -> bool:
    """Whether two steps that only go together can be taken out: what is acquired, and its release."""
    for first in range(len(steps)):
        for second in range(first + 1, min(len(steps), first + 12)):
            if try_out(steps[:first] + steps[first + 1 : second] + steps[second + 1 :]):
                return True
    return False
