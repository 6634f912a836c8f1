"""``python -m benchmarks.plots``: draw the committed results as pictures for the documentation.

Plain SVG, written here: a bar for the median of each contestant, and a thin line from its slowest round to its fastest.
"""

from __future__ import annotations

import json
import statistics
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PICTURES = Path(__file__).parent.parent / "docs" / "explanation" / "benchmarks"

#: What a picture is about, for each figure that has one: the quantity in its samples, and how to call it.
QUANTITIES = {
    "one_thread": ("pairs/s", "acquire + release pairs a second"),
    "many_threads": ("pairs/s", "acquire + release pairs a second"),
    "cluster": ("pairs/s", "acquire + release pairs a second"),
    "many_coroutines": ("pairs/s", "acquire + release pairs a second"),
    "redlock": ("pairs/s", "acquire + release pairs a second, each on five nodes"),
    "redlock_asyncio": ("pairs/s", "acquire + release pairs a second, each on five nodes"),
    "java_one_thread": ("pairs/s", "acquire + release pairs a second"),
    "java_many_threads": ("pairs/s", "acquire + release pairs a second"),
}

WIDTH, LABEL, VALUE, ROW, TOP = 720, 240, 90, 34, 64
OURS, THEIRS, INK, FAINT = "#1f6feb", "#9aa4b2", "#1f2328", "#59636e"


def picture(result: dict[str, Any], quantity: str, caption: str) -> str:
    """The picture of one figure."""
    rounds = {who: [each[quantity] for each in samples] for who, samples in result["samples"].items()}
    longest = max(max(values) for values in rounds.values())
    scale = (WIDTH - LABEL - VALUE) / longest
    height = TOP + ROW * len(rounds) + 12
    how = f"{caption}; median of {len(next(iter(rounds.values())))} rounds"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="14">',
        f"<title>{escape(result['title'])}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="16" font-weight="bold" fill="{INK}">{escape(result["title"])}</text>',
        f'<text x="12" y="44" fill="{FAINT}">{escape(how)}</text>',
    ]
    for index, (who, values) in enumerate(rounds.items()):
        y = TOP + ROW * index
        median = statistics.median(values)
        middle = y + ROW / 2 - 3
        parts += [
            f'<text x="{LABEL - 10}" y="{middle + 5:.1f}" text-anchor="end" fill="{INK}">{escape(who)}</text>',
            f'<rect x="{LABEL}" y="{y + 4}" width="{median * scale:.1f}" height="{ROW - 14}" rx="3" '
            f'fill="{OURS if who.startswith("pyredisson") else THEIRS}"/>',
            f'<line x1="{LABEL + min(values) * scale:.1f}" x2="{LABEL + max(values) * scale:.1f}" y1="{middle:.1f}" '
            f'y2="{middle:.1f}" stroke="{INK}"/>',
            f'<text x="{LABEL + max(values) * scale + 8:.1f}" y="{middle + 5:.1f}" fill="{INK}">{median:,.0f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Draw what there are results for."""
    PICTURES.mkdir(exist_ok=True)
    for name, (quantity, caption) in QUANTITIES.items():
        source = RESULTS / f"{name}.json"
        if source.exists():
            result = json.loads(source.read_text())
            (PICTURES / f"{name}.svg").write_text(picture(result, quantity, caption))


if __name__ == "__main__":
    main()
