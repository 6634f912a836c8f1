"""The options of ``pyredisson run`` on a real server. The command runs in this process, so that tests are quick."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from pyredisson import Config, Redisson
from pyredisson._tools.cli import cli
from tests.servers import Server
from tests.waiting import until

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(valkey: Server, capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """``pyredisson run ARGUMENTS``: its exit code, and what was written to stdout and stderr."""
    logger = logging.getLogger("pyredisson")
    level = logger.level

    def call(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli(["run", "--url", valkey.url, *arguments], prog_name="pyredisson")
        assert isinstance(ended.value.code, int)
        return ended.value.code, *capfd.readouterr()

    yield call
    logger.setLevel(level)


@pytest.fixture
def client(valkey: Server) -> Iterator[Redisson]:
    with Redisson.from_url(valkey.url) as client:
        yield client


# ---- whose options they are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["NAME", "printf", "<%s>", "-l", "--wait", "x"],
        ["NAME", "--", "printf", "<%s>", "-l", "--wait", "x"],
        ["--wait", "0", "NAME", "printf", "<%s>", "-l", "--wait", "x"],
        ["NAME", "--wait", "0", "-v", "printf", "<%s>", "-l", "--wait", "x"],
        ["-v", "NAME", "--wait=0", "--", "printf", "<%s>", "-l", "--wait", "x"],
        ["--wait", "0", "--", "NAME", "printf", "<%s>", "-l", "--wait", "x"],
        ["-vn2", "NAME", "printf", "<%s>", "-l", "--wait", "x"],
    ],
    ids=" ".join,
)
def test_options_after_the_command_are_its_own(run, unique_name, arguments):
    code, output, _ = run(*[each.replace("NAME", unique_name) for each in arguments])
    assert (code, output) == (0, "<-l><--wait><x>")


def test_help_before_the_command_is_ours(run):
    assert "Usage: pyredisson run" in run("some-name", "--help")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--wait", "soon"], "'soon' is not a duration, such as 5s, 10m or 1h30m; a plain number is seconds"),
        (["--wait", "-1"], "'-1' is not a duration"),
        (["--lease", "0"], "must be longer than 0"),
        (["--lease", "30000"], "more than an hour in seconds: write 30000s, or 30000ms"),
        (["--watchdog", "30000"], "write 30000s, or 30000ms"),
        (["--at-least", "30000"], "write 30000s, or 30000ms"),
        (["--wait", "30000"], "write 30000s, or 30000ms"),
        (["--grace", "30000"], "write 30000s, or 30000ms"),
        (["-n", "0"], "x>=1"),
        (["--at-least", "1m", "--lease", "30s"], "--lease must be at least as long as --at-least"),
        (["-n", "2", "--shared"], "only one of -n, --shared, --exclusive, --fenced and --at-least"),
    ],
)
def test_wrong_options_are_refused_in_plain_english(run, arguments, said):
    code, _, error = run("name", *arguments, "true")
    assert code == 2
    assert said in error
    assert not re.search(r"\bNone\b|\bfloat\b|\w\(\)", error)


def test_at_least_runs_it_once_in_that_time(run, unique_name):
    once = (unique_name, "--lease", "1m", "--at-least", "30s", "true")
    assert run(*once)[0] == 0
    code, _, error = run(*once)
    assert code == 75
    assert "(has run)" in error


# ---- what it says ----------------------------------------------------------------------------------------------------


def test_v_says_that_it_waits(run, client, locks, unique_name):
    client.get_lock(unique_name).lock()

    def release_when_waited_for():
        until(lambda: any(unique_name.encode() in each for each in locks.pubsub_channels()), 20)
        client.get_lock(unique_name).force_unlock()

    releasing = threading.Thread(target=release_when_waited_for)
    releasing.start()
    code, output, error = run(unique_name, "-v", "--wait", "30s", "echo", "ran")
    releasing.join()
    assert (code, output) == (0, "ran\n")
    first, second = error.splitlines()
    assert first.startswith(f"pyredisson: waiting for the lock '{unique_name}'")
    assert second.startswith("pyredisson: acquired after ")


def test_the_end_of_a_lease_is_no_loss(run, unique_name):
    code, _, error = run(unique_name, "--lease", "1s", "sleep", "60")
    assert code == 76
    assert error == (
        f"pyredisson: the lease of 1 s of the lock '{unique_name}' ended while the command ran; it is being ended\n"
    )


def test_a_name_of_something_else_is_refused_in_plain_english(run, client, locks, unique_name):
    locks.lpush(unique_name, "x")
    locks.set(f"text-{unique_name}", "x")
    code, _, error = run(f"text-{unique_name}", "true")
    assert (code, "(" in error) == (2, False)
    assert client.get_semaphore(f"plain-{unique_name}", permits=3).try_acquire()
    code, _, error = run(f"plain-{unique_name}", "-n", "3", "true")
    assert (code, "is of the other kind" in error) == (2, True)
    for arguments in (["-n", "2"], ["--shared"], ["--fenced"], []):
        code, _, error = run(unique_name, *arguments, "true")
        assert code == 2
        assert "holds a list" in error
        assert "use another name" in error.lower()
        assert not re.search(r"\bNone\b|\w\(\)", error)


def test_a_refusal_says_who_holds_the_lock_and_until_when(run, valkey, locks, unique_name):
    config = Config(client_name="web", presence_after=0.05)
    with Redisson.from_url(valkey.url, config=config) as holder, holder.get_lock(unique_name):
        until(lambda: locks.exists(f"pyredisson_client:{holder.id}"), 20, what="its presence is written")
        who = rf"web@\S+ pid {os.getpid()} t\d+ for [\d.]+ s \(since \d\d:\d\d:\d\d\)"
        code, _, error = run(unique_name, "--wait", "0", "true")
        assert code == 75
        until_when = r"it expires in \d+ s unless it is renewed"
        assert re.fullmatch(rf"pyredisson: the lock '{unique_name}' is held by {who}; {until_when}\n", error), error
        code, _, error = run(unique_name, "-v", "--wait", "50ms", "true")
        waiting, refused = error.splitlines()
        assert re.fullmatch(rf"pyredisson: waiting for the lock '{unique_name}', held by {who}; {until_when}", waiting)
        assert "is held by web@" in refused


def test_others_see_which_command_holds_the_lock(run, valkey, unique_name, tmp_path):
    show = (
        f"from pyredisson.inspection import Inspector; "
        f"print(Inspector({valkey.url!r}).lock({unique_name!r}).holders[0].app)"
    )
    script = tmp_path / "nightly report"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "$1"\n')
    script.chmod(0o755)
    assert run(unique_name, str(script), show)[:2] == (0, "nightly_report\n")


# ---- kinds of locks --------------------------------------------------------------------------------------------------


def test_n_commands_run_at_the_same_time(run, client, unique_name):
    permits = client.get_permit_expirable_semaphore(unique_name, permits=3)
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(permits.hold())
        assert run(unique_name, "-n", "3", "--wait", "0", "echo", "third")[:2] == (0, "third\n")
        held.enter_context(permits.hold())
        code, output, error = run(unique_name, "-n", "3", "--wait", "0", "echo", "fourth")
        assert (code, output) == (75, "")
        assert f"the semaphore '{unique_name}'" in error
    assert permits.available_permits() == 3


def test_its_permit_is_renewed_unless_it_has_a_lease(run, client, locks, unique_name):
    code, _, error = run(unique_name, "-n", "1", "--lease", "1s", "sleep", "60")
    assert code == 76
    assert f"the lease of 1 s of the semaphore '{unique_name}' ended" in error
    show = 'sleep 2.5; echo "$PYREDISSON_LOCK"'
    assert run(unique_name, "-n", "1", "--watchdog", "1.5", "sh", "-c", show)[:2] == (0, f"{unique_name}\n")


def test_another_number_is_refused_while_a_command_runs(run, client, unique_name):
    with client.get_permit_expirable_semaphore(unique_name, permits=3).hold():
        code, output, error = run(unique_name, "-n", "5", "echo", "ran")
        assert (code, output) == (2, "")
        assert "has 3 permits, and 1 of them are acquired" in error
        assert "Use -n 3" in error
    assert run(unique_name, "-n", "5", "echo", "ran")[:2] == (0, "ran\n")
    assert client.get_permit_expirable_semaphore(unique_name).get_permits() == 5


def test_shared_runs_are_excluded_by_an_exclusive_one(run, client, unique_name):
    both = client.get_read_write_lock(unique_name)
    with both.read_lock():
        assert run(unique_name, "--shared", "--wait", "0", "true")[0] == 0
        code, _, error = run(unique_name, "--exclusive", "--wait", "0", "true")
        assert code == 75
        assert f"the write side of the lock '{unique_name}'" in error
    with both.write_lock():
        assert run(unique_name, "--shared", "--wait", "0", "true")[0] == 75
        assert run(unique_name, "--exclusive", "--wait", "0", "true")[0] == 75
    assert run(unique_name, "--exclusive", "--wait", "0", "true")[0] == 0


def test_a_fenced_command_finds_its_token(run, client, unique_name, monkeypatch):
    show = ["sh", "-c", "echo ${PYREDISSON_TOKEN-none}"]
    first = run(unique_name, "--fenced", *show)[1]
    code, second, error = run(unique_name, "--fenced", "-v", *show)
    assert (code, int(second)) == (0, int(first) + 1)
    assert f", token {int(second)} (PYREDISSON_TOKEN)" in error
    # The token of a lock around this one is not that of this one.
    monkeypatch.setenv("PYREDISSON_TOKEN", "7")
    assert run(unique_name, *show)[1] == "none\n"
