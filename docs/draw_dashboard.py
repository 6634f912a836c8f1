"""``python docs/draw_dashboard.py``: draw the Grafana dashboard with what a real Prometheus returns for its queries.

A program with metrics and ``pyredisson metrics`` run for two minutes, and Prometheus scrapes both. In the second minute
a holder hangs, and a lock is taken away. Grafana itself is not needed: the panels, their places and their queries are
read from ``deploy/grafana/pyredisson.json``. The picture needs no stylesheet and loads no font.
"""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import redis
from prometheus_client import start_http_server

from benchmarks.server import Server
from pyredisson import Config, LockLostError, Redisson
from pyredisson.observe.prometheus import PrometheusListener
from tests.command_line import programs
from tests.observe.prometheus import DEPLOY, Prometheus, filled_in
from tests.waiting import until

PICTURE = Path(__file__).parent / "_static" / "dashboard.svg"
SECONDS = 120
STEP = 2
WIDTH, UNIT, GAP = 1200, 30, 6  # the picture's; a unit of height as Grafana has it; between panels
COLORS = ("#73bf69", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#fade2a", "#8ab8ff", "#ca95e5", "#96d98d", "#ffb357")
BACKGROUND, PANEL, TEXT, FAINT, RED = "#111217", "#181b1f", "#d8d9da", "#8e8e95", "#f2495c"

Series = dict[str, list[tuple[float, float]]]


# ---- what happens ----------------------------------------------------------------------------------------------------


def scene(url: str, ended: threading.Event) -> list[threading.Thread]:
    """Start a program that uses locks: a busy one, one that hangs for a while, one that is taken away."""
    listener = PrometheusListener(label=lambda name: name.split(":")[0])
    config = Config(listeners=(listener,), client_name="web", presence_after=1, lock_watchdog_timeout=6)
    client = Redisson.from_url(url, config=config)
    began = time.monotonic()

    def sell() -> None:
        while not ended.is_set():
            lock = client.get_lock(f"order:{random.randrange(3)}")
            if lock.try_lock(0.5):
                ended.wait(random.expovariate(1 / 0.02))
                lock.unlock()
            ended.wait(random.expovariate(1 / 0.05))

    def count() -> None:
        while not ended.is_set():
            with client.get_fair_lock("stock:7"):
                hangs = 55 < time.monotonic() - began < 60
                ended.wait(30 if hangs else random.expovariate(1 / 0.05))
            ended.wait(random.expovariate(1 / 0.2))

    def hold() -> None:
        while not ended.is_set():
            try:
                with client.get_lock("seat:1"):
                    ended.wait(15)
            except LockLostError:
                pass  # It was taken away, as it is to be.

    def take_away() -> None:
        if not ended.wait(100):
            with redis.Redis.from_url(url) as server:
                server.delete("seat:1")

    works: list[Callable[[], None]] = [sell, sell, sell, sell, count, count, count, hold, take_away]
    return [threading.Thread(target=work, daemon=True) for work in works]


def observe(folder: Path) -> dict[str, Any]:
    """Let it happen, and return what Prometheus says for each query: of the whole time, and of its end."""
    ended = threading.Event()
    with Server() as private, programs(folder) as started:
        url = private.url
        threads = scene(url, ended)
        server, _ = start_http_server(0, "127.0.0.1")
        exporter = started.pyredisson("metrics", "--listen", "127.0.0.1:0", "--interval", "1", "--names", "*", url=url)
        said = until(lambda: exporter.stderr if "/metrics" in exporter.stderr else None, within=20)
        targets = {"web": f"127.0.0.1:{server.server_port}", "pyredisson": said.split("http://")[1].split("/")[0]}
        prometheus = Prometheus(started, folder, targets)
        begin = time.time()
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        end = time.time()
        panels = json.loads((DEPLOY / "grafana" / "pyredisson.json").read_text())["panels"]
        answers = {
            target["expr"]: prometheus.ask(
                "query_range", query=filled_in(target["expr"]), start=str(begin + 5), end=str(end), step=str(STEP)
            )["result"]
            for panel in panels
            for target in panel.get("targets", ())
        }
        ended.set()
        for thread in threads:
            thread.join(20)
        return {"panels": panels, "answers": answers}


# ---- how it is drawn -------------------------------------------------------------------------------------------------


def series_of(panel: dict[str, Any], answers: dict[str, Any]) -> Series:
    """The series of a panel by legend."""
    found: Series = {}
    for target in panel["targets"]:
        for each in answers[target["expr"]]:
            legend = target["legendFormat"]
            for label, value in each["metric"].items():
                legend = legend.replace(f"{{{{{label}}}}}", value)
            points = [(float(at), float(value)) for at, value in each["values"]]
            found[legend] = [(at, value) for at, value in points if not math.isnan(value)]
    return found


def show(value: float, unit: str) -> str:
    """A value with its unit, as short as Grafana writes it."""
    if unit == "s":
        return (
            f"{value * 1000:.3g} ms" if value < 0.9995 else f"{value:.3g} s" if value < 60 else f"{value / 60:.3g} min"
        )
    text = f"{value:.3g}" if value < 1000 else f"{value / 1000:.3g} k"
    return text + (" /s" if unit == "ops" else "")


def text(x: float, y: float, words: str, *, size: int = 12, fill: str = FAINT, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}">{escape(words)}</text>'
    )


def stat(panel: dict[str, Any], series: Series, x: float, y: float, width: float, height: float) -> list[str]:
    """A number."""
    value = max((points[-1][1] for points in series.values() if points), default=0.0)
    defaults = panel["fieldConfig"]["defaults"]
    alarm = next((step["value"] for step in defaults["thresholds"]["steps"] if step["value"] is not None), math.inf)
    words, fill = show(value, defaults["unit"]), RED if value >= alarm else COLORS[0]
    return [text(x + width / 2, y + height - 34, words, size=28, fill=fill, anchor="middle")]


def chart(panel: dict[str, Any], series: Series, x: float, y: float, width: float, height: float) -> list[str]:
    """Lines over time."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    if stacked:
        series = stacked_up(series)
    points = [point for each in series.values() for point in each]
    top = max((value for _, value in points), default=0.0) or 1.0
    first, last = min(at for at, _ in points), max(at for at, _ in points)
    left, right, above, below = x + 58, x + width - 12, y + 34, y + height - 44
    parts = []
    for share in (0, 0.5, 1):
        at = below - share * (below - above)
        parts.append(f'<line x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}" stroke="#2c3235"/>')
        parts.append(text(left - 6, at + 4, show(share * top, unit), size=10, anchor="end"))
    for seconds in range(0, SECONDS + 1, 30):
        at = left + (seconds - 5) / (last - first) * (right - left)
        if left <= at <= right:
            parts.append(text(at, below + 14, f"{seconds} s", size=10, anchor="middle"))
    legend = left - 40
    for number, (name, each) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        line = " ".join(
            f"{left + (at - first) / (last - first) * (right - left):.1f},{below - value / top * (below - above):.1f}"
            for at, value in each
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        if name and legend < right - 30:
            parts.append(f'<rect x="{legend}" y="{below + 25}" width="12" height="3" fill="{color}"/>')
            parts.append(text(legend + 16, below + 31, name, size=11, fill=TEXT))
            legend += 32 + 6.2 * len(name)
    return parts


def stacked_up(series: Series) -> Series:
    """Each series on top of those before it."""
    sums: dict[float, float] = {}
    stacked: Series = {}
    for name, points in series.items():
        for at, value in points:
            sums[at] = sums.get(at, 0.0) + value
        stacked[name] = [(at, sums[at]) for at, _ in points]
    return stacked


def draw(observed: dict[str, Any]) -> str:
    """The dashboard as SVG."""
    parts, bottom = [], 0.0
    column = WIDTH / 24
    for panel in observed["panels"]:
        place = panel["gridPos"]
        x, y = place["x"] * column + GAP / 2, place["y"] * UNIT + GAP / 2
        width, height = place["w"] * column - GAP, place["h"] * UNIT - GAP
        bottom = max(bottom, y + height)
        if panel["type"] == "row":
            parts.append(text(x + 4, y + 18, f"⌄ {panel['title']}", size=14, fill=TEXT))
            continue
        series = series_of(panel, observed["answers"])
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{PANEL}"/>')
        parts.append(text(x + 8, y + 18, panel["title"], size=12, fill=TEXT))
        parts += (stat if panel["type"] == "stat" else chart)(panel, series, x, y, width, height)
    described = "The dashboard: numbers of now, and charts of programs and servers over two minutes."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + GAP:.0f}" role="img" '
        f'aria-label="{described}" font-family="system-ui, sans-serif">\n'
        f'<rect width="100%" height="100%" fill="{BACKGROUND}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        PICTURE.write_text(draw(observe(Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main()
