"""The first request of a call that may wait: what if there is no connection yet, or none can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson._core.diagnosis.remedies import remedy_of
from pyredisson._core.failures import Connecting, Failure, Rejected, Unusable, own_copy

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore

#: The classes of redis-py's errors for a server that could not be reached, and for one that let us in no further.
UNREACHED = ("ConnectionError", "TimeoutError")
REFUSED = "AuthenticationError"

#: What servers answer to a client that has no password.
NO_PASSWORD = ("HELLO must be called with the client already authenticated", "Authentication required")


def unreached(client: ClientCore, failure: Failure, what: str = "") -> Exception:
    """Return the error to show for a request that had no effect: that of the connection, with the server's address.

    It also says what to do, for a refusal as for a server that the client has never reached. ``what`` the request is
    about, in words; if an earlier request is in doubt, the error says so.
    """
    remedy = remedy_of(str(failure.cause))
    known = remedy is not None and remedy in str(failure.cause)
    error = failure.cause if remedy else _with_address(client, failure.cause)
    if known or not (remedy or failure.earlier):
        return error
    error = own_copy(error)  # Other calls may raise the same one.
    text, address = str(error), client.address
    if remedy:
        where = " at ".join(filter(None, (what, None if address is None or address in text else address)))
        text = f"{text.rstrip('.')}{f' ({where})' if where else ''}: {remedy}"
    if failure.earlier:
        text += f"; an earlier request of the same owner for {what} is still being settled"
    error.args = (text,)
    return error


def _with_address(client: ClientCore, error: Exception) -> Exception:
    address = client.address
    text, kind = str(error), type(error).__name__
    if address is None or address in text or kind not in (*UNREACHED, REFUSED):
        return error
    server = client.server
    if kind == REFUSED and any(each in text for each in NO_PASSWORD):
        error.args = (
            f"the server at {address} requires a password, and this client has none: "
            "Redisson.from_url('redis://:password@host:port')",
        )
    elif kind == REFUSED or server.facts is not None or server.refusal is not None:
        error.args = (f"{text} ({address})",)
    else:
        tls = ""
        if address.startswith("redis") and "connecting to" not in text:  # Something is there.
            tls = ", and does it speak TLS" if address.startswith("rediss") else " (with TLS it is rediss://)"
        error.args = (
            f"{text.rstrip('.')}. Is a server running at {address}{tls}? "
            f"`pyredisson doctor --url {address}` examines it; Redisson.from_url(url) connects to another one, and "
            "Redisson.embedded() starts a private one",
        )
    return error


def passes(client: ClientCore, failure: Failure) -> bool:
    """Return whether the server refused a request for a reason that passes.

    A credential that was never accepted is not taken for one that is being rotated.
    """
    known = client.server.facts is not None or client.server.refusal is not None
    return failure.passes and (known or type(failure.cause).__name__ != REFUSED)


async def waits_through(client: ClientCore, failure: Failure, wait: float | None, began: float) -> bool:
    """Wait until an acquire can go on whose first request brought no answer.

    Args:
        client: The client.
        failure: Why there was no answer.
        wait: How long the acquire may wait; ``None``: as long as it takes.
        began: When it began.

    Returns:
        Whether it can: its connection was only slow to be made, the server refused it for a reason that passes within
        a wait time, or outages are waited through; and there is time left.
    """
    if wait == 0 or isinstance(failure, (Rejected, Unusable)):
        return False
    config, runtime = client.config, client.runtime
    if config.wait_while_unreachable or (wait is not None and passes(client, failure)):
        return wait is None or runtime.now() < began + wait
    over = began + (config.connect_timeout if wait is None else min(config.connect_timeout, wait))
    while isinstance(failure, Connecting) and (left := over - runtime.now()) > 0:
        try:
            await runtime.ask(("PING",), min(left, config.timeout / 3))
            return True
        except Failure as error:
            failure = error
    return False
