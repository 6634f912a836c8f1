"""What must have happened to a lock between two views of it. Pure: it asks no server.

A release is known by its message, an expiry by its time or by the server's notification. Fair locks without waiters,
spin locks and token locks send no message, and look like any other: if their kind is not known, a hold that left no
message has ended, by a release or by hand.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import redis.exceptions as rx

from pyredisson.inspection import LockView, Who
from pyredisson.inspection.model import stored_kinds
from pyredisson.inspection.servers import TOOL_NAME, Server

EventName: TypeAlias = Literal[
    "held", "free", "acquired", "released", "expired", "ended", "forced", "changed", "reentered", "no_lock"
]


@dataclass(frozen=True)
class Evidence:
    """What was received between two views.

    Attributes:
        messages: How many messages of a release arrived.
        forced: Whether a tool reported that it had freed the lock.
        expired: Whether the server reported that the key has expired.
        overdue: Whether the time to live of the earlier view has passed.
        silent: Whether a client has reported that it is of a kind whose releases may send no message.
    """

    messages: int = 0
    forced: bool = False
    expired: bool = False
    overdue: bool = False
    silent: bool = False


NOTHING = Evidence()


@dataclass(frozen=True)
class Change:
    """Something that happened to a lock.

    Attributes:
        event: What.
        who: Who acquired it or held it; ``None`` if that was not seen.
        count: How often: holds that ended between two views are counted only.
        handed_over: Whether another owner held it in the same interval before.
        holds: The holds of the owner now.
        number: The value of a semaphore or latch now.
        held: For how many seconds the owner has held it, as far as that is known.
        cause: Why the server no longer has it, if it was not released and that is known.
    """

    event: EventName
    who: Who | None = None
    count: int = 1
    handed_over: bool = False
    holds: int = 0
    number: int | None = None
    held: float | None = None
    cause: str | None = None


def owner_of(who: Who) -> str:
    """Return what an owner is called, on either side of a read-write lock."""
    return who.owner.removesuffix(":write") or who.label


def number_of(lock: LockView) -> int | None:
    """Return the value of a semaphore or latch."""
    return lock.permits if lock.count is None else lock.count


def changes(before: LockView | None, after: LockView | None, evidence: Evidence = NOTHING) -> Iterator[Change]:
    """Yield what happened between two views, in a possible order: what ended comes before what began.

    Args:
        before: The earlier view; ``None``: it was free.
        after: The later view.
        evidence: What was received meanwhile.
    """
    held, holds = _owners(before), _owners(after)
    ended = [who for owner, who in held.items() if owner not in holds]
    for index, who in enumerate(ended):
        yield Change(_end_of(before, after, evidence, has_message=index < evidence.messages), who)
    was, now = (None if each is None else number_of(each) for each in (before, after))
    unexplained = evidence.messages - len(ended)
    if unexplained > 0 and was is None and now is None and not (before and before.mode):
        yield Change("released", count=unexplained)
    begun = [who for owner, who in holds.items() if owner not in held]
    for who in begun:
        yield Change("acquired", who, handed_over=bool(ended), holds=who.holds)
    for owner, who in holds.items():
        if owner in held and held[owner].holds != who.holds:
            yield Change("reentered", who, holds=who.holds)
    if was != now and not (ended or begun):
        yield Change("changed", number=now)


def _owners(lock: LockView | None) -> Mapping[str, Who]:
    return {} if lock is None else {owner_of(who): who for who in lock.holders}


def _end_of(before: LockView | None, after: LockView | None, evidence: Evidence, *, has_message: bool) -> EventName:
    if evidence.forced:
        return "forced"
    if has_message:
        return "released"
    if evidence.expired or evidence.overdue:
        return "expired"
    kind = stored_kinds().get(before.kind) if before else None
    is_silent = evidence.silent or (kind is not None and not kind.announces)
    one_of_several = before and before.mode and after and after.mode  # Only the last reader sends a message.
    return "released" if is_silent or one_of_several else "ended"


# ---- messages --------------------------------------------------------------------------------------------------------
# Messages that servers send without being asked, received in threads.
#
# Channels are subscribed to by patterns: such subscriptions are not counted as waiters by those who count the
# subscribers of a channel. Only in a cluster with sharded messages there are no patterns.


READ_FOR = 0.2  # seconds until a thread checks whether it is to end
RETRY = 1.0  # seconds until a lost connection is made again

#: What stands before the names in the channels of releases; counting down a latch is none.
RELEASES = sorted(
    {kind.names("x").channel.partition("{")[0] for kind in stored_kinds().values() if kind.number != "count"}
)

_CHANNEL = re.compile(rf"(?:{'|'.join(map(re.escape, RELEASES))})(.*)", re.DOTALL)
_WAITER = re.compile(r":[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+$")
_GLOB = re.compile(r"([\\*?\[\]])")


def without_waiter(channel: str) -> str:
    """Return the channel of a lock's releases, also for that of one waiter for a fair lock."""
    return _WAITER.sub("", channel)


def name_of(channel: str) -> str | None:
    """Return the lock whose release is announced on a channel."""
    found = _CHANNEL.fullmatch(without_waiter(channel))
    if found is None:
        return None
    name = found[1]
    return name[1:-1] if name.startswith("{") and name.find("}") == len(name) - 1 else name


class Message(NamedTuple):
    """Something that a server announced.

    Attributes:
        at: When it arrived, by the monotonic clock.
        kind: A message, a connection that was lost or is back, or a subscription that was refused.
        channel: The channel of a message.
        text: What it says, or the reason of a loss.
    """

    at: float
    kind: Literal["message", "lost", "back", "refused"]
    channel: str = ""
    text: str = ""


class MessageReader:
    """One server's messages, received by a thread until it is closed; a lost connection is made again.

    Args:
        server: The server.
        receive: Called in that thread with each message.
        beginnings: How channels begin.
        channels: Whole channels.
        sharded: Whole channels of ``SPUBLISH``.
    """

    def __init__(
        self,
        server: Server,
        receive: Callable[[Message], None],
        *,
        beginnings: Collection[str],
        channels: Collection[str] = (),
        sharded: Collection[str] = (),
    ) -> None:
        self._server, self._receive = server, receive
        self._patterns = [_GLOB.sub(r"\\\1", each) + "*" for each in beginnings]
        self._channels, self._sharded = channels, sharded
        self._closed = False
        #: Set while it is connected and the first subscription is confirmed.
        self.ready: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._read_on, name="pyredisson messages", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End soon, without waiting."""
        self._closed = True

    def close(self) -> None:
        """Close the connection."""
        self.end()
        self._thread.join(2 * READ_FOR)

    def _read_on(self) -> None:
        lost = False
        while not self._closed:
            try:
                with closing(self._server.pubsub(client_name=TOOL_NAME)) as pubsub:
                    self._subscribe(pubsub)
                    while not self._closed:
                        message = pubsub.get_message(timeout=READ_FOR)
                        if message is not None and lost:
                            lost = False
                            self._receive(Message(time.monotonic(), "back"))
                        self._read(message)
            except rx.NoPermissionError as error:
                self._receive(Message(time.monotonic(), "refused", text=str(error)))
                return  # Asked again it would say the same.
            except (rx.RedisError, OSError) as error:
                self.ready.clear()
                if not lost:
                    lost = True
                    self._receive(Message(time.monotonic(), "lost", text=str(error)))
                time.sleep(RETRY)

    def _subscribe(self, pubsub: Any) -> None:
        pubsub.psubscribe(*self._patterns)
        if self._channels:
            pubsub.subscribe(*self._channels)
        for channel in self._sharded:  # One by one: those of one request have to share a slot.
            pubsub.ssubscribe(channel)

    def _read(self, message: Any) -> None:
        match message:
            case {"type": "psubscribe"}:
                self.ready.set()
            case {"type": "message" | "pmessage" | "smessage", "channel": bytes() as channel, "data": data}:
                text = data.decode(errors="replace") if isinstance(data, bytes) else ""
                self._receive(Message(time.monotonic(), "message", channel.decode(errors="replace"), text))


# ---- pace ------------------------------------------------------------------------------------------------------------
# How often something that costs a server time may be repeated, and where it runs.


T = TypeVar("T")


class Pace:
    """Lets a repeated work take only a part of the time, however long it takes.

    Args:
        rest: How many times as long as the work took pass until the next one is due.
        least: Seconds that pass at least.
        ahead: Seconds by which it may be repeated too early: a few times in a row.
    """

    def __init__(self, rest: float, *, least: float = 0.0, ahead: float = 0.0) -> None:
        self._rest, self._least, self._ahead = rest, least, ahead
        self._due = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it may be done now."""
        return time.monotonic() >= self._due

    def pause_after(self, seconds: float) -> float:
        """Return for how many seconds to rest after work that took this many."""
        return max(self._least, self._rest * seconds)

    def worked(self, seconds: float) -> None:
        """Note that it was done just now."""
        self._due = max(self._due, time.monotonic() - self._ahead) + self.pause_after(seconds)


def in_daemon_thread(call: Callable[[], T], name: str) -> Future[T]:
    """Call a function in a thread that the end of this process does not wait for. It may only read."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # From now on it cannot be cancelled: it has a result in any case.

    def run() -> None:
        try:
            result.set_result(call())
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result
