"""A wall clock that has run ahead of the clock of leases: that stood still while the server's went on."""

from __future__ import annotations

import time
from typing import Any

from pyredisson.events import Lost
from tests.waiting import until
from tests.worlds.clock import ClockWorld

PAUSE = 3600.0


def set_right(client: Any) -> None:
    """Let its machine's wall clock be set right after a pause that its other clocks have not counted."""
    client._runtime.unix_time = lambda: time.time() + PAUSE


def _hold(world: ClockWorld, url: str, name: str, **options: float) -> tuple[Any, Any]:
    """Return a client, and its lease of a lock."""
    client = world.from_url(url)
    return client, world.actor().do(world.enter(client.get_lock(name).hold(**options)))


def test_a_hold_that_is_gone_is_lost_at_once(world, valkey, direct, unique_name):
    client = world.from_url(valkey.url)
    actor, kept = world.actor(), f"{unique_name}-kept"
    for name in (unique_name, kept):
        actor.do(client.get_lock(name).lock)
    direct.delete(unique_name)
    direct.pexpire(kept, 20_000)
    assert not world.losses
    began = time.monotonic()
    set_right(client)
    until(lambda: world.losses, 10)
    assert time.monotonic() - began < 2.5, "renewals come every ten seconds"
    assert [name for name, _ in world.losses] == [unique_name]
    assert direct.pttl(kept) > 25_000, "the server has confirmed it"
    actor.do(client.get_lock(kept).unlock)
    assert len(world.heard(Lost)) == 1


def test_what_no_server_confirms_is_lost(world, proxy, unique_name):
    client = world.from_url(proxy.url, timeout=1.5)
    context = client.get_lock(unique_name).hold()
    lease = world.actor().do(world.enter(context))
    proxy.blackhole()
    assert lease.remaining() > 25
    set_right(client)
    until(lambda: lease.lost, 5)
    until(lambda: world.losses, 5)


def test_a_fixed_lease_ends_earlier(world, valkey, unique_name):
    client, lease = _hold(world, valkey.url, unique_name, lease_time=20)
    assert lease.remaining() > 15
    set_right(client)
    until(lambda: lease.lost, 3)
    until(lambda: world.losses, 3)


def test_what_a_closed_client_holds_ends_earlier(world, valkey, unique_name):
    client, lease = _hold(world, valkey.url, unique_name)
    fixed = world.actor().do(world.enter(client.get_lock(f"{unique_name}-2").hold(lease_time=20)))
    world.run(client.close)
    assert lease.remaining() > 15
    assert fixed.remaining() > 15
    set_right(client)
    until(lambda: lease.lost and fixed.lost, 4)
    until(lambda: len(world.losses) == 2, 3)


def test_a_wall_clock_that_is_set_back_is_of_no_matter(world, valkey, unique_name):
    client, lease = _hold(world, valkey.url, unique_name)
    client._runtime.unix_time = lambda: time.time() - PAUSE
    world.pass_time(2.5)
    assert 25 < lease.remaining() < 27.6, "not renewed"
