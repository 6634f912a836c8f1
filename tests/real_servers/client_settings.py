"""What a busy machine needs: leases that outlast its pauses, and short timeouts for nothing but what is to fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from tests.waiting import until


@contextmanager
def changed(client: Any, *, attempt: float | None = None, **config: Any) -> Iterator[None]:
    """Let the client have other settings for a while: a short ``timeout`` for what is to fail, and no more than that.

    Before and after, a busy machine has the time it needs.

    Args:
        client: The client.
        attempt: Seconds for one reply, where a request is repeated until the ``timeout``; as a rule a third of that.
        config: As in ``Config``.
    """
    core = client._core
    before = core.config, core._patience, core._lease_of_patience
    core.config = dataclasses.replace(core.config, **config)
    core._patience = core.config.timeout / 3 if attempt is None else attempt
    core._lease_of_patience = 6000 * core._patience
    try:
        yield
    finally:
        core.config, core._patience, core._lease_of_patience = before


def renewed_every(client: Any, seconds: float) -> None:
    """Let the client's watchdog come round so often, however long its leases: these outlast a busy machine's pauses.

    To be called before anything is held.
    """
    client._core.watchdog._period = seconds


def await_renewals(direct: redis.Redis, name: str, times: int = 2, within: float = 5.0) -> None:
    """Until it was renewed so often from now on: each time there is less left of its lease than a renewal gives."""
    for _ in range(times):
        given = direct.pttl(name)
        assert direct.pexpire(name, given // 2), f"{name} is gone"
        until(lambda: direct.pttl(name) > given * 2 // 3, within, what=f"{name} is renewed")  # noqa: B023
