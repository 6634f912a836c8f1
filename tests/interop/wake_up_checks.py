"""Who waits on one side, and is woken by the other."""

from __future__ import annotations

import statistics
import time

from tests.interop.clients import Handle, Owner
from tests.interop.conftest import Sides
from tests.interop.waiters import Listeners, until_it_waits

#: A message takes a millisecond or two. Without one, ours looks again after ten seconds at the earliest, and Java's
#: after thirty, the lease; or never, at a semaphore or latch. This is far from both, on a machine that is busy, too.
SOON = 6.0
PAIRS = [("java", "java"), ("java", "python"), ("python", "python"), ("python", "java")]


class Way:
    """How one side lets the other go on, for each kind: it waits on ``waits``, until ``lets_go`` is done."""

    def __init__(self, kind: str, holder: Owner, waiter: Owner, name: str) -> None:
        self.kind = kind
        wanted = {"readers": "read_lock"}.get(kind, kind)
        held = {"readers": "write_lock"}.get(kind, kind)
        self.mine: Handle = holder.get(held, name)
        self.theirs: Handle = waiter.get(wanted, name)
        self.permit: str | None = None

    def prepare(self) -> None:
        """Take what there is."""
        if self.kind == "count_down_latch":
            assert self.mine.try_set_count(1)
        elif "semaphore" in self.kind:
            self.mine.try_set_permits(1)
            self.permit = self.mine.acquire()
        else:
            assert self.mine.try_lock()

    def let_go(self) -> None:
        if self.kind == "count_down_latch":
            self.mine.count_down()
        elif self.kind == "semaphore":
            self.mine.release()
        elif "semaphore" in self.kind:
            self.mine.release(self.permit)
        else:
            self.mine.unlock()

    @property
    def waits(self) -> str:
        """The call that waits."""
        return "wait" if self.kind == "count_down_latch" else "acquire" if "semaphore" in self.kind else "lock"

    def clean_up(self, got: str | bool) -> None:
        if self.kind == "semaphore":
            self.theirs.release()
        elif "semaphore" in self.kind:
            self.theirs.release(got)
        elif self.kind != "count_down_latch":
            self.theirs.unlock()


def check_wake_ups(
    sides: Sides, listeners: Listeners, kind: str, name: str, turns: int, *, about: str, mode: str = "AUTO"
) -> None:
    """In each direction, who waits is woken soon.

    Args:
        sides: The clients.
        listeners: Where they are to be seen as they wait.
        kind: Of what is waited for; ``readers``: for a read lock.
        name: Of it; more is put behind it.
        turns: How often, in each direction.
        about: What else is to be said with the figures.
        mode: The ``Config.sharded_subscription_mode`` of ours.
    """
    languages = {"java": sides.java(), "python": sides.python(sharded_subscription_mode=mode)}
    for first, second in PAIRS:
        holder, waiter = languages[first].owner(), languages[second].owner()
        took = []
        for turn in range(turns):
            way = Way(kind, holder, waiter, f"{name}-{first}-{second}-{turn}")
            way.prepare()
            waiting = way.theirs.start(way.waits)
            until_it_waits(listeners, way.theirs)
            assert not waiting.done()
            began = time.monotonic()
            way.let_go()
            got = waiting.result(SOON)
            took.append(time.monotonic() - began)
            way.clean_up(got)
        # For those who want to know: pytest -rP
        print(f"{kind}, {about}: {first} wakes {second} in {statistics.median(took) * 1000:.2f} ms (median)")
