"""A server that refuses what it is asked, for a reason that passes: nothing ends by that, and nothing is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import redis
import redis.exceptions as rx

from pyredisson._core import acquiring
from pyredisson._core.client import ClientCore
from pyredisson._core.failures import Failure
from pyredisson._core.requests import waits_through
from pyredisson._kinds import permits
from pyredisson._kinds.semaphores import SemaphoreCore
from pyredisson.errors import OutcomeUnknownError, QuorumUnreachableError
from pyredisson.events import PresenceRefused
from tests.real_servers.client_settings import renewed_every
from tests.real_servers.observation import load_scripts, nothing_left
from tests.servers import BUILDS, DEFAULT, HOST, REDIS_6, Build, Server
from tests.waiting import until

Refusing = Callable[[], None]


@contextmanager
def out_of_memory(server: Server, direct: redis.Redis) -> Iterator[None]:
    direct.set("ballast", "x" * 1_000_000)
    direct.config_set("maxmemory", 1_000_000)
    yield
    direct.config_set("maxmemory", 0)


@contextmanager
def failed_save(server: Server, direct: redis.Redis) -> Iterator[None]:
    """Something is where the file has to be."""
    obstacle = Path(direct.config_get("dir")["dir"]) / "dump.rdb"
    obstacle.mkdir()
    direct.config_set("save", "3600 1")
    direct.bgsave()
    until(lambda: direct.info("persistence")["rdb_last_bgsave_status"] == "err", what="the save has failed")
    yield
    direct.config_set("save", "")
    obstacle.rmdir()


@contextmanager
def too_few_replicas(server: Server, direct: redis.Redis) -> Iterator[None]:
    direct.config_set("min-replicas-to-write", 1)
    yield
    direct.config_set("min-replicas-to-write", 0)


@contextmanager
def busy_script(server: Server, direct: redis.Redis) -> Iterator[None]:
    direct.config_set("lua-time-limit", 1)

    def work() -> None:
        with suppress(rx.RedisError), server.client(socket_timeout=60) as client:
            client.eval("while true do end", 0)

    thread = threading.Thread(target=work)
    thread.start()

    def is_busy() -> bool:
        try:
            direct.ping()
        except rx.ResponseError as error:
            return "BUSY" in str(error)
        return False

    until(is_busy, what="the server runs a script")
    yield
    direct.script_kill()
    thread.join()


@contextmanager
def stale_credential(server: Server, direct: redis.Redis) -> Iterator[None]:
    direct.acl_setuser("guest", enabled=True, reset_passwords=True, passwords=["+another"])
    direct.client_kill_filter(user="guest")
    yield
    direct.acl_setuser("guest", enabled=True, reset_passwords=True, passwords=["+sesame"])


REFUSALS = {
    "OOM": (out_of_memory, rx.OutOfMemoryError),
    "MISCONF": (failed_save, rx.ResponseError),
    "NOREPLICAS": (too_few_replicas, rx.ResponseError),
    "BUSY": (busy_script, rx.ResponseError),
    # The connection that was closed may have brought the request to the server.
    "WRONGPASS": (stale_credential, (rx.AuthenticationError, OutcomeUnknownError)),
}


KINDS = ["lock", "fair_lock", "spin_lock", "token_lock", "semaphore", "permit_expirable_semaphore"]


class Refuser:
    """A server, and how it begins and ends to refuse."""

    def __init__(self, server: Server, state: str) -> None:
        self.server = server
        self.state = state
        self.error = REFUSALS[state][1]
        self.url = f"redis://guest:sesame@{HOST}:{server.port}/0"
        self.direct = server.client(decode_responses=True)
        self._refusing = REFUSALS[state][0](server, self.direct)

    def begin(self) -> None:
        self._refusing.__enter__()

    def end(self) -> None:
        self._refusing.__exit__(None, None, None)


@pytest.fixture(params=REFUSALS)
def refuser(request: pytest.FixtureRequest, build: Build, fresh_server: Callable[..., Server]) -> Refuser:
    if request.param == "NOREPLICAS" and build is REDIS_6:
        pytest.skip("Redis 6.2 does not look at min-replicas-to-write in scripts")
    server = fresh_server(build)
    load_scripts(server)
    refuser = Refuser(server, request.param)
    refuser.direct.acl_setuser(
        "guest", enabled=True, passwords=["+sesame"], keys=["*"], channels=["*"], commands=["+@all"]
    )
    return refuser


def test_a_waiter_goes_on(world, refuser, unique_name):
    theirs, holder = world.from_url(refuser.url).get_lock(unique_name), world.actor()
    client = world.connected(refuser.url, max_wait_without_check=0.3)
    lock, waiter, late = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(theirs.lock, 2)  # It ends while the server refuses: then each attempt would change something.
    waiting = waiter.start(lock.try_lock, 60)
    short = late.start(lock.try_lock, 4.0)
    until(lambda: client._core.subscriptions.waiting(f"redisson_lock__channel:{{{unique_name}}}") == 2)
    refuser.begin()
    with pytest.raises(refuser.error, match=refuser.state.replace("WRONGPASS", "(?i)password")):
        short.result(20)
    assert not waiting.done()
    refuser.end()
    assert waiting.result(20) is True
    waiter.do(lock.unlock)
    nothing_left(refuser.direct, client, unique_name)


@pytest.mark.parametrize(
    ("build", "kind"),
    [
        pytest.param(build, kind, id=f"{build.id}-{kind}")
        for build in BUILDS
        for kind in (KINDS if build is DEFAULT else KINDS[:1])
    ],
    indirect=["build"],
)
def test_an_acquire_that_begins_meanwhile(world, refuser, unique_name, kind):
    client, actor, other = world.connected(refuser.url), world.actor(), world.actor()
    permits = {"permits": 2} if "semaphore" in kind else {}
    handle = getattr(client, f"get_{kind}")(unique_name, **permits)
    acquire = handle.try_acquire if permits else handle.try_lock
    keyed = {"wait_time": 0.6}
    refuser.begin()
    began = time.monotonic()
    with pytest.raises(refuser.error):
        other.do(lambda: acquire(**keyed))
    assert time.monotonic() - began > 0.5
    acquiring = actor.start(lambda: acquire(wait_time=30))
    with pytest.raises(refuser.error):
        other.do(acquire)
    time.sleep(0.3)
    assert not acquiring.done()
    refuser.end()
    acquired = acquiring.result(20)
    assert acquired
    if kind == "semaphore":
        assert other.do(handle.available_permits) == 1
    actor.do(handle.release, *([acquired] if kind == "permit_expirable_semaphore" else []))


@pytest.mark.parametrize("kind", KINDS)
def test_a_wait_that_ends_before_another_attempt_is_no_refusal_by_the_lock(
    world, fresh_server, unique_name, monkeypatch, kind
):
    async def stall(client: ClientCore, failure: Failure, wait: float, began: float) -> bool:
        waits = await waits_through(client, failure, wait, began)
        while client.runtime.now() < began + wait:  # The machine is busy with other programs.
            pass
        return waits

    monkeypatch.setattr(acquiring, "waits_through", stall)
    monkeypatch.setattr(permits, "waits_through", stall)
    refuser = Refuser(fresh_server(), "MISCONF")
    client, actor = world.connected(refuser.server.url), world.actor()
    is_permit = "semaphore" in kind
    handle = getattr(client, f"get_{kind}")(unique_name, **({"permits": 1} if is_permit else {}))
    refuser.begin()
    with pytest.raises(refuser.error):
        actor.do(handle.try_acquire if is_permit else handle.try_lock, wait_time=0.2)
    refuser.end()


@pytest.mark.parametrize("kind", ["lock", "semaphore", "permit_expirable_semaphore"])
def test_the_release_of_a_block_is_completed(world, refuser, unique_name, kind):
    client, actor = world.connected(refuser.url), world.actor()
    permits = {"permits": 2} if "semaphore" in kind else {}
    handle = getattr(client, f"get_{kind}")(unique_name, **permits)
    block = handle.hold()
    actor.do(world.enter(block))
    refuser.begin()
    if refuser.state == "OOM":  # What releases works.
        actor.do(world.leave(block))
    else:
        with pytest.raises(refuser.error):
            actor.do(world.leave(block))
    refuser.end()
    if permits:
        until(lambda: world.run(handle.available_permits) == 2, 10, what="the permit is released")
    else:
        nothing_left(refuser.direct, client, unique_name)
    time.sleep(0.3)
    if permits:
        assert world.run(handle.available_permits) == 2, "once"


def test_a_permit_is_released_after_a_refusal_that_lasts_longer_than_the_record_of_a_request(
    world, fresh_server, unique_name, monkeypatch
):
    releasing = SemaphoreCore.releasing
    monkeypatch.setattr(SemaphoreCore, "releasing", lambda *args: replace(releasing(*args), known_for=0.3))
    refuser = Refuser(fresh_server(), "MISCONF")
    client, actor = world.connected(refuser.server.url), world.actor()
    semaphore = client.get_semaphore(unique_name, permits=1)
    block = semaphore.hold()
    actor.do(world.enter(block))
    refuser.begin()
    with pytest.raises(refuser.error):
        actor.do(world.leave(block))
    time.sleep(1.0)
    refuser.end()
    until(lambda: world.run(semaphore.available_permits) == 1, 10, what="the permit is released")


def test_presence_comes_back(world, refuser, unique_name):
    client = world.connected(refuser.url, presence_after=0.1, lock_watchdog_timeout=60.0)
    client._core.presence._period = 0.3
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    refuser.begin()
    time.sleep(1.0)
    refuser.end()
    key = f"pyredisson_client:{client._core.id}"
    until(lambda: refuser.direct.keys(f"*{client._core.id}*"), 10, what=f"{key} is written")
    assert not world.heard(PresenceRefused)
    actor.do(lock.unlock)


def test_renewals_are_repeated(world, refuser, unique_name):
    client = world.connected(refuser.url, lock_watchdog_timeout=30.0)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    refuser.begin()
    time.sleep(1.0)
    refuser.end()
    refuser.direct.pexpire(unique_name, 15_000)
    until(lambda: refuser.direct.pttl(unique_name) > 20_000, 10, what="it is renewed")
    actor.do(lock.unlock)
    assert not world.losses
    nothing_left(refuser.direct, client, unique_name)


@pytest.mark.parametrize("again", [False, True], ids=["once", "called again"])
@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore", "count_down_latch"])
def test_a_release_by_call_is_completed(world, fresh_server, unique_name, kind, again):
    """Called again, it is the same release: it takes effect once."""
    refuser = Refuser(fresh_server(), "MISCONF")
    client, actor = world.connected(refuser.server.url), world.actor()
    handle = getattr(client, f"get_{kind}")(unique_name, **({"permits": 3} if "semaphore" in kind else {}))
    if kind == "count_down_latch":
        actor.do(handle.try_set_count, 3)
        release, number = handle.count_down, handle.get_count
    else:
        acquired = [actor.do(handle.acquire) for _ in range(2)]
        release, number = handle.release, handle.available_permits
        if kind == "permit_expirable_semaphore":
            release = partial(release, acquired[0])
    before = world.run(number)
    refuser.begin()
    for _ in range(2 if again else 1):
        with pytest.raises(rx.ResponseError, match="MISCONF"):
            actor.do(release)
    refuser.end()
    if again:
        actor.do(release)
    until(lambda: world.run(number) != before, 10, what="it has gone through")
    if again and kind != "permit_expirable_semaphore":
        assert abs(world.run(number) - before) == 1
        actor.do(release)  # Another one.
        assert abs(world.run(number) - before) == 2
    time.sleep(0.3)
    assert abs(world.run(number) - before) == (2 if again and kind != "permit_expirable_semaphore" else 1)


@pytest.mark.parametrize("refusing", [1, 2], ids=["one node", "most nodes"])
def test_a_quorum_of_which_nodes_refuse(world, fresh_server, unique_name, refusing):
    """Its holds are renewed, its waiters go on, and its blocks release; one node that refuses costs nothing."""
    servers = [fresh_server() for _ in range(3)]
    refusers = [Refuser(each, "MISCONF") for each in servers]
    clients = [world.connected(each.url, lock_watchdog_timeout=6.0, max_wait_without_check=0.3) for each in servers]
    for client in clients:
        renewed_every(client, 0.3)
    lock = world.api.RedLock(*(client.get_lock(unique_name) for client in clients))
    holder, waiter = world.actors(2)
    block = lock.hold()
    lease = holder.do(world.enter(block))
    waiting = waiter.start(lock.try_lock, 60)
    until(lambda: clients[0]._core.subscriptions.waiting(f"redisson_lock__channel:{{{unique_name}}}") == 1)
    for each in refusers[:refusing]:
        each.begin()
    time.sleep(1.0)
    assert not lease.lost
    began = time.monotonic()
    with pytest.raises(QuorumUnreachableError, match="MISCONF") if refusing > 1 else nullcontext():
        holder.do(world.leave(block))
    assert time.monotonic() - began < 2.0
    if refusing == 1:
        assert waiting.result(20) is True
    for each in refusers[:refusing]:
        each.end()
    assert waiting.result(20) is True
    waiter.do(lock.unlock)
    assert not world.losses
    for each, client in zip(refusers, clients, strict=True):
        nothing_left(each.direct, client, unique_name)


def test_a_wait_at_a_condition_ends_with_its_lock(world, refuser, unique_name):
    """Its time is over while the server refuses: it says so once it has acquired the lock again."""
    client, actor = world.connected(refuser.url), world.actor()
    lock = client.get_lock(unique_name)
    condition = client.get_condition(lock)
    actor.do(lock.lock)
    waiting = actor.start(condition.wait, 0.6)
    until(lambda: not world.run(lock.is_locked), what="it waits")
    refuser.begin()
    time.sleep(1.0)
    refuser.end()
    if refuser.state == "OOM":  # What leaves the waiters works.
        assert waiting.result(20) is False
    else:
        with pytest.raises((rx.RedisError, OutcomeUnknownError)):
            waiting.result(20)
    assert actor.do(lock.is_held_by_current_thread)
    actor.do(lock.unlock)
    nothing_left(refuser.direct, client, unique_name)
