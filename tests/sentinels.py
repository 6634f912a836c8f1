"""A master, its replicas and their sentinels, on loopback: fails over within two or three seconds."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import redis

from tests.servers import HOST, Build, Server
from tests.waiting import until

SERVICE = "locks"

#: For so long a server is silent before sentinels take it for dead, in milliseconds: while it is to be replaced, and at
#: all other times. Then a busy machine must not make them believe that one is down that is well.
SOON_MS = 1000
PATIENT_MS = 60_000


class SentinelServer(Server):
    """A sentinel; it writes what it learns into its own configuration."""

    def __init__(self, build: Build, master: int, quorum: int) -> None:
        self._watches = (
            f"sentinel monitor {SERVICE} {HOST} {master} {quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} {PATIENT_MS}\n"
            f"sentinel failover-timeout {SERVICE} 3000\n"
        )
        super().__init__(build)

    def _command(self, directory: str) -> list[str]:
        settings = Path(directory) / "sentinel.conf"
        settings.write_text(f"bind {HOST}\nport {self.port}\ndir {directory}\n{self._watches}")
        return [self._program, str(settings), "--sentinel"]


class SentinelSet:
    """One master, two replicas, three sentinels. ``start`` is the fixture ``fresh_server``, which ends the servers."""

    def __init__(self, start: Callable[..., Server], build: Build) -> None:
        first = start(build, "--repl-diskless-sync-delay", "0")
        others = [
            start(build, "--repl-diskless-sync-delay", "0", "--replicaof", HOST, str(first.port)) for _ in range(2)
        ]
        self.servers = [first, *others]
        until(lambda: first.info("replication")["connected_slaves"] == 2, within=30)
        with first.client() as direct:
            until(lambda: direct.wait(2, 200) == 2, within=30, what="both replicas are in step")
        self.sentinels = [SentinelServer(build, first.port, 2) for _ in range(3)]
        try:
            until(lambda: {each[:2] for each in self._known()} == {(2, 2)}, within=60, what="all know each other")
        except AssertionError as error:
            known = self._known()
            for sentinel in self.sentinels:
                sentinel.stop()
            raise AssertionError(f"replicas, other sentinels and state, as each sees it: {known}") from error

    def _known(self) -> list[tuple[int, int, str]]:
        """How many replicas and other sentinels each sentinel knows, and what it says of the master."""
        found = []
        for sentinel in self.sentinels:
            with sentinel.client(decode_responses=True) as client:
                [state] = client.execute_command("SENTINEL", "MASTERS")
                known = dict(zip(state[::2], state[1::2], strict=True)) if isinstance(state, list) else state
                found.append((int(known["num-slaves"]), int(known["num-other-sentinels"]), str(known["flags"])))
        return found

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'{HOST}:{each.port}' for each in self.sentinels)}/{SERVICE}"

    def master(self) -> Server:
        """Who the first sentinel says it is."""
        with self.sentinels[0].client(decode_responses=True) as client:
            address = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if server.port == int(address[1]))

    def down_after(self, milliseconds: int, *, of: Sequence[Server] = ()) -> None:
        """For so long somebody has to be silent before the sentinels, or these of them, take it for dead."""
        for sentinel in of or self.sentinels:
            # It answers when its configuration is on the disk, which others may keep busy.
            with sentinel.client(socket_timeout=30.0) as client:
                client.execute_command("SENTINEL", "SET", SERVICE, "down-after-milliseconds", milliseconds)

    def fail_over(self) -> None:
        """Let the sentinels promote another one while all are well; returns when it is done."""
        before = self.master()
        self._promoted(before, self._ask_to_fail_over)

    def _ask_to_fail_over(self) -> None:
        with self.sentinels[0].client() as client, suppress(redis.exceptions.ResponseError):
            # It may be at it already, or not know yet that a replica is well.
            client.execute_command("SENTINEL", "FAILOVER", SERVICE)

    def in_step(self) -> None:
        """Until both replicas have all there is."""
        with self.master().client() as direct:
            direct.set("in step", "yes")  # WAIT is about what its own connection wrote.
            until(lambda: direct.wait(2, 200) == 2, within=30, what="both replicas are in step")
            direct.delete("in step")

    def set_aside(self) -> tuple[Server, Server]:
        """Make a replica the master, and tell the sentinels alone: the old one goes on as if it still were.

        Returns the old one and the new one.
        """
        old = self.master()
        new = next(server for server in self.servers if server is not old)
        with new.client() as client:
            client.execute_command("REPLICAOF", "NO", "ONE")
        self.tell(new)
        return old, new

    def hand_over(self) -> tuple[Server, Server]:
        """Make a replica the master by hand, and tell the sentinels nothing: the old one follows it at once.

        Unlike a sentinel's failover this ends no connection. Returns the old one and the new one.
        """
        old = self.master()
        new, *others = (server for server in self.servers if server is not old)
        with new.client() as client:
            client.execute_command("REPLICAOF", "NO", "ONE")
        for server in (old, *others):
            with server.client() as client:
                client.execute_command("REPLICAOF", HOST, new.port)
        until(lambda: new.info("replication")["connected_slaves"] == 2, within=30, what="both follow the new one")
        return old, new

    def tell(self, master: Server) -> None:
        """Let all sentinels watch this one from now on."""
        for sentinel in self.sentinels:
            with sentinel.client() as client, client.pipeline(transaction=False) as told:
                told.execute_command("SENTINEL", "REMOVE", SERVICE)
                told.execute_command("SENTINEL", "MONITOR", SERVICE, HOST, master.port, 2)
                told.execute_command("SENTINEL", "SET", SERVICE, "down-after-milliseconds", PATIENT_MS)
                told.execute()

    def kill_master(self) -> Server:
        """SIGKILL the master, and wait until another one is. Returns the one that is gone."""
        return self._replaced(Server.kill)

    def isolate_master(self) -> Server:
        """Stop the master, and wait until another one is: connections to it stay open. Returns the one stopped."""
        return self._replaced(Server.pause)

    def _replaced(self, end: Callable[[Server], None]) -> Server:
        before = self.master()
        self.down_after(SOON_MS)
        end(before)
        self._promoted(before)
        return before

    def _promoted(self, before: Server, ask: Callable[[], None] | None = None) -> None:
        asked = -math.inf

        def promoted() -> bool:
            nonlocal asked
            now = self.master()
            if now.port != before.port:
                return bool(now.info("replication")["role"] == "master")
            if ask is not None and time.monotonic() > asked + 0.5:  # One that came to nothing has to be asked for anew.
                ask()
                asked = time.monotonic()
            return False

        until(promoted, within=60, what="another one is promoted")
        self.down_after(PATIENT_MS)

    def stop(self) -> None:
        for sentinel in self.sentinels:
            sentinel.stop()
