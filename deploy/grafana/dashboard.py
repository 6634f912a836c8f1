"""Write the Grafana dashboard: ``python deploy/grafana/dashboard.py``. A test says when the JSON is stale.

Import ``deploy/grafana/pyredisson.json`` in Grafana, and choose the data source.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["DASHBOARD", "ROWS", "Panel", "dashboard"]

DASHBOARD = Path(__file__).parent / "pyredisson.json"

#: Which programs, and which exporters, are shown.
OF = 'job=~"$job",instance=~"$instance"'
RATE = "$__rate_interval"


@dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes:
        title: Its title.
        queries: In PromQL, by legend.
        text: What it shows, for the tooltip.
        unit: The unit, as Grafana calls it.
        kind: ``"timeseries"`` or ``"stat"``.
        width: Of the 24 columns.
        alarm: The value from which it is red.
        stack: Whether the series are stacked.
    """

    title: str
    queries: dict[str, str]
    text: str = ""
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    alarm: float | None = None
    stack: bool = False

    @property
    def height(self) -> int:
        """Its height in Grafana's units."""
        return 4 if self.kind == "stat" else 8


def rate(name: str, by: str = "") -> str:
    """The sum of the rates of a counter."""
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate(pyredisson_{name}{{{OF}}}[{RATE}]))"


def quantile(q: float, name: str) -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({q}, sum by (le) (rate(pyredisson_{name}_bucket{{{OF}}}[{RATE}])))"


def of(name: str) -> str:
    """A metric of the chosen programs or exporters."""
    return f"pyredisson_{name}{{{OF}}}"


def stat(title: str, query: str, text: str, *, alarm: float | None = None, unit: str = "short") -> Panel:
    """A number."""
    return Panel(title, {"": query}, text, unit, "stat", 3, alarm)


ROWS: dict[str, list[Panel]] = {
    "Now": [
        stat("Servers away", f"sum({of('up')} == bool 0)", "Exporters whose server does not answer.", alarm=1),
        stat("Locks held", f"sum({of('server_locks')})", "On the servers, whoever holds them."),
        stat("Waiting", f"sum({of('server_waiters')})", "Threads and tasks where they are known, else clients."),
        stat("Longest hold", f"max({of('server_longest_hold_seconds')})", "As far as known.", alarm=300, unit="s"),
        stat("Longest wait", f"max({of('server_longest_wait_seconds')})", "As far as known.", alarm=60, unit="s"),
        stat("Never expire", f"sum({of('server_locks_without_expiry')})", "Locks without an expiry.", alarm=1),
        stat("Clients gone", f"sum({of('server_locks_of_absent_clients')})", "Locks of absent clients.", alarm=1),
        stat("Lost in 1 h", f"sum(increase(pyredisson_losses_total{{{OF}}}[1h]))", "Locks lost.", alarm=1),
    ],
    "Programs": [
        Panel(
            "Acquires",
            {
                "acquired": rate("acquisitions_total"),
                "had to wait": rate("contentions_total"),
                "timed out": rate("timeouts_total"),
            },
            "Acquires a second: granted, those that had to wait first, and those that were refused or timed out.",
            "ops",
        ),
        Panel(
            "Time to acquire",
            {
                "p50": quantile(0.5, "wait_seconds"),
                "p90": quantile(0.9, "wait_seconds"),
                "p99": quantile(0.99, "wait_seconds"),
            },
            "From the call until the lock was acquired, or the time ran out.",
            "s",
            alarm=1,
        ),
        Panel(
            "Time held",
            {"p50": quantile(0.5, "hold_seconds"), "p99": quantile(0.99, "hold_seconds")},
            "From the acquire until the last release.",
            "s",
        ),
        Panel(
            "Seconds waited a second, by label",
            {"{{lock}}": f"topk(10, {rate('wait_seconds_sum', 'lock')})"},
            "How many threads and tasks wait on average, and for which locks: needs label= of the listener.",
            "short",
            stack=True,
        ),
        Panel(
            "Held and waiting in programs",
            {"held": f"sum({of('holds')})", "waiting": f"sum({of('waiters')})"},
            "By the programs' own count.",
        ),
        Panel(
            "Longest, in programs",
            {"hold": f"max({of('longest_hold_seconds')})", "wait": f"max({of('longest_wait_seconds')})"},
            "Of the present holds and waits.",
            "s",
            alarm=300,
        ),
        Panel(
            "Trouble",
            {
                "lost": rate("losses_total"),
                "outcome unknown": rate("outcomes_unknown_total"),
                "settled": rate("settled_total"),
                "{{event}}": f"topk(3, {rate('events_total', 'event')})",
            },
            "Locks lost, requests without an answer, and events such as HolderGone or HeldTooLong, a second.",
            "ops",
            width=12,
        ),
        Panel(
            "Watchdog",
            {
                "leases renewed": rate("renewals_total"),
                "not answered": rate("renewal_failures_total"),
                "late": rate("watchdog_late_total"),
                "subscriber down": rate("connection_downs_total"),
            },
            "Renewals a second. Late: the process was stopped, overloaded, or its event loop was blocked.",
            "ops",
            width=12,
        ),
    ],
    "Servers": [
        Panel("Locks held", {"{{kind}}": f"sum by (kind) ({of('server_locks')})"}, "By kind.", stack=True),
        Panel("Waiting", {"{{kind}}": f"sum by (kind) ({of('server_waiters')})"}, "By kind of the lock.", stack=True),
        Panel(
            "Longest holds",
            {"{{lock}}": f"topk(10, {of('server_lock_hold_seconds')})"},
            "Needs --names of the exporter.",
            "s",
            alarm=300,
        ),
        Panel(
            "Scans",
            {"seconds": f"max({of('server_scan_seconds')})", "age": f"max({of('server_scan_age_seconds')})"},
            "How long the exporter's scans take, and how old what is shown is.",
            "s",
        ),
        Panel(
            "Keys seen",
            {"keys": f"sum({of('server_scan_keys')})", "not complete": f"sum({of('server_scan_complete')} == bool 0)"},
            "By the last scan; not complete: it ended before all keys were seen.",
        ),
        Panel(
            "Clients",
            {"clients": f"sum({of('server_clients')})", "dead waiters": f"sum({of('server_dead_waiters')})"},
            "Clients that are connected, and waiters in queues that are considered dead.",
        ),
    ],
}


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row, members in ROWS.items():
        position = {"h": 1, "w": 24, "x": 0, "y": y}
        panels.append({"type": "row", "title": row, "gridPos": position, "id": len(panels) + 1, "panels": []})
        y, x, height = y + 1, 0, 0
        for panel in members:
            if x + panel.width > 24:
                x, y = 0, y + height
            height = panel.height
            panels.append(
                {
                    **_panel(panel),
                    "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
                    "id": len(panels) + 1,
                }
            )
            x += panel.width
        y += height
    return {
        "title": "pyredisson",
        "uid": "pyredisson",
        "tags": ["redis", "locks"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _variable("job", 'label_values({__name__=~"pyredisson_.+"}, job)'),
                _variable("instance", 'label_values({__name__=~"pyredisson_.+",job=~"$job"}, instance)'),
            ]
        },
        "panels": panels,
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    steps = [{"color": "green", "value": None}]
    if panel.alarm is not None:
        steps.append({"color": "red", "value": panel.alarm})
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "timeseries":
        defaults["custom"] = {"fillOpacity": 10, "stacking": {"mode": "normal" if panel.stack else "none"}}
        if panel.alarm is not None:
            defaults["custom"]["thresholdsStyle"] = {"mode": "line"}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": source,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"colorMode": "value"} if panel.kind == "stat" else {"legend": {"displayMode": "list"}},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": source, "expr": query, "legendFormat": legend}
            for number, (legend, query) in enumerate(panel.queries.items())
        ],
    }


if __name__ == "__main__":
    DASHBOARD.write_text(json.dumps(dashboard(), indent=2) + "\n", encoding="utf-8")
