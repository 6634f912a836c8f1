"""What identifies a client's process: for people, not for the protocol."""

from __future__ import annotations

from typing import NamedTuple


class Identity(NamedTuple):
    """A process, as people know it.

    Attributes:
        app: What its user calls it; ``None``: nothing.
        host: The name of its host.
        pid: Its number there.
        version: This library's version.
    """

    app: str | None
    host: str
    pid: int
    version: str
