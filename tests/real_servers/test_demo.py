"""``pyredisson demo``, as users run it, and what it leaves behind."""

import re
import signal

import pytest

from tests.servers import VALKEY
from tests.waiting import until

# Small: the subject here is the demo, not the lock.
SMALL = ("--seats", "30", "--workers", "2")


def test_on_a_private_server(command_line):
    program = command_line.pyredisson("demo", *SMALL)
    assert program.exit_code(within=100) == 0, program.stderr
    assert program.stderr == ""
    text = program.stdout
    # Not a terminal: no colours, no cursor movements, and lines that fit.
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    oversold = {name: int(count) for name, count in re.findall(r"(?m)^ (with\w*) lock +\d+ +(\d+)", text)}
    assert oversold["without"] > 0
    assert oversold["with"] == 0
    takeover = float(re.search(r"holder killed +([\d.]+) of 3 s", text)[1])
    assert 0 < takeover < 8, "it was not the lease that ended: the next one looked by itself, after 10 s"


def test_a_server_of_the_users_is_left_as_it_was(command_line, fresh_server):
    server = fresh_server(VALKEY, "--requirepass", "s3cret")
    with server.client() as client:
        client.set("theirs", "precious")
        program = command_line.pyredisson("demo", *SMALL, "--url", server.url)
        assert program.exit_code(within=100) == 0, program.stderr
        assert client.keys() == [b"theirs"]
    assert "s3cret" not in program.stdout + program.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("scene", ["stock", "lock"])
def test_it_cleans_up_when_it_is_interrupted(command_line, own, signum, scene):
    with own.client() as client:
        client.set("theirs", "precious")
        # Enough seats for the signal to come in the middle.
        program = command_line.pyredisson("demo", "--seats", "50", "--workers", "2", "--url", own.url)
        until(lambda: client.keys(f"pyredisson-demo:*:{scene}") or not program.runs(), 60, what=f"a key for {scene}")
        program.send(signum)
        assert program.exit_code() == 128 + signum
        assert program.stderr == ""
        assert client.keys() == [b"theirs"]
        # Nobody is left who might write again.
        until(lambda: len(client.client_list()) == 1, 20, what="all of its processes are gone")
        assert client.keys() == [b"theirs"]


def test_a_server_that_dies_in_the_middle(command_line, own):
    program = command_line.pyredisson("demo", *SMALL, "--url", own.url)
    with own.client() as client:
        until(lambda: client.keys("pyredisson-demo:*:sales") or not program.runs(), 60, what="a sale")
    own.kill()
    assert program.exit_code(within=60) in (1, 69)
    assert "Traceback" not in program.stderr
    assert "pyredisson: " in program.stderr
