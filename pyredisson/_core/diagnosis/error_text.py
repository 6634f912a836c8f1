"""What errors say of a lock: who holds it, and why waiting for it may be in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson._core.ownership.owner_protocols import Caller

#: The error of a signal handler that needs what the call it interrupted keeps to itself.
INTERRUPTED = (
    "used by a signal handler (or a finalizer) in the middle of a call of the same thread, which cannot continue "
    "before the handler returns. The handler should only set a flag or an event; do the rest after it"
)


def held_here(holder: Caller, layout: str = "", wanted: str = "") -> str:
    """Say who of this client holds a lock and, if it is not of the ``wanted`` layout, as what."""
    text = f"held by {holder.describe()} of this client"
    return text if layout == wanted else f"{text} as a {layout} (a {wanted} needs another name)"


def never_expires(name: str, others: str) -> str:
    """Say that a key has no time to live, although that of a lock has one. ``others``: what may be stored there."""
    return (
        f"the key {name!r} never expires, so it may not be a lock of pyredisson or Redisson, but {others}. Use another "
        "name, or delete the key"
    )


def timed_out(what: str, name: str, wait: float | None, why: str | None, tries: int | None = None) -> str:
    """The message for an owner that did not acquire a lock in time. ``why``: what is known of that, or ``None``."""
    if wait != 0:
        attempts = "" if tries is None else f"{tries} attempt{'s' * (tries > 1)}"
        after = " or ".join(filter(None, ("" if wait is None else f"{wait} s", attempts)))
        return f"timed out after {after} waiting for {what} {name!r}{f'; {why}' if why else ''}"
    if why is not None and why.startswith("held by "):
        return f"{what} {name!r} is {why}"
    return f"{what} {name!r} is held by another owner{f'; {why}' if why else ''}"


def not_held(what: str, name: str, who: Caller, held: str | None, *, free: bool = False) -> str:
    """The message for who releases a lock that it does not hold.

    Args:
        what: What kind of lock it is.
        name: The lock.
        who: Its caller.
        held: That another owner of this client holds it.
        free: Whether it is known that no one holds it.
    """
    start = f"{what} {name!r} is not held by {who.describe()} (number {who.number})"
    if free:
        return f"{start}: no one holds it (released twice, or never acquired?)"
    there = f" it is {held}, and" if held else ""
    return (
        f"{start}:{there} only the thread or task that "
        "acquired it can release it. To release it elsewhere use hold(), whose block may be left in any thread or "
        "task, or get_lock(name, owner=client.new_owner())"
    )
