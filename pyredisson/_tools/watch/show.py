"""An event of a lock as JSON and as a line of text."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from pyredisson._tools.common import plain
from pyredisson._tools.durations import duration_text
from pyredisson._tools.sampling.changes import Change
from pyredisson.inspection import LockView, as_json
from pyredisson.inspection.inspector import Glance

#: What needs attention is written in capitals.
SHOWN = {"expired": "EXPIRED", "forced": "FORCED", "reentered": "holds", "no_lock": "no lock"}

REMARKS = {
    "expired": "not renewed in time",
    "forced": "freed by pyredisson unlock",
    "ended": "its key is gone, without a message: a fair or spin lock was released, or it was removed by hand",
}


class Lock(Protocol):
    """What is known of a lock when something has happened to it."""

    name: str
    state: Glance | None


def record_of(at: float, lock: Lock, change: Change) -> dict[str, Any]:
    """Return an event as JSON can hold it."""
    state = lock.state or Glance(LockView("", "lock", ""))
    view = state.lock
    return {
        "schema": 1,
        "at_unix_ms": round(at * 1000),
        "name": lock.name,
        "event": change.event,
        "holder": None if change.who is None else as_json(change.who),
        "cause": change.cause,
        "held_ms": None if change.held is None else round(change.held * 1000),
        "count": change.count,
        "handed_over": change.handed_over,
        "holds": change.holds,
        "mode": view.mode,
        "token": view.token,
        "value": change.number,
        "waiting": state.waiting,
        "queued": state.queued,
        "foreign": state.foreign,
        "free_in_ms": None if view.free_in is None else round(view.free_in * 1000),
    }


def line_of(record: dict[str, Any], *, named: bool) -> str:
    """Return an event as a line: when, what, who, and what is known besides."""
    event = record["event"]
    at = datetime.fromtimestamp(record["at_unix_ms"] / 1000).strftime("%H:%M:%S.%f")[:-3]  # noqa: DTZ006  # The local time.
    parts = [at, *([record["name"]] if named else []), f"{SHOWN.get(event, event):<8}"]
    if record["holder"] is not None:
        parts.append(record["holder"]["label"])
    elif event == "released":
        holds = "a hold that was" if record["count"] == 1 else f"{record['count']} holds that were"
        parts.append(f"{holds} not seen")
    details = []
    if record["held_ms"] is not None:
        details.append(f"{'for' if event == 'held' else 'held'} {duration_text(record['held_ms'] / 1000)}")
    if event in ("held", "acquired"):
        details += [] if record["mode"] is None else [f"{record['mode']} side"]
        details += [] if record["token"] is None else [f"token {record['token']}"]
        details += ["handed over"] if record["handed_over"] else []
    if event == "reentered":
        details.append(f"×{record['holds']}")
    if record["value"] is not None:
        details.append(f"value {record['value']}")
    if event in REMARKS:
        details.append(record["cause"] or REMARKS[event])
    if event == "no_lock" and record["foreign"] is not None:
        details.append(record["foreign"].partition(": ")[2])
    if record["queued"] and record["queued"] == record["waiting"]:
        details.append(f"{record['queued']} queued")
    elif record["waiting"]:
        details.append(f"{record['waiting']} client{'s' if record['waiting'] > 1 else ''} waiting")
    return plain("  ".join([*parts, ", ".join(details)]).rstrip())
