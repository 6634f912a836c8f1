"""Where a state machine runs: on the simulator, and on one real server. Both are told what to do step by step."""

from __future__ import annotations

from tests.contract.worlds import Actor, Remote, World

__all__ = ["Party"]


class Party:
    """The hands of a machine: some owners of two clients, with handles of one kind on one name.

    Args:
        world: Where they are.
        kind: Of the handles: what the client's ``get_<kind>`` makes.
        name: Of what they share.
        owners: How many there are.
    """

    def __init__(self, world: World, kind: str, name: str, owners: int = 3) -> None:
        self.world = world
        clients = [world.client(), world.client()]
        self.actors: list[Actor] = world.actors(owners)
        self.handles: list[Remote] = [
            actor.get(clients[number % 2], kind, name) for number, actor in enumerate(self.actors)
        ]
