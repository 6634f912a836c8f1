"""The server's wall clock jumps: leases end at once, or late. Nothing can prevent that, but it is told.

Needs ``libfaketime`` (Debian's package of that name), or its path in ``PYREDISSON_LIBFAKETIME``.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyredisson.errors import LockLostError
from tests.real_servers.client_settings import renewed_every
from tests.real_servers.observation import held, nothing_left
from tests.servers import VALKEY, Build, Server
from tests.waiting import until


class Clock:
    """The clock of a server; ``jump`` it."""

    def __init__(self, server: Server, file: Path) -> None:
        self.server = server
        self._file = file

    def jump(self, offset: str) -> None:
        """To so much before or after the right time, such as ``+1h``."""
        with self.server.client() as client:
            before = client.time()[0]
            self._file.write_text(offset)
            until(lambda: abs(client.time()[0] - before) > 1000, what="it has jumped")


@pytest.fixture
def clock(fresh_server: Callable[..., Server], tmp_path: Path) -> Clock:
    """A server whose clock can be set."""
    found = [os.environ.get("PYREDISSON_LIBFAKETIME", ""), *sorted(glob.glob("/usr/lib/*/faketime/libfaketime.so.1"))]
    library = next((path for path in found if path and Path(path).exists()), None)
    if library is None:
        pytest.skip("no libfaketime here: apt-get install libfaketime")
    file, program = tmp_path / "offset", tmp_path / "server"
    file.write_text("+0")
    program.write_text(
        "#!/bin/sh\n"
        f"export LD_PRELOAD='{library}' FAKETIME_TIMESTAMP_FILE='{file}'\n"
        "export FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1\n"
        f"exec '{VALKEY.require()}' \"$@\"\n"
    )
    program.chmod(0o755)
    return Clock(fresh_server(Build(VALKEY.id, lambda: [str(program)], VALKEY.wanted)), file)


def test_a_jump_forward_ends_every_lease_and_is_reported_as_a_loss(world, clock, unique_name):
    client = world.from_url(clock.server.url)
    renewed_every(client, 0.3)
    lock, holder, other = client.get_lock(unique_name), world.actor(), world.actor()
    context = lock.hold()
    lease = holder.do(world.enter(context))
    clock.jump("+1h")
    until(lambda: lease.lost, what="told, long before its 30 s are over")
    until(lambda: world.losses == [(unique_name, holder.number)], what="called back")
    assert other.do(lock.try_lock)
    with pytest.raises(LockLostError):
        holder.do(world.leave(context))
    with clock.server.client(decode_responses=True) as direct:
        assert held(direct, lock, other) == 1
        other.do(lock.unlock)
        nothing_left(direct, client, unique_name)


def test_backward_makes_leases_long_and_loses_none(world, clock, unique_name):
    client = world.from_url(clock.server.url)
    renewed_every(client, 0.3)
    lock, holder = client.get_lock(unique_name), world.actor()
    lease = holder.do(world.enter(lock.hold()))
    clock.jump("-1h")
    with clock.server.client(decode_responses=True) as direct:
        assert direct.pttl(unique_name) > 3_000_000
        left = lease.remaining()
        until(lambda: lease.remaining() > left, what="renewed")
        # Certain is what was asked for, not what the server makes of it.
        assert lease.remaining() <= 30.0
        assert held(direct, lock, holder) == 1
        holder.do(lock.unlock)
        nothing_left(direct, client, unique_name)
    assert not world.losses
