"""A server that has its reasons: no memory, no script, no permission, no time; and keys that others meddle with."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import redis
import redis.exceptions as rx

from pyredisson.errors import LockError, LockLostError, LockNotOwnedError
from pyredisson.events import RenewalFailed
from tests.proxy import Proxy
from tests.real.client_settings import await_renewals, renewed_every
from tests.real.observation import (
    ACQUIRE,
    ANY_SCRIPT,
    RELEASE,
    RENEW,
    await_waiter,
    busy,
    held,
    load_scripts,
    nothing_left,
)
from tests.servers import HOST, Build, Server
from tests.volumes import Volume
from tests.waiting import until
from tests.worlds.clock import ClockWorld

# --- out of memory ---


@pytest.fixture
def full(build: Build, fresh_server: Callable[..., Server]) -> Iterator[tuple[Server, redis.Redis]]:
    """A server of each build that knows the scripts; ``fill`` it."""
    server = fresh_server(build, "--maxmemory-policy", "noeviction")
    load_scripts(server)
    with server.client(decode_responses=True) as direct:
        yield server, direct


def fill(direct: redis.Redis) -> None:
    """From now on it refuses whatever may need memory."""
    direct.set("ballast", "x" * 1_000_000)
    direct.config_set("maxmemory", 1_000_000)
    with pytest.raises(rx.OutOfMemoryError):
        direct.set("more", "y")


def test_out_of_memory_an_acquire_fails_clean(
    world: ClockWorld, full: tuple[Server, redis.Redis], unique_name: str
) -> None:
    server, direct = full
    client = world.from_url(server.url)
    lock, free, actor = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2"), world.actor()
    actor.do(lock.lock)
    fill(direct)
    for call in (free.lock, free.try_lock, lock.lock, lock.try_lock):
        with pytest.raises(rx.OutOfMemoryError):
            actor.do(call)
    assert not direct.exists(free.name)
    assert held(direct, lock, actor) == 1
    assert [ownership.name for ownership in busy(client)] == [lock.name]
    actor.do(lock.unlock)
    nothing_left(direct, client, lock.name, free.name)
    direct.config_set("maxmemory", 0)
    actor.do(free.lock)
    actor.do(free.unlock)


def test_out_of_memory_what_gives_back_works(
    world: ClockWorld, full: tuple[Server, redis.Redis], unique_name: str
) -> None:
    server, direct = full
    client = world.from_url(server.url)
    renewed_every(client, 0.3)
    lock, another, actor = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2"), world.actor()
    for _ in range(3):
        actor.do(lock.lock)
    actor.do(another.lock)
    fill(direct)

    await_renewals(direct, unique_name)
    await_renewals(direct, another.name)
    for left in (2, 1, 0):
        actor.do(lock.unlock)
        assert held(direct, lock, actor) == left
    assert actor.do(another.force_unlock) is True
    nothing_left(direct, client, lock.name, another.name)
    assert not [event for event in world.heard(RenewalFailed) if isinstance(event.error, rx.ResponseError)]
    assert not world.losses


def test_out_of_memory_a_waiter_acquires_or_raises(
    world: ClockWorld, full: tuple[Server, redis.Redis], unique_name: str
) -> None:
    server, direct = full
    client = world.from_url(server.url)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(lock.lock)
    waiting = waiter.start(lock.lock)
    await_waiter(direct, client, unique_name)
    fill(direct)
    holder.do(lock.unlock)
    with pytest.raises(rx.OutOfMemoryError):
        waiting.result(20)
    nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("holds", [1, 2])
def test_out_of_memory_and_a_lost_reply_at_once(
    world: ClockWorld, full: tuple[Server, redis.Redis], unique_name: str, holds: int
) -> None:
    server, direct = full
    with Proxy(server.port) as proxy:
        client = world.from_url(proxy.url)
        lock, actor = client.get_lock(unique_name), world.actor()
        for _ in range(holds):
            actor.do(lock.lock)
        fill(direct)
        lost = proxy.drop_reply(RELEASE, 1, then="reset")
        actor.do(lock.unlock)
        assert lost.hits == 1
        assert held(direct, lock, actor) == holds - 1
        lost = proxy.drop_reply(ANY_SCRIPT, 1, then="reset")
        for _ in range(holds - 1):
            actor.do(lock.unlock)
        nothing_left(direct, client, unique_name)
        world.run(client.close)


# --- no script ---


def test_the_server_forgets_its_scripts_under_load(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str, volume: Volume
) -> None:
    server = fresh_server()
    client = world.from_url(server.url)
    renewed_every(client, 0.1)
    actors, rounds = [world.actor() for _ in range(6)], volume(20, full=1000)
    shared, kept = client.get_lock(unique_name), client.get_lock(f"{unique_name}-kept")
    keeper = world.actor()
    keeper.do(kept.lock)
    own = [client.get_lock(f"{unique_name}-{index}") for index in range(len(actors))]

    def begin() -> list[Future[Any]]:
        steps = []
        for actor, lock in zip(actors, own, strict=True):
            for _ in range(rounds):
                steps += [actor.start(call) for call in (lock.lock, lock.lock, lock.unlock, lock.unlock)]
            for _ in range(3):
                steps += [actor.start(shared.lock), actor.start(shared.unlock)]
        return steps

    with server.client(decode_responses=True) as direct:
        assert all(actor.number for actor in actors)
        flushes = missed = 0
        while flushes < 10 or missed < 10:  # As a rule it is more than enough the first time.
            steps = begin()
            while not all(step.done() for step in steps):
                direct.script_flush("SYNC")
                flushes += 1
                threading.Event().wait(random.uniform(0, 0.01))
            for step in steps:
                step.result(0)
            missed = int(direct.info("errorstats").get("errorstat_NOSCRIPT", {}).get("count", 0))
        await_renewals(direct, kept.name, 1)
        assert held(direct, kept, keeper) == 1
        keeper.do(kept.unlock)
        nothing_left(direct, client, shared.name, kept.name, *(lock.name for lock in own))
    assert not world.losses


# --- not now ---

NOT_NOW = {
    "LOADING": ("LOADING Redis is loading the dataset in memory", rx.BusyLoadingError),
    "READONLY": ("READONLY You can't write against a read only replica.", rx.ReadOnlyError),
    "BUSY": ("BUSY Redis is busy running a script.", rx.ResponseError),
    "MASTERDOWN": ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", rx.RedisError),
    "CLUSTERDOWN": ("CLUSTERDOWN The cluster is down", rx.ResponseError),
    "TRYAGAIN": ("TRYAGAIN Multiple keys request during rehashing of slot", rx.RedisError),
}


@pytest.mark.parametrize("state", NOT_NOW)
def test_a_request_that_the_server_cannot_execute_now(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, state: str
) -> None:
    text, kind = NOT_NOW[state]
    client = world.from_url(proxy.url)
    lock, actor = client.get_lock(unique_name), world.actor()

    # An acquire: told at once, and nothing is left of it.
    refusal = proxy.refuse_request(ANY_SCRIPT, text)
    for call in (lock.lock, lock.try_lock):
        with pytest.raises(kind, match=state):
            actor.do(call)
    assert not busy(client)
    refusal.remove()
    actor.do(lock.lock)
    actor.do(lock.lock)

    # An unlock: told at once; calling again continues it, however often.
    refusal = proxy.refuse_request(RELEASE, text)
    for _ in range(2):
        with pytest.raises((kind, RuntimeError), match=state):
            actor.do(lock.unlock)
    refusal.remove()
    actor.do(lock.unlock)
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_a_renewal_that_the_server_cannot_execute_now(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    # Two in a row each time, then one that is taken.
    refusals = [
        proxy.refuse_request(RENEW, text, k) for k, (text, _) in zip((1, 2, 4, 5, 7, 8), NOT_NOW.values(), strict=True)
    ]
    until(lambda: all(refusal.hits for refusal in refusals), 20, what="each of them once")
    await_renewals(direct, unique_name)
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)
    assert not world.losses


def test_a_waiter_lives_through_a_state_of_the_server(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    theirs = world.from_url(valkey.url).get_lock(unique_name)
    client = world.from_url(proxy.url, max_wait_without_check=0.3)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(theirs.lock)
    waiting = waiter.start(lock.lock)
    await_waiter(direct, client, unique_name)
    refusal = proxy.refuse_request(ACQUIRE, NOT_NOW["READONLY"][0])
    # One look that was on its way already could find the lock free; whoever was refused has no other one under way.
    until(lambda: refusal.hits >= 1, what="asked and refused")
    before = refusal.hits
    holder.do(theirs.unlock)
    until(lambda: refusal.hits >= before + 2, what="asked and refused twice more")
    assert not waiting.done()
    refusal.remove()
    waiting.result(20)
    waiter.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_a_primary_that_was_demoted_and_promoted_again(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    client = world.from_url(server.url)
    renewed_every(client, 0.4)
    lock, another, actor = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2"), world.actor()
    actor.do(lock.lock)
    with server.client(decode_responses=True) as direct:
        direct.replicaof(HOST, 1)  # Of nobody: it keeps what it has, and is read-only.
        with pytest.raises(rx.ReadOnlyError):
            actor.do(another.lock)
        until(lambda: world.heard(RenewalFailed), what="a renewal failed")
        direct.replicaof("NO", "ONE")
        renewed = len(world.heard(RenewalFailed))
        actor.do(another.lock)
        actor.do(another.unlock)
        await_renewals(direct, unique_name)
        assert len(world.heard(RenewalFailed)) <= renewed + 1
        actor.do(lock.unlock)
        nothing_left(direct, client, lock.name, another.name)
    assert not world.losses


def test_a_script_of_another_client_keeps_the_server_busy(
    world: ClockWorld, build: Build, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server(build, "--lua-time-limit", "20")
    client = world.from_url(server.url)
    lock, another, actor = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2"), world.actor()
    actor.do(lock.lock)
    with server.client(decode_responses=True) as direct, server.client(socket_timeout=20) as bore:
        boring = threading.Thread(target=_suppressing, args=(bore.eval, "while true do end", 0))
        boring.start()
        until(lambda: _says_busy(server), what="busy")
        with pytest.raises(rx.RedisError, match="BUSY"):
            actor.do(another.lock)
        with pytest.raises((rx.RedisError, RuntimeError), match="BUSY"):
            actor.do(lock.unlock)
        with server.client() as killer:
            killer.script_kill()
        boring.join(20)
        actor.do(lock.unlock)
        nothing_left(direct, client, lock.name, another.name)


def _suppressing(call: Callable[..., Any], *args: Any) -> None:
    with suppress(rx.RedisError):
        call(*args)


def _says_busy(server: Server) -> bool:
    with server.client(socket_timeout=1.0) as client:
        try:
            client.get("x")
        except rx.RedisError as error:
            return "BUSY" in str(error)
        return False


# --- keys changed by other programs ---

OTHERS: dict[str, Callable[[redis.Redis, str], object]] = {
    "string": lambda direct, name: direct.set(name, "theirs"),
    "list": lambda direct, name: direct.rpush(name, "theirs"),
    "set": lambda direct, name: direct.sadd(name, "theirs"),
    "zset": lambda direct, name: direct.zadd(name, {"theirs": 1}),
    "stream": lambda direct, name: direct.xadd(name, {"theirs": 1}),
}


WORDS = {"zset": "sorted set"}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_key_of_another_type(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str, kind: str
) -> None:
    client = world.from_url(valkey.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    OTHERS[kind](direct, unique_name)
    before = direct.dump(unique_name) if kind != "stream" else direct.xlen(unique_name)
    for call in (lock.lock, lock.try_lock, lock.force_unlock, lock.get_hold_count, lock.is_held_by_current_thread):
        with pytest.raises(LockError, match=f"holds a {WORDS.get(kind, kind)}"):
            actor.do(call)
    with pytest.raises(LockNotOwnedError):
        actor.do(lock.unlock)
    assert (direct.dump(unique_name) if kind != "stream" else direct.xlen(unique_name)) == before
    assert direct.ttl(unique_name) == -1
    direct.delete(unique_name)
    actor.do(lock.lock)
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_a_key_that_becomes_another_type_while_held(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(valkey.url)
    renewed_every(client, 0.3)
    lock, another, actor = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2"), world.actor()
    actor.do(another.lock)
    context = lock.hold()
    lease = actor.do(world.enter(context))
    direct.set(unique_name, "theirs")

    until(lambda: world.losses, what="told")

    assert world.losses == [(unique_name, actor.number)]
    with pytest.raises(LockLostError):
        lease.ensure_held()
    with pytest.raises((LockLostError, rx.ResponseError)):
        actor.do(world.leave(context))
    assert direct.get(unique_name) == "theirs"
    # It hurt none of those that are renewed by the same request.
    assert held(direct, another, actor) == 1
    actor.do(another.unlock)
    direct.delete(unique_name)
    nothing_left(direct, client, lock.name, another.name)


@pytest.mark.parametrize("step", ["renewal", "re-entry", "partial unlock"])
def test_a_key_without_an_end_gets_one_again(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str, step: str
) -> None:
    client = world.from_url(valkey.url)
    if step == "renewal":
        renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    actor.do(lock.lock)
    assert direct.persist(unique_name)
    if step == "re-entry":
        actor.do(lock.lock)
    elif step == "partial unlock":
        actor.do(lock.unlock)
    until(lambda: direct.pttl(unique_name) > 0, what="it has an end again")
    while held(direct, lock, actor):
        actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


MEDDLING: dict[str, Callable[[redis.Redis, str], object]] = {
    "DEL": lambda direct, name: direct.delete(name),
    "FLUSHALL": lambda direct, name: direct.flushall(),
    "RENAME": lambda direct, name: direct.rename(name, f"{name}-away"),
    "EXPIRE": lambda direct, name: direct.pexpire(name, 1),
    "HDEL": lambda direct, name: direct.hdel(name, *direct.hkeys(name)),
    "eviction": lambda direct, name: _evict(direct, name),
    "taken over": lambda direct, name: (direct.delete(name), direct.hset(name, "somebody:1", "1")),
}


def _evict(direct: redis.Redis, name: str) -> None:
    direct.config_set("maxmemory-policy", "volatile-ttl")
    used = int(direct.info("memory")["used_memory"])
    direct.config_set("maxmemory", used + 100_000)
    for index in range(1000):
        if not direct.exists(name):
            break
        with suppress(rx.OutOfMemoryError):
            direct.set(f"ballast-{index}", "x" * 10_000)
    direct.config_set("maxmemory", 0)
    assert direct.info("stats")["evicted_keys"] >= 1


@pytest.mark.parametrize("how", MEDDLING)
def test_a_hold_ended_by_others_is_reported(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str, how: str
) -> None:
    server = fresh_server()
    client = world.from_url(server.url)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    context = lock.hold()
    lease = actor.do(world.enter(context))
    with server.client(decode_responses=True) as direct:
        began = time.monotonic()
        MEDDLING[how](direct, unique_name)
        until(lambda: lease.lost, what="told")
        assert time.monotonic() - began < 6.0  # By the next renewal, not by the end of the lease of 30 s.
        until(lambda: world.losses == [(unique_name, actor.number)], what="called back")
        with pytest.raises(LockLostError):
            lease.ensure_held()
        with pytest.raises(LockLostError):
            actor.do(world.leave(context))
        if how == "taken over":
            assert direct.hgetall(unique_name) == {"somebody:1": "1"}
            direct.delete(unique_name)
        nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("holds", [1, 2])
def test_a_hold_ended_by_others_is_reported_by_its_unlock_at_the_latest(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str, holds: int
) -> None:
    client = world.from_url(valkey.url)
    lock, actor, other = client.get_lock(unique_name), world.actor(), world.actor()
    for _ in range(holds):
        actor.do(lock.lock)
    direct.delete(unique_name)
    other.do(lock.lock)
    for _ in range(holds):
        with pytest.raises(LockLostError):
            actor.do(lock.unlock)
    with pytest.raises(LockNotOwnedError):
        actor.do(lock.unlock)
    assert held(direct, lock, other) == 1
    other.do(lock.unlock)
    nothing_left(direct, client, unique_name)


# --- permissions ---


@contextmanager
def user(server: Server, *rules: str) -> Iterator[str]:
    """A user with everything, but for what the rules say; the URL for it."""
    with server.client(decode_responses=True) as direct:
        direct.execute_command("ACL", "SETUSER", "guest", "reset", "on", ">sesame", "~*", "&*", "+@all", *rules)
    yield f"redis://guest:sesame@{HOST}:{server.port}/0"


# The rules, what is named, and what fails: an acquire, an unlock, a wait.
PROFILES = {
    "no EVALSHA": (["-evalsha"], "evalsha", "acquire"),
    "no scripts at all": (["-@scripting"], "evalsha", "acquire"),
    "other keys": (["resetkeys", "~other:*"], "key", "acquire"),
    "no epoch keys": (["resetkeys", "~test-*"], "key", "acquire"),
    "read-only": (["-@write"], "hincrby|user", "acquire"),
    "no HINCRBY": (["-hincrby"], "hincrby|user", "acquire"),
    "no PEXPIRE": (["-pexpire"], "pexpire|user", "acquire"),
    "no PUBLISH": (["-publish"], "publish|user", "unlock"),
    "no channels": (["resetchannels"], "channel|user", "unlock"),
    "no SUBSCRIBE": (["-subscribe"], "subscribe", "wait"),
    "channels of others": (["resetchannels", "&other:*"], "channel", "wait"),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_not_permitted_is_named_and_not_half_done(
    world: ClockWorld, build: Build, fresh_server: Callable[..., Server], unique_name: str, profile: str
) -> None:
    rules, named, what = PROFILES[profile]
    server = fresh_server(build)
    load_scripts(server)
    with user(server, *rules) as url, server.client(decode_responses=True) as direct:
        client = world.from_url(url, timeout=20.0)
        lock, actor, holder = client.get_lock(unique_name), world.actor(), world.actor()
        began = time.monotonic()
        if what == "acquire":
            for call in (lock.lock, lock.try_lock):
                with pytest.raises(rx.ResponseError, match=f"(?i){named}"):
                    actor.do(call)
        elif what == "unlock":
            actor.do(lock.lock, 30)
            with pytest.raises(rx.ResponseError, match=f"(?i){named}"):
                actor.do(lock.unlock)
            assert held(direct, lock, actor) == 1  # All of it, not half.
            with user(server):
                actor.do(lock.unlock)
        else:
            theirs = world.from_url(server.url).get_lock(unique_name)
            holder.do(theirs.lock)
            assert actor.do(lock.try_lock) is False  # That needs none of it.
            for _ in range(2):
                with pytest.raises(rx.ResponseError, match=f"(?i){named}"):
                    actor.do(lock.lock)
            assert held(direct, theirs, holder) == 1
            holder.do(theirs.unlock)
            if "subscribe" in named:
                actor.do(lock.lock)
                actor.do(lock.unlock)
        assert time.monotonic() - began < 10.0  # Nothing was tried for as long as its timeout allows.
        nothing_left(direct, client, unique_name)


def test_a_wrong_password_is_said_at_once(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    with user(server) as url:
        client = world.from_url(url.replace("sesame", "abracadabra"))
        with pytest.raises(rx.AuthenticationError) as error:
            world.actor().do(client.get_lock(unique_name).lock)
        assert "abracadabra" not in repr(error.value) + repr(client)


def test_permissions_revoked_while_waiting(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    with user(server) as url, server.client(decode_responses=True) as direct:
        client = world.from_url(url, max_wait_without_check=0.5)
        theirs = world.from_url(server.url).get_lock(unique_name)
        lock, actor, holder = client.get_lock(unique_name), world.actor(), world.actor()
        holder.do(theirs.lock)
        waiting = actor.start(lock.lock)
        await_waiter(direct, client, unique_name)
        with user(server, "-subscribe", "-evalsha", "-eval"):
            direct.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            with pytest.raises(rx.ResponseError, match=r"(?i)subscribe|evalsha|eval"):
                waiting.result(20)
        assert held(direct, theirs, holder) == 1
        holder.do(theirs.unlock)
        nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("sides", ["readers", "writers"])
def test_a_user_who_may_remove_nothing_from_the_queue_wakes_the_waiters_all_the_same(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str, sides: str
) -> None:
    server = fresh_server()
    with user(server, "-zrem") as url, server.client(decode_responses=True) as direct:
        lock, actor = world.from_url(url).get_read_write_lock(unique_name).write_lock(), world.actor()
        actor.do(lock.lock)
        waiting = []
        for _ in range(2):
            client = world.from_url(server.url)
            theirs = client.get_read_write_lock(unique_name)
            waiting.append((world.actor(), theirs.read_lock() if sides == "readers" else theirs.write_lock()))
        calls = [each.start(side.lock) for each, side in waiting]
        until(lambda: direct.zcard(f"pyredisson_waiting:{{{unique_name}}}") == 4, within=10)  # Both observe.
        actor.do(lock.unlock)
        while calls:
            turn = until(lambda: [at for at, call in enumerate(calls) if call.done()], within=20)[0]
            calls.pop(turn).result()
            each, side = waiting.pop(turn)
            each.do(side.unlock)
        assert direct.info("commandstats")["cmdstat_publish"]["calls"] < 50, "one waiter was chosen again and again"


# --- no connection to be had ---


def test_the_server_is_full_of_clients_while_we_hold(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    client = world.from_url(server.url)
    renewed_every(client, 0.5)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    with server.client(decode_responses=True) as direct:
        direct.ping()
        # No more than there are: a new connection is turned away.
        direct.config_set("maxclients", int(direct.info("clients")["connected_clients"]))
        with pytest.raises(rx.ConnectionError, match="max number of clients"), server.client() as late:
            late.ping()
        await_renewals(direct, unique_name)
        # Now: at the next renewal each of the two would want a connection.
        assert held(direct, lock, actor) == 1
        actor.do(lock.unlock)
        nothing_left(direct, client, unique_name)
    assert not world.losses


def test_a_request_waits_for_a_connection_while_the_server_is_full_of_clients(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    client = world.from_url(server.url)
    locks = [client.get_lock(f"{unique_name}-{number}") for number in range(3)]
    actors = [world.actor() for _ in locks]
    for lock, actor in zip(locks, actors, strict=True):
        actor.do(lock.lock)
    with server.client(decode_responses=True) as direct:
        direct.ping()
        direct.config_set("maxclients", int(direct.info("clients")["connected_clients"]))
        direct.client_pause(500)  # All three want a connection at once.
        released = [actor.start(lock.unlock) for lock, actor in zip(locks, actors, strict=True)]
        for each in released:
            each.result(20)
        assert not direct.keys(f"{unique_name}*")
    assert not world.losses


@pytest.mark.parametrize("pool", ["ConnectionPool", "BlockingConnectionPool"])
def test_the_users_one_connection_is_busy(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str, pool: str
) -> None:
    module = redis if world.runtime == "threads" else redis.asyncio
    connections = getattr(module, pool).from_url(valkey.url, max_connections=1)
    theirs = module.Redis(connection_pool=connections)
    client = world.close_at_end(_made(world, theirs))
    renewed_every(client, 0.3)
    lock, actor, user_of_it = client.get_lock(unique_name), world.actor(), world.actor()
    actor.do(lock.lock)
    blocked = user_of_it.start(theirs.blpop, [f"{unique_name}-empty"], 20)

    await_renewals(direct, unique_name)

    assert not blocked.done()
    assert held(direct, lock, actor) == 1
    assert not world.losses
    direct.rpush(f"{unique_name}-empty", "1")
    blocked.result(20)
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)
    world.run(client.close)
    world.run(theirs.aclose if world.runtime == "asyncio" else theirs.close)
    if world.runtime == "asyncio":
        world.run(connections.disconnect)
    else:
        connections.disconnect()


def _made(world: ClockWorld, redis_client: Any, **config: Any) -> Any:
    import pyredisson
    import pyredisson.asyncio

    module = pyredisson if world.runtime == "threads" else pyredisson.asyncio
    return module.Redisson(redis_client, config=pyredisson.Config(on_lock_lost=world.on_lock_lost, **config))


def test_one_renewal_that_is_refused_for_good_does_not_end_the_others(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    refused = proxy.refuse_request(RENEW, "ERR what is this?", 1)
    refused.wait()
    await_renewals(direct, unique_name)
    assert len(world.heard(RenewalFailed)) == 1
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)
