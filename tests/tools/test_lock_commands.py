"""``pyredisson ls``, ``show``, ``why``, ``unlock``, ``lock``, ``clients`` and ``leaks``, as users run them."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pyredisson import Config, LockLostError, Redisson, current_thread_id
from pyredisson._core.names import LockNames
from pyredisson._tools.cli import cli
from pyredisson.inspection import Inspector
from tests.command_line import Program, Programs
from tests.servers import HOST, NOBODYS_PORT, Server
from tests.terminals import terminal
from tests.waiting import until

HOLDER = "8743c9c0-0795-4907-87fd-6c719a6b4586"
COMMANDS = ("ls", "show x", "why", "why x", "clients", "leaks", "unlock x --yes", "lock x --for 1s --reason y")
SOON = Config(client_name="web", presence_after=0.05, lock_watchdog_timeout=3.0)


@pytest.fixture
def holder(own: Server) -> Iterator[Redisson]:
    with Redisson.from_url(own.url, config=SOON) as client:
        yield client


@pytest.fixture
def run(own: Server) -> Callable[..., Result]:
    """``run("ls", "--json")``: the command, on the test's own server."""

    def call(*arguments: str, url: str = own.url) -> Result:
        return CliRunner().invoke(cli, list(arguments), env={"PYREDISSON_URL": url})

    return call


def report(result: Result) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(result.stdout)
    assert said["schema"] == 1
    return said


def test_a_list_of_locks(holder, own, run):
    holder.get_lock("order:17").lock()
    holder.get_read_write_lock("prices").write_lock().lock()
    with own.client() as direct:
        direct.hset("nightly", f"{HOLDER}:7", 1)
        until(lambda: direct.keys("pyredisson_client:*"))
    result = run("ls")
    assert result.exit_code == 0, result.output
    heading, *rows, summary = result.stdout.splitlines()
    assert heading.split() == ["LOCK", "KIND", "HELD", "BY", "SINCE", "×", "FREE", "IN", "NOTE"]
    assert [row.split()[:2] for row in rows] == [["nightly", "lock"], ["order:17", "lock"], ["prices", "rw"]]
    assert "NEVER EXPIRES" in rows[0]
    assert f"web@{os.uname().nodename}"[:20] in rows[1]
    assert summary.startswith("3 locks, 3 held, 0 waiting")
    names = [lock["name"] for lock in report(run("ls", "--json", "--held-by", "web"))["locks"]]
    assert names == ["order:17", "prices"]
    assert [lock["name"] for lock in report(run("ls", "--json", "--kind", "rw"))["locks"]] == ["prices"]
    assert [lock["name"] for lock in report(run("ls", "order*", "--json"))["locks"]] == ["order:17"]
    assert [lock["name"] for lock in report(run("ls", "--json", "--sort", "ttl"))["locks"]][-1] == "nightly"


def test_nothing_is_locked(run):
    assert run("ls").stdout.startswith("0 locks, 0 held")
    assert run("clients").stdout.startswith("0 clients")
    assert run("leaks").stdout.startswith("no leaks")
    assert run("why").exit_code == 0
    assert run("show", "x").exit_code == 3
    assert run("why", "x").exit_code == 3
    assert run("unlock", "x", "--yes").exit_code == 3
    assert report(run("show", "x", "--json"))["lock"] is None


def outcome(command_line: Programs, command: str, url: str) -> tuple[int, str, str]:
    """What a command ends with, as a program of its own: its exit code, stdout and stderr."""
    program = command_line.pyredisson(*command.split(), url=url)
    return program.exit_code(), program.stdout.strip(), program.stderr.strip()


@pytest.mark.parametrize("command", ["ls", "show x", "why", "why x", "clients", "leaks"])
def test_a_server_that_cannot_be_read(own, command_line, command):
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", "+@connection")
    for url, expected, said in (
        (f"redis://{HOST}:{own.port}/99", 78, " is not the one to ask: "),
        (f"redis://ann:sesame@{HOST}:{own.port}/0", 77, " refused: "),
    ):
        if command == "clients" and "ann" in url:
            continue  # The connections may be listed by that user.
        code, stdout, stderr = outcome(command_line, command, url)
        assert (code, stdout) == (expected, "")
        assert said in stderr
        code, stdout, stderr = outcome(command_line, f"{command} --json", url)
        assert (code, json.loads(stdout)["exit_code"]) == (expected, expected)
        assert stderr == f"pyredisson: {json.loads(stdout)['error']}"


@pytest.mark.parametrize("command", [*COMMANDS, "watch x", "top", "run x true"])
def test_all_commands_say_alike_that_there_is_no_server(command_line, command):
    code, _, stderr = outcome(command_line, command, f"redis://:s3cret@{HOST}:{NOBODYS_PORT}/0")
    assert code == 69
    assert stderr.startswith("pyredisson: the server at redis://")
    assert f"{HOST}:{NOBODYS_PORT}/0 is not available: " in stderr
    assert "s3cret" not in stderr


@pytest.mark.parametrize("command", [*COMMANDS, "permits x", "watch x", "top"])
def test_an_error_is_json_too(command_line, command):
    code, stdout, stderr = outcome(command_line, f"{command} --json", f"redis://{HOST}:{NOBODYS_PORT}/0")
    said = json.loads(stdout)
    assert (code, said["schema"], said["exit_code"]) == (69, 1, 69)
    assert stderr == f"pyredisson: {said['error']}"


def test_a_refusal_is_json_too(holder, run):
    holder.get_lock("held").lock()
    holder.get_semaphore("rooms", permits=3).acquire()
    for command, code in (
        ("permits held", 1),
        ("permits nope", 3),
        ("permits rooms --free 9", 1),
        ("unlock rooms --yes", 1),
        (f"unlock rooms --yes --holder {holder.id}", 1),
        ("lock held --for 1s --reason y", 75),
        ("lock rooms --for 1s --reason y", 2),
    ):
        result = run(*command.split(), "--json")
        assert (result.exit_code, report(result)["exit_code"]) == (code, code), command
        assert report(result)["error"], command


@pytest.mark.parametrize(
    "command", ["show", "why", "watch", "permits", "unlock --yes", "lock --for 1s --reason y", "run true"]
)
def test_a_name_is_not_empty(run, command):
    word, *options = command.split()
    result = run(word, "", *options)
    assert (result.exit_code, "a lock's name must not be empty" in result.stderr) == (2, True), result.output


FOREIGN: dict[str, tuple[str, ...]] = {
    "hash": ("HSET", "name", "bob"),
    "list": ("RPUSH", "x"),
    "set": ("SADD", "x"),
    "sorted set": ("ZADD", "1", "x"),
}


@pytest.mark.parametrize("held", FOREIGN)
def test_a_key_that_is_no_lock_is_called_so(own, run, command_line, held):
    command, *content = FOREIGN[held]
    foreign = f"no lock: the key holds a {held} of another program"
    with own.client() as direct:
        direct.execute_command(command, "user:7", *content)
        before = direct.dump("user:7")
        assert run("show", "user:7").stdout.strip() == f"user:7 is {foreign}"
        assert run("why", "user:7").stdout.strip() == f"user:7 is {foreign}"
        assert outcome(command_line, "unlock user:7 --yes", own.url) == (3, "", f"pyredisson: user:7 is {foreign}")
        for line in ("show user:7", "why user:7", "unlock user:7 --yes"):
            result = run(*line.split(), "--json")
            assert (result.exit_code, report(result)["foreign"]) == (3, foreign)
        if held == "hash":  # Of the others the server says so itself.
            refused = outcome(command_line, "run user:7 --wait 0 true", own.url)
            assert refused == (75, "", f"pyredisson: the lock 'user:7' is {foreign}")
            refused = outcome(command_line, "lock user:7 --for 1s --reason y", own.url)
            assert refused == (75, "", f"pyredisson: user:7 is {foreign}")
        assert direct.dump("user:7") == before


def test_a_kind_that_there_is_not(run):
    result = run("ls", "--kind", "fiar")
    assert result.exit_code == 2
    assert "fair" in result.output
    for kind in ("lock", "fair", "fenced", "spin", "rw", "token", "semaphore", "permits", "latch", "fair_lock"):
        assert run("ls", "--kind", kind).exit_code == 0


@pytest.mark.parametrize("command", [*COMMANDS, "run x true", "demo --url http://:s3cret@x"])
def test_a_url_that_is_none(run, command):
    result = run(*command.split(), url="http://:s3cret@x")
    assert result.exit_code == 2, result.output
    assert "s3cret" not in result.output


def test_a_lock_in_detail(holder, run):
    holder.get_fenced_lock("x").lock()

    def shown():
        result = run("show", "x")
        assert result.exit_code == 0
        return result.stdout if "MainThread" in result.stdout else None

    text = until(shown, within=10)
    assert re.search(r"held by +web@\S+ pid \d+ t\d+ for ", text)
    assert "renewed by its watchdog" in text
    assert "redisson_lock_token:{x}" in text
    assert f"pyredisson unlock x --holder {holder.id}" in text


def test_an_id_that_is_too_short_means_no_one(holder, run):
    holder.get_lock("x").lock()
    for short in ("", holder.id[:1], holder.id[:3]):
        assert run("unlock", "x", "--yes", "--holder", short).exit_code == 2
    assert holder.get_lock("x").is_locked()


def test_the_report_of_an_unlock_is_consistent(holder, own, run):
    with own.client() as direct:
        direct.lock("token", timeout=60).acquire()
    shown = report(run("show", "token", "--json"))["lock"]["holders"][0]["owner"]
    assert report(run("unlock", "token", "--yes", "--json"))["owners"] == [shown]
    holder.get_fair_lock("queue").lock()
    with Redisson.from_url(own.url, config=SOON) as other:
        waiting = threading.Thread(target=other.get_fair_lock("queue").try_lock, args=(60,))
        waiting.start()
        until(lambda: (report(run("show", "queue", "--json"))["lock"] or {})["waiters"], within=20)
        said = report(run("unlock", "queue", "--yes", "--json"))
        waiting.join(20)
    assert len(said["woken"]) == said["notified"] == 1


def test_of_several_that_are_notified_one_acquires(holder, own, run):
    holder.get_lock("x").lock()
    with Redisson.from_url(own.url, config=SOON) as other:

        def hold():
            with other.get_lock("x").hold(60):
                pass

        threads = [threading.Thread(target=hold) for _ in range(3)]
        for thread in threads:
            thread.start()
        until(lambda: len((report(run("show", "x", "--json"))["lock"] or {})["waiters"]) == 3, within=20)
        said = run("unlock", "x", "--yes").stdout
        for thread in threads:
            thread.join(20)
    assert re.fullmatch(r"freed x; notified (web@\S+ pid \d+ t\d+(, )?){3}; one of them acquires it\n", said)


def test_a_long_name_pads_no_other_line(own, run):
    with own.client() as direct:
        direct.hset("x" * 300, f"{HOLDER}:1", 1)
        direct.hset("short", f"{HOLDER}:1", 1)
    heading, short, long, _ = run("ls").stdout.splitlines()
    assert max(len(heading), len(short)) < 160
    assert long.startswith("x" * 300 + "  lock")


def test_unlock_asks_only_on_a_terminal(holder, run):
    holder.get_lock("x").lock()
    assert run("unlock", "x").exit_code == 2
    assert run("unlock", "x", "--json").exit_code == 2
    assert holder.get_lock("x").is_locked()


def test_unlock(holder, run):
    holder.get_lock("x").lock()
    refused = run("unlock", "x", "--yes", "--holder", HOLDER, "--json")
    assert refused.exit_code == 4
    assert report(refused)["before"]["holders"][0]["client_id"] == holder.id
    assert holder.get_lock("x").is_locked()
    said = report(run("unlock", "x", "--yes", "--json", "--holder", holder.id[:4]))
    assert (said["outcome"], said["owners"]) == ("freed", [f"{holder.id}:{current_thread_id()}"])
    assert run("unlock", "x", "--yes").exit_code == 3
    holder.get_semaphore("permits").try_set_permits(3)
    assert run("unlock", "permits", "--yes").exit_code == 1


def kill(client: Redisson, own: Server) -> None:
    """Leave what a client reports, as if it had been killed."""
    with own.client() as direct:
        entry = direct.get(f"pyredisson_client:{client.id}")
        client.close()
        direct.set(f"pyredisson_client:{client.id}", entry, px=60_000)


def leaks_of(name: str, run: Callable[..., Result]) -> list[tuple[str, str]]:
    """The problem and the advice of each leak."""
    leaks = report(run("leaks", name, "--json"))["leaks"]
    return [(each["problem"], each["advice"]) for each in leaks if each["lock"] == name]


def test_unlock_releases_the_permits_of_a_holder_that_is_known(own, run):
    """Of a plain semaphore only after its client has ended, and once."""
    client, living = (Redisson.from_url(own.url, config=SOON) for _ in range(2))
    try:
        for each, permits in ((client, 2), (living, 1)):
            each.get_semaphore("rooms", permits=5).acquire(permits)
        until(lambda: len(report(run("show", "rooms", "--json"))["lock"]["holders"]) == 2)
        assert run("unlock", "rooms", "--holder", client.id, "--yes").exit_code == 1
        with Inspector(own.url) as inspector:
            with pytest.raises(ValueError, match=f"{client.id} is connected, and releases its permits itself"):
                inspector.unlock("rooms", holder=client.id, force=True)
            with pytest.raises(ValueError, match="release it with pyredisson permits NAME --free N"):
                inspector.unlock("rooms", holder="nobody")

        kill(client, own)
        until(lambda: run("unlock", "rooms", "--holder", client.id[:8], "--yes", "--force").exit_code == 0)
        assert "rooms: 5 permits, 4 free, 1 taken" in run("permits", "rooms").output
        assert run("unlock", "rooms", "--holder", client.id[:8], "--yes", "--force").exit_code == 1
        assert run("unlock", "rooms", "--holder", "nobody", "--yes").exit_code == 1
        assert living.get_semaphore("rooms").available_permits() == 4
    finally:
        client.close()
        living.close()


def test_what_a_holder_that_is_gone_had_is_released_once_and_nothing_of_others(own, run):
    """It may report more than it has, if another client has released some."""
    gone, living = (Redisson.from_url(own.url, config=SOON) for _ in range(2))
    try:
        gone.get_semaphore("rooms", permits=5).acquire(4)
        living.get_semaphore("rooms").release(3)
        living.get_semaphore("rooms").acquire(2)
        until(lambda: len(report(run("show", "rooms", "--json"))["lock"]["holders"]) == 2)
        kill(gone, own)
        command = f"pyredisson unlock rooms --holder {gone.id}"
        until(lambda: leaks_of("rooms", run) == [("holder_gone", command)])
        assert run(*command.split()[1:], "--yes", "--force").exit_code == 0
        assert living.get_semaphore("rooms").available_permits() == 3
        assert leaks_of("rooms", run) == []
    finally:
        gone.close()
        living.close()


def test_permits_that_were_freed_by_number_are_not_released_again(own, run):
    """Also if another client, which has not reported yet, has acquired them since."""
    gone = Redisson.from_url(own.url, config=SOON)
    with Redisson.from_url(own.url, config=Config(presence=False)) as living:
        gone.get_semaphore("api", permits=2).acquire(2)
        until(lambda: report(run("show", "api", "--json"))["lock"]["holders"])
        kill(gone, own)
        until(lambda: leaks_of("api", run))
        assert run("permits", "api", "--free", "1").exit_code == 0
        assert [problem for problem, _ in leaks_of("api", run)] == ["holder_gone"]
        assert run("permits", "api", "--free", "1").exit_code == 0
        assert living.get_semaphore("api").try_acquire(2)
        assert leaks_of("api", run) == []
        assert run("unlock", "api", "--holder", gone.id, "--yes", "--force").exit_code == 1
        assert living.get_semaphore("api").available_permits() == 0


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore"])
def test_all_permits_of_a_killed_thread_are_released_by_the_advice(own, run, kind):
    gone = Redisson.from_url(own.url, config=SOON)
    rooms = getattr(gone, f"get_{kind}")("rooms", permits=5)
    blocks = [rooms.hold() for _ in range(3)]
    for block in blocks:
        block.__enter__()
    until(lambda: len(report(run("show", "rooms", "--json"))["lock"]["holders"]) == 3)
    kill(gone, own)
    advice = f"pyredisson unlock rooms --holder {gone.id}"
    until(lambda: leaks_of("rooms", run) == [("holder_gone", advice)])
    done = run(*advice.split()[1:], "--yes")
    assert done.stdout.startswith("released 3 permits of rooms, which ")
    assert leaks_of("rooms", run) == []


def test_permits_of_a_block_of_a_closed_client_are_released_by_the_advice(own, run):
    client = Redisson.from_url(own.url, config=SOON)
    block = client.get_semaphore("rooms", permits=5).hold()
    block.__enter__()
    client.close()
    advice = f"pyredisson unlock rooms --force --holder {client.id}"
    until(lambda: leaks_of("rooms", run) == [("holder_gone", advice)])
    assert "its client was closed in a block" in run("leaks", "rooms").stdout
    assert run(*advice.split()[1:], "--yes").exit_code == 0
    block.__exit__(None, None, None)


def test_unlock_releases_a_permit_that_expires(holder, run):
    seats = holder.get_permit_expirable_semaphore("seats", permits=3)
    permit = seats.acquire()
    block = seats.hold()
    block.__enter__()
    until(lambda: report(run("show", "seats", "--json"))["lock"]["holders"])
    done = run("unlock", "seats", "--holder", holder.id, "--yes")
    assert (done.exit_code, "released 1 permit of seats" in done.output) == (0, True)
    assert seats.available_permits() == 2
    assert run("unlock", "seats", "--holder", permit, "--yes", "--json").exit_code == 0
    assert seats.available_permits() == 3
    assert run("unlock", "seats", "--holder", permit, "--yes").exit_code == 1
    with pytest.raises(LockLostError):
        block.__exit__(None, None, None)


@pytest.fixture
def ask_to_unlock(holder: Redisson, own: Server, command_line: Programs) -> Iterator[Callable[..., Program]]:
    """``ask_to_unlock(answer)``: ``unlock`` on a terminal, which answers once it was asked."""
    holder.get_lock("x").lock()
    with terminal() as screen:

        def ask(answer: str, *, before: Callable[[], object] = lambda: None, shows: str = "") -> Program:
            program = command_line.pyredisson("unlock", "x", url=own.url, terminal=screen.theirs)
            screen.shows("x is held by web@")
            screen.shows(r"\[y/N\]")
            before()
            screen.type(f"{answer}\n")
            screen.shows(shows)
            return program

        yield ask


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1)])
def test_unlock_asks(holder, ask_to_unlock, answer, code):
    assert ask_to_unlock(answer).exit_code() == code
    assert holder.get_lock("x").is_locked() is bool(code)


def test_unlock_names_a_killed_holder_of_permits(own, run, command_line):
    gone = Redisson.from_url(own.url, config=SOON)
    gone.get_semaphore("rooms", permits=5).acquire(2)
    until(lambda: report(run("show", "rooms", "--json"))["lock"]["holders"])
    kill(gone, own)
    assert f"id {gone.id}:" in run("show", "rooms").stdout
    with terminal() as screen:
        program = command_line.pyredisson("unlock", "rooms", "--holder", gone.id, url=own.url, terminal=screen.theirs)
        screen.shows(r"2 of rooms: held by web@\S+ pid \d+ t\d+ \(not connected\)")
        screen.shows(rf"Release the permits of {gone.id}\? \[y/N\]")
        screen.type("n\n")
        assert program.exit_code() == 1


def test_unlock_frees_only_what_it_has_shown(own, ask_to_unlock):
    with own.client() as direct:

        def hand_over():
            direct.delete("x")
            direct.hset("x", f"{HOLDER}:1", 1)
            direct.pexpire("x", 60_000)

        assert ask_to_unlock("y", before=hand_over, shows="nothing was changed").exit_code() == 4
        assert direct.hexists("x", f"{HOLDER}:1")


def test_what_may_be_no_lock_is_asked_about_with_force_only(own, command_line):
    with own.client() as direct, terminal() as screen:
        direct.set("theme", "dark")
        refused = command_line.pyredisson("unlock", "theme", url=own.url, terminal=screen.theirs)
        screen.shows("nothing was changed; --force deletes it")
        assert refused.exit_code() == 3
        forced = command_line.pyredisson("unlock", "theme", "--force", url=own.url, terminal=screen.theirs)
        screen.shows("To free it deletes it")
        screen.shows(r"\[y/N\]")
        assert direct.get("theme") == b"dark"
        screen.type("y\n")
        assert forced.exit_code() == 0
        assert not direct.exists("theme")


def test_names_cannot_control_the_terminal(own, run):
    with own.client() as direct:
        direct.hset("\x1b[2J\x07evil [red]\n", f"{HOLDER}:1", 1)
        entry = {"holds": [{"kind": "lock", "name": "y", "id": 1, "ms": 1, "reason": "\x1b[2J"}], "ttl_ms": 60_000}
        direct.set(f"pyredisson_client:{HOLDER}", json.dumps({**entry, "host": "\x1b[31mhost", "app": "\r"}), px=60_000)
        direct.hset("y", f"{HOLDER}:1", 1)
    for command in ("ls", "leaks", "clients", "why", "show y", "unlock y --yes"):
        result = run(*command.split())
        assert "\x1b" not in result.output, command
        assert "\x07" not in result.output
        assert "\r" not in result.output
    assert "[red]" in run("ls").stdout
    assert len(report(run("ls", "--json"))["locks"]) == 1


# ---- why and leaks ---------------------------------------------------------------------------------------------------


def test_a_deadlock_and_waits_that_may_have_ended(own, run):
    """That it is found among real clients: ``tests/real_servers/test_inspecting_clients.py``."""
    other = HOLDER.replace("8", "9")
    with own.client() as direct, direct.pubsub() as waiters:
        for client_id, held, wanted in ((HOLDER, "a", "b"), (other, "b", "a")):
            direct.hset(held, f"{client_id}:1", 1)
            wait = {"kind": "lock", "name": wanted, "id": 1, "thread": "T", "ms": 1}
            direct.set(f"pyredisson_client:{client_id}", json.dumps({"ttl_ms": 60_000, "waits": [wait]}), px=60_000)
        result = run("why")
        assert result.exit_code == 1
        assert "DEADLOCK" in result.stdout
        assert "pyredisson unlock" in result.stdout
        assert "waits for b" in run("why", "a").stdout
        assert len(report(run("why", "a", "--json"))["cycles"]) == 1
        assert result.stdout.count("look again") == 2
        waiters.subscribe(*(LockNames(name).channel for name in "ab"))
        until(lambda: "look again" not in run("why").stdout)


def test_leaks(own, run):
    with own.client() as direct:
        direct.hset("for good", f"{HOLDER}:7", 1)
        direct.hset("for a while", f"{HOLDER}:7", 1)
        direct.pexpire("for a while", 60_000)
        direct.rpush("redisson_lock_queue:{queue}", f"{HOLDER}:7")
        direct.zadd("redisson_lock_timeout:{queue}", {f"{HOLDER}:7": 1})
        direct.set("token", "ab" * 20)
        direct.set("cfg:theme", "dark")
        direct.connection_pool.disconnect()
    result = run("leaks", "--json")
    assert result.exit_code == 1
    problems = {leak["lock"]: leak["problem"] for leak in report(result)["leaks"]}
    assert problems == {
        "for good": "never_expires",
        "token": "never_expires",
        "for a while": "holder_gone",
        "queue": "dead_queue",
    }
    advice = {leak["lock"]: leak["advice"] for leak in report(result)["leaks"]}
    doubt = "find out which program stores it; if it is a lock: "
    assert advice["for good"] == f"{doubt}pyredisson unlock 'for good' --force --holder {HOLDER}"
    assert advice["for a while"] == f"pyredisson unlock 'for a while' --holder {HOLDER}"
    [leak] = report(run("leaks", "cfg:*", "--json"))["leaks"]
    assert leak["text"] == "a string: a lock only if a program uses it as one; it never expires"
    assert "unlock" not in leak["advice"], "no deletion is offered of what may be data"


def test_strings_that_may_be_locks(own, run):
    with own.client() as direct:
        direct.set("redsync", "cP3pmRS0XkbX7aPT9TVjHQ==", px=60_000)
        direct.set("cfg:theme", "dark")
        direct.set("hits", 3)
    shown = run("show", "redsync").stdout
    assert shown.startswith("redsync  token lock, held\n")
    shown = run("show", "cfg:theme").stdout
    assert shown.startswith("cfg:theme  string, which may be a token lock\n")
    assert "a lock only if a program uses it as one" in shown
    assert "a number that no client uses now" in run("show", "hits").stdout
    assert run("why", "cfg:theme").stdout.startswith("cfg:theme is held by\n")
    assert [each["name"] for each in report(run("ls", "--json"))["locks"]] == ["redsync"]
    assert run("ls", "cfg:*").stdout.count("cfg:theme") == 1
    assert run("unlock", "hits", "--yes").exit_code == 1
    assert "free it" not in run("show", "cfg:theme").stdout
    assert "free it" in run("show", "redsync").stdout
    for arguments in (["--yes"], ["--yes", "--json"], ["--yes", "--holder", "31f014fb"]):
        refused = run("unlock", "cfg:theme", *arguments)
        assert refused.exit_code == 3
        assert "--json" not in arguments or report(refused)["outcome"] == "doubtful"
        with own.client() as direct:
            assert direct.get("cfg:theme") == b"dark"
    assert run("unlock", "hits", "--yes", "--force").exit_code == 1, "a number is refused in any case"
    assert run("unlock", "cfg:theme", "--yes", "--force").exit_code == 0
    with own.client() as direct:
        assert not direct.exists("cfg:theme")


def test_a_hash_that_never_expires_may_be_no_lock(own, run):
    with own.client() as direct:
        direct.hset("cart:7", f"{HOLDER}:1", 2)
        shown = run("show", "cart:7").stdout
        assert "it never expires, as no lock does: it may be the data of a program" in shown
        assert "free it" not in shown
        for named in ((), ("--holder", HOLDER[:8]), ("--holder", HOLDER)):
            assert run("unlock", "cart:7", "--yes", *named).exit_code == 3
            assert report(run("unlock", "cart:7", "--yes", "--json", *named))["outcome"] == "doubtful"
            assert direct.hgetall("cart:7") == {f"{HOLDER}:1".encode(): b"2"}
        assert run("unlock", "cart:7", "--yes", "--force", "--holder", "f" * 8).exit_code == 4
        assert direct.exists("cart:7")
        for named in ((), ("--holder", HOLDER)):
            assert run("unlock", "cart:7", "--yes", "--force", *named).exit_code == 0
            assert not direct.exists("cart:7")
            direct.hset("cart:7", f"{HOLDER}:1", 2)


def test_clients_that_ask_again_by_themselves_are_not_counted(holder, own, run):
    holder.get_spin_lock("spinning").lock()
    with Inspector(own.url) as inspector:
        until(lambda: getattr(inspector.lock("spinning"), "kind", None) == "spin_lock", within=20)
    said = "whether clients wait for it is not known: they ask again by themselves"
    assert run("unlock", "spinning", "--yes").stdout == f"freed spinning; {said}\n"


def test_strings_of_a_cache_are_not_listed(own, run, command_line):
    with own.client() as direct, direct.pipeline(transaction=False) as pipeline:
        pipeline.set("redsync", "cP3pmRS0XkbX7aPT9TVjHQ==", ex=600)
        pipeline.set("job-lock:default:report", "ADDED:2026-09-21T10:13:20.500Z@worker-3", ex=600)
        assert direct.lock("redis-py").acquire()
        for number in range(1001):
            pipeline.set(f"cache:{number}", f"value {number}", ex=600)
        pipeline.execute()
    listing = command_line.pyredisson("ls", url=own.url)
    assert listing.exit_code() == 0
    assert listing.stdout.count("token") == 3
    assert "cache:" not in listing.stdout
    assert "more than 1,000 short strings may be locks" in listing.stderr
    assert len(report(run("ls", "cache:*", "--json"))["locks"]) == 1001


#: Holds a lock with a fixed lease, and waits for a fair lock, until it is killed.
DOOMED = """
import sys, threading
from pyredisson import Config, Redisson
config = Config(client_name="doomed", presence_after=0.05, lock_watchdog_timeout=3.0)
client = Redisson.from_url(sys.argv[1], config=config)
client.get_lock("x").lock(600)
client.get_fair_lock("queue").lock()
"""


def test_a_holder_that_was_killed_is_found_while_other_clients_are_connected(holder, own, run, command_line):
    holder.get_fair_lock("queue").lock()
    with own.client() as direct:  # It could be the killed one's, for all that the server knows.
        direct.ping()
        doomed = command_line.start(sys.executable, "-c", DOOMED, own.url)

        def has_reported():
            with Inspector(own.url) as inspector:
                [who] = holders if (holders := getattr(inspector.lock("x"), "holders", ())) else [None]
                return bool(who and who.since and getattr(inspector.lock("queue"), "waiters", ()))

        until(has_reported, within=20)
        assert run("leaks").exit_code == 0
        doomed.send(signal.SIGKILL)
        leaks = until(lambda: report(run("leaks", "--json"))["leaks"], within=20)
        assert {(each["lock"], each["problem"]) for each in leaks} >= {("x", "holder_gone")}
        assert "its client no longer reports" in leaks[0]["text"]
        assert re.fullmatch(r"pyredisson unlock x --holder [0-9a-f-]{36}", leaks[0]["advice"])
        assert "(probably gone)" in run("ls", "x").stdout
        assert re.search(r"waiting +1\. doomed@.*\(probably gone\)", run("show", "queue").stdout)
        assert "1 dead in the queue" in run("show", "queue").stdout
        metrics = run("metrics", "--once").stdout
        assert "pyredisson_server_locks_of_absent_clients 1.0" in metrics
        assert "pyredisson_server_dead_waiters 1.0" in metrics
        assert "doomed" not in run("clients").stdout


@pytest.mark.parametrize("command", ["show x", "why x"])
def test_stacks_are_printed_in_lines(own, run, command):
    stack = ['  File "/srv/shop.py", line 12, in order\n    lock.lock()', '  File "/srv/shop.py", line 7, in pay']
    with own.client() as direct:
        direct.hset("x", f"{HOLDER}:1", 1)
        hold = {"kind": "lock", "name": "x", "id": 1, "ms": 1, "stack": stack}
        direct.set(f"pyredisson_client:{HOLDER}", json.dumps({"ttl_ms": 60_000, "holds": [hold]}), px=60_000)
    text = run(*command.split()).stdout
    assert "\\n" not in text
    assert [line.strip() for line in text.splitlines() if "shop.py" in line or "lock.lock()" in line] == [
        'File "/srv/shop.py", line 12, in order',
        "lock.lock()",
        'File "/srv/shop.py", line 7, in pay',
    ]


# ---- lock ------------------------------------------------------------------------------------------------------------


def test_a_lock_held_by_hand(holder, own, run, command_line):
    said = report(run("lock", "x", "--for", "10m", "--reason", "INC-42", "--json"))
    with own.client() as direct:
        assert 590_000 < direct.pttl("x") <= 600_000
    with Inspector(own.url) as inspector:
        [who] = inspector.lock("x").holders
    assert (who.owner, who.reason) == (said["owner"], "INC-42")
    assert "by hand: INC-42" in run("ls").stdout
    assert run("leaks").exit_code == 0
    assert holder.get_lock("x").try_lock() is False
    refused = command_line.pyredisson("lock", "x", "--for", "1m", "--reason", "too", url=own.url)
    assert refused.exit_code() == 75
    assert "x is held by" in refused.stderr
    assert "by hand: INC-42" in refused.stderr
    assert "unless it is renewed" not in refused.stderr
    started_too_soon = command_line.pyredisson("run", "x", "--wait", "0", "true", url=own.url)
    assert started_too_soon.exit_code() == 75
    assert "by hand: INC-42" in started_too_soon.stderr
    assert "unless it is renewed" not in started_too_soon.stderr
    other = command_line.pyredisson("lock", "y", "--for", "1m", "--reason", "z", "--prefix", "app:", url=own.url)
    assert (other.exit_code(), other.stderr) == (0, "")
    for command in (said["unlock"], other.stdout.split("free it before: ")[1]):
        assert run(*command.split()[1:]).exit_code == 0
    with own.client() as direct:
        assert direct.keys("*") == []


def test_a_lock_is_held_by_hand_for_hours(holder, run):
    assert run("lock", "x", "--for", "2h", "--reason", "maintenance").exit_code == 0
    assert 7_100 < holder.get_lock("x").remain_time_to_live() <= 7_200
    refused = run("lock", "y", "--for", "7200", "--reason", "maintenance")
    assert (refused.exit_code, "write 7200s, or 7200ms" in refused.stderr) == (2, True)


def test_a_lock_by_hand_that_is_interrupted(holder, own, command_line):
    holder.get_lock("x").lock()
    program = command_line.pyredisson("lock", "x", "--for", "10m", "--wait", "1m", "--reason", "y", url=own.url)
    with own.client() as direct:
        until(lambda: any(b"redisson_lock__channel" in each for each in direct.pubsub_channels()), within=20)
        program.send(signal.SIGINT)
        assert program.exit_code() == 130
        holder.get_lock("x").unlock()
        assert not direct.exists("x")


def test_a_name_that_cannot_be_locked(own, run):
    with own.client() as direct:
        direct.set("a string", "x")
    for name in ("", "a string", "x" * 70_000):
        assert run("lock", name, "--for", "1s", "--reason", "y").exit_code == 2, name[:20]


@pytest.mark.parametrize("reason", ["", " "])
def test_a_lock_by_hand_has_a_reason(own, run, reason):
    assert run("lock", "x", "--for", "1m", "--reason", reason).exit_code == 2
    assert own.info("keyspace") == {}


def test_a_server_that_refuses(own, holder, run):
    holder.get_lock("x").lock()
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", "+@all", "-eval")
    result = run("unlock", "x", "--yes", url=f"redis://ann:sesame@{HOST}:{own.port}")
    assert result.exit_code == 77
    assert holder.get_lock("x").is_locked()
