"""The first request of a call that may wait: what if there is no connection yet, or none can be made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.failures import Connecting, Failure, Rejected, Unusable

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore

__all__ = ["waits_through"]


async def waits_through(client: ClientCore, failure: Failure, wait: float | None, began: float) -> bool:
    """Wait until an acquire can go on whose first request brought no answer.

    Args:
        client: The client.
        failure: Why there was no answer.
        wait: How long the acquire may wait; ``None``: as long as it takes.
        began: When it began.

    Returns:
        Whether it can: its connection was only slow to be made, or outages are waited through; and there is time left.
    """
    if wait == 0 or isinstance(failure, (Rejected, Unusable)):
        return False
    config, runtime = client.config, client.runtime
    if config.wait_while_unreachable:
        return wait is None or runtime.now() < began + wait
    over = began + (config.connect_timeout if wait is None else min(config.connect_timeout, wait))
    while isinstance(failure, Connecting) and (left := over - runtime.now()) > 0:
        try:
            await runtime.ask(("PING",), min(left, config.timeout / 3))
            return True
        except Failure as error:
            failure = error
    return False
