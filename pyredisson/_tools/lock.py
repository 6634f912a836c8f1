"""``pyredisson lock``: holds a lock by hand, for a time, with a reason that others can read."""

from __future__ import annotations

import getpass
import json
import signal
import socket
import time
from typing import Any

import click
import redis.exceptions as rx

from pyredisson import Config, LockError, RedissonError, __version__, current_thread_id
from pyredisson._core.names import presence_key
from pyredisson._tools.common import (
    BadUsage,
    Duration,
    ExitCode,
    connect,
    duration_text,
    failure,
    held_by,
    json_option,
    plain,
    say,
    server_options,
)
from pyredisson._tools.completion import complete_names
from pyredisson._tools.tables import print_json, quoted, unlock_command
from pyredisson.inspection import Inspector, describe

MAX_REASON = 200  # characters


def hold_by_hand(*, name: str, seconds: float, reason: str, wait: float, url: str, prefix: str, as_json: bool) -> int:
    """Run ``pyredisson lock``. Returns the exit code.

    The lease is fixed and outlives this command. Whatever interrupts the command before that is printed releases it.
    """
    if not reason.strip():
        raise BadUsage("--reason must say why: others read it while they wait")
    # By default Ctrl-C ends a command without another word. Here it must not leave a lock held that no one knows of.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    client = connect(url, Config(prefix=prefix, client_name=_user(), presence=False))
    try:
        with client:
            lock, number = client.get_lock(name), current_thread_id()
            began = time.monotonic()
            try:
                if not lock.try_lock(wait, lease_time=seconds):
                    state = held_by(url, name, prefix)
                    say(f"{quoted(name)} {f'is {state}' if state else 'was held a moment ago, and is free now'}")
                    return ExitCode.NOT_LOCKED
                field = f"{client.id}:{number}"
                _announce(url, prefix, name, client.id, number, seconds, reason)
            except BaseException:
                if lock.is_held_by_current_thread():
                    lock.unlock()
                raise
    except KeyboardInterrupt:
        say("interrupted: the lock is not held")
        return ExitCode.SIGNALLED + signal.SIGINT
    except ValueError as error:
        raise BadUsage(str(error)) from None
    except (RedissonError, rx.RedisError, OSError) as error:
        if isinstance(error, LockError) and isinstance(error.__cause__, rx.ResponseError):
            raise BadUsage(plain(str(error))) from None  # The name is that of something else.
        code, text = failure(error, client.url)
        say(text)
        return code
    left = max(0.0, seconds - (time.monotonic() - began)) if not wait else seconds
    free = unlock_command(quoted(name), field, yes=True)
    if as_json:
        print_json({"name": name, "owner": field, "free_in_ms": round(1000 * left), "reason": reason, "unlock": free})
    else:
        print(plain(f"{quoted(name)} is held for {duration_text(seconds)}: {reason}"))
        print(plain(f"free it before: {free}"))
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "pyredisson-lock"


def _announce(url: str, prefix: str, name: str, client_id: str, number: int, seconds: float, reason: str) -> None:
    """Write a presence entry, so that others see who holds the lock and why. One that is refused changes nothing."""
    lease_ms = round(1000 * seconds)
    hold = {
        "kind": "lock",
        "name": prefix + name,
        "id": number,
        "thread": None,
        "ms": 0,
        "holds": 1,
        "watchdog": False,
        "reason": reason[:MAX_REASON],
    }
    entry = {
        "v": 1,
        "version": __version__,
        "app": _user(),
        "host": socket.gethostname(),
        "pid": None,
        "ttl_ms": lease_ms,
        "period_ms": lease_ms,
        "holds": [hold],
        "waits": [],
        "more": 0,
    }
    text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
    try:
        with Inspector(url, prefix=prefix) as inspector:
            inspector.announce(presence_key(client_id, prefix), text, lease_ms)
    except rx.ResponseError as error:
        say(f"the reason could not be stored: {describe(error)}")


# ---- lock ------------------------------------------------------------------------------------------------------------
# ``pyredisson lock``: its arguments.


@click.command()
@click.argument("name", shell_complete=complete_names)
@click.option("--for", "seconds", type=Duration(), required=True, metavar="TIME", help="For how long.")
@click.option("--reason", required=True, metavar="TEXT", help="Why: others see it in ls, show and their errors.")
@click.option(
    "--wait",
    type=Duration(zero=True),
    default="0",
    metavar="TIME",
    help="Wait for the lock at most; 0: try once.  [default: 0]",
)
@json_option
@server_options
def lock(**options: Any) -> int:
    """Hold the lock NAME by hand, as during an incident: the command ends, and the lock stays held for --for.

    \b
        pyredisson lock nightly-report --for 30m --reason "INC-42: the disk is full"

    It prints the command that frees the lock before. Interrupted while it waits, it holds nothing.

    \b
    Exit code:
       0  the lock is held
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
      75  the lock was not acquired within --wait
     130  interrupted: the lock is not held
    """

    return hold_by_hand(**options)
