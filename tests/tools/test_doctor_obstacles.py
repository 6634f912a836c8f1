"""``pyredisson doctor`` sees each state in which this user cannot acquire a lock, and says what it could not check."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyredisson import Redisson
from pyredisson._core.server import read_info
from pyredisson._tools.examination import Grade, Node, Replica, examine, judge, unable, unchecked
from tests.examples import ROOT
from tests.servers import HOST
from tests.waiting import until

rights = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "rights.py")))


def worst(url: str, lock: str | None = None) -> tuple[Grade, str]:
    report = examine([url], lock)
    return report.grade, "\n".join(each.text for each in report.findings if each.grade is report.grade)


def is_refused(url: str) -> bool:
    with Redisson.from_url(url) as client:
        try:
            return not client.get_lock("orders").try_lock(0, lease_time=1)
        except Exception:
            return True


def test_nothing_prevents_locks(build, fresh_server):
    server = fresh_server(build, "--appendonly", "yes")
    report = examine([server.url])
    assert [each.text for each in report.findings] == []
    [node] = report.nodes
    assert list(unable(node)) == []
    with server.client() as direct:
        assert direct.dbsize() == 0


def test_a_full_memory(build, fresh_server):
    server = fresh_server(build, "--maxmemory-policy", "noeviction")
    with server.client() as direct:
        direct.set("ballast", "x" * 1_000_000)
        direct.config_set("maxmemory", 1_000_000)
    grade, text = worst(server.url)
    assert (grade, "OOM" in text) == (Grade.CRITICAL, True)
    assert is_refused(server.url)


def test_replicas_that_are_missing(build, fresh_server):
    server = fresh_server(build, "--min-replicas-to-write", "1")
    grade, text = worst(server.url)
    assert "min-replicas-to-write" in text
    assert (grade is Grade.CRITICAL) == is_refused(server.url)


def test_few_connections(build, fresh_server):
    server = fresh_server(build, "--maxclients", "12")
    with server.client() as one, server.client() as other:
        assert one.ping()
        assert other.ping()
        grade, text = worst(server.url)
    assert grade is Grade.WARNING
    assert "of 12 places" in text


def test_a_failed_save(build, fresh_server):
    server = fresh_server(build, "--dbfilename", "a-folder")
    with server.client() as direct:
        direct.set("x", 1)
        direct.config_set("save", "3600 1")
        Path(direct.config_get("dir")["dir"], "a-folder", "file").mkdir(parents=True)
        direct.bgsave()
        until(lambda: direct.info("persistence")["rdb_last_bgsave_status"] == "err")
    grade, text = worst(server.url)
    assert (grade, "MISCONF" in text) == (Grade.CRITICAL, True)
    assert is_refused(server.url)


def test_a_busy_server_was_reached(own):
    with own.busy():
        grade, text = worst(own.url)
    assert grade is Grade.CRITICAL
    assert "it answers, and refuses" in text
    assert "BUSY" in text


@pytest.mark.parametrize(
    "command", sorted({*rights.commands_of(rights.KINDS["plain lock"]), "eval", "evalsha", "publish", "subscribe"})
)
def test_a_right_that_is_missing(build, fresh_server, command):
    server = fresh_server(build, "--appendonly", "yes")
    for dry_run in ("+acl", "-acl"):
        with server.client() as direct:
            rules = ("reset", "on", ">sesame", "~*", "&*", "+@all", dry_run, f"-{command}")
            direct.execute_command("ACL", "SETUSER", "ann", *rules)
        grade, text = worst(f"redis://ann:sesame@{HOST}:{server.port}")
        assert grade is Grade.CRITICAL, dry_run
        assert f"+{command}" in text


def test_keys_and_channels_of_another(build, fresh_server):
    server = fresh_server(build, "--appendonly", "yes")
    rules = [*rights.rules_of("plain lock"), *rights.as_rules([*rights.INSPECTION, *rights.DOCTOR])]
    with server.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "reset", "on", ">sesame", "resetchannels", *rules)
    url = f"redis://ann:sesame@{HOST}:{server.port}"
    report = examine([url])
    assert report.grade is not Grade.CRITICAL
    assert any("--lock" in each for each in unchecked(report.nodes[0]))
    assert examine([url], "orders:1").grade is not Grade.CRITICAL
    grade, text = worst(url, "others:1")
    assert (grade, "may not use the keys others:1" in text) == (Grade.CRITICAL, True)
    assert any(each.startswith("fair lock: not for this user") for each in unable(report.nodes[0]))


def test_a_command_that_was_renamed(build, fresh_server):
    server = fresh_server(build, "--appendonly", "yes", "--rename-command", "HINCRBY", "")
    grade, text = worst(server.url)
    assert (grade, "hincrby" in text) == (Grade.CRITICAL, True)
    assert is_refused(server.url)


def test_what_may_not_be_asked_is_said(own):
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", "+@all", "-config", "-info")
    [node] = examine([f"redis://ann:sesame@{HOST}:{own.port}"]).nodes
    said = "; ".join(unchecked(node))
    assert "INFO is refused" in said
    assert "CONFIG GET is refused" in said


def test_one_node_of_a_cluster(cluster):
    grade, text = worst(cluster.masters()[0].url)
    assert (grade, "redis+cluster://" in text) == (Grade.CRITICAL, True)


# ---- judged without a server -----------------------------------------------------------------------------------------

INFO = b"role:master\r\nredis_version:7.4.0\r\naof_enabled:0\r\nmaxmemory_policy:noeviction\r\n"


def judged(**more: Any) -> str:
    node = Node("redis://one:6379/0", facts=read_info(INFO, 0.0), saves="", clock=0.0, **more)
    cluster = Node("redis+cluster://one:6379", masters=[node])
    return "\n".join(each.text for each in judge([cluster]).findings)


def test_a_master_of_a_cluster_that_stores_nothing():
    assert "restarted before a replica takes over" in judged()


def test_the_clock_of_a_replica():
    replica = Replica("two:6379", "online", 0, 0, clock=60.0)
    assert "the clock of the replica two:6379 is 60.0 s ahead" in judged(replicas=[replica])
    assert "clock" not in judged(replicas=[replace(replica, clock=0.2)])


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"loading": "1"}, "LOADING"),
        ({"aof_enabled": "1", "aof_last_write_status": "err"}, "append-only"),
        ({"aof_enabled": "1", "aof_last_bgrewrite_status": "err"}, "rewrite"),
        ({"maxmemory": "100", "used_memory": "95"}, "nearly full"),
        ({"maxclients": "100", "connected_clients": "98"}, "2 of 100 places"),
    ],
)
def test_a_state(state, word):
    assert word in judged(state=state)
    assert word not in judged()


def test_who_may_reach_it():
    open_to_all = {"bind": "* -::*", "protected-mode": "no"}
    assert "needs no password" in judged(settings=open_to_all)
    assert "needs no password" not in judged(settings={**open_to_all, "bind": "127.0.0.1 ::1"})
    assert "certificate is not verified" in judged(tls_unverified=True)
