"""``pyredisson top`` on a real server."""

from __future__ import annotations

import signal
import termios
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from pyredisson import Config, Redisson
from pyredisson._tools.top import Sampler
from pyredisson.inspection import Inspector
from tests.command_line import PYREDISSON
from tests.servers import Server
from tests.terminals import terminal
from tests.waiting import until


@contextmanager
def sampler_at(server: Server, pattern: str | None = None, prefix: str = "") -> Iterator[Sampler]:
    with (
        Inspector(server.url, prefix=prefix, timeout=5.0) as inspector,
        closing(Sampler(inspector, pattern)) as sampler,
    ):
        yield sampler


def test_holders_waiters_and_releases_are_seen(own):
    config = Config(client_name="web", presence_after=0.05, lock_watchdog_timeout=3)
    with Redisson.from_url(own.url, config=config) as client:
        held, quick = client.get_lock("held"), client.get_lock("quick")
        held.lock()
        waiter = threading.Thread(target=lambda: client.get_lock("held").lock(1))
        waiter.start()

        def contended(sampler):
            with quick:
                pass
            found = sampler.round()
            rows = {row["name"]: row for row in found["locks"]}
            seen = rows.get("held")
            ready = seen is not None and seen["longest_wait_ms"] is not None and seen["held_ms"] is not None
            return found if ready and rows.get("quick") is not None and found["releases_per_second"] else None

        with sampler_at(own) as sampler:
            found = until(lambda: contended(sampler), 30, what="all is seen")
        row = next(row for row in found["locks"] if row["name"] == "held")
        assert found["locks"][0] is row
        assert row["holders"][0].startswith("web@")
        assert row["waiting"] == 1
        assert found["waits_known"]
        held.unlock()
        waiter.join()


def test_a_prefix_and_a_pattern_leave_others_out(own):
    with Redisson.from_url(own.url, config=Config(prefix="shop:")) as client:
        client.get_lock("order").lock(60)
        client.get_lock("other").lock(60)
        with sampler_at(own, "ord*", "shop:") as sampler:
            assert [row["name"] for row in sampler.round()["locks"]] == ["order"]
            assert [row["name"] for row in sampler.round()["locks"]] == ["order"]


@pytest.mark.volume
def test_ten_thousand_locks_cost_the_server_little(own):
    with own.client() as keys:
        pipeline = keys.pipeline(transaction=False)
        for number in range(10_000):
            pipeline.hset(f"lock:{number}", "8f3a1c5e-0b7d-4e7c-9d53-2f3d5c1b7a90:7", 1)
        pipeline.execute()
        with sampler_at(own) as sampler:
            until(lambda: sampler.round()["complete"] and sampler._search is None, 60, what="a search is complete")
            before = keys.info("stats")["total_commands_processed"]
            assert sampler.round()["held"] == 10_000
            assert sampler.round()["held"] == 10_000
            # The next search is due only later: a round reads the few locks at the top.
            assert keys.info("stats")["total_commands_processed"] - before < 500


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("\x03", -signal.SIGINT)])
def test_q_and_ctrl_c_leave_the_terminal_as_it_was(command_line, own, key, code):
    with terminal() as screen:
        before = termios.tcgetattr(screen.theirs)
        environment = {"PYREDISSON_URL": own.url, "TERM": "xterm-256color"}
        program = command_line.start(*PYREDISSON, "top", environment=environment, terminal=screen.theirs)
        screen.shows("q quits")
        screen.type(key)
        assert program.exit_code() == code
        screen.shows(r"\x1b\[\?1049l")  # The screen that was there before.
        assert termios.tcgetattr(screen.theirs) == before
        assert "Traceback" not in screen.shows(r"(?s).*")[0]
