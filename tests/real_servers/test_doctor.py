"""``pyredisson doctor`` against real servers, well and ill."""

from __future__ import annotations

import json

import pyredisson
from pyredisson._core.server import read_info
from pyredisson._tools.examination import Grade, Node, Report, examine, judge
from tests.command_line import programs
from tests.sentinels import SOON_MS
from tests.servers import HOST, VALKEY, free_port
from tests.waiting import until


def texts(report: Report) -> str:
    return "\n".join(finding.text for finding in report.findings)


def test_a_sound_server(build, fresh_server):
    # On one that others use there may be what a doctor complains of.
    server = fresh_server(build, "--appendonly", "yes")
    report = examine([server.url])
    [node] = report.nodes
    assert report.grade is Grade.OK
    assert not report.findings
    assert node.facts is not None
    assert node.facts.run_id == server.info()["run_id"]
    assert node.saves == ""
    assert node.round_trip is not None
    assert 0 < node.round_trip < 2
    assert node.clock is not None
    assert abs(node.clock) < 1


def test_no_server_there():
    report = examine([f"redis://:s3cret@{HOST}:{free_port()}/0"])
    assert report.grade is Grade.CRITICAL
    assert "not reachable" in texts(report)
    assert "s3cret" not in report.as_json()


def test_a_single_server_that_stores_nothing(build, fresh_server):
    report = examine([fresh_server(build).url])
    assert report.grade is Grade.WARNING
    assert "a restart frees every lock" in texts(report)


def test_settings_that_endanger(build, fresh_server):
    master = fresh_server(build, "--maxmemory-policy", "volatile-lru")
    report = examine([master.url])
    assert report.grade is Grade.WARNING
    assert "noeviction" in texts(report)
    replica = fresh_server(build, "--replicaof", HOST, str(master.port))
    until(lambda: replica.info("replication")["role"] == "slave", within=20)
    report = examine([replica.url])
    assert report.grade is Grade.CRITICAL
    assert "replica" in texts(report)


def test_one_server_twice(valkey):
    report = examine([valkey.url, valkey.url, valkey.url])
    assert report.grade is Grade.CRITICAL
    assert "same server" in texts(report)


def test_a_quorum_with_and_without_its_majority(fresh_server):
    urls = [fresh_server().url, fresh_server().url, f"redis://{HOST}:{free_port()}/0"]
    report = examine(urls)
    assert (report.reachable, report.needed, report.grade) == (2, 2, Grade.WARNING)
    assert "appendonly yes" in texts(report)
    report = examine([*urls, *(f"redis://{HOST}:{free_port()}/0" for _ in range(2))])
    assert (report.reachable, report.needed, report.grade) == (2, 3, Grade.CRITICAL)
    assert report.findings[0].text == "no quorum: 2 of 5 are reachable, 3 are needed"


def test_locks_that_never_expire(server, fresh_server):
    own = fresh_server(server.build, "--appendonly", "yes")
    with pyredisson.Redisson.from_url(own.url) as client, own.client() as direct:
        names = [f"orders{number}" for number in range(8)]
        for name in names:
            client.get_lock(name).lock()
        client.get_read_write_lock("stock").write_lock().lock()
        client.get_token_lock("token").lock()
        direct.hset("a hash", "of", "somebody's")
        direct.set("cfg:theme", "dark")
        assert examine([own.url]).grade is Grade.OK
        for name in (*names, "stock", "token"):
            direct.persist(name)
        report = examine([own.url])
        [node] = report.nodes
        assert (node.leaked, len(node.samples), node.all_seen) == (10, 5, True)
        assert report.grade is Grade.WARNING
        assert "never expire" in texts(report)
        assert node.keys_seen == direct.dbsize()


def seen(number: int, clock: float = 0.0, data: int | None = None) -> Node:
    lines = [
        f"run_id:{number}",
        f"master_replid:r{data or number}",
        "uptime_in_seconds:9999",
        "aof_enabled:1",
        "role:master",
    ]
    return Node(f"redis://{number}", facts=read_info("\r\n".join([*lines, ""]).encode(), 0.0), clock=clock)


def test_clocks_are_compared_with_each_other():
    assert judge([seen(1, 7.0), seen(2, 7.1), seen(3, 7.2)]).grade is Grade.OK
    report = judge([seen(1, 7.0), seen(2, 7.1), seen(3, 9.5)])
    assert "redis://3 is 2.5 s ahead of that of redis://1" in texts(report)


def test_nodes_have_data_of_their_own():
    assert "same master" in texts(judge([seen(1), seen(2), seen(3, data=1)]))


def test_slots_that_no_node_serves_and_a_master_without_replicas():
    report = judge([Node("redis+cluster://a", masters=[seen(1)], unserved=1)])
    assert report.grade is Grade.CRITICAL
    assert "no node serves 1 of the slots" in texts(report)
    assert "no replica follows this master" in texts(report)


def test_an_even_number_is_remarked_upon():
    assert "odd number" in texts(judge([seen(number) for number in range(4)]))
    assert not judge([seen(number) for number in range(5)]).findings


# ---- sentinels and clusters ------------------------------------------------------------------------------------------


def test_what_sentinels_watch(watched):
    assert "stores nothing on disk" in texts(examine([watched.url]))
    watched.servers[0].config_set("appendonly", "yes")
    report = examine([watched.url])
    [node] = report.nodes
    assert report.grade is Grade.OK, texts(report)
    assert node.url == f"{watched.url}/0"
    assert node.facts is not None
    assert node.facts.run_id == watched.master().info()["run_id"]
    assert node.sentinels is not None
    assert node.sentinels.master == (HOST, watched.servers[0].port)
    assert {each.master for each in node.sentinels.answers} == {f"{HOST}:{watched.servers[0].port}"}
    assert {each.address for each in node.replicas} == {f"{HOST}:{each.port}" for each in watched.servers[1:]}
    assert all(each.state == "online" and each.behind is not None for each in node.replicas)

    watched.sentinels[0].kill()
    report = examine([watched.url])
    assert report.grade is Grade.WARNING
    assert f"sentinel {HOST}:{watched.sentinels[0].port} is not reachable" in texts(report)
    assert report.nodes[0].facts is not None

    watched.sentinels[1].kill()
    watched.down_after(SOON_MS, of=watched.sentinels[2:])
    until(lambda: "NOQUORUM" in texts(examine([watched.url])), within=20, what="the last one is alone")
    watched.sentinels[2].kill()
    report = examine([watched.url.replace("://", "://:s3cret@")])
    assert report.grade is Grade.CRITICAL
    assert "no sentinel knows" in texts(report)
    assert "s3cret" not in report.as_json()


def test_sentinels_that_report_an_old_master(watched):
    old, new = watched.hand_over()
    report = examine([watched.url])
    assert report.grade is Grade.CRITICAL
    assert "the master that the sentinels report is a replica" in texts(report)
    behind, *others = watched.sentinels
    watched.sentinels = others
    watched.tell(new)
    watched.sentinels = [behind, *others]
    report = examine([watched.url])
    assert report.grade is Grade.CRITICAL
    assert "do not agree on the master" in texts(report)
    assert f"{HOST}:{behind.port} says {HOST}:{old.port}" in texts(report)
    [node] = report.nodes
    assert node.sentinels is not None
    assert node.sentinels.master == (HOST, new.port), "that of most"


def test_a_cluster(fresh_cluster):
    cluster = fresh_cluster
    assert "stores nothing on disk" in texts(examine([cluster.url]))
    for each in cluster.masters():
        each.config_set("appendonly", "yes")
    report = examine([cluster.url])
    [node] = report.nodes
    assert report.grade is Grade.OK, texts(report)
    assert node.url == cluster.url
    assert node.masters is not None
    assert {each.facts.run_id for each in node.masters if each.facts} == {
        each.info()["run_id"] for each in cluster.masters()
    }
    assert [len(each.replicas) for each in node.masters] == [1, 1, 1]
    assert node.unserved == 0


def test_the_command(fresh_server, tmp_path):
    valkey = fresh_server(VALKEY, "--appendonly", "yes")

    def run(*arguments):
        with programs(tmp_path) as command_line:
            program = command_line.pyredisson("doctor", *arguments)
            return program.exit_code(), program.stdout

    code, said = run("--url", valkey.url)
    assert code == 0
    assert "noeviction" in said
    code, said = run("--url", valkey.url, "--url", valkey.url, "--url", f"redis://:s3cret@{HOST}:{free_port()}")
    assert code == 2
    assert "CRITICAL" in said
    assert "majority (2): yes" in said
    assert "s3cret" not in said
    code, said = run("--json", "--url", valkey.url)
    assert code == 0
    found = json.loads(said)
    assert found["grade"] == "ok"
    assert found["nodes"][0]["facts"]["run_id"] == valkey.info()["run_id"]
    assert run("--url", "nonsense://x")[0] == 2
