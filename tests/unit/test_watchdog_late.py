"""A watchdog that does not run is noticed by those who acquire and release, and warned of once."""

from unittest.mock import Mock

import pytest

from pyredisson import events
from pyredisson._core.client import ClientCore
from pyredisson._core.runtime import run
from pyredisson._core.watchdog import LATE
from pyredisson.config import Config
from tests.unit.fake import FakeRuntime


async def chore(timeout: float) -> None:
    """Something to do in the background."""


class Watched:
    """A client whose watchdog runs only when it is told to.

    Attributes:
        told: By how many seconds the watchdog was said to be late.
    """

    def __init__(self, timeout: float) -> None:
        self.runtime = FakeRuntime()
        self.told: list[float] = []
        self.core = ClientCore(self.runtime, Config(lock_watchdog_timeout=timeout, listeners=(self._listen,)))
        self.watchdog = self.core.watchdog

    def _listen(self, event: events.Event) -> None:
        if isinstance(event, events.WatchdogLate):
            self.told.append(event.seconds)

    def release(self) -> None:
        """What a release does to the watchdog."""
        ownership = Mock(holds=[])
        self.watchdog.unwatch(ownership)


@pytest.mark.parametrize(("timeout", "grace"), [(30.0, 10.0), (0.9, LATE)])
def test_one_that_does_not_run_is_warned_of_once(timeout, grace):
    client = Watched(timeout)
    client.watchdog.do_later(chore, 1e9)
    client.runtime.time += grace - 0.1
    client.release()
    assert client.told == []
    client.runtime.time += 0.2
    client.release()
    assert client.told == [pytest.approx(grace + 0.1)]
    client.watchdog.do_later(chore, 1e9)
    client.runtime.time += 100
    client.release()
    run(client.watchdog.step())
    assert len(client.told) == 1


def test_one_that_runs_late_warns_by_itself():
    client = Watched(30)
    client.watchdog.do_later(chore, 1e9)
    client.runtime.time += 25
    run(client.watchdog.step())
    assert client.told == [pytest.approx(25)]


def test_what_ends_while_its_renewal_begins_raises_nothing(monkeypatch):
    watchdog = Watched(30.0).watchdog
    # Another thread notes at that moment that it has expired.
    monkeypatch.setattr(watchdog, "watch", watchdog.unwatch)
    watchdog.renew_every_third(Mock(holds=[]), 50)
