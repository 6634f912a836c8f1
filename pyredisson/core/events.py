"""The public events, for those who emit them. They are loaded when the first is emitted: that takes milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson.events import *  # noqa: F403
else:

    def __getattr__(name):
        from pyredisson import events

        value = globals()[name] = getattr(events, name)
        return value


__all__: list[str] = []  # Its names are used as ``events.Lost``.
