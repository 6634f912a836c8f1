"""Who is who: the names of connections, what a client tells of its locks, and whom errors name as the holder."""

import copy
import hashlib
import json
import math
import os
import pickle
import re
import socket
import time
from typing import Any

import pytest
from click.testing import CliRunner

from pyredisson import Holder, LockError, LockNotOwnedError, LockTimeoutError
from pyredisson._tools.cli import cli
from pyredisson.events import HeldTooLong, PresenceRefused, WaitingTooLong
from tests.promises.kinds import LOCKS, handle, rival, wait
from tests.servers import HOST
from tests.worlds.base import Remote
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async

pytestmark = sync_and_async

#: Quick enough for a test.
SOON: dict[str, Any] = {"presence_after": 0.1, "lock_watchdog_timeout": 3.0}


def key_of(client: Remote) -> str:
    return f"{client.config.prefix}pyredisson_client:{client.real.id}"


def told(world: ClockWorld, client: Remote) -> Any:
    """What a client has told; ``None`` if that is nothing."""
    text = world.redis.command("GET", key_of(client))
    return None if text is None else json.loads(text)


def holds(world: ClockWorld, client: Remote) -> list[Any]:
    """The holds of which a client has told."""
    return list((told(world, client) or {"holds": ()})["holds"])


def names(world: ClockWorld, client_id: str) -> list[str]:
    """The names of a client's connections."""
    return [
        line.partition(" name=")[2].partition(" ")[0]
        for line in world.redis.command("CLIENT", "LIST").decode().splitlines()
        if client_id in line
    ]


# ---- connections -----------------------------------------------------------------------------------------------------


def test_connections_are_named(world, alice, bob):
    # The name of the configuration goes before that of the connections.
    client = world.client(world.redis_client(client_name="alice"), client_name="my app:1")
    lock = alice.lock(client)
    lock.lock()
    waiting = bob.start(bob.lock(client).lock)
    host = socket.gethostname().replace(":", "_")[:64]
    expected = f"pyredisson:my_app_1:{host}:{os.getpid()}:{client.real.id}"

    def named():
        found = names(world, client.real.id)
        return len(found) >= 2 and set(found) == {expected}  # For requests, and for messages.

    world.until(named)
    listed = world.redis.command("CLIENT", "LIST").decode().splitlines()
    assert all(" lib-name=pyredisson lib-ver=" in line for line in listed if client.real.id in line)
    lock.unlock()
    waiting.result()


def test_a_name_that_the_user_gave_to_connections_is_kept(world):
    client = world.client(world.redis_client(client_name="alice"), **SOON)
    lock = world.actor().lock(client)
    lock.lock()
    listed = world.redis.command("CLIENT", "LIST").decode()
    assert " name=alice " in listed
    assert client.real.id not in listed
    world.until(lambda: told(world, client))
    assert told(world, client)["app"] == "alice"


@pytest.mark.parametrize("error", ["ERR unknown command 'CLIENT'", "NOPERM this user has no permissions"])
def test_a_server_that_refuses_names_is_used_without(world, proxy, error):
    proxy.refuse_request("CLIENT", error)
    client = world.through(proxy.port)
    lock, other = world.actor().lock(client), world.actor()
    lock.lock()
    waiting = other.start(other.lock(client).lock)
    lock.unlock()
    waiting.result()
    assert names(world, client.real.id) == []


# ---- what is told ----------------------------------------------------------------------------------------------------


def test_holds_of_each_kind_are_told(world):
    client, actor = world.client(client_name="web", prefix="app:", **SOON), world.actor()
    for kind in LOCKS:
        handle(actor, client, kind, f"a {kind}").lock(*([60] if kind == "spin_lock" else []))
    semaphore = actor.get(client, "semaphore", "a semaphore", 2)
    permits = actor.get(client, "permit_expirable_semaphore", "a permit_expirable_semaphore", 2)
    with semaphore.hold(), permits.hold():
        world.until(lambda: len(holds(world, client)) == len(LOCKS) + 2)
        said = told(world, client)
        common = {"v": 1, "app": "web", "host": socket.gethostname(), "pid": os.getpid(), "more": 0, "period_ms": 1000}
        assert common.items() <= said.items()
        # As long as the lock with the longest fixed lease, the spin lock, would stay if the client died now.
        assert 50_000 < said["ttl_ms"] <= 60_000
        assert 50 < (world.redis.ttl(key_of(client)) or 0) <= 60
        by_kind = {each["kind"]: each for each in said["holds"]}
        assert set(by_kind) == {*LOCKS, "semaphore", "permit_expirable_semaphore"}
        for kind, each in by_kind.items():
            expected = (f"app:a {kind}", actor.number, 1, kind not in ("spin_lock", "semaphore"))
            assert (each["name"], each["id"], each["holds"], each["watchdog"]) == expected
            assert each["ms"] >= 100
            assert isinstance(each["thread"], str)
        token = world.redis.command("GET", "app:a token_lock")
        assert by_kind["token_lock"]["token_id"] == hashlib.sha256(token).hexdigest()[:8]
        assert token.decode() not in json.dumps(said)
    world.until(lambda: "semaphore" not in {each["kind"] for each in holds(world, client)})


@pytest.mark.parametrize("end", ["hold", "client"])
def test_what_is_told_ends_with_the_hold_or_the_client(world, end):
    client, actor = world.client(**SOON), world.actor()
    lock = actor.lock(client)
    lock.lock()
    world.until(lambda: told(world, client))
    if end == "client":
        client.close()
        assert told(world, client) is None
        return
    lock.unlock()
    world.until(lambda: told(world, client) is None, within=2.5)


def test_a_place_in_the_queue_of_a_fair_lock_is_told_for_as_long_as_it_is_kept(world, alice, bob):
    client, holder = world.client(**SOON), world.client()
    held = alice.get(holder, "fair_lock", "fair")
    held.lock()
    waiting = bob.start(bob.get(client, "fair_lock", "fair").try_lock, 60)
    world.until(lambda: 3 < (world.redis.ttl(key_of(client)) or 0) <= 60)
    assert [each["name"] for each in told(world, client)["waits"]] == ["fair"]
    held.unlock()
    waiting.result()


def test_the_members_of_a_multi_lock_are_told(world):
    client = world.client(**SOON)
    handle(world.actor(), client, "multi_lock").lock()
    expected = {("orders", True), ("stock", True)}
    world.until(lambda: {(each["name"], each["watchdog"]) for each in holds(world, client)} == expected)


def test_waits_are_told(world):
    client, holder = world.client(**SOON), world.client(presence=False)
    owner = world.actor()
    for kind in ("lock", "fair_lock", "token_lock"):
        owner.get(holder, kind, kind).lock()
    owner.get(holder, "count_down_latch", "count_down_latch").try_set_count(1)
    waiters = {kind: world.actor() for kind in ("lock", "fair_lock", "token_lock", "semaphore", "count_down_latch")}
    expected = {(kind, kind, actor.number) for kind, actor in waiters.items()}  # Asked before they wait.
    pending = [actor.start(wait(handle(actor, client, kind, kind), 8)) for kind, actor in waiters.items()]

    def waits():
        said = told(world, client) or {"waits": []}
        return {(each["kind"], each["name"], each["id"]) for each in said["waits"]}

    world.until(lambda: waits() == expected)
    assert holds(world, client) == []
    assert told(world, holder) is None, "it has presence=False"
    for each in pending:
        each.result()
    world.until(lambda: told(world, client) is None)


def test_a_user_that_may_not_tell_is_warned_once(world):
    rules = "reset on >secret ~orders* ~pyredisson_epoch:* ~redisson_lock_* &* +@all"
    world.redis.command("ACL", "SETUSER", "untold", *rules.split())
    try:
        client = world.from_url(f"redis://untold:secret@{HOST}:{world.port}", **SOON)
        actor, other = world.actors(2)
        actor.do(client.get_lock("orders:1").lock)
        world.until(lambda: world.heard(PresenceRefused))
        actor.do(client.get_lock("orders:2").lock)
        assert not other.do(client.get_lock("orders:1").try_lock, 1.5)
        assert len(world.heard(PresenceRefused)) == 1
        actor.do(client.get_lock("orders:1").unlock)
        world.run(client.close)
    finally:
        world.redis.command("ACL", "DELUSER", "untold")


# ---- who holds it ----------------------------------------------------------------------------------------------------


def not_acquired(lock: Remote, seconds: float = 0.05) -> LockTimeoutError:
    with pytest.raises(LockTimeoutError) as error:
        lock.hold(wait_time=seconds).__enter__()
    return error.value


def test_errors_name_the_holder_of_another_client(world, alice, bob):
    theirs, mine = world.client(client_name="web", **SOON), world.client()
    before = time.time()
    held = alice.lock(theirs)
    held.lock()
    world.until(lambda: told(world, theirs))
    error = not_acquired(bob.lock(mine))
    holder = error.holder
    assert isinstance(holder, Holder)
    assert (holder.client_id, holder.thread_id) == (theirs.real.id, alice.number)
    assert (holder.app, holder.host, holder.pid) == ("web", socket.gethostname(), os.getpid())
    assert holder.thread == told(world, theirs)["holds"][0]["thread"]
    assert before - 0.5 <= holder.since <= time.time()
    assert 0 < holder.remaining <= 3.0
    assert f"by web@{socket.gethostname()} pid {os.getpid()} thread {holder.thread!r}" in str(error)
    assert "unless it is renewed" in str(error)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (str(again), again.holder, again.name) == (str(error), holder, "orders")

    with pytest.raises(LockNotOwnedError) as refused:
        bob.lock(mine).unlock()
    assert refused.value.holder.client_id == theirs.real.id
    assert "s; its lease ends in" in str(refused.value)
    assert pickle.loads(pickle.dumps(refused.value)).holder == refused.value.holder

    with pytest.raises(LockError, match=r"holds a hash.* It is held by web@"):
        bob.get(mine, "semaphore", "orders").acquire()


def test_a_time_out_of_a_multi_lock_names_the_member_that_is_held(world, alice, bob):
    theirs, mine = world.client(), world.client()
    alice.lock(theirs, "stock").lock()
    for seconds in (0, 0.05):
        error = not_acquired(handle(bob, mine, "multi_lock"), seconds)
        assert re.search(r"multi-lock 'orders \+ stock'.*; 'stock' is held by .*; its lease ends", str(error))
        assert error.holder.client_id == theirs.real.id


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore"])
@pytest.mark.parametrize("same_client", [True, False])
def test_a_time_out_of_a_semaphore_names_who_holds_its_permits(world, alice, bob, kind, same_client):
    theirs = world.client(client_name="web", **SOON)
    mine = theirs if same_client else world.client()
    with alice.get(theirs, kind, "seats", permits=1).hold():
        world.until(lambda: told(world, theirs))
        for seconds in (0, 0.05):
            error = not_acquired(bob.get(mine, kind, "seats"), seconds)
            assert f"; held by web@{socket.gethostname()} pid {os.getpid()} thread" in str(error)
            assert str(error).startswith("timed out" if seconds else "not enough permits of 'seats' are available")
            assert error.holder.client_id == theirs.real.id
            assert error.holder.thread_id == alice.number


def test_a_time_out_of_a_semaphore_says_that_more_is_wanted_than_there_is(world):
    semaphore = world.actor().get(world.client(), "semaphore", "seats", permits=3)
    with pytest.raises(LockTimeoutError, match=r"waiting for 5 permits of 'seats'; 3 of 5 are available$"):
        semaphore.hold(5, wait_time=0.05).enter()


def test_the_reason_of_a_lock_held_by_hand_is_in_the_errors_of_others(world):
    by_hand = ["lock", "orders", "--for", "10m", "--reason", "INC-42: the disk is full"]
    assert CliRunner().invoke(cli, by_hand, env={"PYREDISSON_URL": f"redis://{HOST}:{world.port}"}).exit_code == 0
    error = not_acquired(world.actor().lock(world.client()))
    assert error.holder.reason == "INC-42: the disk is full"
    assert "(by hand: 'INC-42: the disk is full')" in str(error)
    assert "unless it is renewed" not in str(error)


def test_the_holder_may_be_of_the_same_client(world, alice, bob):
    client = world.client(client_name="web", presence=False)
    alice.lock(client).lock()
    error = not_acquired(bob.lock(client))
    assert (error.holder.client_id, error.holder.thread_id) == (client.real.id, alice.number)
    assert error.holder.pid == os.getpid()
    assert "held by thread" in str(error) or "held by task" in str(error)


@pytest.mark.parametrize("kind", LOCKS)
def test_the_holder_of_each_kind_is_found(world, alice, bob, kind):
    theirs, mine = world.client(client_name="web", **SOON), world.client()
    handle(alice, theirs, kind).lock()
    holder = not_acquired(rival(bob, mine, kind)).holder
    assert (holder.client_id, holder.thread_id, holder.app) == (theirs.real.id, alice.number, "web")
    assert mine.holder_of("orders") == holder or mine.holder_of("orders").client_id == theirs.real.id


#: A client of Redisson, by what it stores.
JAVA = "8c1e0000-1111-2222-3333-444455556666"


def test_a_client_of_redisson_is_known_by_its_id(world):
    world.redis.command("HSET", "orders", f"{JAVA}:77", 1)
    world.redis.command("PEXPIRE", "orders", 20_000)
    error = not_acquired(world.actor().lock(world.client()))
    assert (error.holder.client_id, error.holder.thread_id) == (JAVA, 77)
    assert (error.holder.app, error.holder.pid, error.holder.since) == (None, None, None)
    assert "a client of Redisson" in str(error)
    world.redis.command("PERSIST", "orders")
    again = not_acquired(world.actor().lock(world.client()))
    assert again.holder.remaining == math.inf


@pytest.mark.parametrize(
    "said",
    [
        "no JSON",
        "17",
        '{"holds":[1,null,{"name":"orders"},{"name":"orders","id":77,"ms":"x","thread":{}}],"ttl_ms":[]}',
        '{"holds":[{"name":"orders","id":77,"ms":1e999}],"ttl_ms":9e999}',
        "[" * 10_000,
        "\udcff",
    ],
    ids=range(6),
)
def test_whatever_another_client_tells_hides_no_error(world, said):
    world.redis.command("HSET", "orders", f"{JAVA}:77", 1)
    world.redis.command("PEXPIRE", "orders", 20_000)
    world.redis.command("SET", f"pyredisson_client:{JAVA}", said.encode(errors="surrogateescape"))
    error = not_acquired(world.actor().lock(world.client()))
    assert (error.holder.client_id, error.holder.thread_id) == (JAVA, 77)


def test_of_a_lock_of_redis_py_no_more_is_known_than_when_it_ends(world):
    world.redis.command("SET", "orders", "0e8f3c", "PX", 20_000)
    error = not_acquired(world.actor().get(world.client(), "token_lock"))
    assert error.holder == Holder(remaining=error.holder.remaining)
    assert 10 < (error.holder.remaining or 0) <= 20
    assert "held by an unknown holder; its lease ends in" in str(error)


def test_a_try_that_fails_asks_for_no_holder(world, alice, bob, proxy):
    theirs, mine = world.client(), world.through(proxy.port)
    alice.lock(theirs).lock()
    lock = bob.lock(mine)
    assert not lock.try_lock()
    before = proxy.requests
    assert not lock.try_lock()
    assert proxy.requests == before + 1
    with pytest.raises(LockNotOwnedError) as error:
        bob.lock(mine, "free").unlock()
    assert error.value.holder is None
    assert mine.holder_of("free") is None


# ---- what takes too long ---------------------------------------------------------------------------------------------


def test_what_takes_too_long_is_reported_once_with_a_stack(world, alice, bob):
    url = f"redis://{HOST}:{world.port}"
    client = world.from_url(url, warn_held_longer_than=0.2, warn_waiting_longer_than=0.3, **SOON)
    alice.do(client.get_lock("orders").lock)
    assert not bob.do(client.get_lock("orders").try_lock, 2)
    held, waited = world.heard(HeldTooLong), world.heard(WaitingTooLong)
    assert [(each.name, each.kind, each.owner) for each in held] == [("orders", "lock", f"{client.id}:{alice.number}")]
    assert [(each.name, each.kind, each.owner) for each in waited] == [("orders", "lock", f"{client.id}:{bob.number}")]
    assert held[0].held >= 0.2
    assert waited[0].waited >= 0.3
    assert any("File " in line for line in held[0].stack)
    assert any("try_lock" in line or "_keep_trying" in line or "acquire" in line for line in waited[0].stack)
    said = json.loads(world.redis.command("GET", f"pyredisson_client:{client.id}"))
    assert said["holds"][0]["stack"] == list(held[0].stack[-20:])
    alice.do(client.get_lock("orders").unlock)
    assert bob.do(client.get_lock("orders").try_lock, 1)
    world.until(lambda: len(world.heard(HeldTooLong)) == 2, what="another hold is another episode")


def test_a_made_owner_has_no_stack(world):
    url = f"redis://{HOST}:{world.port}"
    client = world.from_url(url, warn_held_longer_than=0.2, presence=False)
    owner = client.new_owner()
    world.actor().do(client.get_lock("orders", owner=owner).lock)
    world.until(lambda: world.heard(HeldTooLong))
    assert world.heard(HeldTooLong)[0].stack == ()


def test_presence_that_hangs_keeps_no_lock_from_being_renewed(world, proxy):
    lock = world.actor().lock(world.through(proxy.port, **SOON))
    held = proxy.hold_request("SET", k=None)
    lock.lock()
    world.until(lambda: held.hits, what="it was written")
    world.renewed("orders")
    lock.unlock()
    held.remove()
