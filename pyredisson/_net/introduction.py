"""How our connections introduce themselves, so that ``CLIENT LIST`` says whose they are.

A server that is too old for it, or a user that may not, refuses that, and nothing else depends on it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyredisson._core.presence import Identity
from pyredisson._net.resp import pack

#: This library's. It is imported before all of its parts, which therefore do not import it.
VERSION: Final[str] = sys.modules["pyredisson"].__version__

#: So long may a part of a connection's name be.
LONGEST: Final = 64

#: What separates the parts, and what no name of a connection may contain.
_NOT_IN_NAMES: Final = re.compile(r"[^!-9;-~]")


def connection_name(identity: Identity, client_id: str) -> str:
    """Return the name of a connection: ``pyredisson:<app>:<host>:<pid>:<client id>``."""
    return f"pyredisson:{_part(identity.app or '-')}:{_part(identity.host)}:{identity.pid}:{client_id}"


def _part(text: str) -> str:
    return _NOT_IN_NAMES.sub("_", text[:LONGEST])


def introduction(identity: Identity, client_id: str, *, named: bool) -> Sequence[bytes]:
    """Return the commands by which a new connection says whose it is. Whatever they are answered is of no interest.

    Args:
        identity: The process.
        client_id: The client.
        named: Whether the connection has a name already that its user has chosen, and keeps.
    """
    library = (
        pack("CLIENT", "SETINFO", "LIB-NAME", "pyredisson"),
        pack("CLIENT", "SETINFO", "LIB-VER", identity.version),
    )
    return library if named else (pack("CLIENT", "SETNAME", connection_name(identity, client_id)), *library)


def app_in(settings: Mapping[str, Any]) -> str | None:
    """Return what a user calls the connections of redis-py, from their settings: ``client_name``, if it is a name."""
    name = settings.get("client_name")
    return name if isinstance(name, str) and name else None
