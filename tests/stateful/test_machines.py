"""Random calls of several owners against models of what they use, in the simulator and on a real server."""

from __future__ import annotations

import pytest

from tests.stateful.locks import LockMachine
from tests.stateful.permits import LatchMachine, PermitMachine, SemaphoreMachine
from tests.stateful.read_write_lock import ReadWriteMachine
from tests.stateful.running import Machine, run_on_server, run_simulated

LOCKS: list[type[Machine]] = [LockMachine, ReadWriteMachine]
PERMITS: list[type[Machine]] = [SemaphoreMachine, PermitMachine, LatchMachine]

pytestmark = [pytest.mark.volume, pytest.mark.timeout(900)]


@pytest.mark.parametrize("machine", [*LOCKS, *PERMITS])
def test_simulated(machine, volume):
    run_simulated(machine, volume)


@pytest.mark.parametrize(
    ("machine", "runtime"),
    [*((each, "threads") for each in (*LOCKS, *PERMITS)), *((each, "asyncio") for each in PERMITS)],
)
def test_on_a_server(machine, runtime, volume, shared_servers):
    run_on_server(machine, volume, shared_servers, runtime)
