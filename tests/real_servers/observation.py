"""What the tests look at from outside: keys and subscriptions on the server, scripts on the wire."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import redis

from pyredisson._core.names import LockNames, owner_field
from pyredisson._lua import script_names
from pyredisson._net.wire import script
from tests.proxy import Proxy
from tests.servers import Server
from tests.waiting import until
from tests.worlds.base import Actor

T = TypeVar("T")


def calls(*scripts: str) -> Callable[[list[bytes]], bool]:
    """A match for the proxy: requests that run one of these scripts, by its digest or in full."""
    wanted = {known for name in scripts for known in (script(name).sha.encode(), script(name).text)}
    return lambda args: args[0].upper() in (b"EVALSHA", b"EVAL") and args[1] in wanted


SCRIPTS = script_names()
#: Ours alone, and gone after a while: epochs, and the numbers of requests.
RECORDS = ("pyredisson_epoch:", "pyredisson_done:")


def load_scripts(server: Server) -> None:
    """Make the scripts known, so that no first call is answered by NOSCRIPT."""
    with server.client() as client, client.pipeline(transaction=False) as pipeline:
        for name in SCRIPTS:
            pipeline.script_load(script(name).text)
        pipeline.execute()


ACQUIRE = calls("lock_acquire", "lock_acquire_waiting")
RELEASE = calls("lock_release")
RENEW = calls("lock_renew")


def INFO(args: list[bytes]) -> bool:
    """What each new connection asks first."""
    return args[0].upper() == b"INFO"


ANY_SCRIPT = calls(*SCRIPTS)


def side_by_side(work: Callable[[T], None], each: Iterable[T]) -> None:
    """Do the same for each of several, at once: where a silence lasts, they all wait for it together."""
    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(work, one) for one in each]:
            done.result()


def held(direct: redis.Redis, lock: Any, actor: Actor) -> int:
    """How often the actor holds the lock, as it stands in Redis."""
    return int(direct.hget(lock.name, owner_field(lock._client.id, actor.number)) or 0)


def listeners(direct: redis.Redis, name: str) -> int:
    """How many connections listen for the lock's unlocks."""
    return int(direct.pubsub_numsub(LockNames(name).channel)[0][1])


def listens(client: Any, name: str) -> bool:
    """Whether the client hears of the lock's unlocks."""
    return client._core.subscriptions.messages_of(LockNames(name).channel) is not None


def waiting(client: Any, name: str) -> int:
    """How many wait here for the lock, as the client sees it."""
    return int(client._core.subscriptions.waiting(LockNames(name).channel))


def await_waiter(direct: redis.Redis, client: Any, name: str, count: int = 1, *, within: float = 5.0) -> None:
    """Until so many wait, and will be told."""
    until(lambda: waiting(client, name) >= count, within, what=f"{count} wait for {name}")
    until(lambda: listeners(direct, name) >= 1, within, what=f"somebody listens for {name}")


def waiting_on(handle: Any) -> int:
    """How many wait for it in its client, by what it says of itself: of any kind."""
    said = re.search(r"(\d+) waiting here", repr(handle))
    return int(said[1]) if said else 0


def await_waiting(direct: redis.Redis, handle: Any, count: int = 1) -> None:
    """Until so many wait for something of any kind in its client, and will be told."""
    until(lambda: waiting_on(handle) >= count, what=f"{count} wait for {handle}")
    until(lambda: channels(direct, handle.name), what=f"somebody listens for {handle.name}")


def channels(direct: redis.Redis, name: str) -> list[str]:
    """Where somebody listens for something of this name."""
    return list(direct.pubsub_channels(f"*{{{name}}}*"))


def keys(direct: redis.Redis, name: str) -> set[str]:
    """What Redis holds for something of this name, but for the records of requests."""
    found = {key if isinstance(key, str) else key.decode() for key in direct.keys(f"*{{{name}}}*")}
    found = {key for key in found if not key.startswith(RECORDS)}
    return found | ({name} if direct.exists(name) else set())


def nothing_left(direct: redis.Redis, client: Any, *names: str) -> None:
    """Nothing is held, queued, subscribed, watched or unsettled (any more, within a few seconds)."""
    core = client._core
    for name in names:
        until(lambda name=name: not keys(direct, name), what=f"{name} is free")
        until(lambda name=name: not channels(direct, name), what=f"nobody listens for {name}")
    until(lambda: core.watchdog.watching() == 0, what="nothing is watched")
    until(lambda: not busy(client), what=f"nothing is pending: {busy(client)}")
    until(lambda: core.ledger.count() == 0, what="no request is open")


def busy(client: Any) -> list[Any]:
    """The ownerships that say more than an epoch."""
    return [
        ownership
        for ownership in client._core.ownerships
        if ownership.holds
        or ownership.pending
        or ownership.loss
        or ownership.in_flight.due
        or ownership.in_flight.released_behind
    ]


class Tally:
    """How often a request passed through the proxy that matches."""

    def __init__(self, proxy: Proxy, match: Callable[[list[bytes]], bool]) -> None:
        self.count = 0
        self._match = match
        proxy.drop_reply(self._note, None)  # A toxic that never has an effect.

    def _note(self, args: list[bytes]) -> bool:
        self.count += self._match(args)
        return False
