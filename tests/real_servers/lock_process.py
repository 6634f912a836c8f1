"""Another process with locks of its own, to be stopped and killed.

The process runs this very file: it reads one JSON line a call from stdin, and answers with one on stdout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from tests.waiting import until


class PeerError(Exception):
    """What a call in the other process raised; its kind is ``args[0]``."""


class Peer:
    """One client and one actor in another process.

    Args:
        runtime: ``threads`` or ``asyncio``.
        url: The server.
        name: The lock's.
        kind: What it is; see ``tests.real_servers.handles.handle``.
        config: Of the client.
    """

    def __init__(self, runtime: str, url: str, name: str, kind: str = "lock", **config: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.real_servers.lock_process", runtime, url, name, kind, json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self.client_id, self.number = self.result()

    def send(self, call: str, *args: Any) -> None:
        """Begin a call: a method of the lock, or one of those in ``main()``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([call, *args]) + "\n")
        self._process.stdin.flush()

    def result(self) -> Any:
        """Wait for the answer to the earliest call without one."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the peer ended: {self._process.wait(10)}"
        outcome, value = json.loads(line)
        if outcome == "raised":
            raise PeerError(*value)
        return value

    def do(self, call: str, *args: Any) -> Any:
        """Do a call, and return what it returned or raise what it raised."""
        self.send(call, *args)
        return self.result()

    def stop(self) -> None:
        """SIGSTOP, and wait until it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: self._state() == "T", what="stopped")

    def go_on(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait(10)

    def _state(self) -> str:
        with open(f"/proc/{self.pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


def main(runtime: str, url: str, name: str, kind: str, config: str) -> None:
    """Do what stdin says, until it ends."""
    from tests.real_servers.handles import handle
    from tests.worlds.by_runtime import WORLDS

    world = WORLDS[runtime]()
    client = world.connected(url, **json.loads(config))
    lock, actor = handle(client, kind, name), world.actor()
    contexts: list[Any] = []
    leases = []

    def enter(*times: float | None) -> None:
        contexts.append(lock.hold(*times))
        leases.append(actor.do(world.enter(contexts[-1])))

    calls = {
        "enter": enter,
        "leave": lambda: actor.do(world.leave(contexts.pop())),
        "ensure_held": lambda: leases[-1].ensure_held(),
        "remaining": lambda: leases[-1].remaining(),
        "losses": lambda: world.losses,
    }

    def answer(outcome: str, value: Any) -> None:
        print(json.dumps([outcome, value]), flush=True)

    answer("returned", [client.id, actor.number])
    for line in sys.stdin:
        call, *args = json.loads(line)
        try:
            value = calls[call](*args) if call in calls else actor.do(getattr(lock, call), *args)
        except Exception as error:
            answer("raised", [type(error).__name__, str(error)])
        else:
            answer("returned", value)


if __name__ == "__main__":
    main(*sys.argv[1:])
