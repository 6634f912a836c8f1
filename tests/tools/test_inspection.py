"""The inspection of real servers: every kind of lock, whoever holds it, and whatever else is stored."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson import Config, LockLostError, Redisson
from pyredisson.inspection import DOUBTFUL, Inspector, LockView
from tests.sentinels import SentinelSet
from tests.servers import HOST, VALKEY, Server
from tests.waiting import until

SOON = Config(client_name="web", presence_after=0.05, lock_watchdog_timeout=3.0)
HOLDER = "8743c9c0-0795-4907-87fd-6c719a6b4586"


class Stage:
    """Clients, and threads that wait for locks until the test ends."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._stack = stack
        self.url = url
        self._threads: list[threading.Thread] = []

    def client(self, config: Config = SOON) -> Redisson:
        return self._stack.enter_context(Redisson.from_url(self.url, config=config))

    def wait_for(self, acquire: Callable[[], object]) -> None:
        def run() -> None:
            try:
                acquire()
            except Exception:  # The client is closed when the test ends.
                pass

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def inspector(self, **kwargs: Any) -> Inspector:
        return self._stack.enter_context(Inspector(self.url, **kwargs))

    def end(self) -> None:
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def open_stage() -> Iterator[Callable[[str], Stage]]:
    stages: list[Stage] = []
    with ExitStack() as stack:

        def make(url: str) -> Stage:
            stages.append(Stage(url, stack))
            return stages[-1]

        yield make
    for stage in stages:
        stage.end()


@pytest.fixture
def stage(own: Server, open_stage: Callable[[str], Stage]) -> Stage:
    """On the test's own server."""
    return open_stage(own.url)


def reported(inspector: Inspector, name: str, waiters: int = 0) -> LockView:
    """The lock, once its holder and its waiters have reported."""

    def seen() -> LockView | None:
        view = inspector.lock(name)
        whole = view is not None and all(each.since is not None for each in view.holders)
        return view if view is not None and whole and len(view.waiters) >= waiters else None

    return until(seen, within=20, what=f"{name} is reported")


def test_all_kinds(build, fresh_server, open_stage):
    server = fresh_server(build)
    stage = open_stage(server.url)
    one, other = stage.client(), stage.client()
    one.get_lock("lock").lock()
    one.get_lock("lock").lock()
    one.get_spin_lock("spin").lock()
    one.get_fair_lock("fair").lock()
    one.get_fenced_lock("fenced").lock()
    one.get_token_lock("token").lock()
    for client in (one, other):
        client.get_read_write_lock("rw").read_lock().lock()
    one.get_semaphore("semaphore").try_set_permits(0)
    one.get_permit_expirable_semaphore("permits").try_set_permits(3)
    one.get_permit_expirable_semaphore("permits").acquire(lease_time=60)
    latch = one.get_count_down_latch("latch")
    latch.try_set_count(2)
    with server.client() as direct:
        direct.lock("redis-py", timeout=60).acquire()
        for number in range(50):
            direct.set(f"other:{number}", "x" * number)
            direct.hset(f"session:{number}", mapping={"user": "1", "mode": "dark"})
            direct.hset(f"one:{number}", "user", 1)
    stage.wait_for(lambda: other.get_lock("lock").try_lock(60))
    stage.wait_for(lambda: other.get_fair_lock("fair").try_lock(60))
    stage.wait_for(lambda: other.get_read_write_lock("rw").write_lock().try_lock(60))
    stage.wait_for(lambda: other.get_token_lock("token").try_lock(60))
    stage.wait_for(lambda: other.get_semaphore("semaphore").try_acquire(wait_time=60))
    stage.wait_for(lambda: other.get_count_down_latch("latch").wait(60))
    stage.wait_for(lambda: other.get_event("event").wait(60))
    stage.wait_for(lambda: other.get_barrier("barrier", 2).wait(60))
    inspector = stage.inspector()
    names = ("lock", "fair", "rw", "token", "semaphore", "latch", "event", "barrier")
    for name in names:
        reported(inspector, name, 1)
    snapshot = inspector.snapshot()
    assert snapshot.complete
    assert not snapshot.errors
    views = {view.name: view for view in snapshot.locks}
    assert {name: view.kind for name, view in views.items()} == {
        "lock": "lock",
        "spin": "spin_lock",
        "fair": "fair_lock",
        "fenced": "fenced_lock",
        "token": "token_lock",
        "rw": "read_write_lock",
        "semaphore": "semaphore",
        "permits": "permit_expirable_semaphore",
        "latch": "count_down_latch",
        "event": "event",
        "barrier": "barrier",
        "redis-py": "token_lock",
    }
    for name in ("lock", "spin", "fair", "fenced", "token"):
        [holder] = views[name].holders
        assert (holder.client_id, holder.app, holder.connected) == (one.id, "web", True), name
        assert holder.holds == (2 if name == "lock" else 1)
        assert 0 < (views[name].free_in or 0) <= 3
    assert {each.client_id for each in views["rw"].holders} == {one.id, other.id}
    assert views["rw"].mode == "read"
    assert all(0 < (each.remaining or 0) <= 3 for each in views["rw"].holders)
    assert views["fenced"].token == 1
    assert (views["semaphore"].permits, views["latch"].count) == (0, 2)
    assert (views["permits"].permits, views["permits"].taken) == (2, 1)
    assert views["redis-py"].holders[0].runtime == "redis-py"
    for name in names:
        [waiter] = views[name].waiters
        assert waiter.who.client_id == other.id, name
        assert name == "token" or views[name].waiting_clients == 1, name
    assert views["fair"].waiters[0].place == 1
    ids = {each.client_id: each for each in snapshot.clients}
    assert set(ids) == {one.id, other.id}
    assert len(ids[other.id].waits) == len(names)
    for name in views:
        assert inspector.lock(name) is not None, name
    assert sorted(view.name for view in inspector.locks("f*")) == ["fair", "fenced"]
    assert inspector.lock("other:40").notes[-1].startswith("a string: a lock only if")
    assert inspector.lock("session:1") is None


@pytest.mark.parametrize("kind", ["lock", "fair", "read", "write", "fenced"])
def test_an_unlock_wakes_the_waiters(own, stage, kind):
    calm = Config(lock_watchdog_timeout=60, presence_after=0.05)  # No waiter asks again by itself in time.
    one, other = stage.client(calm), stage.client(calm)

    def get(client, wanted):
        if wanted in ("read", "write"):
            pair = client.get_read_write_lock("x")
            return pair.read_lock() if wanted == "read" else pair.write_lock()
        return getattr(client, {"lock": "get_lock", "fair": "get_fair_lock", "fenced": "get_fenced_lock"}[wanted])("x")

    get(one, kind).lock()
    acquired = threading.Event()
    stage.wait_for(lambda: (get(other, "write" if kind == "read" else kind).lock(), acquired.set()))
    inspector = stage.inspector()
    until(lambda: (inspector.lock("x") or LockView("x", "lock", "")).waiting_clients == 1)
    done = inspector.unlock("x", holder=one.id[:6])
    assert done.freed
    assert acquired.wait(10)
    assert inspector.lock("x").holders[0].client_id == other.id
    with pytest.raises(LockLostError):
        get(one, kind).unlock()


@pytest.mark.parametrize("kind", ["lock", "semaphore", "permit_expirable_semaphore"])
def test_all_clients_on_the_list_are_counted(own, stage, kind):
    getattr(stage.client(), f"get_{kind}")("x", **({} if kind == "lock" else {"permits": 1})).hold().__enter__()
    for _ in range(4):
        stage.wait_for(getattr(stage.client(), f"get_{kind}")("x").hold(wait_time=60).__enter__)
    inspector = stage.inspector()
    until(lambda: (inspector.lock("x") or LockView("x", "lock", "")).waiting_clients == 4)


def test_an_unlock_only_of_the_holder_that_is_meant(own, stage):
    client, inspector = stage.client(), stage.inspector()
    assert inspector.unlock("x").outcome == "not_held"
    client.get_lock("x").lock()
    seen = inspector.lock("x")
    assert inspector.unlock("x", holder=HOLDER).outcome == "other_holder"
    assert inspector.unlock("x", holder=client.id + ":999").outcome == "other_holder"
    assert client.get_lock("x").is_locked()
    with own.client() as direct:
        direct.hset("y", f"{client.id}:12", 1)
    assert inspector.unlock("y", holder=client.id + ":1").outcome == "other_holder", "of :12 it is only the beginning"
    client.get_lock("x").unlock()
    assert inspector.unlock("x", seen=seen).outcome == "not_held"
    with own.client() as direct:
        direct.hset("x", f"{HOLDER}:1", 1)
        assert inspector.unlock("x", holder=HOLDER[:4]).outcome == "doubtful", "it never expires"
        direct.pexpire("x", 60_000)
    assert inspector.unlock("x", seen=seen).outcome == "other_holder", "the owner that was shown holds it no more"
    assert inspector.unlock("x", holder=HOLDER[:4]).freed


#: What other libraries write with SET NX PX: their values.
FOREIGN = {
    "redsync": "cP3pmRS0XkbX7aPT9TVjHQ==",  # base64 of 16 bytes
    "redislock": "cP3pmRS0XkbX7aPT9TVjHQ",  # the same for URLs
    "node-redlock": "0f" * 16,
    "older node-redlock": "0f" * 20,
    "RedLock.net": str(uuid.UUID(int=7)),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_string_locks_of_all_libraries_are_found(own, stage):
    pottery = pytest.importorskip("pottery", reason="pottery is not installed")
    inspector = stage.inspector()
    with own.client() as direct:
        theirs = pottery.Redlock(key="orders", masters={direct}, auto_release_time=60)
        assert theirs.acquire(blocking=False)
        assert direct.lock("redis-py", timeout=60).acquire()
        assert direct.lock("redis-py with a token", timeout=60).acquire(token="worker 7")
        assert direct.lock("redis-py bytes", timeout=60).acquire(token=b"\x00\xff" * 8)
        for library, value in FOREIGN.items():
            assert direct.set(library, value, nx=True, px=60_000)
        direct.set("a number", 3, px=60_000)
        direct.set("long", "x" * 65, px=60_000)
        direct.set("cfg:theme", "dark")
        names = {"redlock:orders", "redis-py", "redis-py with a token", "redis-py bytes", *FOREIGN}
        assert {view.name for view in inspector.locks()} == names
        assert {view.name for view in inspector.locks("*")} == {*names, "cfg:theme"}
        for name in names:
            view = inspector.lock(name)
            assert view is not None, name
            assert (view.kind, view.held, view.never_expires) == ("token_lock", True, False), name
            assert 50 < (view.free_in or 0) <= 60, name
            direct.persist(name)
        # Without a time to live, only a string that looks like a token is taken for one.
        with_form = names - {"redis-py bytes", "redis-py with a token"}
        assert {view.name for view in inspector.locks() if view.never_expires} == with_form
        for name in names:
            view = inspector.lock(name)
            assert view is not None, name
            doubtful = DOUBTFUL in view.notes
            assert doubtful == (name not in ("redlock:orders", "redis-py")), name
            done = inspector.unlock(name, holder=view.holders[0].owner, seen=view)
            assert done.outcome == ("doubtful" if doubtful else "freed"), name
            assert direct.exists(name) == doubtful
            assert not doubtful or inspector.unlock(name, holder=view.holders[0].owner, seen=view, force=True).freed
        assert not theirs.locked()
        assert sorted(direct.keys()) == [b"a number", b"cfg:theme", b"long"]


def test_hostile_data(own, stage):
    """Nothing that is stored breaks the inspection, or makes it fetch much."""
    field = f"{HOLDER}:1"
    names = {
        b"x" * 65_536: {field: 1},
        b"bad\xff\xfe": {field: 1},
        b"\x1b[2J\r\n{": {field: 1},
        b"broken": {field: "not a number"},
        b"huge value": {field: "x" * 3_000_000},
        b"huge field": {"x" * 3_000_000: 1},
        b"mode only": {"mode": "read"},
        b"no owners": {"mode": "write", "user": 1},
        b"empty mode": {"mode": "", field: 1},
    }
    with own.client(socket_timeout=60) as direct:
        for name, content in names.items():
            direct.hset(name, mapping=content)
        with direct.pipeline(transaction=False) as pipeline:
            for start in range(0, 100_000, 10_000):
                pipeline.hset("large", mapping={f"field {start + number}": 1 for number in range(10_000)})
                pipeline.hset("many readers", mapping={f"{HOLDER}:{start + number}": 1 for number in range(10_000)})
            pipeline.hset("many readers", "mode", "read")
            for number in range(3000):
                pipeline.rpush("redisson_lock_queue:{long queue}", f"{HOLDER}:{number}")
            pipeline.rpush("redisson_lock_queue:{broken queue}", "x" * 1_000_000, "y", field)
            pipeline.set("redisson_lock_queue:{of another type}", "x")
            pipeline.set("redisson_lock_timeout:{broken queue}", "of another type")
            pipeline.zadd("{zset}:timeout", {"x" * 100_000: 4e12})
            pipeline.set("zset", "not a number")
            pipeline.set("a string of 40", "\x1b" * 40, ex=100)
            pipeline.set("pyredisson_client:" + HOLDER, "x" * 1_000_000)
            pipeline.set("pyredisson_client:" + "y" * 10_000, json.dumps({"holds": [{"kind": "lock", "name": "z"}]}))
            pipeline.set(f"pyredisson_client:{uuid.UUID(int=1)}", json.dumps({"waits": [{"kind": 1}], "ttl_ms": "x"}))
            pipeline.execute()
    inspector = stage.inspector()
    snapshot = inspector.snapshot()
    assert snapshot.complete
    assert not snapshot.errors
    views = {view.name: view for view in snapshot.locks}
    assert {*views} == {
        "x" * 65_536,
        r"bad\xff\xfe",
        "\x1b[2J\r\n{",
        "broken",
        "many readers",
        "long queue",
        "broken queue",
        "zset",
        "a string of 40",
    }
    assert len(views["many readers"].holders) <= 1001
    assert len(views["long queue"].waiters) == 100
    assert views["broken queue"].waiters == () or len(views["broken queue"].waiters) == 1
    for name in (*views, "huge value", "large", "no owners", "of another type", "broken queue"):
        inspector.lock(name)
    assert inspector.lock("huge value") is None
    assert inspector.unlock(b"bad\xff\xfe".decode("utf-8", "surrogateescape"), force=True).freed
    assert inspector.unlock("\x1b[2J\r\n{", force=True).freed


def test_a_scan_of_huge_names_asks_for_fewer_at_a_time(own, stage):
    with own.client() as direct, direct.pipeline(transaction=False) as pipeline:
        for number in range(10):
            pipeline.hset(f"{number}".ljust(4_000_000, "x"), f"{HOLDER}:1", 1)
        pipeline.hset("short", f"{HOLDER}:1", 1)
        pipeline.execute()
    snapshot = stage.inspector(timeout=20.0).snapshot()
    assert [view.name for view in snapshot.locks if len(view.name) < 100] == ["short"]
    assert snapshot.complete


def test_a_search_that_may_take_no_longer(own, stage):
    with own.client() as direct, direct.pipeline(transaction=False) as pipeline:
        for number in range(20_000):
            pipeline.set(f"other:{number}", number)
        pipeline.execute()
    snapshot = stage.inspector().snapshot(seconds=0.0)
    assert not snapshot.complete
    assert snapshot.seconds < 2


def test_a_server_that_does_not_know_types_in_scan(own, stage):
    stage.client().get_lock("x").lock()
    inspector = stage.inspector()
    [server] = inspector.servers.masters()
    server.filters_types = False  # As of one before Redis 6.0.
    assert [view.name for view in inspector.snapshot().locks] == ["x"]


# ---- reads only ------------------------------------------------------------------------------------------------------

READS = ("+@read", "+@connection", "+@keyspace", "-@write", "+scan", "+info", "+time", "+dbsize", "+pubsub", "+client")


def test_a_user_that_may_only_read_sees_everything(own, stage):
    stage.client().get_fair_lock("fair").lock()
    stage.client().get_read_write_lock("rw").read_lock().lock()
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", *READS)
        everything = stage.inspector().snapshot()
        before = direct.info("stats").get("acl_access_denied_cmd", 0)
        with Inspector(f"redis://ann:sesame@{HOST}:{own.port}/0") as reader:
            seen = reader.snapshot()
            assert reader.lock("fair") is not None
            reader.clients()
            assert [view.name for view in seen.locks] == [view.name for view in everything.locks] == ["fair", "rw"]
            assert seen.locks[0].holders[0].connected is True
            assert direct.info("stats").get("acl_access_denied_cmd", 0) == before
            with pytest.raises(rx.ResponseError):
                reader.unlock("fair")
        assert direct.exists("fair", "rw") == 2


def test_a_user_that_may_read_keys_and_nothing_else(own, stage):
    stage.client(Config(presence=False)).get_lock("x").lock()
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "bob", "on", ">sesame", "~*", "+@read", "+scan", "+time")
    with Inspector(f"redis://bob:sesame@{HOST}:{own.port}/0") as reader:
        [view] = reader.snapshot().locks
        assert view.holders[0].connected is None


# ---- clusters and sentinels ------------------------------------------------------------------------------------------


def test_a_cluster(any_cluster, open_stage, unique_name):
    stage = open_stage(any_cluster.url)
    one, other = stage.client(), stage.client()
    names = [f"{unique_name}:{number}" for number in range(12)]
    for name in names:
        one.get_lock(name).lock()
    one.get_fair_lock(f"{unique_name}:fair").lock()
    acquired = threading.Event()
    stage.wait_for(lambda: (other.get_lock(names[0]).lock(), acquired.set()))
    stage.wait_for(lambda: other.get_fair_lock(f"{unique_name}:fair").lock())
    inspector = stage.inspector()
    reported(inspector, names[0], 1)
    reported(inspector, f"{unique_name}:fair", 1)
    snapshot = inspector.snapshot(f"{unique_name}:*")
    assert sorted(view.name for view in snapshot.locks) == sorted([*names, f"{unique_name}:fair"])
    assert len({view.node for view in snapshot.locks}) == 3
    assert all(view.holders[0].client_id == one.id for view in snapshot.locks)
    assert all(view.holders[0].connected for view in snapshot.locks)
    waited = next(view for view in snapshot.locks if view.name == names[0])
    assert (waited.waiting_clients, len(waited.waiters)) == (1, 1)
    assert inspector.unlock(names[0]).notified == 1
    assert acquired.wait(10)
    stage.inspector().announce(f"{unique_name}:announced", b"{}", 1000)
    assert {one.id, other.id} <= {each.client_id for each in inspector.clients()}


def test_sentinels(fresh_server, open_stage):
    watched = SentinelSet(fresh_server, VALKEY)
    try:
        stage = open_stage(watched.url)
        stage.client().get_lock("x").lock()
        inspector = stage.inspector()
        assert inspector.snapshot().locks[0].name == "x"
        view = inspector.lock("x")
        assert view is not None
        assert view.node == f"{HOST}:{watched.master().port}"
        _, new = watched.hand_over()
        watched.tell(new)
        watched.sentinels.pop(0).kill()
        until(lambda: (inspector.lock("x") or LockView("", "", "")).node == f"{HOST}:{new.port}", within=20)
    finally:
        watched.stop()


@pytest.mark.parametrize("url", ["nonsense", "http://x", "embedded://", "redis+sentinel://x:1", "redis+cluster://x/9"])
def test_a_url_that_is_none(url):
    with pytest.raises(ValueError, match=r"."):
        Inspector(url)


@pytest.mark.parametrize("prefix", ["app:", "odd[*]:", "{app}"])
def test_a_prefix(own, stage, prefix):
    client = stage.client(Config(prefix=prefix, presence_after=0.05, lock_watchdog_timeout=3.0))
    client.get_lock("x").lock()
    client.get_fair_lock("y").lock()
    stage.client().get_lock("of others").lock()
    inspector = stage.inspector(prefix=prefix)
    assert reported(inspector, "x").holders[0].client_id == client.id
    assert {view.name for view in inspector.snapshot().locks} == {"x", "y"}
    assert [view.name for view in inspector.locks("x*")] == ["x"]
    assert inspector.lock("of others") is None
    assert any(each.presence for each in inspector.clients())
    assert inspector.unlock("x").freed
