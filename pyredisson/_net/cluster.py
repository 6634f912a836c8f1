"""The link to a cluster, for threads and asyncio: ``async`` means "may block" here too, as in the core.

A :class:`ClusterLink` brings each request to the node that serves its slot, over that node's own link. What a node did
not execute (``MOVED``, ``ASK``, ``TRYAGAIN``) is brought to the right one, or asked again, within the time of the
request; what may have been executed is never sent twice from here: that is for the core, which knows how.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import redis.exceptions as rx

from pyredisson._core.deadline import DoublingBackoff
from pyredisson._core.failures import Failure, NotNow, NotSent, Unanswered, as_failure
from pyredisson._net.cluster_map import ClusterMap
from pyredisson._net.link import Inspect, Introduce, MasterMoved, ignore
from pyredisson._net.resp import pack
from pyredisson._net.slots import AskRedirect, Moved, SlotCall, read_redirection, slot_of
from pyredisson._net.wire import Address
from pyredisson._shared.clock import monotonic
from pyredisson.errors import ClientClosedError

if TYPE_CHECKING:
    from pyredisson._core.runtime import Acknowledging, Reply
    from pyredisson._net.cluster_map import TimedMutex
    from pyredisson._net.server_link import ServerLink
    from pyredisson._net.slots import Cluster

#: Between two tries of a request that the cluster cannot take at this moment.
RETRY = DoublingBackoff(first=0.005, maximum=0.1)

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
        make_mutex: Makes what lets one of the callers who all need the map ask for it.
        sleep: Lets time pass.
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
        make_mutex: Callable[[], TimedMutex],
        sleep: Callable[[float], Awaitable[None]],
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
        self._sleep = sleep
        self.inspect: Inspect | None = None
        self.introduce: Introduce | None = None
        self.on_change: Callable[[], None] = ignore
        self.on_moved: MasterMoved = ignore
        self.on_queue_refused: Callable[[], None] = ignore
        self.map: ClusterMap = ClusterMap(cluster, mode, inspected, make_mutex, lambda: self.on_change(), now)
        self.map.moved = lambda *move: self.on_moved(*move)

    # ---- requests ------------------------------------------------------------------------------------------------

    def counts_listeners(self) -> bool:
        return self.map.sharded

    async def ask_server(self, key: str, command: tuple[str, ...], timeout: float) -> Reply:
        """Run a command on the server that has a key."""
        owner = self.map.owners[slot_of(key)]
        if owner is None:
            raise self.map.unserved(slot_of(key))
        return await owner.ask(command, timeout)

    def node_of(self, key: str) -> str:
        """Return the address of the node that has a key, as far as is known; else an empty string."""
        owner = self.map.owners[slot_of(key)]
        return "" if owner is None else "{}:{}".format(*self.map.address_of(owner))

    async def eval(self, request: SlotCall, timeout: float) -> Reply:
        return await self._execute(request.slot, self._sender(request), timeout)

    async def eval_synced(
        self, request: SlotCall, timeout: float, sync: Acknowledging, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        acked: int | Failure = 0

        async def send(link: ServerLink, timeout: float, asking: bool) -> Reply:
            nonlocal acked
            packed = request.pack(self._publish())
            reply, acked = await link.eval_synced(packed, timeout, sync, sync_timeout, asking=asking)
            return reply

        return await self._execute(request.slot, send, timeout), acked

    def _inspected(self, node: str, reply: object, took: float) -> None:
        """Take what a node says of itself. A replica is no node that locks are asked of."""
        if self.inspect is not None and not (isinstance(reply, bytes) and b"\nrole:slave" in reply):
            self.inspect(reply, took, node)

    async def ask(self, command: tuple[str, ...], timeout: float) -> Reply:
        def send(link: ServerLink, timeout: float, asking: bool) -> Awaitable[Reply]:
            return link.call_asking(pack(*command), timeout) if asking else link.ask(command, timeout)

        if len(command) > 1:
            return await self._execute(slot_of(command[1]), send, timeout)
        if self.map.stale:
            await self.map.learn(timeout)
        anyone = next((link for link in self.map.owners if link is not None), None)  # It is about no key.
        if anyone is None:
            raise self.map.unserved(0)
        return await anyone.ask(command, timeout)

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
            said = self.map.unserved(slot) if link is None else await self._ask_node(link, send, over)
            if link is not None and (redirection := self._redirection(link, said)) is not None:
                redirections += 1
                if redirections > REDIRECTIONS:
                    assert isinstance(said, Failure)
                    raise NotSent(said.cause)
                link = self.map.follow(redirection)
                said = await self._ask_node(link, send, over, asking=isinstance(redirection, AskRedirect))
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
            pause = RETRY.longest(pauses)
            if self._now() + pause >= over:
                raise NotNow(said.cause)
            await self._sleep(pause)
            pauses += 1

    async def _ask_node(self, link: ServerLink, send: Send, over: float, *, asking: bool = False) -> Reply | Failure:
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
