"""``pyredisson.integrations.dramatiq`` in a real worker, with processes and threads."""

from __future__ import annotations

from tests.frameworks.common import Surroundings, require
from tests.servers import VALKEY, SharedServers
from tests.waiting import until

APP = "tests.frameworks.apps.integration_dramatiq"


def test_messages_with_one_key_run_one_at_a_time(surroundings: Surroundings, shared_servers: SharedServers) -> None:
    require("dramatiq")
    broker = shared_servers.get(VALKEY, 1)
    environment = {"PYREDISSON_TEST_BROKER": broker.url.rsplit("/", 1)[0] + "/12"}
    calls = "count.send('tea', 1.5)\nfor _ in range(8): count.send('tea'); count.send('milk')\n"
    calls += "for _ in range(2): clean.send(3.0)"
    sender = surroundings.program("-c", f"from {APP} import *\n{calls}", environment=environment)
    assert sender.wait(40) == 0, sender.output()
    worker = surroundings.program("-m", "dramatiq", "-p", "2", "-t", "4", APP, environment=environment)
    counted = until(
        lambda: (found := [each for each in surroundings.notes() if each.startswith("counted")])[16:] and found,
        60,
        what="all were counted",
    )
    assert "counted milk" in counted[:8]
    until(lambda: "cleaned" in surroundings.notes(), 20, what="it was cleaned")
    assert worker.stop() == 0, worker.output()
    assert surroundings.notes().count("cleaning") == 1
    surroundings.check_exclusion(17)
    surroundings.check_nothing_left()
    with broker.client(db=12) as client:
        client.flushdb()
