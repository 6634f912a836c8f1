"""Which node of a cluster serves which slot, and the links to the nodes.

The table comes from ``CLUSTER SLOTS``. It is *stale* when a node has replied, or done, something that contradicts it;
then it is asked for anew before the next request. Written once for threads and asyncio: ``async`` means "may block".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

import redis.exceptions as rx

from pyredisson._core.failures import Connecting, Failure, NotSent, Rejected
from pyredisson._net.link import MasterMoved, ignore
from pyredisson._net.refusals import as_redis_error
from pyredisson._net.slots import SLOTS, Cluster, Moved, read_slots, slot_of
from pyredisson._net.wire import Address

if TYPE_CHECKING:
    from pyredisson._net.server_link import ServerLink
    from pyredisson._net.slots import AskRedirect

#: What one node has to say who serves what, as a share of the time there is: then another one is asked.
SHARE = 1 / 3


class TimedMutex(Protocol):
    """A lock of threads or of tasks that is waited for with a bound."""

    async def enter(self, seconds: float) -> bool:
        """Enter it, waiting at most ``seconds``. Returns whether that succeeded."""
        ...

    def leave(self) -> None:
        """Leave it."""
        ...


class ClusterMap:
    """The slots of a cluster, and the links to its nodes.

    Args:
        cluster: Where it is.
        mode: ``Config.sharded_subscription_mode``.
        make_link: Makes the link to one node.
        make_mutex: Makes what lets one of the callers who all need the map ask for it.
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
        make_mutex: Callable[[], TimedMutex],
        changed: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._make_link = make_link
        self._make_mutex = make_mutex
        self._asking = make_mutex()
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

    # ---- asking --------------------------------------------------------------------------------------------------

    async def learn(self, timeout: float) -> None:
        """Ask who serves what, unless another caller does so already. Raises a ``Failure`` if no node says."""
        over = self._now() + timeout
        attempts = self._attempts
        if not await self._asking.enter(timeout):
            raise NotSent(rx.TimeoutError("no node of the cluster reported its slots in time"))
        try:
            if self._attempts == attempts:
                try:
                    await self._ask_any_node(max(0.001, over - self._now()))
                    self._trouble = None
                except Failure as failure:
                    self._trouble = failure
                self._attempts += 1
            # Else another caller has asked while this one waited; it is not asked again to hear the same.
            trouble = self._trouble
        finally:
            self._asking.leave()
        if trouble is not None:
            raise type(trouble)(trouble.cause) from trouble.cause

    async def _ask_any_node(self, timeout: float) -> None:
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
                await self._ask_node(link, address, max(0.001, left * SHARE if len(candidates) > 1 else left))
                return
            except Rejected:
                raise
            except Failure as error:
                self._suspects.add(address)
                failure = error
        assert failure is not None, "a cluster without nodes"
        raise (Connecting if isinstance(failure, Connecting) else NotSent)(failure.cause) from failure.cause

    async def _ask_node(self, link: ServerLink, address: Address, timeout: float) -> None:
        try:
            slots = read_slots(await link.ask(("CLUSTER", "SLOTS"), timeout), address, self._cluster.remap)
        except rx.InvalidResponse as error:
            raise NotSent(as_redis_error(error)) from None
        if self.word is None:
            # As Redisson does: a server that has no shards for messages does not know the question.
            try:
                await link.ask(("PUBSUB", "SHARDNUMSUB", "0"), timeout)
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
        """Tell which masters have lost all their slots to another. Slots that are moved one by one are no failover."""
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
        self._asking = self._make_mutex()
        self.owners = [None] * SLOTS
        self._masters = [None] * SLOTS
        self.stale = True
        for link in links.values():
            link.abandon()
