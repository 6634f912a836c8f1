"""Servers that lie to ``pyredisson doctor``: each is one clear error in its report."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from pyredisson.tools.doctor import Grade, examine
from tests.proxy import Proxy
from tests.real.liars import LIES, MOST_GROWN_KIB, MOST_SENT, EndlessServer
from tests.real.test_lying_sentinels import NO_ADDRESS
from tests.real.test_lying_server import lie
from tests.servers import HOST, Server

COMMANDS = ["PING", "INFO", "CONFIG", "TIME", "SCAN"]

#: Replies of another type than those of all of COMMANDS.
WRONG_TYPES = {
    "a number": b":1\r\n",
    "a word": b"+OK\r\n",
    "an empty array": b"*0\r\n",
    "an array of one word": b"*1\r\n$4\r\nwhat\r\n",
    "an array of words": b"*2\r\n$4\r\nwhat\r\n$4\r\nwhat\r\n",
    "an array of numbers": b"*2\r\n:1\r\n:2\r\n",
    "an array of arrays": b"*2\r\n*1\r\n:1\r\n*1\r\n:1\r\n",
    "three elements": b"*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n",
    "a time that is too large": b"*2\r\n$400\r\n" + b"9" * 400 + b"\r\n$1\r\n0\r\n",
    "null": b"$-1\r\n",
}
#: What is of the right type all the same.
RIGHT = {
    ("INFO", "a word"),
    ("CONFIG", "an empty array"),
    ("CONFIG", "an array of words"),
    ("CONFIG", "a time that is too large"),
}


def error_of(url: str) -> str:
    """What is wrong with a server, in the words of the report."""
    report = examine([url])
    assert report.grade is Grade.CRITICAL
    return str(report.nodes[0].error)


@pytest.mark.parametrize("what", LIES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_reply_out_of_bounds_is_a_connection_error(proxy: Proxy, command: str, what: str) -> None:
    lies = lie(proxy, command, LIES[what])
    assert "ConnectionError: Protocol error: the server's reply has" in error_of(proxy.url)
    assert lies.hits


@pytest.mark.parametrize("command", ["HELLO", "CLIENT", "SELECT"])
@pytest.mark.parametrize("what", LIES)
def test_a_lie_in_the_handshake_is_a_connection_error(proxy: Proxy, command: str, what: str) -> None:
    lies = lie(proxy, command, LIES[what])
    url = f"{proxy.url.removesuffix('/0')}/1?protocol={3 if command == 'HELLO' else 2}&client_name=liar"
    assert "ConnectionError: Protocol error: the server's reply has" in error_of(url)
    assert lies.hits


@pytest.mark.parametrize("what", LIES)
@pytest.mark.parametrize("command", ["TYPE", "PTTL", "HSCAN"])
def test_a_reply_out_of_bounds_about_a_key(
    proxy: Proxy, valkey: Server, unique_name: str, command: str, what: str
) -> None:
    with valkey.client() as direct:
        direct.hset(unique_name, "field", "1")
    lies = lie(proxy, command, LIES[what])
    assert "ConnectionError: Protocol error: the server's reply has" in error_of(proxy.url)
    assert lies.hits


@pytest.mark.parametrize("what", WRONG_TYPES)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_reply_of_another_type_is_one_clear_error(proxy: Proxy, protocol: int, command: str, what: str) -> None:
    lies = lie(proxy, command, WRONG_TYPES[what])
    report = examine([f"{proxy.url}?protocol={protocol}"])
    assert lies.hits
    if (command, what) in RIGHT:
        assert report.nodes[0].error is None
    else:
        assert f"ConnectionError: Protocol error: unexpected reply to {command}" in str(report.nodes[0].error)
    assert "at this address" in str(report.nodes[0].error) or (command, what) in RIGHT


@pytest.mark.parametrize("what", ["a number", "an empty array", "an array of arrays", "null"])
@pytest.mark.parametrize("command", ["TYPE", "PTTL", "HSCAN"])
def test_a_reply_of_another_type_about_a_key(
    proxy: Proxy, valkey: Server, unique_name: str, command: str, what: str
) -> None:
    """It is no lock then; or, of its fields, an error."""
    with valkey.client() as direct:
        direct.hset(unique_name, "field", "1")
    lies = lie(proxy, command, WRONG_TYPES[what])
    node = examine([proxy.url]).nodes[0]
    assert lies.hits
    assert (node.error is None) == (command != "HSCAN")
    assert command != "HSCAN" or "ConnectionError: Protocol error: unexpected reply to HSCAN" in str(node.error)


def test_numbers_of_many_digits_in_info_are_not_known(proxy: Proxy) -> None:
    digits = b"9" * 5000
    info = (
        b"role:master\r\nuptime_in_seconds:%b\r\nmaster_repl_offset:%b\r\nslave0:ip=a,port=1,offset=%b,lag=%b\r\n"
        % ((digits,) * 4)
    )
    lie(proxy, "INFO", b"$%d\r\n%b\r\n" % (len(info), info))
    node = examine([proxy.url]).nodes[0]
    assert node.error is None
    assert node.replicas[0].behind is None
    assert node.replicas[0].lag is None


@pytest.mark.parametrize("command", [b"PING", b"CLIENT"])
def test_an_endless_reply_uses_no_memory(command: bytes) -> None:
    with EndlessServer(command) as server:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert "Protocol error" in error_of(f"redis://{HOST}:{server.port}?protocol=2&client_name=liar")
        assert server.lies
        assert server.most_sent < MOST_SENT
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWN_KIB


def test_an_error_of_many_bytes_is_shown_in_part(proxy: Proxy) -> None:
    lie(proxy, "PING", b"-ERR " + b"x" * 100_000 + b"\r\n")
    assert len(error_of(proxy.url)) < 1000


def sentinels_of(*ports: int) -> str:
    return f"redis+sentinel://{','.join(f'{HOST}:{port}' for port in ports)}/service"


@pytest.mark.parametrize("what", LIES)
def test_a_sentinel_s_reply_out_of_bounds(proxy: Proxy, what: str) -> None:
    lies = lie(proxy, "SENTINEL", LIES[what])
    assert "ConnectionError: Protocol error: the server's reply has" in error_of_sentinel(proxy)
    assert lies.hits


@pytest.mark.parametrize("what", NO_ADDRESS)
def test_a_sentinel_that_names_no_address(proxy: Proxy, what: str) -> None:
    lie(proxy, "SENTINEL", NO_ADDRESS[what])
    error = error_of_sentinel(proxy)
    assert "ConnectionError: Protocol error: unexpected reply to SENTINEL GET-MASTER-ADDR-BY-NAME" in error
    assert "is something else than a sentinel at this address?" in error


def error_of_sentinel(proxy: Proxy) -> str:
    """What one sentinel answered, in the words of the report."""
    [node] = examine([sentinels_of(proxy.port)]).nodes
    assert node.error == "no sentinel knows where 'service' is"
    assert node.sentinels is not None
    [answer] = node.sentinels.answers
    assert answer.address == f"{HOST}:{proxy.port}"
    return str(answer.error)


NO_SLOTS: dict[str, Any] = {
    "a number": b":1\r\n",
    "an array of words": b"*1\r\n$4\r\nwhat\r\n",
    "a trillion of slots": b"*1\r\n*3\r\n:0\r\n:1000000000000\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n",
    "a host that is not UTF-8": b"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$2\r\n\xff\xfe\r\n:7000\r\n",
    "a port that is too large": b"*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:99999\r\n",
}


@pytest.mark.parametrize("what", [*LIES, *NO_SLOTS])
def test_a_node_of_a_cluster_that_reports_no_slots(proxy: Proxy, what: str) -> None:
    lies = lie(proxy, "CLUSTER", {**LIES, **NO_SLOTS}[what])
    error = error_of(f"redis+cluster://{HOST}:{proxy.port}")
    assert "ConnectionError: Protocol error: " in error
    assert what in LIES or "is something else than a node of a Redis or Valkey cluster at this address?" in error
    assert lies.hits
