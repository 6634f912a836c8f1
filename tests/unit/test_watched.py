"""What a master says of its replicas, and what the doctor makes of that."""

from pyredisson._core.server import read_info
from pyredisson._tools.doctor import show
from pyredisson._tools.examination import Grade, Node, Replica, SentinelAnswer, SentinelView, judge, read_replicas

INFO = (
    b"# Replication\r\nrole:master\r\nconnected_slaves:3\r\n"
    b"slave0:ip=10.0.0.2,port=6379,state=online,offset=1200,lag=1\r\n"
    b"slave1:ip=::1,port=6380,state=wait_bgsave,offset=0,lag=0,type=replica\r\n"
    b"slave2:ip=replica.example.com,port=6381,state=online\r\n"
    b"master_replid:abc\r\nmaster_repl_offset:1234\r\nrun_id:me\r\naof_enabled:1\r\n"
)


def test_the_replicas_are_read():
    assert read_replicas(INFO) == [
        Replica("10.0.0.2:6379", "online", 34, 1),
        Replica("[::1]:6380", "wait_bgsave", 1234, 0),
        Replica("replica.example.com:6381", "online", None, None),
    ]
    assert read_replicas(b"role:slave\r\nslave_repl_offset:7\r\n") == []


def led(sentinels: list[SentinelAnswer], replicas: list[Replica]) -> Node:
    return Node(
        "redis+sentinel://s/locks/0",
        facts=read_info(INFO, 0.0),
        replicas=replicas,
        sentinels=SentinelView("locks", sentinels, ("m", 1)),
    )


SOUND = Replica("r:1", "online", 0, 0)


def test_a_clock_that_is_right_has_no_sign_of_being_slow(capsys):
    show(judge([Node("redis://s", facts=read_info(INFO, 0.0), clock=-0.0001, replicas=[SOUND])]))
    shown = capsys.readouterr().out
    assert "+0.000 s" in shown
    assert "-0.000 s" not in shown


def test_what_is_not():
    slow = Replica("r:2", "online", 99, 60)
    cases = [
        ([SentinelAnswer("s:1", master="m:1")], [], Grade.WARNING, "no replica follows the master"),
        ([SentinelAnswer("s:1", master="m:1")], [SOUND, slow], Grade.WARNING, "r:2 does not keep up"),
        (
            [SentinelAnswer("s:1", master="m:1"), SentinelAnswer("s:2")],
            [SOUND],
            Grade.WARNING,
            "s:2 does not know 'locks'",
        ),
        (
            [SentinelAnswer("s:1", master="m:1"), SentinelAnswer("s:2", master="m:2")],
            [SOUND],
            Grade.CRITICAL,
            "s:1 says m:1; s:2 says m:2",
        ),
        (
            [SentinelAnswer("s:1", master="m:1", doubts="NOQUORUM 1 usable Sentinels.")],
            [SOUND],
            Grade.WARNING,
            "NOQUORUM 1 usable",
        ),
    ]
    for sentinels, replicas, grade, text in cases:
        [finding] = judge([led(sentinels, replicas)]).findings
        assert finding.grade is grade
        assert text in finding.text
