"""A real Prometheus scrapes a program and the exporter; the dashboard has data, and alerts fire."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.command_line import ROOT, Program, programs
from tests.observe.prometheus import DEPLOY, Prometheus, dashboard_queries, require_prometheus
from tests.servers import HOST, VALKEY, Server
from tests.waiting import until

RULES = DEPLOY / "prometheus"
ALERTS = re.findall(r"- alert: (\w+)", (RULES / "rules.yml").read_text())


def said(program: Program, pattern: str) -> str:
    """The part of a program's output that matches, once it is there."""

    def find() -> str | None:
        assert program.runs(), program.stderr
        found = re.search(pattern, program.stdout + program.stderr)
        return found and found[1]

    return until(find, within=30)


@pytest.mark.timeout(300)
def test_prometheus_sees_what_happens(tmp_path):
    """One for all, since it takes seconds to start: scrapes, every query of the dashboard, and alerts."""
    require_prometheus()
    VALKEY.require()
    server = Server(VALKEY)
    url = f"redis://{HOST}:{server.port}"
    try:
        with programs(tmp_path) as started:
            command = (sys.executable, "-m", "tests.observe.program", url)
            program, limited = (
                started.start(*command, *more, environment={"PYTHONPATH": str(ROOT)}) for more in ((), ("limited",))
            )
            arguments = ("--listen", f"{HOST}:0", "--interval", "0.2", "--names", "*")
            exporter = started.pyredisson("metrics", *arguments, url=url)
            targets = {"web": said(program, r"(\S+:\d+)\n"), "pyredisson": said(exporter, r"http://(\S+)/metrics")}
            prometheus = Prometheus(started, tmp_path, {**targets, "limited": said(limited, r"(\S+:\d+)\n")})
            until(lambda: prometheus.values('min(up{job=~".+"})') == [1], within=60)

            # Each query of the dashboard returns data, and the metrics agree with what the program does.
            without_data = dashboard_queries()
            until(lambda: not still_empty(prometheus, without_data), within=60)
            assert prometheus.values('sum(pyredisson_holds{lock=~"report|seat"})') == [2]
            assert prometheus.values('pyredisson_server_lock_hold_seconds{lock="report:hangs"} > 0')
            assert prometheus.values('max(pyredisson_waiters{lock="order"})')

            # A holder hangs: its program and the exporter see that. Then it goes on.
            hangs = {("PyredissonHeldTooLong", job) for job in targets}
            until(lambda: prometheus.alerts() >= hangs, within=60)
            assert not any(name == "PyredissonLockLost" for name, _ in prometheus.alerts())

            # A program waits for permits for longer than a second, and in vain.
            in_vain = {("PyredissonWaitsAreLong", "limited"), ("PyredissonAcquiresTimeOut", "limited")}
            until(lambda: prometheus.alerts() >= in_vain, within=60)
            assert not any(name == "PyredissonAcquiresFail" for name, _ in prometheus.alerts())

            # A lock is taken away from its holder.
            with server.client() as admin:
                admin.delete("seat:1")
            until(lambda: ("PyredissonLockLost", "web") in prometheus.alerts(), within=60)
            program.send(signal.SIGUSR1)
            until(lambda: not prometheus.alerts() & hangs, within=60)

            # The server goes away.
            server.stop()
            away = {("PyredissonServerAway", "pyredisson"), ("PyredissonAcquiresFail", "limited")}
            until(lambda: prometheus.alerts() >= away, within=60)
    finally:
        server.stop()


def still_empty(prometheus: Prometheus, queries: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The queries that have returned no data so far; the others are taken off the list."""
    queries[:] = [each for each in queries if not prometheus.values(each[1])]
    return queries


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    require_prometheus()
    return subprocess.run(["promtool", *arguments], cwd=RULES, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", "rules.yml"), ("check", "config", "prometheus.yml"), ("test", "rules", "rules_test.yml")],
    ids=" ".join,
)
def test_promtool_accepts(arguments):
    done = promtool(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_test_and_a_section():
    tests = (RULES / "rules_test.yml").read_text()
    page = (ROOT / "docs" / "operate" / "alerts.md").read_text()
    for alert in ALERTS:
        assert re.search(rf"alertname: {alert}\n\s+eval_time: \d+m\n\s+exp_alerts:", tests), alert
        assert f"### {alert}\n" in page
        assert f"docs/operate/alerts.md#{alert.lower()}\n" in (RULES / "rules.yml").read_text()
    assert set(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == set(ALERTS)


def test_the_dashboard_is_what_its_script_writes(tmp_path):
    shutil.copy(DEPLOY / "grafana" / "dashboard.py", tmp_path)
    subprocess.run([sys.executable, "dashboard.py"], cwd=tmp_path, check=True, timeout=60)
    made = (tmp_path / "pyredisson.json").read_text()
    assert made == (DEPLOY / "grafana" / "pyredisson.json").read_text(), "run: python deploy/grafana/dashboard.py"


def test_the_panels_of_the_dashboard_fill_its_columns():
    panels = json.loads((DEPLOY / "grafana" / "pyredisson.json").read_text())["panels"]
    taken = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)
