"""``python docs/draw_protocol.py``: draw how locks work, for the pages where that is easier to see than to read.

The numbers are the defaults and constants of the library. The pictures load no font, have their own background, and are
dark where the page or the system is. Time runs downward, not to scale.
"""

from __future__ import annotations

import math
import sys
from html import escape
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pyredisson import Config, LockLostError, StaleTokenError
from pyredisson._core.deadline import DRIFT_FACTOR, DRIFT_FLOOR, certain_for, lease_ms
from pyredisson._quorum.hold import NODE_TIMEOUT_ROUND_TRIPS, majority, node_timeout

STATIC = Path(__file__).parent / "_static"
WIDTH, MARGIN, TOP = 440, 16, 96  # of a picture: small enough for the text to be read on a phone
LEFT, MIDDLE, RIGHT = 56, WIDTH // 2, WIDTH - 56  # where the lanes of three participants are
SIDE = 14  # from a lane to the text next to it
HELD = "Blue bars: the lock is held."

LEASE = Config().lock_watchdog_timeout
THIRD = LEASE / 3
CERTAIN = certain_for(lease_ms(LEASE))
LOSS_MARGIN = 5  # as on the page on lost locks
CERTAIN_WITH_MARGIN = certain_for(lease_ms(LEASE), LOSS_MARGIN)

STYLE = """
svg { --ink: #1f2328; --faint: #59636e; --ground: #ffffff; --edge: #d1d9e0; --ours: #1a5fb4; --bad: #b3261e }
@media (prefers-color-scheme: dark) {
svg { --ink: #e6edf3; --faint: #9198a1; --ground: #0d1117; --edge: #3d444d; --ours: #62a0ea; --bad: #ff8a80 }
}
text { font: 15px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--ink) }
text { paint-order: stroke; stroke: var(--ground); stroke-width: 5px; stroke-linejoin: round }
.title { font-size: 17px } .title, .strong { font-weight: 600 } .faint { fill: var(--faint) }
.ground { fill: var(--ground); stroke: var(--edge) } text.bad { fill: var(--bad) }
.lane, .box { fill: var(--ground); stroke: var(--edge); stroke-width: 2px } .ours { fill: var(--ours) }
.arrow { stroke: var(--ink); stroke-width: 1.5px; fill: none } .head { fill: var(--ink) }
.arrow.bad, .cross { stroke: var(--bad) } .head.bad { fill: var(--bad) } .cross { stroke-width: 2.5px }
.reply, .away { stroke-dasharray: 5 4 } .away { fill: var(--ground); stroke: var(--ours); stroke-width: 1.5px }
"""


def show(seconds: float) -> str:
    """A time, in the unit in which people say it."""
    return f"{seconds * 1000:.3g} ms" if 0 < seconds < 1 else f"{seconds:.3g} s"


class Picture:
    """A picture, from its lines to its texts, which stand on top. ``described`` says in words what it shows."""

    def __init__(self, title: str, described: str) -> None:
        self.title = title
        self.described = described
        self._shapes: list[str] = []
        self._texts: list[str] = []
        self._bottom = 0.0
        self.text(MARGIN, 30, title, kind="title")

    def text(self, x: float, y: float, *lines: str, kind: str = "", anchor: str = "start") -> None:
        for line in lines:
            words = escape(line, quote=False)
            self._texts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{words}</text>')
            self._bottom = max(self._bottom, y)
            y += 20

    def footnote(self, *lines: str, kind: str = "faint") -> None:
        """Add lines below all that was drawn."""
        self.text(MARGIN, self._bottom + 30, *lines, kind=kind)

    def lane(self, x: float, name: str, bottom: float, *held: tuple[float, float], late: float = 0) -> None:
        """A participant and its time, with a bar where the lock is held, and another until when it seems to be."""
        self.text(x, 66, name, kind="strong", anchor="middle")
        self._shapes.append(f'<path class="lane" d="M{x:g} 76V{bottom:g}"/>')
        self._bottom = max(self._bottom, bottom)
        for top, end in held:
            self.box(x - 5, top, 10, end - top, "ours")
            if late:
                self.box(x - 5, end, 10, late - end, "away")

    def box(self, x: float, y: float, width: float, height: float, kind: str = "box") -> None:
        self._shapes.append(f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3"/>')
        self._bottom = max(self._bottom, y + height)

    def arrow(
        self, x: float, y: float, to_x: float, words: str = "", kind: str = "", *, to_y: float = 0, lost: bool = False
    ) -> None:
        """A request or a reply. It ends before the lane or box that it leads to, and earlier if it is lost."""
        angle = math.atan2((to_y or y) - y, to_x - x)
        length = math.hypot((to_y or y) - y, to_x - x) * (0.65 if lost else 1) - 7
        to_x, to_y = x + length * math.cos(angle), y + length * math.sin(angle)
        self._shapes.append(f'<path class="arrow {kind}" d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"/>')
        if lost:
            self.cross(to_x, to_y)
        else:
            place = f"translate({to_x:.1f} {to_y:.1f}) rotate({math.degrees(angle):.1f})"
            self._shapes.append(f'<path class="head {kind}" d="M0 0l-9 -4v8z" transform="{place}"/>')
        if words:
            self.text((x + to_x) / 2, y - 7, words, kind="bad" if "bad" in kind else "", anchor="middle")

    def cross(self, x: float, y: float) -> None:
        """What does not arrive, or is refused."""
        self._shapes.append(f'<path class="cross" d="M{x - 6:.1f} {y - 6:.1f}l12 12m0 -12l-12 12"/>')

    def svg(self) -> str:
        height = self._bottom + 18
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
            f'viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="desc">{escape(self.described, quote=False)}</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:g}" rx="8"/>',
        )
        return "\n".join([*head, *self._shapes, *self._texts, "</svg>\n"])


# ---- the pictures ----------------------------------------------------------------------------------------------------


def lease() -> Picture:
    renewed = 2 * THIRD
    early, deadline, end = (show(renewed + each) for each in (CERTAIN_WITH_MARGIN, CERTAIN, LEASE))
    margin = f"Config(loss_margin={LOSS_MARGIN:g})"
    picture = Picture(
        "The life of a lease",
        f"A lock is acquired for {show(LEASE)} and renewed every {show(THIRD)}. After {show(renewed)} the server does "
        f"not answer any more. With {margin} the holder's deadline passes at {early}, and the lock counts as lost: the "
        f"holder has {show(LOSS_MARGIN)} to stop. Without a margin the deadline passes at {deadline}. At {end} the "
        "lease ends on the server, and others can acquire the lock.",
    )
    holder, server = 116, 372
    picture.lane(holder, "Holder", 432, (100, 282), late=346)
    picture.lane(server, "Server", 432, (100, 400))
    for count, words in enumerate(("acquire", "renew", "renew")):
        picture.text(MARGIN, 109 + 42 * count, show(count * THIRD), kind="faint")
        picture.arrow(holder + 6, 104 + 42 * count, server, words)
    picture.text(MARGIN, 235, show(renewed + THIRD), kind="faint")
    picture.arrow(holder + 6, 230, server, "renew: no answer", "reply bad", lost=True)
    picture.text(MARGIN, 286, early, kind="faint")
    picture.text(holder + SIDE, 278, "deadline with", margin, f"then {show(LOSS_MARGIN)} to stop")
    picture.text(MARGIN, 350, deadline, kind="faint")
    picture.text(holder + SIDE, 346, "deadline without a margin")
    picture.text(MARGIN, 404, end, kind="faint")
    picture.text(server - SIDE, 396, "end on the server:", "others can acquire it", anchor="end")
    picture.footnote(
        f"At the deadline it is lost: {LockLostError.__name__}.",
        f"Without a margin that is {DRIFT_FACTOR:.0%} and {show(DRIFT_FLOOR)} before",
        "the end: clocks do not run at one rate.",
        HELD,
        "Dashed: it is held, if there is no margin.",
    )
    return picture


def hand_over() -> Picture:
    check = show(Config().max_wait_without_check)
    picture = Picture(
        "A hand-over by message",
        f"A waiter attempts to acquire a lock and learns that it is held for {show(LEASE)}. It subscribes, attempts "
        f"once more, and waits. It checks every {check} in case a message is lost. The holder releases the lock, the "
        "server sends a message, and the waiter acquires the lock.",
    )
    picture.lane(LEFT, "Holder", 436, (100, 330))
    picture.lane(MIDDLE, "Server", 436, (100, 330), (394, 436))
    picture.lane(RIGHT, "Waiter", 436, (394, 436))
    picture.arrow(LEFT + 6, 104, MIDDLE, "acquire")
    for y, words, reply in ((136, "acquire", f"held for {show(LEASE)}"), (204, "subscribe, acquire", "still held")):
        picture.arrow(RIGHT - 2, y, MIDDLE + 5, words)
        picture.arrow(MIDDLE + 6, y + 30, RIGHT, reply, "reply")
    picture.text(RIGHT - SIDE, 268, "waits; checks", f"every {check}", kind="faint", anchor="end")
    picture.arrow(LEFT + 6, 326, MIDDLE, "release")
    picture.arrow(MIDDLE + 2, 362, RIGHT, "message")
    picture.arrow(RIGHT - 6, 398, MIDDLE + 5, "acquire")
    picture.footnote(HELD)
    return picture


def quorum() -> Picture:
    nodes, away = 5, 4
    votes = f"{nodes - 1} of {nodes} nodes granted it, {majority(nodes)} are enough."
    certain = f"certain for {show(CERTAIN)} after the request."
    picture = Picture(
        "A quorum with one node away",
        f"A holder requests a lock from {nodes} nodes at the same time. Node {away} does not answer. {votes} The hold "
        f"is {certain}",
    )
    row, height, left = 44, 32, 252
    center = 56 + row * (nodes // 2) + height / 2
    for node in range(1, nodes + 1):
        y, answers = 56 + row * (node - 1), node != away
        words, kind = ("granted", "") if answers else ("no answer", "bad")
        picture.arrow(112, center, left, kind=f"reply {kind}" if kind else "", to_y=y + height / 2, lost=not answers)
        picture.box(left, y, WIDTH - MARGIN - left, height, "box" if answers else "box reply")
        picture.text(left + 12, y + 21, f"node {node}: {words}", kind=kind)
    picture.box(MARGIN, center - 20, 96, 40)
    picture.text(MARGIN + 48, center + 5, "Holder", kind="strong", anchor="middle")
    picture.footnote(votes, kind="strong")
    patience = show(node_timeout(lease_ms(LEASE), None, 0))
    round_trips = f"A node has {patience} to answer, or {NODE_TIMEOUT_ROUND_TRIPS} round trips"
    picture.footnote(certain.capitalize(), round_trips, "if it is farther away.")
    return picture


def fencing() -> Picture:
    early, late = 3, 4
    picture = Picture(
        "A late writer is refused by its token",
        f"Holder A acquires a lock with token {early} and is paused for longer than its lease of {show(LEASE)}. Holder "
        f"B acquires the lock with token {late} and writes. A resumes and writes with token {early}. The store refuses "
        f"that with {StaleTokenError.__name__}, since it has seen token {late}.",
    )
    picture.lane(LEFT, "Holder A", 396, (96, 138), late=318)
    picture.lane(MIDDLE, "Store", 396)
    picture.lane(RIGHT, "Holder B", 396, (216, 396))
    picture.text(LEFT + SIDE, 110, f"acquires: token {early}")
    picture.text(LEFT + SIDE, 152, "is paused for", "longer than", f"its {show(LEASE)} lease", kind="faint")
    picture.text(RIGHT - SIDE, 230, f"acquires: token {late}", anchor="end")
    picture.arrow(RIGHT - 6, 264, MIDDLE + 1, f"write, token {late}")
    picture.arrow(MIDDLE + 2, 294, RIGHT - 5, "written", "reply")
    picture.text(LEFT + SIDE, 318, "resumes", kind="faint")
    picture.arrow(LEFT + 2, 350, MIDDLE - 8, f"write, token {early}", "bad")
    picture.cross(MIDDLE, 350)
    picture.arrow(MIDDLE - 2, 380, LEFT, StaleTokenError.__name__, "reply bad")
    picture.footnote("The store refuses a token that is smaller", "than the greatest it has seen.")
    return picture


PICTURES = {"lease": lease, "hand-over": hand_over, "quorum": quorum, "fencing": fencing}


def main() -> None:
    for name, draw in PICTURES.items():
        (STATIC / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
