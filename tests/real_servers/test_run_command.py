"""``pyredisson run`` on a real server, with real processes, signals and terminals."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.command_line import PYREDISSON, Program, Programs, exists
from tests.servers import VALKEY, Server
from tests.terminals import terminal
from tests.waiting import until

# How long a lock outlives a holder that does not renew it: short, but long for a machine that is busy.
WATCHDOG = "1.5"

FORWARDED = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"]


class Shell:
    """``run(SCRIPT)`` runs a shell script under the lock of the test's name, on the shared server."""

    def __init__(self, command_line: Programs, url: str, name: str) -> None:
        self.url = url
        self._command_line = command_line
        self._name = name

    def run(self, script: str, *options: str, **kwargs: Any) -> Program:
        return self._command_line.pyredisson(
            "run", self._name, *options, "--", "sh", "-c", script, **{"url": self.url, **kwargs}
        )

    def start(self, script: str, *options: str, **kwargs: Any) -> tuple[Program, int]:
        """Run a script that reads from a pipe. Returns the end to write to, too."""
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as stdin:
            return self.run(script, *options, stdin=stdin, **kwargs), writer


@pytest.fixture
def shell(command_line: Programs, valkey: Server, unique_name: str) -> Shell:
    return Shell(command_line, valkey.url, unique_name)


def says(program: Program, word: str) -> None:
    """Wait until the program has written a word."""
    until(lambda: word in program.stdout or not program.runs(), 20, what=f"{word!r}")
    assert word in program.stdout, f"it ended, and said {program.stdout!r} and {program.stderr!r}"


# The command, while everything goes well.


@pytest.mark.parametrize(
    ("script", "expected"), [("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -KILL $$", 137), ("kill $$", 143)]
)
def test_the_commands_exit_code(shell, locks, unique_name, script, expected):
    program = shell.run(script)
    assert program.exit_code() == expected
    assert program.stderr == ""
    assert not locks.exists(unique_name)


def test_the_lock_is_held_while_the_command_runs(shell, locks, unique_name):
    program, writer = shell.start('echo "holding $PYREDISSON_LOCK"; read _; exit 4')
    says(program, f"holding {unique_name}\n")
    assert locks.type(unique_name) == b"hash"
    os.write(writer, b"go on\n")
    os.close(writer)
    assert program.exit_code() == 4
    assert not locks.exists(unique_name)


def test_the_command_inherits_what_its_caller_opened(command_line, valkey, unique_name, tmp_path):
    (tmp_path / "file").write_text("from the file\n")
    run = " ".join([*PYREDISSON, "run", unique_name, "--", "sh", "-c", "'cat <&3'"])
    program = command_line.start("sh", "-c", f"{run} 3<{tmp_path}/file", environment={"PYREDISSON_URL": valkey.url})
    assert program.exit_code() == 0
    assert program.stdout == "from the file\n"


def test_a_broken_pipe_ends_the_command_as_usual(command_line, valkey, unique_name):
    # Python ignores SIGPIPE. Were the command to inherit that, `yes` would fail with a message instead.
    run = " ".join([*PYREDISSON, "run", unique_name, "--", "yes"])
    program = command_line.start(
        "bash", "-c", f"{run} | head -n1; exit ${{PIPESTATUS[0]}}", environment={"PYREDISSON_URL": valkey.url}
    )
    assert program.exit_code() == 128 + signal.SIGPIPE
    assert program.stderr == ""


def test_programs_that_the_kernel_refuses(command_line, valkey, locks, unique_name, tmp_path):
    cases = {"no-first-line": ("echo as a shell does; exit 6", 6), "no-interpreter": ("#!/no/such/shell\n", 127)}
    for name, (text, expected) in cases.items():
        script = tmp_path / name
        script.write_text(text)
        script.chmod(0o755)
        program = command_line.pyredisson("run", unique_name, "--", str(script), url=valkey.url)
        assert program.exit_code() == expected
        assert not locks.exists(unique_name)


def test_a_password_is_never_shown(command_line, fresh_server, unique_name):
    server = fresh_server(VALKEY, "--requirepass", "s3cret")
    program = command_line.pyredisson("run", unique_name, "--", "echo", "ran", url=server.url)
    assert program.exit_code() == 0
    for wrong in (server.url.replace("s3cret", "wr0ng"), server.url.replace(":s3cret@", "")):
        program = command_line.pyredisson("run", unique_name, "--", "echo", "ran", url=wrong)
        assert program.exit_code() == 77
        assert program.stdout == ""
        assert program.stderr.count("\n") == 1
        assert "wr0ng" not in program.stderr


# Waiting for the lock.


def holder_of(command_line: Programs, server: Server, name: str) -> Program:
    """Someone who holds the lock until SIGTERM."""
    holder = command_line.pyredisson("run", name, "--", "sh", "-c", "echo holding; exec sleep 300", url=server.url)
    says(holder, "holding")
    return holder


def waiter_for(command_line: Programs, server: Server, locks: redis.Redis, name: str) -> Program:
    """Someone who has seen that the lock is held, and waits for news of it."""
    waiter = command_line.pyredisson("run", name, "--", "echo", "ran", url=server.url)
    until(lambda: subscribers(locks, name) or not waiter.runs(), 20, what="it waits")
    assert waiter.runs(), waiter.stderr
    return waiter


def subscribers(locks: redis.Redis, name: str) -> int:
    """How many connections hear of the releases."""
    ((_, count),) = locks.pubsub_numsub(f"redisson_lock__channel:{{{name}}}")
    return int(count)


@pytest.mark.parametrize("name", FORWARDED)
def test_a_signal_ends_the_wait_and_leaves_nothing_in_redis(command_line, valkey, locks, unique_name, name):
    signum = signal.Signals[f"SIG{name}"]
    holder = holder_of(command_line, valkey, unique_name)
    before = locks.hgetall(unique_name)
    waiter = waiter_for(command_line, valkey, locks, unique_name)
    waiter.send(signum)
    assert waiter.exit_code(within=10) == 128 + signum
    assert waiter.stdout == ""
    assert "Traceback" not in waiter.stderr
    assert locks.hgetall(unique_name) == before
    until(lambda: subscribers(locks, unique_name) == 0, what="its subscription is gone")
    holder.send(signal.SIGTERM)
    assert holder.exit_code() == 143
    assert not locks.exists(unique_name)


# Signals while the command runs.


@pytest.mark.parametrize("name", FORWARDED)
def test_signals_reach_the_command_once(shell, locks, unique_name, name):
    # `wait` returns when the trap has run. The second signal is no other than the one that ends the program: had the
    # first come twice, it would have been written twice by then, as signals of one kind are delivered in their order.
    last = "TERM" if name != "TERM" else "INT"
    script = f"""
        trap 'echo got {name}' {name}
        trap 'echo last; exit 7' {last}
        echo ready
        while :; do sleep 300 & wait; done
    """
    program = shell.run(script)
    says(program, "ready")
    program.send(signal.Signals[f"SIG{name}"])
    says(program, f"got {name}")
    assert locks.exists(unique_name)
    program.send(signal.Signals[f"SIG{last}"])
    assert program.exit_code() == 7
    assert program.stdout == f"ready\ngot {name}\nlast\n"
    assert program.stderr == ""
    assert not locks.exists(unique_name)


def test_a_command_that_a_signal_ends(shell, locks, unique_name):
    # With its children: a signal is for the whole process group.
    program = shell.run("sleep 300 & echo $!; wait")
    says(program, "\n")
    program.send(signal.SIGTERM)
    assert program.exit_code() == 128 + signal.SIGTERM
    until(lambda: not exists(int(program.stdout)), what="its child is gone")
    assert not locks.exists(unique_name)


def test_what_is_ignored_stays_ignored(command_line, valkey, unique_name):
    # As under nohup. The command would not have survived the signal, had it come through.
    run = " ".join([*PYREDISSON, "run", unique_name, "--", "sh", "-c", "'kill -HUP $$; echo ready; exec sleep 300'"])
    program = command_line.start("sh", "-c", f"trap '' HUP; exec {run}", environment={"PYREDISSON_URL": valkey.url})
    says(program, "ready")
    program.send(signal.SIGHUP)
    program.send(signal.SIGTERM)
    assert program.exit_code() == 128 + signal.SIGTERM


# Losing the lock.

OBEYS = "trap 'echo asked; exit 0' TERM; echo $$; while :; do sleep 300 & wait; done"
REFUSES = "trap 'echo asked' TERM; echo $$; while :; do sleep 300 & wait; done"


def test_the_lock_is_lost(shell, locks, unique_name):
    program = shell.run(OBEYS, "--watchdog", WATCHDOG)
    says(program, "\n")
    begun = time.monotonic()
    locks.delete(unique_name)
    assert program.exit_code() == 76
    # The next renewal notices, without waiting for the end of the lease or of the grace.
    assert time.monotonic() - begun < 4
    assert program.stdout.endswith("asked\n")
    assert unique_name in program.stderr
    assert "Traceback" not in program.stderr


@pytest.mark.parametrize("how", ["pause", "kill"])
def test_the_server_is_unreachable_until_the_lease_ends(shell, own, how):
    program = shell.run(OBEYS, "--watchdog", WATCHDOG, url=own.url)
    says(program, "\n")
    getattr(own, how)()
    says(program, "asked")
    assert program.exit_code() == 76
    assert "was lost" in program.stderr
    assert "Traceback" not in program.stderr


def test_a_command_that_does_not_end_is_killed_after_the_grace(shell):
    program = shell.run(REFUSES, "--lease", "1", "--grace", "1.5")
    says(program, "asked")
    asked = time.monotonic()
    assert program.exit_code() == 76
    assert 0.3 < time.monotonic() - asked < 4.8  # Not at once, nor after the usual grace of 5 s.
    assert not exists(int(program.stdout.split()[0]))


def test_the_commands_children_end_with_it(shell):
    # The shell ends when it is asked; the one that it started does not.
    script = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait"
    program = shell.run(script, "--lease", "1", "--grace", "0.5")
    says(program, "\n")
    child = int(program.stdout)
    assert program.exit_code() == 76
    until(lambda: not exists(child), what="the child is gone")


def test_a_stopped_command_is_ended_too(shell):
    program = shell.run(f"{OBEYS[:35]} kill -STOP $$; {OBEYS[35:]}", "--lease", "1", "--grace", "300")
    assert program.exit_code() == 76


def test_a_loss_that_shows_at_the_release(shell, locks, unique_name):
    # The watchdog does not look again for 100 s.
    program, writer = shell.start("echo ready; read _; exit 0", "--watchdog", "300")
    says(program, "ready")
    locks.delete(unique_name)
    os.close(writer)
    assert program.exit_code() == 76
    assert "was lost" in program.stderr


def test_a_server_that_is_unreachable_at_the_release(shell, own):
    # The command was protected to its end: its exit code counts, and the lock is free when its lease is over.
    program, writer = shell.start("echo ready; read _; exit 5", "--watchdog", "300", url=own.url)
    says(program, "ready")
    own.kill()
    os.close(writer)
    assert program.exit_code() == 5
    assert "could not be released" in program.stderr
    assert "Traceback" not in program.stderr


# On a terminal.


def test_ctrl_c_reaches_the_command_once(shell, locks, unique_name):
    script = """
        trap 'echo got INT' INT
        trap 'echo last; exit 7' TERM
        echo ready
        while :; do sleep 300 & wait; done
    """
    with terminal() as screen:
        program = shell.run(script, terminal=screen.theirs)
        screen.shows("ready")
        screen.type("\x03")
        screen.shows("got INT")
        program.send(signal.SIGTERM)
        assert program.exit_code() == 7
        assert not re.search("got INT.*got INT", screen.shows("(?s)ready.*last")[0], re.DOTALL)
    assert not locks.exists(unique_name)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at processes in /proc")
def test_ctrl_z_and_fg(command_line, valkey, unique_name):
    def state(pid):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    script = "echo pids $PPID $$ .; while :; do read line || exit; echo got $line; done"
    with terminal() as screen:
        shell = command_line.start(
            "bash", "--norc", "-i", environment={"PYREDISSON_URL": valkey.url, "PS1": "$ "}, terminal=screen.theirs
        )
        screen.type(" ".join([*PYREDISSON, "run", unique_name, "--", "sh", "-c", f"'{script}'"]) + "\n")
        pids = [int(pid) for pid in screen.shows(r"pids (\d+) (\d+) \.").groups()]
        screen.type("\x1a")
        until(lambda: [state(pid) for pid in pids] == ["T", "T"], what="both are stopped")
        screen.type("fg\n")
        until(lambda: "T" not in [state(pid) for pid in pids], what="both go on")
        screen.type("some words\n")
        screen.shows("got some words")
        screen.type("\x03")
        until(lambda: not exists(pids[0]), what="it has ended")
        screen.type("exit $?\n")
        assert shell.exit_code() == 130
