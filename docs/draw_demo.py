"""``python docs/draw_demo.py``: run ``pyredisson demo`` and draw what it prints, for the README and the first page.

The picture is of one run. It needs no stylesheet and loads no font.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from pyredisson._tools.demo import run_demo

PICTURE = Path(__file__).parent / "_static" / "demo.svg"
COLUMNS = 80
SEATS = 150
WORKERS = 4
COMMAND = "pyredisson demo"

THEME = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [
        (72, 79, 88),
        (255, 123, 114),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (177, 186, 196),
    ],
)

#: As rich's own, without its fonts, which a picture in a page cannot load, and without a window around it.
FORMAT = """\
<svg class="rich-terminal" xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" role="img" aria-label="What pyredisson demo prints">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="100%" height="100%" rx="10" fill="#0d1117"/>
<g transform="translate({terminal_x}, 20)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def draw() -> str:
    """Run the demo and return the picture of its output.

    Raises:
        RuntimeError: The demo failed.
    """
    console = Console(file=io.StringIO(), record=True, width=COLUMNS, color_system="truecolor", legacy_windows=False)
    console.print(f"[bold]$ {COMMAND}[/bold]", highlight=False)
    if run_demo(seats=SEATS, workers=WORKERS, console=console):
        raise RuntimeError("the demo failed; there is no picture of it")
    text = console.export_svg(title="", theme=THEME, code_format=FORMAT, unique_id="demo")
    return "\n".join(line.rstrip() for line in re.sub(r"\n{2,}", "\n", text).splitlines()) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
