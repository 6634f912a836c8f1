"""In the simulator a client learns of its server as on real connections: anew after each break."""

from __future__ import annotations

from pyredisson.core.requests.server import ServerFacts
from tests.simulator.runtime import SimulatedClient
from tests.simulator.world import World


def seen_by(client: SimulatedClient) -> list[ServerFacts]:
    seen: list[ServerFacts] = []
    client.core.server.on_learned.append(lambda facts, before: seen.append(facts))
    return seen


def test_facts_are_learnt_once_a_connection() -> None:
    with World(1) as world:
        process = world.process("a")
        client = SimulatedClient(process)
        seen = seen_by(client)

        async def use() -> None:
            for _ in range(3):
                async with client.get_lock("orders"):
                    pass

        def used() -> None:
            task = process.start(use(), "use")
            assert world.run(until=task.done)
            task.outcome.result()

        used()
        assert len(seen) == 1
        assert seen[0].role == "master"
        assert seen[0].uptime >= 86_000
        world.break_connections(world.node)
        used()
        assert [facts.run_id for facts in seen] == 2 * [seen[0].run_id]


def test_a_restart_is_another_run_with_an_uptime_of_its_own() -> None:
    with World(2, nodes=2) as world:
        process = world.process("a")
        clients = [SimulatedClient(process, node=node) for node in world.nodes]
        seen = [seen_by(client) for client in clients]

        async def use() -> None:
            for client in clients:
                await client.get_lock("orders").is_locked()

        def used() -> None:
            task = process.start(use(), "use")
            assert world.run(until=task.done)
            task.outcome.result()

        used()
        assert seen[0][0].run_id != seen[1][0].run_id
        world.nodes[0].crash()
        world.nodes[0].restart(data=False)
        world.run(seconds=7.0)
        used()
        assert len(seen[0]) == 2
        assert seen[0][1].run_id != seen[0][0].run_id
        assert seen[0][1].uptime == 7
        assert len(seen[1]) == 1
