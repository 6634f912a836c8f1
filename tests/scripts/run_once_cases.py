"""The scripts of what runs once, and of elections."""

from __future__ import annotations

from typing import Final

from tests.scripts.compared_servers import Message
from tests.scripts.fenced_cases import TOKEN, taken, token
from tests.scripts.harness import EPOCH, FREE, LOCK, ME, WAIT_QUEUE, Around, Call, Case, epoch, lock, stale
from tests.simulated.engine.redis import Entry

ELECTED: Final = b"pyredisson_elected:{orders}"


def end_run(at_least: int, *, epoch: int = 0, ran: int = 0) -> Call:
    return Call("run_once_release", (LOCK, EPOCH), (ME, epoch, 0, 60_000, at_least, "cron:host:7", ran))


def elect(*, counts: int = 0) -> Call:
    args = (ME, 0, 0, 30_000, counts, "", 0, "PUBLISH")
    return Call("election_acquire", (LOCK, EPOCH, TOKEN, ELECTED), args)


def elect_waiting() -> Call:
    args = (ME, 0, 0, 30_000, 0, "", 0, "PUBLISH", "me:1", 5000, -1, 0, 30_000, "PUBLISH")
    return Call("election_acquire_waiting", (LOCK, EPOCH, TOKEN, ELECTED, WAIT_QUEUE), args)


NEW_LEADER: Final = [Message(ELECTED, ME, sharded=False)]
RAN: Final = {LOCK: Entry("hash", {ME + b":ran": b"cron:host:7"}, 30_000)}

CASES: Final = [
    Case("also of a run that was extended", lock(90_000, me=1), end_run(40_000, ran=10_000), 1, RAN),
    Case("a late copy is refused", lock(me=1) | epoch(5), end_run(40_000, epoch=4), stale(5)),
    Case("a new leader is announced", FREE, elect(), taken(1), lock(me=1) | token(1), NEW_LEADER),
    Case("so is one that waited", FREE, elect_waiting(), taken(1), lock(me=1) | token(1), NEW_LEADER),
    Case("one who is refused is not announced", lock(other=1), elect(), Around(30_000)),
    Case("nil if the run has expired", FREE, end_run(40_000), None),
]
