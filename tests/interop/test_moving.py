"""What a service has to mind that takes the place of one in Java: mapped names, old permits, what a user may do."""

from __future__ import annotations

import pytest
import redis
from redis.exceptions import NoPermissionError

from tests.interop.building import CURRENT, LAST_3, OLD, VERSIONS
from tests.interop.clients import PythonSide, Side
from tests.interop.supported_kinds import LOCKS, OTHERS
from tests.interop.waiters import until_it_waits
from tests.interop.wake_up_checks import SOON, Way
from tests.waiting import until

PREFIX = "prod:"

MAPPED = [
    (version, kind)
    for kind, has in {**LOCKS, **OTHERS}.items()
    for version in has
    # What was mapped in another way long ago is told below.
    if not (version == OLD and kind in ("fair_lock", "read_lock", "write_lock"))
]


def wake(listeners: redis.Redis, kind: str, holder: Side, waiter: Side, held: str, wanted: str) -> None:
    """Let one side wait for what the other holds, by the name that each gives it."""
    way = Way(kind, holder.owner(), waiter.owner(), held)
    way.theirs = waiter.owner().get(way.theirs.kind, wanted)
    way.prepare()
    waiting = way.theirs.start(way.waits)
    until_it_waits(listeners, way.theirs)
    assert not waiting.done()
    way.let_go()
    way.clean_up(waiting.result(SOON))


@pytest.mark.parametrize(("version", "kind"), MAPPED)
def test_what_java_maps_is_the_name_here(open_sides, version, kind, unique_name, direct):
    sides = open_sides(version)
    java, python = sides.java(prefix=PREFIX), sides.python()
    mine, theirs = f"{PREFIX}{unique_name}", unique_name
    if kind == "spin_lock":  # It is told nothing.
        holder = java.owner().get(kind, theirs)
        holder.lock()
        assert not python.owner().get(kind, mine).try_lock()
        holder.unlock()
        assert python.owner().get(kind, mine).try_lock()
        return
    kind = {"read_lock": "readers"}.get(kind, kind)
    wake(direct, kind, java, python, f"{theirs}-1", f"{mine}-1")
    wake(direct, kind, python, java, f"{mine}-2", f"{theirs}-2")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_queue_of_a_fair_lock_whose_name_is_mapped(open_sides, version, unique_name, direct):
    """Old ones give it the name that was not mapped: both exclude each other, in two queues."""
    sides = open_sides(version)
    java, python = sides.java(prefix=PREFIX), sides.python()
    holder = python.owner().get("fair_lock", f"{PREFIX}{unique_name}")
    waiter = java.owner().get("fair_lock", unique_name)
    holder.lock(3)
    waits = waiter.start("try_lock", 10, 30)
    name = unique_name if version == OLD else f"{PREFIX}{unique_name}"
    until(lambda: direct.llen(f"redisson_lock_queue:{{{name}}}") == 1, what="it stands in the queue")
    assert not waits.done()
    holder.unlock()
    assert waits.result(10) is True
    assert not holder.try_lock()
    waiter.unlock()


@pytest.mark.parametrize(("version", "excluded"), [(CURRENT, True), (LAST_3, True), (OLD, False)])
def test_a_read_write_lock_whose_name_is_mapped(open_sides, version, excluded, unique_name, direct):
    """The old one maps the name twice, and so has another lock."""
    sides = open_sides(version)
    theirs = sides.java(prefix=PREFIX).owner().get("write_lock", unique_name)
    mine = sides.python().owner().get("write_lock", f"{PREFIX}{unique_name}")
    theirs.lock()
    assert mine.try_lock() is not excluded
    assert direct.exists(f"{PREFIX}{PREFIX}{unique_name}") == (not excluded)
    theirs.unlock()


def test_permits_of_the_oldest_have_other_ids(open_sides, unique_name):
    """They are counted together, but neither side can give back what the other took."""
    sides = open_sides(OLD)
    mine, theirs = (
        side.owner().get("permit_expirable_semaphore", unique_name) for side in (sides.python(), sides.java())
    )
    assert mine.try_set_permits(2)
    ours, old = mine.acquire(), theirs.acquire()
    assert mine.try_acquire() is None
    assert mine.try_release(old) is False
    assert theirs.try_release(ours) is False
    assert mine.try_release(ours) is True
    assert theirs.try_release(old) is True
    assert mine.available_permits() == 2


#: What the scripts and calls of Redisson need, as a user's rules.
OF_JAVA = [
    *("decr", "decrby", "del", "exists", "get", "hdel", "hexists", "hget", "hincrby", "hkeys", "hlen", "hset", "incr"),
    *("incrby", "lindex", "lpop", "lrange", "lrem", "persist", "pexpire", "pexpireat", "pttl", "publish", "rpush"),
    *("set", "zadd", "zcount", "zincrby", "zrange", "zrangebyscore", "zrem", "zscore", "eval", "evalsha", "info"),
    *("script|load", "pubsub", "subscribe", "unsubscribe", "wait", "ping"),
]
OURS_TOO = ["time", "hmget", "hgetall", "hrandfield"]


def allow(direct: redis.Redis, commands: list[str], keys: list[str]) -> None:
    rules = [*(f"+{each}" for each in commands), *(f"~{each}" for each in keys), "&redisson_*"]
    direct.execute_command("ACL", "SETUSER", "mover", "reset", "on", ">sesame", *rules)


def test_the_permissions_that_we_need_besides_those_of_java(fresh_server, worlds, unique_name):
    server = fresh_server()
    own = ["pyredisson_epoch:*", "pyredisson_done:*", "pyredisson_permits:*", "pyredisson_lock_alive:*"]
    keys = [f"{unique_name}*", f"{{{unique_name}*", "redisson_*", *own]
    with server.client(decode_responses=True) as direct:
        allow(direct, [*OF_JAVA, *OURS_TOO], keys)
        url = server.url.replace("redis://", "redis://mover:sesame@")
        one, other = PythonSide(worlds["threads"], url), PythonSide(worlds["threads"], url)
        for kind in [each for each in {**LOCKS, **OTHERS} if each not in ("spin_lock", "read_lock")] + ["readers"]:
            name = f"{unique_name}-{kind}"
            wake(direct, kind, one, other, name, name)
        for missing, kind in (("time", "fair_lock"), ("hmget", "write_lock")):
            allow(direct, [each for each in (*OF_JAVA, *OURS_TOO) if each != missing], keys)
            with pytest.raises(NoPermissionError):
                one.owner().get(kind, f"{unique_name}-less").try_lock()
        lock, semaphore = (one.owner().get(kind, f"{unique_name}-less") for kind in ("lock", "semaphore"))
        allow(direct, [*OF_JAVA, *OURS_TOO], [each for each in keys if each != "pyredisson_epoch:*"])
        with pytest.raises(NoPermissionError):
            lock.try_lock()
        allow(direct, [*OF_JAVA, *OURS_TOO], [each for each in keys if each != "pyredisson_done:*"])
        with pytest.raises(NoPermissionError):
            semaphore.try_set_permits(1)
