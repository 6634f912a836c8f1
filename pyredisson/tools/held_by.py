"""Who holds a lock, in half a sentence for a person who waits for it or was refused."""

from __future__ import annotations

import time

import redis.exceptions as rx

from pyredisson.inspection import Inspector, LockView, Who, describe
from pyredisson.tools.common import plain
from pyredisson.tools.durations import duration_text

TIMEOUT = 1.0  # seconds for each answer


def held_by(url: str, name: str, prefix: str = "") -> str:
    """Return by whom a lock is held, since when and until when, or that it is no lock; empty if it is free."""
    try:
        with Inspector(url, prefix=prefix, timeout=TIMEOUT) as inspector:
            return _state_of(inspector, name)
    except (ValueError, rx.RedisError, OSError) as error:
        return f"held by an owner that is not known ({plain(describe(error))})"


def _state_of(inspector: Inspector, name: str) -> str:
    view = inspector.lock(name)
    if view is None or (view.taken and view.permits is None):
        return inspector.foreign(name) or ""
    return f"held by {holders}" if (holders := describe_holders(view, time.time())) else ""


def describe_holders(view: LockView, now: float) -> str:
    """Return who holds a lock: ``"web@web-3 pid 4711 t12 for 3 m; it expires in 22 s unless it is renewed"``."""
    if not view.holders:
        return ""
    first, *others = view.holders
    text = _describe(first, now) + (f" and {len(others)} more" if others else "")
    if view.never_expires:
        return f"{text}; it never expires"
    if view.free_in is None:
        return text
    renewal = "" if first.watchdog is False else " unless it is renewed"
    return f"{text}; it expires in {duration_text(view.free_in)}{renewal}"


def _describe(who: Who, now: float) -> str:
    text = who.label
    if who.since is not None:
        begun = time.strftime("%H:%M:%S", time.localtime(who.since))
        text += f" for {duration_text(now - who.since)} (since {begun})"
    return text if who.reason is None else f"{text}, by hand: {who.reason}"
