"""The base of everything that a client makes for a name, for threads and for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyredisson._shared.misuse import BY_HAND, NotPortable, core_of

if TYPE_CHECKING:
    from pyredisson._shared.made_owners import Owner


class Handle(NotPortable):
    """A named object that a client makes: a thin façade of its core, which has a name and describes itself."""

    __slots__ = ("__weakref__", "_client", "_core", "_owner")

    _core: Any
    _client: Any  # It lives as long as a handle is in use.

    def __init__(self, client: object = BY_HAND, core: object = BY_HAND, owner: Owner | None = None) -> None:
        self._client = client
        self._core = core_of(core, self, client)
        self._owner = owner  # It lives as long, too.

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.describe()}>"

    @property
    def name(self) -> str:
        """The name that was given to the client."""
        name: str = self._core.names.name
        return name
