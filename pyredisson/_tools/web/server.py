"""Running the site: the socket, the messages at the start, and an end without a trace."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
from types import FrameType
from typing import final

import uvicorn
from redis.exceptions import RedisError

from pyredisson._tools.common import ExitCode, inspector_at, read_address, say
from pyredisson._tools.sampling.pace import in_daemon_thread
from pyredisson._tools.web.access import Access
from pyredisson._tools.web.app import Free, Outcome, Site
from pyredisson._tools.web.pages import Pages
from pyredisson._tools.web.watcher import Watcher
from pyredisson.inspection import DOUBTFUL, Inspector, LockView, Unlocked, describe

#: How long open connections may take to end after Ctrl-C.
CLOSE_SECONDS = 1


def is_local(host: str) -> bool:
    """Whether only programs of this machine can connect to an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def notified(unlocked: Unlocked) -> str:
    """Return how many processes received the message of a release, in words."""
    count = unlocked.notified
    if not count and unlocked.about_waiters:
        return unlocked.about_waiters
    return {0: "no process is known to wait for it", 1: "1 process was notified"}.get(
        count, f"{count} processes were notified"
    )


def freeing(inspector: Inspector) -> Free:
    """Return the function that frees a lock on a server."""

    async def free(lock: LockView) -> Outcome:
        try:
            unlocking = in_daemon_thread(lambda: inspector.unlock(lock.name, seen=lock), "pyredisson-web-unlock")
            unlocked = await asyncio.wrap_future(unlocking)
        except (RedisError, OSError, ValueError) as error:
            return Outcome(False, 503, "Not freed", describe(error))
        match unlocked.outcome:
            case "freed":
                return Outcome(True, 200, "Freed", f"The lock was freed; {notified(unlocked)}.")
            case "not_held":
                return Outcome(False, 409, "Not freed", "It was not held any more.")
            case "doubtful":
                return Outcome(False, 409, "Not freed", f"It is {DOUBTFUL}.")
        return Outcome(False, 409, "Not freed", "Another owner holds it by now. Look again.")

    return free


def show_address(host: str, port: int) -> str:
    """Return the address for a browser."""
    if host in ("0.0.0.0", "::"):
        host = "localhost"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


@final
class WebServer(uvicorn.Server):
    """Uvicorn's server, which ends the streams of open pages when it is asked to end, and says nothing of its own."""

    def __init__(self, site: Site, watcher: Watcher) -> None:
        super().__init__(
            uvicorn.Config(
                site.asgi,
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="critical",
                access_log=False,  # It would contain the token of the first visit.
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
        )
        self._watcher = watcher
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal ends it."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End, as signals ask for, and as tests do."""
        super().handle_exit(sig, frame)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._watcher.close)


def run_web(
    *,
    url: str,
    listen: str,
    prefix: str = "",
    interval: float,
    record: bool = False,
    allow_unlock: bool = False,
    hosts: tuple[str, ...] = (),
) -> int:
    """Show the locks of a server until a signal ends it. Returns the exit code."""
    host, port = read_address(listen)
    inspector = inspector_at(url, prefix)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, UnicodeError) as error:  # UnicodeError: it can be no host name.
        say(f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}")
        return ExitCode.FAILED
    # The inspector's connections end with this process. Closing them would wait for a look at a server that hangs.
    with listener:
        port = listener.getsockname()[1]
        access = Access(Access.new_token() if allow_unlock else None, frozenset({host, *hosts}), port)
        watcher = Watcher(inspector.snapshot, interval=interval, always=record)
        pages = Pages(watcher, server=inspector.url, form_token=access.form_token if allow_unlock else None)
        site = Site(watcher, pages, access, free=freeing(inspector) if allow_unlock else None, report=say)
        _announce(host, port, access)
        # Uvicorn raises the signal that ended it once more when its own handlers are gone, and nothing is left to end.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: None)
        asyncio.run(WebServer(site, watcher).serve([listener]))
    return 0


def _announce(host: str, port: int, access: Access) -> None:
    address = show_address(host, port)
    if access.token is not None:
        say(f"open {address}?token={access.token}")
        say("this address contains the token: with it, locks can be freed")
    else:
        say(f"open {address}")
    if not is_local(host):
        say(f"warning: other machines can connect to {host}:{port}, unencrypted, and see names of locks and hosts")
    say("Ctrl-C ends it; no lock is harmed")
