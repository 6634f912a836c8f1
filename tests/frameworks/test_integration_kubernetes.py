"""The program of ``deploy/kubernetes``: its probes, and a drain."""

from __future__ import annotations

import signal
import time

from tests.frameworks.common import Site, Surroundings
from tests.waiting import until


def start(surroundings: Surroundings) -> Site:
    environment = {"PYREDISSON_URL": surroundings.url, "ELECTION": surroundings.name}
    program = "import os, sys, runpy; os.environ['PORT'] = sys.argv[1]; runpy.run_path('deploy/kubernetes/leader.py')"
    return surroundings.site("-c", program, "{port}", environment=environment)


def leads(site: Site) -> bool:
    return site.get("/leader").status == 200


def test_a_drained_leader_resigns_at_once_and_the_standby_leads(surroundings):
    sites = [start(surroundings) for _ in range(2)]
    until(lambda: any(map(leads, sites)), 20, what="one leads")
    leader, standby = sorted(sites, key=leads, reverse=True)
    assert not leads(standby)
    assert [standby.get(path).status for path in ("/live", "/ready", "/other")] == [200, 200, 503]
    started = time.monotonic()
    leader.send(signal.SIGTERM)
    until(lambda: leads(standby), 15, what="the standby leads")
    assert time.monotonic() - started < 10  # Well under the lease of 30 s.
    assert leader.wait() == 0, leader.output()
    assert "resigned token=" in leader.output()
    assert standby.stop() == 0, standby.output()
