"""A real Prometheus for tests, and for the picture of the dashboard."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import ROOT, Programs
from tests.servers import HOST, free_port
from tests.waiting import until

DEPLOY = ROOT / "deploy"
MISSING = "prometheus and promtool are not installed: apt-get install prometheus"

#: How often it scrapes and evaluates.
STEP = "250ms"


def require_prometheus() -> None:
    """Skip the test, or fail it under ``PYREDISSON_REQUIRE_ALL=1``, without Prometheus."""
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {MISSING}", pytrace=False)
        pytest.skip(MISSING)


def impatient(rules: str) -> str:
    """The alert rules with times of seconds instead of minutes."""
    return re.sub(r"for: \d+m", "for: 500ms", rules).replace("longest_hold_seconds > 300", "longest_hold_seconds > 1")


class Prometheus:
    """Prometheus, which scrapes targets given by job."""

    def __init__(self, started: Programs, folder: Path, targets: dict[str, str]) -> None:
        (folder / "rules.yml").write_text(impatient((DEPLOY / "prometheus" / "rules.yml").read_text()))
        job = "  - job_name: {}\n    static_configs:\n      - targets: ['{}']\n"
        jobs = "".join(job.format(*each) for each in targets.items())
        (folder / "prometheus.yml").write_text(
            f"global:\n  scrape_interval: {STEP}\n  scrape_timeout: {STEP}\n  evaluation_interval: {STEP}\n"
            f"rule_files: [rules.yml]\nscrape_configs:\n{jobs}"
        )
        self._address = f"{HOST}:{free_port()}"
        self.program = started.start(
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self._address}",
            "--log.level=warn",
        )
        until(self._is_ready, within=30, what="Prometheus does not start")

    def _is_ready(self) -> bool:
        assert self.program.runs(), self.program.stderr
        try:
            with urllib.request.urlopen(f"http://{self._address}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def ask(self, path: str, **arguments: str) -> Any:
        """What its API answers."""
        url = f"http://{self._address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def values(self, query: str) -> list[float]:
        """The values of a query now, without those that are no number."""
        found = [float(each["value"][1]) for each in self.ask("query", query=query)["result"]]
        return [value for value in found if not math.isnan(value)]

    def alerts(self) -> set[tuple[str, str]]:
        """The alerts that fire: name and job."""
        return {
            (each["labels"]["alertname"], each["labels"].get("job", ""))
            for each in self.ask("alerts")["alerts"]
            if each["state"] == "firing"
        }


def dashboard_queries() -> list[tuple[str, str]]:
    """Each query of the dashboard with the title of its panel, variables filled in as Grafana does."""
    panels = json.loads((DEPLOY / "grafana" / "pyredisson.json").read_text())["panels"]
    return [(panel["title"], filled_in(target["expr"])) for panel in panels for target in panel.get("targets", ())]


def filled_in(query: str) -> str:
    """A query with the variables of the dashboard filled in."""
    query = query.replace("$__rate_interval", "5s").replace("$job", ".*").replace("$instance", ".*")
    assert "$" not in query, query
    return query
