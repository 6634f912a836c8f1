"""``pyredisson web`` as a process, on a real server: how it starts, what it shows and frees, how it ends."""

from __future__ import annotations

import re
import signal
import socket

import httpx
import pytest

from pyredisson import LockLostError, LockNotOwnedError, Redisson
from tests.command_line import Program
from tests.servers import HOST, VALKEY
from tests.web.scenes import until

SECRET = "s3cret"


def address_of(program: Program) -> str:
    """The address that it prints when it listens."""
    return until(lambda: re.search(r"open (http://\S+)", program.stderr), what="it prints its address")[1]


def get(address: str) -> str:
    return httpx.get(address, timeout=60).text


def test_it_shows_and_frees_real_locks_and_ends_cleanly(command_line, fresh_server):
    server = fresh_server(VALKEY, "--requirepass", SECRET)
    with Redisson.from_url(server.url) as client:
        lock = client.get_lock("<b>orders</b>")
        lock.lock()
        program = command_line.pyredisson(
            "web", "--listen", f"{HOST}:0", "--allow-unlock", "--interval", "0.5", url=server.url
        )
        address, _, token = address_of(program).partition("?token=")
        assert len(token) > 40
        with httpx.Client(base_url=address, timeout=60, headers={"origin": address.rstrip("/")}) as browser:
            assert browser.get("/").status_code == 403
            browser.get("/", params={"token": token})
            page = until(lambda: re.search(r'<a href="(/lock/\w+)"><bdi>&lt;b&gt;orders', browser.get("/").text))
            path = page[1]
            text = browser.get(path).text
            assert client.id in text
            form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', text))
            with browser.stream("GET", "/events") as events:
                next(events.iter_lines())
                freed = browser.post(f"{path}/free", data=form)
                assert "The lock was freed; no process is known to wait for it." in freed.text
                with pytest.raises((LockLostError, LockNotOwnedError)):
                    lock.unlock()
                program.send(signal.SIGINT)  # While a page is open.
                assert program.exit_code() == 0
    assert SECRET not in program.stderr + text + freed.text
    assert program.stderr.count(token) == 1
    assert "Traceback" not in program.stderr


def test_a_server_that_is_away_is_shown_without_its_password(command_line, fresh_server):
    server = fresh_server(VALKEY, "--requirepass", SECRET)
    program = command_line.pyredisson("web", "--listen", f"{HOST}:0", "--interval", "0.5", url=server.url)
    address = address_of(program)
    assert "?token" not in address
    until(lambda: "No locks are held" in get(address))
    server.kill()
    text = until(lambda: "has not answered since" in (page := get(address)) and page)
    assert SECRET not in text
    assert "***" in text
    server.restart()
    until(lambda: "has not answered since" not in get(address))
    program.send(signal.SIGTERM)
    assert program.exit_code() == 0


def test_what_cannot_be_listened_on_is_said(command_line):
    with socket.create_server((HOST, 0)) as other:
        taken = f"{HOST}:{other.getsockname()[1]}"
        for program in [command_line.pyredisson("web", "--listen", each) for each in (taken, "a..b:80")]:
            assert program.exit_code() == 1
            assert "cannot listen on" in program.stderr
            assert "Traceback" not in program.stderr
    wrong = (
        "--listen=nowhere",
        "--listen=::1:80",
        "--listen=h:99999",
        "--interval=0.1s",
        f"--url=redis://:{SECRET}@h:port",
    )
    for program in [command_line.pyredisson("web", each) for each in wrong]:
        assert program.exit_code() == 2
        assert SECRET not in program.stderr
        assert "Traceback" not in program.stderr
