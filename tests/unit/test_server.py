"""What a client knows of its server: read from INFO, told to whom it concerns, complained of once."""

import threading

import pytest

from pyredisson._core.client import ClientCore
from pyredisson._core.server import Complaint, ServerFacts, ServerState, complaints, read_info
from pyredisson.config import Config
from tests.unit.fake import FakeMutex, FakeRuntime

REDIS = (
    b"# Server\r\nredis_version:7.0.15\r\nrun_id:aaaa\r\nuptime_in_seconds:77\r\n"
    b"# Memory\r\nmaxmemory_policy:noeviction\r\n# Persistence\r\naof_enabled:1\r\n"
    b"# Replication\r\nrole:master\r\nconnected_slaves:2\r\nslave0:ip=127.0.0.1,port=1,state=online\r\n"
    b"master_replid:bbbb\r\n"
)
VALKEY = REDIS.replace(b"redis_version:7.0.15", b"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.0")


def facts(said: bytes = REDIS) -> ServerFacts:
    return read_info(said, 12.5)


class Heard:
    """A server, and what it has made known."""

    def __init__(self, *, strict: bool = False) -> None:
        self.complaints: list[Complaint] = []
        self.learned: list[tuple[ServerFacts, ServerFacts | None]] = []
        self.server = ServerState(FakeMutex(), lambda: 12.5, complain=self.complaints.append, strict=strict)
        self.server.on_learned.append(lambda new, old: self.learned.append((new, old)))


def test_what_a_server_says_is_read():
    assert facts() == ServerFacts(
        run_id="aaaa",
        uptime=77,
        version="7.0.15",
        product="redis",
        role="master",
        replicas=2,
        syncing=0,
        eviction="noeviction",
        aof=True,
        replication_id="bbbb",
        seen_at=12.5,
    )


@pytest.mark.parametrize(
    ("state", "syncing"),
    [("online", 0), ("wait_bgsave", 1), ("send_bulk", 1), ("send_bulk_and_stream", 1), ("bg_transfer", 1)],
)
def test_a_replica_in_its_first_synchronisation_is_not_in_step(state, syncing):
    said = REDIS.replace(b"state=online", f"state={state},offset=0,lag=0".encode()).replace(b"slaves:2", b"slaves:1")
    known, client = facts(said), ClientCore(FakeRuntime(), Config())
    assert (known.replicas, known.syncing, known.in_step) == (1, syncing, 1 - syncing)
    client.server.inspect(said)
    assert client.replicas.wanted() == 1 - syncing


def test_valkey_is_recognised_by_its_own_name_and_version():
    assert (facts(VALKEY).product, facts(VALKEY).version) == ("valkey", "9.1.0")


@pytest.mark.parametrize("said", [b"", b"nonsense", b"# Server\r\n", b"uptime_in_seconds:soon\r\n", b"\xff:\xfe\r\n"])
def test_what_is_missing_or_unreadable_is_unknown(said):
    known = facts(said)
    assert (known.run_id, known.uptime, known.role, known.replicas) == ("", 0, "", 0)
    assert known.eviction is None
    assert known.aof is None
    assert not complaints(known)


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-ttl", "volatile-lfu"])
def test_every_policy_that_evicts_is_complained_of(policy):
    [complaint] = complaints(facts(REDIS.replace(b"noeviction", policy.encode())))
    assert complaint.setting == "maxmemory-policy"
    assert policy in complaint.text
    assert "maxmemory-policy noeviction" in complaint.text


def test_each_connection_is_reported_with_the_one_before():
    heard = Heard()
    assert heard.server.facts is None
    heard.server.inspect(REDIS)
    heard.server.inspect(VALKEY)
    assert heard.learned == [(facts(), None), (facts(VALKEY), facts())]
    assert heard.server.facts == facts(VALKEY)


@pytest.mark.parametrize(
    ("before", "after", "keys", "flushed"),
    [
        (None, 1, 0, False),
        (0, 0, 0, False),
        (0, 1, 0, True),
        (0, 1, 5, False),
        (1, 1, 0, False),
        (1, 2, 5, True),
        (2, 1, 0, False),
        (1, None, 0, False),
    ],
)
def test_a_flush_is_noticed_by_how_many_there_were_before(before, after, keys, flushed):
    def said(flushes: int | None) -> bytes:
        stats = b"" if flushes is None else b"# Commandstats\r\ncmdstat_flushall:calls=%d,usec=1\r\n" % flushes
        return REDIS + stats + b"# Keyspace\r\n" + (b"db0:keys=%d,expires=0\r\n" % keys if keys else b"")

    server = Heard().server
    server.inspect(said(before))
    assert server.cause("", 12.5) is None
    server.inspect(said(after))
    assert (server.cause("", 12.5) is not None) == flushed


def test_each_complaint_comes_once_a_client():
    heard = Heard()
    bad = REDIS.replace(b"noeviction", b"allkeys-lru")
    heard.server.inspect(bad)
    heard.server.inspect(bad)
    heard.server.inspect(bad.replace(b"role:master", b"role:slave"))
    assert [each.setting for each in heard.complaints] == ["maxmemory-policy", "role"]
    heard.server.forget(threading.Lock())
    assert heard.server.facts is None
    heard.server.inspect(bad)
    assert len(heard.complaints) == 3, "the child of a fork is another client"
