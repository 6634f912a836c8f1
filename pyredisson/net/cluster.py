"""The way to a cluster, for both colours: ``async`` means "may block" here too, as in the core.

A :class:`ClusterLink` brings each request to the node that serves its slot, over that node's own link. What a node did
not execute (``MOVED``, ``ASK``, ``TRYAGAIN``) is brought to the right one, or asked again, within the time of the
request; what may have been executed is never sent twice from here: that is for the core, which knows how.
:class:`NodeSubscribers` hears each channel at the node that serves the channel's slot.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary

import redis.exceptions as rx

from pyredisson.core.failures import Failure, NotNow, NotSent, Rejected, Unanswered
from pyredisson.core.first_contact import Connecting
from pyredisson.core.runtime import Acknowledging, Reply
from pyredisson.core.waiters import Line
from pyredisson.net.link import Inspect, Link, NodeLink, Stream, nobody
from pyredisson.net.resp import pack
from pyredisson.net.slots import SLOTS, Address, Ask, Call, Moved, Remap, read_redirection, read_slots, slot_of
from pyredisson.net.subscriber import Subscriber
from pyredisson.shared.clock import monotonic

if TYPE_CHECKING:
    from pyredisson.config import Config
    from pyredisson.core.runtime import Runtime
    from pyredisson.core.wakeups import Wakeups
    from pyredisson.events import Event

__all__ = ["Cluster", "ClusterLink", "NodeSubscribers", "subscriber_for"]

#: Between two tries of a request that the cluster cannot take at this moment.
PAUSE_FIRST = 0.005
PAUSE_MAX = 0.1

#: What nodes say that soon will serve the slot, or that another one does.
PASSING = frozenset({"CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "TRYAGAIN"})

#: So many requests go to a node at once, before the replies to them are read.
TOGETHER = 100

#: So often a request is sent on; more often means that the nodes do not agree.
REDIRECTIONS = 16

#: What one node has to say who serves what, as a share of the time there is: then another one is asked.
SHARE = 1 / 3


class Cluster(NamedTuple):
    """Where a cluster is, and how to reach it.

    Attributes:
        seeds: Nodes to ask first.
        connection_class: What redis-py makes the connections of.
        settings: And with what, but for the address.
        remap: What the user's client makes of the addresses that the nodes tell.
    """

    seeds: tuple[Address, ...]
    connection_class: type[Any]
    settings: dict[str, Any]
    remap: Remap | None

    def settings_of(self, address: Address) -> dict[str, Any]:
        """The settings for the connections to one node."""
        host, port = address
        return {**self.settings, "host": host, "port": port}


class Turn(Protocol):
    """A lock of the colour's that is waited for with a bound."""

    async def take(self, seconds: float) -> bool:
        """Take it, waiting so long at most. Returns whether it was got."""
        ...

    def give(self) -> None:
        """Give it back."""
        ...


class ClusterLink:
    """Links to the nodes of a cluster, and which slots each serves.

    Args:
        cluster: Where it is.
        mode: ``Config.sharded_subscription_mode``.
        make_link: Makes the link to one node.
        make_turn: Makes what lets one of the callers who all need the map ask for it.
        sleep: Lets time pass.
        now: Monotonic seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        mode: str,
        make_link: Callable[[Address], NodeLink],
        make_turn: Callable[[], Turn],
        sleep: Callable[[float], Awaitable[None]],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._now = now
        self._cluster = cluster
        self._make_link = make_link
        self._make_turn = make_turn
        self._turn = make_turn()
        self._sleep = sleep
        self._links: dict[Address, NodeLink] = {}
        self._addresses: WeakKeyDictionary[NodeLink, Address] = WeakKeyDictionary()
        self._owners: list[NodeLink | None] = [None] * SLOTS
        self._word = {"ON": "SPUBLISH", "OFF": "PUBLISH"}.get(mode)
        self._stale = True
        self._attempts = 0
        self._trouble: Failure | None = None
        self._suspects: set[Address] = set()
        self._closed = False
        self.inspect: Inspect | None = None
        self.on_change: Callable[[], None] = nobody

    # ---- requests ------------------------------------------------------------------------------------------------

    async def eval(self, request: Call, timeout: float) -> Reply:
        link = self._owners[request.slot]
        packed = request.packed
        if link is None or packed is None or self._stale:
            return await self._execute(request.slot, self._sender(request), timeout)
        sent = self._now()
        try:
            return await link.eval(packed, timeout)
        except Failure as failure:
            left = timeout - (self._now() - sent)
            return await self._execute(request.slot, self._sender(request), left, (link, failure))

    async def eval_synced(
        self, request: Call, timeout: float, sync: Acknowledging, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        acked: int | Failure = 0

        async def send(link: NodeLink, timeout: float, asking: bool) -> Reply:
            nonlocal acked
            packed = request.pack(self._publish())
            reply, acked = await link.eval_synced(packed, timeout, sync, sync_timeout, asking=asking)
            return reply

        return await self._execute(request.slot, send, timeout), acked

    def _inspected(self, reply: object) -> None:
        """A node says of itself who it is. Whoever is a replica is none that locks are asked of."""
        if self.inspect is not None and not (isinstance(reply, bytes) and b"\nrole:slave" in reply):
            self.inspect(reply)

    async def ask(self, command: tuple[str, ...], timeout: float) -> Reply:
        def send(link: NodeLink, timeout: float, asking: bool) -> Awaitable[Reply]:
            return link.call_asking(pack(*command), timeout) if asking else link.ask(command, timeout)

        if len(command) > 1:
            return await self._execute(slot_of(command[1]), send, timeout)
        if self._stale:
            await self._learn(timeout)
        anyone = next((link for link in self._owners if link is not None), None)  # It is about no key.
        if anyone is None:
            raise self._unserved(0)
        return await anyone.ask(command, timeout)

    async def eval_all(self, requests: Sequence[Call], timeout: float) -> list[Reply | Failure]:
        """See ``Runtime.eval_all``. Node by node, each a hundred at once; one that does not answer is asked no more."""
        over = self._now() + timeout
        try:
            if self._stale:
                await self._learn(timeout)
        except Failure as failure:
            return [failure] * len(requests)
        answers: list[Reply | Failure] = [None] * len(requests)
        shares: dict[NodeLink, list[int]] = {}
        for index, request in enumerate(requests):
            owner = self._owners[request.slot]
            if owner is None:
                answers[index] = self._unserved(request.slot)
            else:
                shares.setdefault(owner, []).append(index)
        astray: list[int] = []
        for link, share in sorted(shares.items(), key=lambda each: self._addresses[each[0]] in self._suspects):
            astray += await self._eval_share(link, share, requests, answers, over)
        for index in astray:
            try:
                answers[index] = await self.eval(requests[index], max(0.001, over - self._now()))
            except Failure as failure:
                answers[index] = failure
        return answers

    async def _eval_share(
        self,
        link: NodeLink,
        share: list[int],
        requests: Sequence[Call],
        answers: list[Reply | Failure],
        over: float,
    ) -> list[int]:
        """Ask one node all that is its, and note the answers. Returns what it sends elsewhere."""
        astray: list[int] = []
        silent: Failure | None = None
        for start in range(0, len(share), TOGETHER):
            chunk = share[start : start + TOGETHER]
            if silent is None and self._now() >= over:
                silent = NotSent(rx.TimeoutError("not all requests could be sent in time"))
            if silent is not None:
                for index in chunk:
                    answers[index] = NotSent(silent.cause)
                continue
            packed = [requests[index].pack(self._publish()) for index in chunk]
            for index, answer in zip(chunk, await link.eval_all(packed, over - self._now()), strict=True):
                answers[index] = answer
                if isinstance(answer, Failure):
                    redirection = self._redirection(link, answer)
                    if redirection is not None:
                        astray.append(index)
                        if isinstance(redirection, Moved):
                            self._follow(redirection)
                    elif isinstance(answer, Unanswered) or _unreachable(answer):
                        silent = answer
                        self._suspect(link)
        return astray

    def _sender(self, request: Call) -> Callable[[NodeLink, float, bool], Awaitable[Reply]]:
        def send(link: NodeLink, timeout: float, asking: bool) -> Awaitable[Reply]:
            packed = request.pack(self._publish())
            # In full: ASKING is about one request, and the answer could be that the script is not known.
            return link.call_asking(packed.in_full(), timeout) if asking else link.eval(packed, timeout)

        return send

    async def _execute(
        self,
        slot: int,
        send: Callable[[NodeLink, float, bool], Awaitable[Reply]],
        timeout: float,
        tried: tuple[NodeLink, Failure] | None = None,
    ) -> Reply:
        """Bring a request to the node that serves its slot, until it is executed or may have been, or time is over.

        ``tried`` is what became of a first try.
        """
        over = self._now() + timeout
        pause = PAUSE_FIRST
        redirections = 0
        link: NodeLink | None
        while True:
            if tried is not None:
                (link, failure), tried = tried, None
            else:
                if self._stale:
                    await self._learn(max(0.001, over - self._now()))
                link = self._owners[slot]
                if link is None:
                    failure = self._unserved(slot)
                else:
                    try:
                        return await send(link, max(0.001, over - self._now()), False)
                    except Failure as error:
                        failure = error
            redirection = self._redirection(link, failure) if link is not None else None
            if redirection is not None:
                redirections += 1
                if redirections > REDIRECTIONS:
                    raise NotSent(failure.cause)
                other = self._follow(redirection)
                try:
                    return await send(other, max(0.001, over - self._now()), isinstance(redirection, Ask))
                except Failure as error:
                    link, failure = other, error
                    if self._redirection(other, failure) is not None:
                        self._stale = True
                        continue
            if isinstance(failure, Unanswered):
                if link is not None:
                    self._suspect(link)
                raise failure
            if link is not None and _unreachable(failure):
                # It may have been replaced. If not, that is an outage as any other, unless it says what it lacks.
                self._suspect(link)
                await self._learn(max(0.001, over - self._now()))
                if self._owners[slot] is not link and self._now() < over:
                    continue
            code = str(failure.cause).partition(" ")[0]
            if code == "CLUSTERDOWN":
                self._stale = True
            if code not in PASSING:
                raise failure
            if self._now() + pause >= over:
                raise NotNow(failure.cause)
            await self._sleep(pause)
            pause = min(2 * pause, PAUSE_MAX)

    def _follow(self, redirection: Moved | Ask) -> NodeLink:
        """Note what a node said of another one, and return the link to that."""
        link = self._link_to(redirection.address)
        if isinstance(redirection, Moved):
            self._stale = True  # Slots seldom move alone. But who serves this one is known now.
            self._owners[redirection.slot] = link
        return link

    def _redirection(self, link: NodeLink, failure: Failure) -> Moved | Ask | None:
        return read_redirection(failure.cause, self._addresses[link], self._cluster.remap)

    def _unserved(self, slot: int) -> NotSent:
        self._stale = True
        return NotSent(rx.ClusterDownError(f"CLUSTERDOWN no node of the cluster serves the slot {slot}"))

    def _publish(self) -> str:
        assert self._word is not None, "the nodes of the cluster are not known yet"
        return self._word

    @property
    def sharded(self) -> bool:
        """Whether messages are sent to, and heard at, the node of their channel's slot alone."""
        return self._word == "SPUBLISH"

    # ---- the map -------------------------------------------------------------------------------------------------

    async def refresh(self, timeout: float) -> None:
        """Ask anew who serves what. Raises a ``Failure`` if nobody says."""
        self._stale = True
        await self._learn(timeout)

    def node_for(self, channel: str) -> NodeLink:
        """The link to the node at which a channel is heard, as far as is known."""
        owner = self._owners[slot_of(channel)]
        if owner is None:  # It is heard at none. Any will tell us so, or whereto the slot went.
            return next(iter(self._links.values()), None) or self._link_to(self._cluster.seeds[0])
        return owner

    def _link_to(self, address: Address) -> NodeLink:
        link = self._links.get(address)
        if link is None:
            made = self._make_link(address)
            made.inspect = self._inspected
            link = self._links.setdefault(address, made)
            self._addresses.setdefault(link, address)
            if self._closed:
                link.close()
        return link

    def _suspect(self, link: NodeLink) -> None:
        self._stale = True
        self._suspects.add(self._addresses[link])

    def knows(self, link: NodeLink) -> bool:
        """Whether this is still a node of the cluster, as far as is known."""
        return self._links.get(self._addresses[link]) is link

    async def _learn(self, timeout: float) -> None:
        over = self._now() + timeout
        attempts = self._attempts
        if not await self._turn.take(timeout):
            raise NotSent(rx.TimeoutError("no node of the cluster reported its slots in time"))
        try:
            if self._attempts == attempts:
                try:
                    await self._ask_for_map(max(0.001, over - self._now()))
                    self._trouble = None
                except Failure as failure:
                    self._trouble = failure
                self._attempts += 1
            # Else somebody has asked while we waited for our turn; it is not asked again to hear the same.
            trouble = self._trouble
        finally:
            self._turn.give()
        if trouble is not None:
            raise type(trouble)(trouble.cause) from trouble.cause

    async def _ask_for_map(self, timeout: float) -> None:
        over = self._now() + timeout
        candidates = list(dict.fromkeys([*self._links, *self._cluster.seeds]))
        # Another one each time: whoever is cut off from the rest goes on telling what was true once.
        start = self._attempts % len(candidates)
        candidates = sorted(candidates[start:] + candidates[:start], key=self._suspects.__contains__)
        failure: Failure | None = None
        for address in candidates:
            left = over - self._now()
            if failure is not None and left <= 0:
                break
            try:
                link = self._link_to(address)
                await self._take_map(link, address, max(0.001, left * SHARE if len(candidates) > 1 else left))
                return
            except Rejected:
                raise
            except Failure as error:
                self._suspects.add(address)
                failure = error
        assert failure is not None, "a cluster without nodes"
        raise (Connecting if isinstance(failure, Connecting) else NotSent)(failure.cause) from failure.cause

    async def _take_map(self, link: NodeLink, address: Address, timeout: float) -> None:
        reply = await link.ask(("CLUSTER", "SLOTS"), timeout)
        if self._word is None:
            # As Redisson does: a server that has no shards for messages does not know the question.
            try:
                await link.ask(("PUBSUB", "SHARDNUMSUB", "0"), timeout)
                self._word = "SPUBLISH"
            except Rejected:
                self._word = "PUBLISH"
        owners: list[NodeLink | None] = [None] * SLOTS
        for first, last, master in read_slots(reply, address, self._cluster.remap):
            owners[first : last + 1] = [self._link_to(master)] * (last + 1 - first)
        self._suspects.discard(address)
        changed = owners != self._owners
        self._owners = owners
        self._stale = False
        if changed:
            self._forget_the_dead(owners)
            self.on_change()

    def _forget_the_dead(self, owners: list[NodeLink | None]) -> None:
        serving = set(owners)
        for address in self._suspects & self._links.keys():
            if self._links[address] not in serving:
                self._links.pop(address).close()
                self._suspects.discard(address)

    # ---- the rest of a link --------------------------------------------------------------------------------------

    async def stream(self, timeout: float) -> Stream:
        """A connection to any node. Subscribers ask the node of their channels."""
        if self._stale:
            await self._learn(timeout)
        return await next(iter(self._links.values())).stream(timeout)

    async def follow(self) -> bool:
        return False  # A node tells by itself that it serves a slot no longer.

    def reserve(self) -> None:
        for link in list(self._links.values()):
            link.reserve()

    def close(self) -> None:
        self._closed = True
        for link in list(self._links.values()):
            link.close()

    def abandon(self) -> None:
        links, self._links = self._links, {}
        self._turn = self._make_turn()
        self._owners = [None] * SLOTS
        self._stale = True
        self.on_change = nobody
        for link in links.values():
            link.abandon()


def _unreachable(failure: Failure) -> bool:
    """Whether the node itself cannot be reached, or says that it serves nobody: another one may serve its slots now."""
    if not isinstance(failure, NotSent):
        return False
    return isinstance(failure.cause, (rx.ConnectionError, rx.TimeoutError, rx.ReadOnlyError, rx.MasterDownError))


# ---- messages --------------------------------------------------------------------------------------------------------


class NodeSubscribers:
    """A subscriber for each node at which somebody here waits for messages. The arguments are those of one."""

    def __init__(
        self,
        link: ClusterLink,
        start: Callable[[Subscriber], None],
        runtime: Runtime,
        config: Config,
        wakeups: Wakeups,
        emit: Callable[[Event], None],
    ) -> None:
        self._link = link
        self._start = start
        self._runtime = runtime
        self._config = config
        self._wakeups = wakeups
        self._emit = emit
        self._mutex = runtime.mutex()
        self._by_node: dict[NodeLink, Subscriber] = {}
        self._by_line: dict[Line, Subscriber] = {}
        self.closed: bool = False
        link.on_change = self._relocate

    def subscribe(self, channel: str) -> None:
        """Send for a channel's messages, at the node that serves its slot."""
        subscriber = self._at(self._link.node_for(channel))
        self._wakeups.move(channel, subscriber.line)
        subscriber.subscribe(channel)

    def unsubscribe(self, channel: str) -> None:
        """A channel may have lost its last waiter."""
        subscriber = self._by_line.get(self._wakeups.line_of(channel))
        if subscriber is not None:
            subscriber.unsubscribe(channel)

    def close(self) -> None:
        """Let all of them end."""
        with self._mutex:
            self.closed = True
            subscribers = list(self._by_node.values())
        for subscriber in subscribers:
            subscriber.close()

    def abandon(self) -> None:
        """See :meth:`Subscriber.abandon`."""
        self.closed = True
        for subscriber in list(self._by_node.values()):
            subscriber.abandon()

    def _at(self, node: NodeLink) -> Subscriber:
        with self._mutex:
            subscriber = self._by_node.get(node)
            if subscriber is None:
                line = Line()
                subscriber = Subscriber(
                    node.stream,
                    self._start,
                    self._runtime,
                    self._config,
                    self._wakeups,
                    self._emit,
                    line=line,
                    sharded=self._link.sharded,
                    find_again=self._find_again,
                )
                subscriber.closed = self.closed
                self._by_node[node] = self._by_line[line] = subscriber
            return subscriber

    async def _find_again(self) -> None:
        """Somebody's channels are not where they were: look where they are."""
        try:
            await self._link.refresh(self._config.timeout * SHARE)
        except Failure:
            return  # Later, then. They are looked for until they are found.
        self._relocate()

    def _relocate(self) -> None:
        """Hear every channel where it belongs by now."""
        for channel in self._wakeups.wanted():
            subscriber = self._at(self._link.node_for(channel))
            former = self._wakeups.move(channel, subscriber.line)
            if former is not None:
                subscriber.subscribe(channel)
                if former in self._by_line:
                    self._by_line[former].leave(channel)
        with self._mutex:
            gone = [node for node in self._by_node if not self._link.knows(node)]
            subscribers = [self._by_node.pop(node) for node in gone]
            for subscriber in subscribers:
                del self._by_line[subscriber.line]
        for subscriber in subscribers:
            subscriber.close()


def subscriber_for(
    link: Link,
    start: Callable[[Subscriber], None],
    runtime: Runtime,
    config: Config,
    wakeups: Wakeups,
    emit: Callable[[Event], None],
) -> Subscriber | NodeSubscribers:
    """What hears the messages for the client that has this link; for the arguments see :class:`Subscriber`."""
    if isinstance(link, ClusterLink):
        return NodeSubscribers(link, start, runtime, config, wakeups, emit)
    subscriber = Subscriber(link.stream, start, runtime, config, wakeups, emit, follow=link.follow)
    link.on_change = subscriber.move
    return subscriber
