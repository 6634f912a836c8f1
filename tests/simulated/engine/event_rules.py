"""What the events of a client must say in every history, whatever the kind of lock."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from pyredisson.core.ownership.owned import Owned
from pyredisson.events import Acquired, Event, Lost, Released
from pyredisson.quorum.table import multi_locks_of
from tests.simulated.engine.runtime import AnyClient
from tests.simulated.engine.world import World

__all__ = ["EventRules", "Violation"]


class Violation(AssertionError):
    """A rule was broken."""


class EventRules:
    """The rules of what holders are told.

    1. A hold that was lost is not released without an error: between ``Lost`` and the owner's next ``Acquired`` there
       is no ``Released``.
    2. Whoever is told that it has acquired a lock holds it for certain at that moment.
    """

    def __init__(self, world: World, clients: Iterable[AnyClient[Any]]) -> None:
        self._world = world
        self._lost: set[tuple[str, str]] = set()
        for client in clients:
            client.core.listen(partial(self._heard, client), lambda: True)

    def _heard(self, client: AnyClient[Any], event: Event) -> None:
        match event:
            case Lost(name=name, owner=owner):
                self._lost.add((name, owner))
            case Acquired(name=name, owner=owner):
                self._lost.discard((name, owner))
                if not self._is_certain(client, name, owner):
                    self._break(f"{owner} was told that it has acquired {name!r}, which is over")
            case Released(name=name, owner=owner) if (name, owner) in self._lost:
                self._break(f"{owner} was told of the loss of {name!r}, and has released it without an error")
            case _:
                pass

    def _is_certain(self, client: AnyClient[Any], name: str, owner: str) -> bool:
        now = client.runtime.now()
        held: list[Owned] = [*client.core.ownerships.of(name), *multi_locks_of(client.core)]
        return any(each.name == name and each.owner == owner and each.remaining(now) > 0 for each in held)

    def _break(self, what: str) -> None:
        violation = Violation(f"{what} ({self._world.now:.6f} s)")

        def fail() -> None:
            raise violation

        self._world.after(0.0, fail)  # What a listener raises goes no further.
