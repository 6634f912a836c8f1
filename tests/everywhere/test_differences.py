"""What one server does differently from another, and concerns a lock: the rows of ``docs/contributing/servers.md``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests.servers import HOST, Build, Server
from tests.waiting import until

OLD = {"redis-6.2", "redis-7.0"}
VALKEY_9 = {"valkey-9.0", "valkey-9.1"}

BOTH_TIMES = """
local function now() local time = redis.call('TIME') return time[1] * 1000000 + time[2] end
redis.call('SET', KEYS[1], 'me', 'PX', 5)
local before, count = now(), 0
for number = 1, 8000000 do count = count + number end
return {now() - before, redis.call('PTTL', KEYS[1]), redis.call('EXISTS', KEYS[1])}
"""


@pytest.fixture
def direct(build: Build, fresh_server: Callable[..., Server]) -> Iterator[redis.Redis]:
    with fresh_server(build).client(decode_responses=True) as client:
        yield client


def refusal(call: Callable[..., Any], *args: Any) -> str:
    """The text of an error, as the server sent it."""
    with pytest.raises(redis.exceptions.ResponseError) as raised:
        call(*args)
    return f"{type(raised.value).__name__}: {raised.value}"


def test_the_clock_of_a_script_stands_still(build, direct):
    passed_us, ttl_ms, exists = direct.eval(BOTH_TIMES, 1, "lock")
    assert exists == 1  # A key that was there when the script began does not expire while it runs.
    if build.id in OLD:
        assert passed_us > 5_000
        assert ttl_ms == 0
    else:
        assert (passed_us, ttl_ms) == (0, 5)


def test_a_script_is_forgotten_after_500_others(build, direct):
    release = "return redis.call('DEL', KEYS[1])"
    direct.eval(release, 1, "lock")
    for number in range(499):
        direct.eval(f"return {number}", 0)
    digest = hashlib.sha1(release.encode(), usedforsecurity=False).hexdigest()
    assert direct.script_exists(digest) == [True]
    direct.eval("return 'the 500th'", 0)
    assert direct.script_exists(digest) == [build.id in OLD]


def test_wait_in_a_script(build, direct):
    script = "redis.call('SET', KEYS[1], 'me') return redis.call('WAIT', 1, 1000)"
    if build.id in OLD:
        assert "not allowed from script" in refusal(direct.eval, script, 1, "lock")
    else:
        assert direct.eval(script, 1, "lock") == 0


def test_the_event_of_a_lease_that_is_set_to_the_past(build, direct):
    direct.config_set("notify-keyspace-events", "KEA")
    with direct.pubsub() as heard:
        heard.subscribe("__keyevent@0__:del", "__keyevent@0__:expired")
        for _ in range(2):
            assert heard.get_message(timeout=5)["type"] == "subscribe"
        direct.set("lock", "me")
        direct.pexpire("lock", 0)
        message = heard.get_message(timeout=5)
    assert message["channel"] == f"__keyevent@0__:{'expired' if build.id in VALKEY_9 else 'del'}"


def test_a_refusal_by_the_acl_in_a_script(direct):
    direct.execute_command("ACL", "SETUSER", "user", "on", "nopass", "~mine", "+@all")
    port = direct.connection_pool.connection_kwargs["port"]
    with redis.Redis(HOST, port, username="user", password="any", decode_responses=True) as user:
        assert refusal(user.set, "other", 1).startswith("NoPermissionError: ")
        within = refusal(user.eval, "return redis.call('SET', 'other', 1)", 0)
    assert within.startswith("ResponseError: ")  # On all of them: its code is ERR.


def test_a_refusal_by_a_replica_in_a_script(build, fresh_server):
    primary = fresh_server(build)
    replica = fresh_server(build, "--replicaof", HOST, str(primary.port))
    until(lambda: replica.info("replication")["role"] == "slave", what="it is a replica")
    with replica.client(decode_responses=True) as direct:
        assert refusal(direct.set, "lock", "me").startswith("ReadOnlyError: ")
        within = refusal(direct.eval, "return redis.call('SET', KEYS[1], 'me')", 1, "lock")
    if build.id == "redis-6.2":
        assert within.startswith("ResponseError: ")
        assert "@user_script: 1: -READONLY" in within
    else:
        assert within.startswith("ReadOnlyError: ")


def test_a_missing_replica_and_scripts(build, direct):
    direct.set("held", "me")
    direct.config_set("min-replicas-to-write", 1)
    assert "NOREPLICAS" in refusal(direct.set, "lock", "me")
    if build.id == "redis-6.2":
        assert direct.eval("return redis.call('SET', KEYS[1], 'me')", 1, "lock") == "OK"
        assert direct.eval("return redis.call('DEL', KEYS[1])", 1, "held") == 1
    else:
        assert "NOREPLICAS" in refusal(direct.eval, "return redis.call('SET', KEYS[1], 'me')", 1, "lock")
        assert "NOREPLICAS" in refusal(direct.eval, "return redis.call('DEL', KEYS[1])", 1, "held")


def test_unsubscribing_while_a_slot_moves(build, any_cluster, unique_name):
    if build.id == "redis-6.2":
        pytest.skip("this build has no SSUBSCRIBE")
    home = any_cluster.master_of(unique_name)
    away = next(each for each in any_cluster.masters() if each is not home)
    slot = any_cluster.command(home, "CLUSTER", "KEYSLOT", unique_name)

    def reply(connection, *words):
        connection.send_command(*words)
        try:
            return connection.read_response()[0]
        except redis.exceptions.AskError:
            return "ASK"

    connection = redis.Connection(HOST, home.port, protocol=2)
    try:
        assert reply(connection, "SSUBSCRIBE", unique_name) == b"ssubscribe"
        any_cluster.command(away, "CLUSTER", "SETSLOT", slot, "IMPORTING", any_cluster.id_of(home))
        any_cluster.command(home, "CLUSTER", "SETSLOT", slot, "MIGRATING", any_cluster.id_of(away))
        assert reply(connection, "SSUBSCRIBE", f"{{{unique_name}}}2") == b"ssubscribe"
        farewell = reply(connection, "SUNSUBSCRIBE", unique_name)
        assert farewell == ("ASK" if build.id in {"redis-8.0", "redis-8.2"} else b"sunsubscribe")
    finally:
        connection.disconnect()
        for node in (away, home):
            any_cluster.command(node, "CLUSTER", "SETSLOT", slot, "STABLE")
