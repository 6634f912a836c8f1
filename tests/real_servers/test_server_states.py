"""A server that has its reasons: no memory, no script, no permission, no time; and keys that others meddle with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
import redis.exceptions as rx

from pyredisson import Redisson
from pyredisson.events import RenewalFailed
from tests.real_servers.client_settings import await_renewals, renewed_every
from tests.real_servers.observation import (
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
from tests.waiting import until

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


def test_out_of_memory_an_acquire_fails_clean(world, full, unique_name):
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


def test_out_of_memory_what_gives_back_works(world, full, unique_name):
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
def test_a_request_that_the_server_cannot_execute_now(world, proxy, direct, unique_name, state):
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


def test_a_renewal_that_the_server_cannot_execute_now(world, proxy, direct, unique_name):
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


def test_a_waiter_lives_through_a_state_of_the_server(world, proxy, valkey, direct, unique_name):
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


# --- permissions ---


@contextmanager
def user(server: Server, *rules: str) -> Iterator[str]:
    """A user with everything, but for what the rules say; the URL for it."""
    with server.client(decode_responses=True) as direct:
        direct.execute_command("ACL", "SETUSER", "guest", "reset", "on", ">sesame", "~*", "&*", "+@all", *rules)
    yield f"redis://guest:sesame@{HOST}:{server.port}/0"


# The rules, what is named, and what fails: an acquire, an extension, an unlock, a wait.
PROFILES = {
    "no EVALSHA": (["-evalsha"], "evalsha", "acquire"),
    "no scripts at all": (["-@scripting"], "evalsha", "acquire"),
    "other keys": (["resetkeys", "~other:*"], "key", "acquire"),
    "no epoch keys": (["resetkeys", "~test-*"], "key", "acquire"),
    "read-only": (["-@write"], "hincrby|user", "acquire"),
    "no HINCRBY": (["-hincrby"], "hincrby|user", "acquire"),
    "no PEXPIRE": (["-pexpire"], "pexpire|user", "acquire"),
    "no HEXISTS": (["-hexists"], "hexists|user", "extend"),
    "no PUBLISH": (["-publish"], "publish|user", "unlock"),
    "no channels": (["resetchannels"], "channel|user", "unlock"),
    "no SUBSCRIBE": (["-subscribe"], "subscribe", "wait"),
    "channels of others": (["resetchannels", "&other:*"], "channel", "wait"),
}


@pytest.mark.parametrize("profile", PROFILES)
def test_what_is_not_permitted_is_named_and_not_half_done(world, build, fresh_server, unique_name, profile):
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
        elif what == "extend":
            actor.do(lock.lock)
            for _ in range(2):
                with pytest.raises(rx.ResponseError, match=f"(?i){named}"):
                    actor.do(lock.extend, 60)
            assert not world.losses
            with user(server):
                actor.do(lock.extend, 60)
                actor.do(lock.unlock)
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


def test_permissions_revoked_while_waiting(world, own, unique_name):
    with user(own) as url, own.client(decode_responses=True) as direct:
        client = world.from_url(url, max_wait_without_check=0.5)
        theirs = world.from_url(own.url).get_lock(unique_name)
        lock, actor, holder = client.get_lock(unique_name), world.actor(), world.actor()
        holder.do(theirs.lock)
        waiting = actor.start(lock.lock)
        await_waiter(direct, client, unique_name)
        with user(own, "-subscribe", "-evalsha", "-eval"):
            direct.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            with pytest.raises(rx.ResponseError, match=r"(?i)subscribe|evalsha|eval"):
                waiting.result(20)
        assert held(direct, theirs, holder) == 1
        holder.do(theirs.unlock)
        nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("sides", ["readers", "writers"])
def test_a_user_who_may_remove_nothing_from_the_queue_wakes_the_waiters_all_the_same(world, own, unique_name, sides):
    with user(own, "-zrem") as url, own.client(decode_responses=True) as direct:
        lock, actor = world.from_url(url).get_read_write_lock(unique_name).write_lock(), world.actor()
        actor.do(lock.lock)
        waiting = []
        for _ in range(2):
            client = world.from_url(own.url)
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


def test_the_server_is_full_of_clients_while_we_hold(world, own, unique_name):
    client = world.from_url(own.url)
    renewed_every(client, 0.5)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    with own.client(decode_responses=True) as direct:
        direct.ping()
        # No more than there are: a new connection is turned away.
        direct.config_set("maxclients", int(direct.info("clients")["connected_clients"]))
        with pytest.raises(rx.ConnectionError, match="max number of clients"), own.client() as late:
            late.ping()
        await_renewals(direct, unique_name)
        # Now: at the next renewal each of the two would want a connection.
        assert held(direct, lock, actor) == 1
        actor.do(lock.unlock)
        nothing_left(direct, client, unique_name)
    assert not world.losses


def test_a_request_waits_for_a_connection_while_the_server_is_full_of_clients(world, own, unique_name):
    client = world.from_url(own.url)
    locks = [client.get_lock(f"{unique_name}-{number}") for number in range(3)]
    actors = [world.actor() for _ in locks]
    for lock, actor in zip(locks, actors, strict=True):
        actor.do(lock.lock)
    with own.client(decode_responses=True) as direct:
        direct.ping()
        direct.config_set("maxclients", int(direct.info("clients")["connected_clients"]))
        direct.client_pause(500)  # All three want a connection at once.
        released = [actor.start(lock.unlock) for lock, actor in zip(locks, actors, strict=True)]
        for each in released:
            each.result(20)
        assert not direct.keys(f"{unique_name}*")
    assert not world.losses


# --- many leases that end at once ---

MANY = """
for number = 1, 300000 do
    redis.call('HSET', 'ended:' .. number, '73ca62a9-3f15-4c73-89b6-8dad464ba84b:1', 1)
    redis.call('PEXPIREAT', 'ended:' .. number, ARGV[1])
end
"""


def test_many_leases_that_end_at_once_delay_no_one_for_long(own):
    with Redisson.from_url(own.url) as client, own.client(socket_timeout=60.0) as direct:
        lock, ends = client.get_lock("kept"), time.time() + 10
        direct.eval(MANY, 0, round(1000 * ends))
        assert direct.dbsize() >= 300_000
        until(lambda: time.time() > ends - 0.1, within=15)
        longest = 0.0
        while direct.dbsize() > 1000:
            began = time.monotonic()
            with lock:
                pass
            longest = max(longest, time.monotonic() - began)
            assert time.time() < ends + 30
        assert longest < 1.5, longest  # Pauses of 0.03 to 0.13 s were seen.
