"""Sentinels that lie: each is one clear error that says which one it was, and another one is asked."""

from __future__ import annotations

import resource
from typing import Any

import pytest
import redis.exceptions as rx

from tests.proxy import Proxy
from tests.real.liars import LIES, MOST_GROWN_KIB, MOST_SENT, EndlessServer
from tests.real.test_lying_server import lie
from tests.servers import HOST, Server
from tests.worlds.clock import ClockWorld

#: Replies to GET-MASTER-ADDR-BY-NAME that name no address.
NO_ADDRESS = {
    "a number": b":1\r\n",
    "a word": b"+OK\r\n",
    "a map": b"%1\r\n$1\r\na\r\n$1\r\nb\r\n",
    "one element": b"*1\r\n$9\r\n127.0.0.1\r\n",
    "three elements": b"*3\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n$1\r\nx\r\n",
    "a host that is not UTF-8": b"*2\r\n$2\r\n\xff\xfe\r\n$4\r\n6379\r\n",
    "a host that is no name": b"*2\r\n$4\r\na..b\r\n$4\r\n6379\r\n",
    "a port that is no number": b"*2\r\n$9\r\n127.0.0.1\r\n$3\r\nabc\r\n",
    "a negative port": b"*2\r\n$9\r\n127.0.0.1\r\n$2\r\n-1\r\n",
    "a port that is too large": b"*2\r\n$9\r\n127.0.0.1\r\n$5\r\n99999\r\n",
}

HANDSHAKE: dict[str, dict[str, Any]] = {
    "HELLO": {"protocol": 3},
    "CLIENT": {"protocol": 2, "client_name": "liar"},
}


def ask_through(world: ClockWorld, *ports: int, decode: bool = False, **settings: Any) -> Any:
    """Ask whether a lock is held, on the server that the sentinels at these ports name."""
    sentinels = ",".join(f"{HOST}:{port}" for port in ports)
    kwargs = {"sentinel_kwargs": {"protocol": 2, **({"decode_responses": True} if decode else {}), **settings}}
    client = world.from_url(f"redis+sentinel://{sentinels}/service", redis_kwargs=kwargs, timeout=3.0)
    return world.actor().do(client.get_lock("led-astray").is_locked)


@pytest.mark.parametrize("what", LIES)
def test_a_sentinel_s_reply_out_of_bounds_is_a_connection_error(world: ClockWorld, proxy: Proxy, what: str) -> None:
    lies = lie(proxy, "SENTINEL", LIES[what])
    with pytest.raises(rx.ConnectionError, match=rf"{HOST}:{proxy.port}: Protocol error: the server's reply has"):
        ask_through(world, proxy.port)
    assert lies.hits


@pytest.mark.parametrize("what", LIES)
@pytest.mark.parametrize("command", HANDSHAKE)
def test_a_lie_in_a_sentinel_s_handshake_is_a_connection_error(
    world: ClockWorld, proxy: Proxy, command: str, what: str
) -> None:
    lies = lie(proxy, command, LIES[what])
    with pytest.raises(rx.ConnectionError, match=rf"{HOST}:{proxy.port}: Protocol error: the server's reply has"):
        ask_through(world, proxy.port, **HANDSHAKE[command])
    assert lies.hits


@pytest.mark.parametrize("command", [b"SENTINEL", b"CLIENT"])
def test_an_endless_reply_of_a_sentinel_uses_no_memory(world: ClockWorld, command: bytes) -> None:
    with EndlessServer(command) as sentinel:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(rx.ConnectionError, match=rf"{HOST}:{sentinel.port}: Protocol error"):
            ask_through(world, sentinel.port, client_name="liar")
        assert sentinel.lies
        assert sentinel.most_sent < MOST_SENT
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_GROWN_KIB


@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "decode_responses"])
@pytest.mark.parametrize("what", NO_ADDRESS)
def test_a_sentinel_that_names_no_address_is_a_clear_error(
    world: ClockWorld, proxy: Proxy, what: str, decode: bool
) -> None:
    lie(proxy, "SENTINEL", NO_ADDRESS[what])
    with pytest.raises(rx.ConnectionError, match=rf"{HOST}:{proxy.port}: Protocol error: unexpected reply") as error:
        ask_through(world, proxy.port, decode=decode)
    assert "is something else than a sentinel at this address?" in str(error.value)


@pytest.mark.parametrize("reply", [LIES["a bulk of 10 GB"], *NO_ADDRESS.values()], ids=["out of bounds", *NO_ADDRESS])
def test_the_sentinel_after_one_that_lies_is_asked(
    world: ClockWorld, proxy: Proxy, valkey: Server, reply: bytes
) -> None:
    port = str(valkey.port).encode()
    with Proxy(valkey.port) as honest:
        lie(proxy, "SENTINEL", reply)
        lie(honest, "SENTINEL", b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(HOST), HOST.encode(), len(port), port))
        assert ask_through(world, proxy.port, honest.port) is False
