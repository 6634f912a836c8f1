"""The link to a cluster, for threads and asyncio: ``async`` means "may block" here too, as in the core.

A :class:`ClusterLink` brings each request to the node that serves its slot, over that node's own link. What a node did
not execute (``MOVED``, ``ASK``, ``TRYAGAIN``) is brought to the right one, or asked again, within the time of the
request; what may have been executed is never sent twice from here: that is for the core, which knows how.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

import redis.exceptions as rx

from pyredisson._core.deadline import DoublingBackoff
from pyredisson._core.failures import Connecting, Failure, NotNow, NotSent, Rejected, Unanswered, as_failure
from pyredisson._core.runtime import Ticket
from pyredisson._core.subscriptions import SubscriberConnection
from pyredisson._net.link import Inspect, Introduce, MasterMoved, ServerLink, ignore
from pyredisson._net.subscriber import Subscriber
from pyredisson._net.topology import SLOTS, AskRedirect, Cluster, Moved, SlotCall, read_redirection, read_slots, slot_of
from pyredisson._net.wire import Address, as_redis_error, pack
from pyredisson._shared.process import monotonic
from pyredisson.errors import ClientClosedError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.replicas import ReplicaAcknowledgement
    from pyredisson._core.runtime import Reply

#: Between two tries of a request that the cluster cannot take at this moment.
REROUTE = DoublingBackoff(first=0.005, maximum=0.1)

#: What nodes say that soon will serve the slot, or that another one does.
PASSING = frozenset({"CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY", "TRYAGAIN"})

#: How many requests go to a node at once, before the replies to them are read.
TOGETHER = 100

#: So often a request is sent on; more often means that the nodes do not agree.
REDIRECTIONS = 16

Send: TypeAlias = Callable[["ServerLink", float, bool], Awaitable["Reply"]]
"""Sends a request to a node, within a timeout; the flag says that the node does not (yet) serve its slot."""


class ClusterLink:
    """Brings requests to the nodes of a cluster.

    Args:
        cluster: Where it is.
        mode: ``Config.sharded_subscription_mode``.
        make_link: Makes the link to one node.
        make_ticket: Makes what a caller sleeps on.
        now: Monotonic seconds.

    Attributes:
        map: Which node serves which slot.

    The others are those of a :class:`ServerLink`.
    """

    scattered: bool = True

    def __init__(
        self,
        cluster: Cluster,
        mode: str,
        make_link: Callable[[Address], ServerLink],
        make_ticket: Callable[[], Ticket],
        now: Callable[[], float] = monotonic,
    ) -> None:
        def inspected(address: Address) -> ServerLink:
            link = make_link(address)
            link.inspect = partial(self._inspected, "{}:{}".format(*address))
            link.introduce = self.introduce
            link.on_queue_refused = lambda: self.on_queue_refused()
            return link

        self._now = now
        self._remap = cluster.remap
        self._make_ticket = make_ticket
        self.inspect: Inspect | None = None
        self.introduce: Introduce | None = None
        self.on_change: Callable[[], None] = ignore
        self.on_moved: MasterMoved = ignore
        self.on_queue_refused: Callable[[], None] = ignore
        self.map: ClusterMap = ClusterMap(cluster, mode, inspected, make_ticket, lambda: self.on_change(), now)
        self.map.moved = lambda *move: self.on_moved(*move)

    # ---- requests ------------------------------------------------------------------------------------------------

    def counts_listeners(self) -> bool:
        return self.map.sharded

    async def execute_at(self, key: str, command: tuple[str, ...], timeout: float) -> Reply:
        """Run a command on the server that has a key."""
        owner = self.map.owners[slot_of(key)]
        if owner is None:
            raise self.map.unserved(slot_of(key))
        return await owner.execute(command, timeout)

    def node_of(self, key: str) -> str:
        """Return the address of the node that has a key, as far as is known; else an empty string."""
        owner = self.map.owners[slot_of(key)]
        return "" if owner is None else "{}:{}".format(*self.map.address_of(owner))

    def server_of(self, request: SlotCall) -> object:
        """Return what stands for the server to which a request goes, as far as is known."""
        return self.map.owners[request.slot] or self

    async def eval(self, request: SlotCall, timeout: float) -> Reply:
        return await self._execute(request.slot, self._sender(request), timeout)

    async def eval_synced(
        self, request: SlotCall, timeout: float, replica_wait: ReplicaAcknowledgement, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        acked: int | Failure = 0

        async def send(link: ServerLink, timeout: float, asking: bool) -> Reply:
            nonlocal acked
            packed = request.pack(self._publish())
            reply, acked = await link.eval_synced(packed, timeout, replica_wait, sync_timeout, asking=asking)
            return reply

        return await self._execute(request.slot, send, timeout), acked

    def _inspected(self, node: str, reply: object, took: float) -> None:
        """Take what a node says of itself. A replica is no node that locks are asked of."""
        if self.inspect is not None and not (isinstance(reply, bytes) and b"\nrole:slave" in reply):
            self.inspect(reply, took, node)

    async def execute(self, command: tuple[str, ...], timeout: float) -> Reply:
        def send(link: ServerLink, timeout: float, asking: bool) -> Awaitable[Reply]:
            return link.call_asking(pack(*command), timeout) if asking else link.execute(command, timeout)

        if len(command) > 1:
            return await self._execute(slot_of(command[1]), send, timeout)
        if self.map.stale:
            await self.map.learn(timeout)
        anyone = next((link for link in self.map.owners if link is not None), None)  # It is about no key.
        if anyone is None:
            raise self.map.unserved(0)
        return await anyone.execute(command, timeout)

    async def eval_all(self, requests: Sequence[SlotCall], timeout: float) -> list[Reply | Failure]:
        """See ``Runtime.eval_all``. Node by node, each a hundred at once; one that does not answer is asked no more.

        Each may use half of the time that there still is, so that one that does not answer leaves time for the others.
        """
        over = self._now() + timeout
        try:
            if self.map.stale:
                await self.map.learn(timeout / 2)
        except Failure as failure:
            if all(owner is None for owner in self.map.owners):
                return [failure] * len(requests)
        answers: list[Reply | Failure] = [None] * len(requests)
        shares: dict[ServerLink, list[int]] = {}
        for index, request in enumerate(requests):
            owner = self.map.owners[request.slot]
            if owner is None:
                answers[index] = self.map.unserved(request.slot)
            else:
                shares.setdefault(owner, []).append(index)
        ordered = sorted(shares.items(), key=lambda each: self.map.is_suspect(each[0]))
        chunks = [(link, all_[at : at + TOGETHER]) for link, all_ in ordered for at in range(0, len(all_), TOGETHER)]
        late = rx.TimeoutError("not all requests could be sent in time")
        silent: dict[ServerLink, Exception] = {}
        moved: list[int] = []
        for link, chunk in chunks:
            if link in silent or self._now() >= over:
                for index in chunk:
                    answers[index] = NotSent(silent.get(link, late))
                continue
            packed = [requests[index].pack(self._publish()) for index in chunk]
            left = over - self._now()
            try:
                replies = await link.eval_all(packed, left if link is chunks[-1][0] else left / 2)
            except Exception as error:  # Of any class: it is about this node alone.
                replies = [as_failure(error)] * len(chunk)
            for index, reply in zip(chunk, replies, strict=True):
                said = answers[index] = self._said(link, reply) if isinstance(reply, Failure) else reply
                if (redirection := self._redirection(link, said)) is not None:
                    moved.append(index)
                    self.map.follow(redirection)
                elif isinstance(said, Failure) and (isinstance(said, Unanswered) or _unreachable(said)):
                    silent[link] = said.cause
                    self.map.suspect(link)
        for index in moved:
            try:
                answers[index] = await self.eval(requests[index], max(0.001, over - self._now()))
            except Failure as failure:
                answers[index] = failure
        return answers

    def _sender(self, request: SlotCall) -> Send:
        def send(link: ServerLink, timeout: float, asking: bool) -> Awaitable[Reply]:
            packed = request.pack(self._publish())
            # In full: ASKING is about one request, and the answer could be that the script is not known.
            return link.call_asking(packed.in_full(), timeout) if asking else link.eval(packed, timeout)

        return send

    async def _execute(self, slot: int, send: Send, timeout: float) -> Reply:
        """Bring a request to the node that serves its slot, until it is executed or may be, or its time has ended.

        ``tried`` is what became of a first try.
        """
        over = self._now() + timeout
        pauses = redirections = 0
        link: ServerLink | None
        said: Reply | Failure
        while True:
            if self.map.stale:
                await self.map.learn(max(0.001, over - self._now()))
            link = self.map.owners[slot]
            said = self.map.unserved(slot) if link is None else await self._send_to(link, send, over)
            if link is not None and (redirection := self._redirection(link, said)) is not None:
                redirections += 1
                if redirections > REDIRECTIONS:
                    assert isinstance(said, Failure)
                    raise NotSent(said.cause)
                link = self.map.follow(redirection)
                said = await self._send_to(link, send, over, asking=isinstance(redirection, AskRedirect))
                if self._redirection(link, said) is not None:
                    self.map.stale = True
                    continue
            if not isinstance(said, Failure):
                return said
            if link is not None and await self._is_replaced(link, slot, said, over):
                continue
            code = str(said.cause).partition(" ")[0]
            if isinstance(said, Unanswered) or code not in PASSING:
                raise said
            self.map.stale |= code == "CLUSTERDOWN"
            pause = REROUTE.longest(pauses)
            if self._now() + pause >= over:
                raise NotNow(said.cause)
            await self._make_ticket().wait(pause)
            pauses += 1

    async def _send_to(self, link: ServerLink, send: Send, over: float, *, asking: bool = False) -> Reply | Failure:
        """Return what a node says to a request, or why it says nothing of use."""
        try:
            return await send(link, max(0.001, over - self._now()), asking)
        except Failure as failure:
            return self._said(link, failure)

    def _said(self, link: ServerLink, failure: Failure) -> Failure:
        """A node that was forgotten meanwhile has not been asked: it is its link that was closed, not the client."""
        if not isinstance(failure.cause, ClientClosedError) or self.map.knows(link):
            return failure
        host, port = self.map.address_of(link)
        return NotSent(rx.ConnectionError(f"{host}:{port} has left the cluster"))

    async def _is_replaced(self, link: ServerLink, slot: int, failure: Failure, over: float) -> bool:
        """Whether a request can be brought to another node, since the first cannot be reached and serves no more.

        If none has replaced it, that is an outage as any other, unless it says what it lacks.
        """
        if isinstance(failure, Unanswered):
            self.map.suspect(link)
        elif _unreachable(failure):
            self.map.suspect(link)
            await self.map.learn(max(0.001, over - self._now()))
            return self.map.owners[slot] is not link and self._now() < over
        return False

    def _redirection(self, link: ServerLink, said: Reply | Failure) -> Moved | AskRedirect | None:
        if not isinstance(said, Failure):
            return None
        return read_redirection(said.cause, self.map.address_of(link), self._remap)

    def _publish(self) -> str:
        assert self.map.word is not None, "the nodes of the cluster are not known yet"
        return self.map.word

    # ---- the rest of a link --------------------------------------------------------------------------------------

    def reserve(self) -> None:
        """See :meth:`ServerLink.reserve`; for all nodes."""
        for link in self.map.links():
            link.reserve()

    def close(self) -> None:
        self.map.close()

    def abandon(self) -> None:
        self.on_change = ignore
        self.map.abandon()


def _unreachable(failure: Failure) -> bool:
    """Whether the node cannot be reached, or says that it serves no requests: another one may serve its slots now."""
    if not isinstance(failure, NotSent):
        return False
    return isinstance(failure.cause, (rx.ConnectionError, rx.TimeoutError, rx.ReadOnlyError, rx.MasterDownError))


# ---- cluster map -----------------------------------------------------------------------------------------------------
# Which node of a cluster serves which slot, and the links to the nodes.
#
# The table comes from ``CLUSTER SLOTS``. It is *stale* when a node has replied, or done, something that contradicts it;
# then it is asked for anew before the next request. Written once for threads and asyncio: ``async`` means "may block".


#: What one node has to say who serves what, as a share of the time there is: then another one is asked.
SHARE = 1 / 3


class ClusterMap:
    """The slots of a cluster, and the links to its nodes.

    Args:
        cluster: Where it is.
        mode: ``Config.sharded_subscription_mode``.
        make_link: Makes the link to one node.
        make_ticket: Makes what a caller sleeps on.
        changed: Called when slots are elsewhere.
        now: Monotonic seconds.

    Attributes:
        owners: The link to the node that serves each slot.
        stale: Whether to ask again before the map is used.
        word: The command that publishes; ``None`` before the first contact.
        moved: Called when the slots of a master are served by another one.
    """

    def __init__(
        self,
        cluster: Cluster,
        mode: str,
        make_link: Callable[[Address], ServerLink],
        make_ticket: Callable[[], Ticket],
        changed: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._make_link = make_link
        self._make_ticket = make_ticket
        self._asking: dict[str, list[Ticket]] = {}  # While a caller asks, the others who need the answer.
        self._changed = changed
        self._now = now
        self._links: dict[Address, ServerLink] = {}
        self._addresses: WeakKeyDictionary[ServerLink, Address] = WeakKeyDictionary()
        self._suspects: set[Address] = set()
        self._attempts = 0
        self._trouble: Failure | None = None
        self._closed = False
        self.owners: list[ServerLink | None] = [None] * SLOTS
        self._masters: list[Address | None] = [None] * SLOTS  # Who served each slot last.
        self.moved: MasterMoved = ignore
        self.stale: bool = True
        self.word: str | None = {"ON": "SPUBLISH", "OFF": "PUBLISH"}.get(mode)

    @property
    def sharded(self) -> bool:
        """Whether messages are sent to, and received at, the node of their channel's slot alone."""
        return self.word == "SPUBLISH"

    # ---- nodes ---------------------------------------------------------------------------------------------------

    def links(self) -> list[ServerLink]:
        """The links to all nodes that are known."""
        return list(self._links.values())

    def address_of(self, link: ServerLink) -> Address:
        """Where a link leads."""
        return self._addresses[link]

    def knows(self, link: ServerLink) -> bool:
        """Whether this is still a node of the cluster, as far as is known."""
        return self._links.get(self._addresses[link]) is link

    def node_for(self, channel: str) -> ServerLink:
        """The link to the node at which a channel is received, as far as is known."""
        owner = self.owners[slot_of(channel)]
        if owner is None:  # It is received at none. Any will say so, or where the slot went.
            return next(iter(self._links.values()), None) or self._link_to(self._cluster.seeds[0])
        return owner

    def follow(self, redirection: Moved | AskRedirect) -> ServerLink:
        """Note what a node replied about another one, and return the link to that."""
        link = self._link_to(redirection.address)
        if isinstance(redirection, Moved):
            self.stale = True  # Slots seldom move alone. But who serves this one is known now.
            self.owners[redirection.slot] = link
        return link

    def suspect(self, link: ServerLink) -> None:
        """A node did not answer: another one may serve its slots by now."""
        self.stale = True
        self._suspects.add(self._addresses[link])

    def is_suspect(self, link: ServerLink) -> bool:
        """Whether a node did not answer the last time."""
        return self._addresses[link] in self._suspects

    def unserved(self, slot: int) -> NotSent:
        """The failure of a request for a slot that no node serves."""
        self.stale = True
        return NotSent(rx.ClusterDownError(f"CLUSTERDOWN no node of the cluster serves the slot {slot}"))

    def _link_to(self, address: Address) -> ServerLink:
        link = self._links.get(address)
        if link is None:
            link = self._links.setdefault(address, self._make_link(address))
            self._addresses.setdefault(link, address)
            if self._closed:
                link.close()
        return link

    # ---- queries -------------------------------------------------------------------------------------------------

    async def learn(self, timeout: float) -> None:
        """Ask who serves what, unless another caller does so already. Raises a ``Failure`` if no node says."""
        over = self._now() + timeout
        attempts = self._attempts
        while self._attempts == attempts:
            if not await self._ask_or_wait(over - self._now()):
                raise NotSent(rx.TimeoutError("no node of the cluster reported its slots in time"))
        if (trouble := self._trouble) is not None:
            raise type(trouble)(trouble.cause) from trouble.cause

    async def _ask_or_wait(self, timeout: float) -> bool:
        """Ask, or wait until another caller has: it is not asked again to hear the same. Returns whether it was asked.

        One whose caller is interrupted was not, and the next one asks.
        """
        asking, mine = self._asking, list[Ticket]()
        try:
            waiters = asking.setdefault("waiters", mine)
            if waiters is mine:
                try:
                    await self._query_any_node(max(0.001, timeout))
                    self._trouble = None
                except Failure as failure:
                    self._trouble = failure
                self._attempts += 1
                return True
        finally:
            if asking.get("waiters") is mine:
                del asking["waiters"]
            for ticket in mine:
                ticket.notify()
        waiters.append(ticket := self._make_ticket())
        return asking.get("waiters") is not waiters or await ticket.wait(max(0.0, timeout))

    async def _query_any_node(self, timeout: float) -> None:
        over = self._now() + timeout
        candidates = list(dict.fromkeys([*self._links, *self._cluster.seeds]))
        # Another one each time: a node that is cut off from the rest goes on saying what was true once.
        start = self._attempts % len(candidates)
        candidates = sorted(candidates[start:] + candidates[:start], key=self._suspects.__contains__)
        failure: Failure | None = None
        for address in candidates:
            left = over - self._now()
            if failure is not None and left <= 0:
                break
            try:
                link = self._link_to(address)
                await self._query_node(link, address, max(0.001, left * SHARE if len(candidates) > 1 else left))
                return
            except Rejected:
                raise
            except Failure as error:
                self._suspects.add(address)
                failure = error
        assert failure is not None, "a cluster without nodes"
        raise (Connecting if isinstance(failure, Connecting) else NotSent)(failure.cause) from failure.cause

    async def _query_node(self, link: ServerLink, address: Address, timeout: float) -> None:
        try:
            slots = read_slots(await link.execute(("CLUSTER", "SLOTS"), timeout), address, self._cluster.remap)
        except rx.InvalidResponse as error:
            raise NotSent(as_redis_error(error)) from None
        if self.word is None:
            # As Redisson does: a server that has no shards for messages does not know the question.
            try:
                await link.execute(("PUBSUB", "SHARDNUMSUB", "0"), timeout)
                self.word = "SPUBLISH"
            except Rejected:
                self.word = "PUBLISH"
        owners: list[ServerLink | None] = [None] * SLOTS
        for first, last, master in slots:
            owners[first : last + 1] = [self._link_to(master)] * (last + 1 - first)
        self._suspects.discard(address)
        changed = owners != self.owners
        self.owners = owners
        self.stale = False
        if changed:
            self._tell_failovers([link and self._addresses[link] for link in owners])
            self._forget_the_dead(owners)
            self._changed()

    def _tell_failovers(self, masters: list[Address | None]) -> None:
        """Report masters that have lost all their slots to another. Slots that are moved one by one are no failover."""
        before = self._masters
        moves: dict[tuple[Address, Address], list[int]] = {}
        for slot, (former, master) in enumerate(zip(before, masters, strict=True)):
            if former is not None and master is not None and former != master:
                moves.setdefault((former, master), []).append(slot)
        self._masters = [master or former for former, master in zip(before, masters, strict=True)]
        for (former, master), slots in moves.items():
            if former not in self._masters:
                what = f"{len(slots)} slots from {slots[0]}"
                self.moved(what, "{}:{}".format(*master), "{}:{}".format(*former), frozenset(slots))

    def _forget_the_dead(self, owners: list[ServerLink | None]) -> None:
        serving = set(owners)
        for address in self._suspects & self._links.keys():
            if self._links[address] not in serving:
                self._links.pop(address).close()
                self._suspects.discard(address)

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the links, and those that are still to be made."""
        self._closed = True
        for link in self.links():
            link.close()

    def abandon(self) -> None:
        """Forget all in the child of a fork, without a word to the servers."""
        links, self._links = self._links, {}
        self._asking = {}
        self.owners = [None] * SLOTS
        self._masters = [None] * SLOTS
        self.stale = True
        for link in links.values():
            link.abandon()


# ---- node subscribers ------------------------------------------------------------------------------------------------
# The subscribers of a cluster: each channel is received at the node that serves its slot.


class NodeSubscribers:
    """A subscriber for each node at which this client has waiters. The arguments are those of one."""

    def __init__(self, link: ClusterLink, start: Callable[[Subscriber], None], client: ClientCore) -> None:
        self._slots = link.map
        self._start = start
        self._client = client
        self._subscriptions = client.subscriptions
        self._mutex = client.runtime.mutex()
        self._by_node: dict[ServerLink, Subscriber] = {}
        self.closed: bool = False
        link.on_change = self._relocate

    def subscribe(self, channel: str) -> None:
        """Send for a channel's messages, at the node that serves its slot."""
        subscriber = self._at(self._slots.node_for(channel))
        self._subscriptions.move(channel, subscriber.connection)
        subscriber.subscribe(channel)

    def unsubscribe(self, channel: str) -> None:
        """A channel may have lost its last waiter."""
        if (subscriber := self._of(self._subscriptions.connection_of(channel))) is not None:
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

    def _at(self, node: ServerLink) -> Subscriber:
        with self._mutex:
            subscriber = self._by_node.get(node)
            if subscriber is None:
                subscriber = Subscriber(
                    node.stream,
                    self._start,
                    self._client,
                    connection=SubscriberConnection(),
                    sharded=self._slots.sharded,
                    find_again=self._find_again,
                    server="{}:{}".format(*self._slots.address_of(node)),
                )
                subscriber.closed = self.closed
                self._by_node[node] = subscriber
            return subscriber

    def _of(self, connection: SubscriberConnection | None) -> Subscriber | None:
        return next((each for each in list(self._by_node.values()) if each.connection is connection), None)

    async def _find_again(self) -> None:
        """Find the channels that are no longer where they were."""
        try:
            self._slots.stale = True
            await self._slots.learn(self._client.config.timeout * SHARE)
        except Failure:
            return  # Later, then. They are looked for until they are found.
        self._relocate()

    def _relocate(self) -> None:
        """Subscribe each channel at the node that serves its slot."""
        for channel in self._subscriptions.wanted():
            subscriber = self._at(self._slots.node_for(channel))
            former = self._subscriptions.move(channel, subscriber.connection)
            if former is not None:
                subscriber.subscribe(channel)
                if (left := self._of(former)) is not None:
                    left.leave(channel)
        with self._mutex:
            gone = [node for node in self._by_node if not self._slots.knows(node)]
            subscribers = [self._by_node.pop(node) for node in gone]
        for subscriber in subscribers:
            subscriber.close()
