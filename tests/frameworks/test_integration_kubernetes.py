"""The page on Kubernetes: its program as printed, its probes and drain, and what its manifests say of them."""

from __future__ import annotations

import re
import signal
import time
from typing import Any

import pytest
import yaml

from tests.examples import ROOT
from tests.frameworks.common import Site, Surroundings
from tests.waiting import until

EXAMPLE = ROOT / "examples" / "kubernetes"
PROGRAM = (EXAMPLE / "leader.py").read_text(encoding="utf-8")
DEPLOYMENT, BUDGET = yaml.safe_load_all((EXAMPLE / "leader.yaml").read_text(encoding="utf-8"))
POD: dict[str, Any] = DEPLOYMENT["spec"]["template"]
[CONTAINER] = POD["spec"]["containers"]


def start(surroundings: Surroundings) -> Site:
    environment = {"PYREDISSON_URL": surroundings.url, "ELECTION": surroundings.name}
    program = f"import os, sys, runpy; os.environ['PORT'] = sys.argv[1]; runpy.run_path({str(EXAMPLE / 'leader.py')!r})"
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_page_runs_as_printed(open_page, number):
    page = open_page("kubernetes")
    leader = page.start("env ", ready="leading token=1")
    standby = page.start("env ", ready="standing for election")
    for _ in range(2):
        page.run("curl")
    assert leader.stop(number) == 0
    assert "resigned token=1" in leader.output()
    until(lambda: "leading token=2" in standby.output(), 10, what="the standby leads")
    assert standby.stop() == 0
    page.check_all_entered()


def test_the_image_starts_the_program_as_process_1():
    image = (EXAMPLE / "Dockerfile").read_text(encoding="utf-8")
    [command] = re.findall(r"^CMD (\[.*\])$", image, re.MULTILINE)  # Not the form with a shell.
    assert yaml.safe_load(command) == CONTAINER["command"] == ["python", "/app/leader.py"]
    assert "\nCOPY leader.py /app/\n" in image
    assert re.findall("docker build -t ([^ ]+) ", image) == [CONTAINER["image"]]


def test_the_manifest_has_what_the_program_reads():
    assert {each["name"] for each in CONTAINER["env"]} == {"PYREDISSON_URL", "ELECTION"}
    assert all(name in PROGRAM for name in ("PYREDISSON_URL", '"ELECTION"'))
    [port] = CONTAINER["ports"]
    assert f'os.environ.get("PORT", "{port["containerPort"]}")' in PROGRAM
    for probe, path in (("livenessProbe", "/live"), ("readinessProbe", "/ready")):
        assert CONTAINER[probe]["httpGet"] == {"path": path, "port": port["name"]}


def test_the_pods_have_the_time_to_resign_one_after_another():
    [seconds] = map(int, re.findall(r"campaign\.stop\(timeout=(\d+)\)", PROGRAM))
    assert seconds < POD["spec"]["terminationGracePeriodSeconds"]
    assert DEPLOYMENT["spec"]["replicas"] == 2
    assert DEPLOYMENT["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert BUDGET["spec"]["maxUnavailable"] == 1
    labels = POD["metadata"]["labels"]
    selectors = [each["spec"]["selector"] for each in (DEPLOYMENT, BUDGET)]
    selectors += [each["labelSelector"] for each in POD["spec"]["topologySpreadConstraints"]]
    assert selectors == [{"matchLabels": labels}] * 3
