"""Times: what users pass in (seconds), what goes on the wire (whole milliseconds), and until when a call may take."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from numbers import Real
from typing import Any, Final, NamedTuple, TypeAlias, final

Seconds: TypeAlias = float | int | timedelta
"""A time as users may write it: seconds, or a ``timedelta``."""

#: How far the rates of two clocks may differ (the assumption), and the resolution of a TTL on the server.
#: Source: "Distributed Locks with Redis", section on clock drift.
DRIFT_FACTOR = 0.01
DRIFT_FLOOR = 0.002

#: About 31,700 years: above it sums of milliseconds leave the range in which Lua counts exactly.
MAX_SECONDS = 1e12


#: A time beyond it, given as a plain number, is refused: it may be meant in milliseconds.
DAY = 86_400

#: The same for leases: in Java, ``tryLock(5000, 30000)`` is a common call, and the watchdog's default is 30,000 ms.
HOUR = 3600

#: The least time from its beginning that a run keeps its name, unless its caller says another: this very object.
AT_LEAST: Final = float(10)

#: How long an interrupted caller may wait for the release, in seconds.
CLEANUP_BUDGET = 1.0


class ExplicitSeconds(float):
    """Seconds beyond an hour that were given as a ``timedelta``, whose unit is not mistaken."""

    __slots__ = ()


def explicit(value: float) -> float:
    """Mark any number of seconds as explicit, where their unit cannot be mistaken."""
    return ExplicitSeconds(value) if math.isfinite(value) else value


def check_unit(value: float, what: str, most: float = DAY) -> None:
    """Raise ``ValueError`` for a plain number of seconds that looks like milliseconds: more than ``most``."""
    if value > most and not isinstance(value, ExplicitSeconds):
        raise ValueError(
            f"{what}={value:g} is more than {'an hour' if most == HOUR else 'a day'} ({value / 3600:.1f} hours): is it "
            f"in seconds? For milliseconds write {value / 1000:g}; if it is intended, pass timedelta(seconds={value:g})"
        )


def check_watchdog_timeout(value: float, what: str) -> None:
    """Raise ``ValueError`` for a watchdog's lease that looks like milliseconds, or that it could not renew in time."""
    if value > HOUR and not isinstance(value, ExplicitSeconds):
        raise ValueError(
            f"{what}={value:g} is more than an hour ({value / 3600:.1f} hours): it is in seconds, not in milliseconds "
            f"as Redisson's lockWatchdogTimeout. Did you mean {value / 1000:g}? If it is intended, pass "
            f"timedelta(seconds={value:g})"
        )
    if value < 0.1:
        raise ValueError(f"{what}={value:g} is too short to be renewed in time: it is in seconds, and at least 0.1")


def cut(text: str, most: int = 80) -> str:
    """Return a text that a user passed, for a message."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def shown(value: object) -> str:
    """Return how a value that a user passed is shown in a message."""
    return cut(repr(value))


def seconds(value: Any, what: str) -> float:
    """Return ``value`` (a :data:`Seconds`, or else an error) in seconds.

    Raises:
        TypeError: It is neither a real number nor a ``timedelta``. ``True`` is no time.
        ValueError: It is not finite, or too large for a ``float``.
    """
    if type(value) not in (float, int):  # As nearly always: to ask whether it is a Real takes three calls.
        if isinstance(value, ExplicitSeconds):
            return value
        if isinstance(value, timedelta):
            total = value.total_seconds()
            return total if total <= HOUR else ExplicitSeconds(total)
        if isinstance(value, bool) or not isinstance(value, Real):
            given = type(value).__name__
            instead = f": pass float({what})" if given == "Decimal" else ""
            raise TypeError(f"{what} must be a number of seconds or a timedelta, not {given}{instead}")
    try:
        result = float(value)
    except OverflowError:
        raise ValueError(f"{what} is too large") from None
    if not math.isfinite(result):
        raise ValueError(f"{what} must be finite, not {result}")
    return result


def lease_ms(lease_time: Seconds, what: str = "lease_time", most: float = HOUR) -> int:
    """Return a lease in whole milliseconds, rounded up. ``what`` is what its caller calls it.

    Raises:
        TypeError: Not a time.
        ValueError: Not positive, not finite, or beyond what a server can count; more than ``most`` seconds, and no
            ``timedelta``.
    """
    value = seconds(lease_time, what)
    if 0 < value <= MAX_SECONDS:
        check_unit(value, what, most)
    return whole_ms(value, what)


def optional_lease_ms(lease_time: Seconds | None) -> int | None:
    """Return a lease as :func:`lease_ms` does, and ``None`` for none."""
    return None if lease_time is None else lease_ms(lease_time)


def whole_ms(time: Seconds, what: str = "lease_time") -> int:
    """Return a time that something is to last for in whole milliseconds, rounded up. Raises as :func:`lease_ms`."""
    value = seconds(time, what)
    if not 0 < value <= MAX_SECONDS:
        raise ValueError(f"{what} must be positive (and at most {MAX_SECONDS:.0e} s), not {value}")
    # Up to the next whole millisecond, but not one further for what only binary fractions put above it (0.003 * 1000).
    exact, nearest = value * 1000, round(value * 1000)
    if math.isclose(exact, nearest, rel_tol=5e-16, abs_tol=1e-6):
        return max(1, nearest)
    return math.ceil(exact)


def wait_seconds(wait_time: Seconds | None, what: str = "wait_time") -> float | None:
    """Return a wait in seconds, ``None`` meaning without end. ``what`` is what its caller calls it.

    Raises:
        TypeError: Not a time.
        ValueError: Negative or not finite.
    """
    if wait_time is None:
        return None
    value = seconds(wait_time, what)
    if value < 0:
        raise ValueError(f"{what} must not be negative, not {value}; 0 means one attempt, None no time limit")
    return value


def delay_seconds(delay: Seconds, what: str) -> float:
    """Return a delay in seconds, which may be 0. ``what`` is what its caller calls it.

    Raises:
        TypeError: Not a time.
        ValueError: Negative or not finite; more than a day, and no ``timedelta``.
    """
    value = seconds(delay, what)
    if value < 0:
        raise ValueError(f"{what} must not be negative, not {value}")
    check_unit(value, what)
    return value


def timeout_seconds(timeout: Seconds | None) -> float | None:
    """Return a ``timeout`` as the synchronizers of ``threading`` take it: a negative one is 0. Raises ``TypeError``."""
    return None if timeout is None else max(0.0, seconds(timeout, "timeout"))


def certain_for(milliseconds: int, margin: float = 0.0) -> float:
    """Return for how many seconds after *sending* a lease is certain: all of it, less the drift of two clocks.

    ``margin``: seconds that are taken off as well, for a holder that is to stop before the lease ends.
    """
    lease = milliseconds / 1000
    return lease - lease * DRIFT_FACTOR - DRIFT_FLOOR - margin


def least_lease_ms(margin: float) -> int:
    """Return the shortest lease, in ms, of which anything is certain; see :func:`certain_for`."""
    about = math.floor((margin + DRIFT_FLOOR) / (1 - DRIFT_FACTOR) * 1000)
    return next(each for each in itertools.count(about) if certain_for(each, margin) > 0)


class Deadline(NamedTuple):
    """A moment on the runtime's monotonic clock, or never."""

    at: float

    @classmethod
    def after(cls, wait: float | None, now: float) -> Deadline:
        """The moment ``wait`` seconds from ``now``; never for ``None``."""
        return FOREVER if wait is None else cls(now + wait)

    def left(self, now: float) -> float:
        """Seconds until then, never negative; infinite for never."""
        return max(0.0, self.at - now)

    def passed(self, now: float) -> bool:
        """Whether it has passed."""
        return now >= self.at


FOREVER = Deadline(math.inf)

# ---- backoff ---------------------------------------------------------------------------------------------------------
# Pauses between attempts: each twice as long as the one before, up to a maximum, with jitter.


Uniform: TypeAlias = Callable[[float, float], float]
"""A source of random numbers between two bounds, such as :meth:`Runtime.jitter`."""

#: Doubling more often exceeds any maximum, and in the end the range of a ``float``.
MOST_DOUBLINGS = 64


@final
class DoublingBackoff:
    """Pauses that begin with ``first`` seconds and double with each failure, up to ``maximum`` seconds."""

    __slots__ = ("first", "maximum")

    def __init__(self, first: float, maximum: float) -> None:
        self.first: float = first
        self.maximum: float = maximum

    def longest(self, failures: int) -> float:
        """Return the longest pause, in seconds, after ``failures`` earlier pauses."""
        return min(self.first * 2.0 ** min(failures, MOST_DOUBLINGS), self.maximum)

    def pause(self, failures: int, uniform: Uniform) -> float:
        """Return a random pause, in seconds: at least half of :meth:`longest`."""
        longest = self.longest(failures)
        return uniform(longest / 2, longest)

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Return the pauses, without end; see :class:`pyredisson._core.waiting.Delays`."""
        return (self.pause(failures, uniform) for failures in itertools.count())


#: Between two copies of one request.
REPEAT: Final = DoublingBackoff(first=0.01, maximum=0.25)

#: Between two attempts while a server does not answer, or cannot be reached.
RETRY: Final = DoublingBackoff(first=0.05, maximum=1.0)
