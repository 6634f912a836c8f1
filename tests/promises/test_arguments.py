"""Bad arguments are errors before anything is sent: over a connection that leads nowhere, they show first."""

import math
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
import redis.exceptions

from pyredisson import ConstantBackoff
from tests.promises.kinds import make
from tests.worlds.environments import sync_and_async

NO_TIMES = ["5", b"5", True, False, [5], 5j, Decimal(1), object()]
NO_WAITS = [-1, -0.001, math.nan, math.inf, -math.inf, 10**400, timedelta(seconds=-1)]
NO_LEASES = [0, 0.0, -1, math.nan, math.inf, -math.inf, 10**400, timedelta(0), timedelta(seconds=-1), 3601]
NO_TTLS = [0, -1, math.nan, math.inf, 90_000]
NO_NUMBERS = ["1", 1.0, None, True, b"1", [1]]
NO_COUNTS = [-1, -(2**70), 2**53 + 1]
NO_IDS = [None, 1, b"0" * 32]
NO_ID_LISTS = [[], ["0" * 32] * 1001, ["ab" * 16, "0" * 32, "AB" * 16]]
NO_URLS = ["", "localhost", "http://localhost", "redis", "embedded://somewhere"]
NO_NAMES = ["", "\ud800", "orders\udfff", "x" * 65_537, "é" * 32_769]

#: Kinds, methods, the argument, its wrong values, those of a wrong type, and other arguments that the call needs.
ARGUMENTS: list[tuple[str, str, str, list[Any], list[Any], dict[str, Any]]] = [
    ("lock", "lock try_lock hold", "lease_time", [*NO_LEASES, 1e300], NO_TIMES, {}),
    ("lock", "extend", "lease_time", NO_TTLS, ["5", None], {}),
    ("lock", "try_lock", "wait_time", NO_WAITS, NO_TIMES, {}),
    ("lock", "try_lock", "wait_time", NO_WAITS, NO_TIMES, {"lease_time": 5}),
    ("lock", "acquire", "timeout", [], [timedelta(seconds=1)], {}),
    ("lock", "is_held_by_thread", "thread_id", [], ["7", 7.0, None, True], {}),
    ("lock fenced_lock semaphore permit_expirable_semaphore", "hold", "wait_time", NO_WAITS, NO_TIMES, {}),
    ("lock semaphore permit_expirable_semaphore", "hold", "skip", [], [0, None], {}),
    ("fenced_lock permit_expirable_semaphore", "hold", "lease_time", NO_LEASES, NO_TIMES, {}),
    ("semaphore", "acquire try_acquire release", "permits", NO_COUNTS, NO_NUMBERS, {}),
    ("semaphore", "try_set_permits", "n", NO_COUNTS, NO_NUMBERS, {}),
    ("semaphore permit_expirable_semaphore", "resize", "permits", [-1], ["3"], {}),
    ("semaphore permit_expirable_semaphore", "add_permits", "n", [], NO_NUMBERS, {}),
    ("semaphore", "hold", "permits", [-1], [], {}),
    ("semaphore", "acquire", "timeout", NO_WAITS, NO_TIMES, {}),
    ("semaphore", "try_acquire", "wait_time", NO_WAITS, NO_TIMES, {}),
    ("permit_expirable_semaphore", "try_set_permits set_permits", "n", [-1], NO_NUMBERS, {}),
    ("permit_expirable_semaphore", "acquire try_acquire", "permits", [0, -1, 1001], [True, 1.0, "1"], {}),
    ("permit_expirable_semaphore", "try_acquire", "wait_time", NO_WAITS, NO_TIMES, {}),
    ("permit_expirable_semaphore", "acquire try_acquire", "lease_time", NO_LEASES, NO_TIMES, {}),
    ("permit_expirable_semaphore", "update_lease_time", "lease_time", NO_LEASES, NO_TIMES, {"permit_id": "0" * 32}),
    ("permit_expirable_semaphore", "update_lease_time", "permit_id", [], NO_IDS, {"lease_time": 1}),
    ("permit_expirable_semaphore", "get_lease_time", "permit_id", [], NO_IDS, {}),
    ("permit_expirable_semaphore", "release try_release", "permit_id", NO_ID_LISTS, [*NO_IDS, ["0" * 32, None]], {}),
    ("semaphore permit_expirable_semaphore", "try_set_permits", "ttl", NO_TTLS, ["60"], {"n": 2}),
    ("semaphore permit_expirable_semaphore count_down_latch", "expire", "seconds", NO_TTLS, ["5", None, True], {}),
    ("count_down_latch", "try_set_count", "n", NO_COUNTS, NO_NUMBERS, {}),
    ("count_down_latch", "wait", "timeout", NO_WAITS, NO_TIMES, {}),
    ("event", "wait", "timeout", [math.nan], ["5"], {}),
    ("bounded_semaphore", "acquire", "timeout", [1], [], {"blocking": False}),
    ("bounded_semaphore", "release", "n", [0, -1], [], {}),
    ("client", "get_lock", "name", NO_NAMES, [None, 5, b"orders", ["orders"], object()], {}),
    ("client", "get_semaphore get_permit_expirable_semaphore", "permits", [-1], ["3"], {"name": "orders"}),
    ("client", "get_semaphore get_permit_expirable_semaphore", "resize", [True], [], {"name": "orders"}),
    ("client", "get_semaphore", "resize", [], [1], {"name": "orders", "permits": 3}),
    ("client", "get_barrier", "parties", [0], ["3"], {"name": "orders"}),
    ("client", "get_bounded_semaphore", "value", [-1], [1.5], {"name": "orders"}),
    ("client", "get_spin_lock get_token_lock", "tries", [0, -1], [2.0, True, "3"], {"name": "orders"}),
    ("client", "get_spin_lock get_token_lock", "backoff", [], ["fast", 0.2, ConstantBackoff], {"name": "orders"}),
    ("client", "from_url", "url", NO_URLS, [None, 5, b"redis://x"], {}),
    ("client", "run_once", "at_most", [0, 600_000], [], {"name": "orders"}),
    ("client", "run_once", "at_least", [6, -1], ["1m"], {"name": "orders", "at_most": 5}),
    ("client", "synchronized", "wait_time", [-1, math.nan], ["5"], {"key": "orders"}),
    ("client", "synchronized", "lease_time", [0], [True], {"key": "orders"}),
    ("client", "synchronized", "kind", ["rlock"], [], {"key": "orders"}),
    ("client", "synchronized", "when_busy", ["stop"], [], {"key": "orders"}),
]
#: What errors call some arguments.
CALLED = {
    "n": "permits|count|^n ",
    "permit_id": "id|is 2 times",
    "thread_id": ".",
    "url": ".",
    "backoff": r"delays\(\)",
}


@sync_and_async
@pytest.mark.parametrize(("kinds", "methods", "name", "wrong", "of_wrong_types", "others"), ARGUMENTS)
def test_an_invalid_argument_is_refused(world, kinds, methods, name, wrong, of_wrong_types, others):
    client, actor = world.client(redis=world.unreachable()), world.actor()
    for kind in kinds.split():
        made = client.real if kind == "client" else make(client, kind, **({"value": 2} if "bounded" in kind else {}))
        for method in methods.split():
            for error, values in ((ValueError, wrong), (TypeError, of_wrong_types)):
                for value in values:
                    with pytest.raises(error, match=CALLED.get(name, name)) as refusal:
                        actor.do(getattr(made, method), **{name: value}, **others)
                    assert "keyword argument" not in str(refusal.value)


@sync_and_async
def test_any_other_time_is_sent(world):
    lock = world.actor().lock(world.client(redis=world.unreachable()))
    for time in (0.001, 1, timedelta(days=1)):
        calls = [partial(lock.lock, time), partial(lock.try_lock, time, time), lock.hold(time, time).enter]
        for call in [*calls, partial(lock.try_lock, 0), partial(lock.lock, None)]:
            with pytest.raises(redis.exceptions.ConnectionError):
                call()


@pytest.mark.parametrize(
    "name",
    ["x" * 65_536, "é" * 32_768, " ", "0", "a b\tc\r\nd\0e", "{shop}orders", "a{b", "a}b", "{}", "}{", "💥", "*"],
    ids=lambda name: ascii(name[:12]).strip("'"),
)
def test_any_other_name_is_one(world, client, alice, bob, name):
    mine, theirs = alice.lock(client, name), bob.lock(client, name)
    assert mine.name == name
    mine.lock()
    assert set(world.redis.everything()) == {name}
    waiting = bob.start(theirs.lock)
    world.until(lambda: world.waiting(theirs) == 1)
    mine.unlock()
    waiting.result(within=5)
    theirs.unlock()
    assert world.redis.everything() == {}
