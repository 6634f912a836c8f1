"""The public events, for those who emit them. They are loaded with the first client: that takes milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING


def load() -> None:
    """Load them now.

    A thread that did so later could be cut off by a fork in the middle, and leave half a module to the child.
    """
    import pyredisson.events  # noqa: F401


if TYPE_CHECKING:
    from pyredisson.events import *  # noqa: F403
else:

    def __getattr__(name):
        from pyredisson import events

        value = globals()[name] = getattr(events, name)
        return value
