"""``python -m benchmarks [FIGURE ...]``: measure, compare with the bounds, write the results."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from .cluster import cluster
from .coordinators import coordinators_hand_over, coordinators_many_threads, coordinators_one_thread
from .coroutines import many_coroutines
from .cross_hand_over import cross_hand_over
from .crowd import QUICK_SIZES, SIZES, crowd, java_crowd
from .elections import elections
from .growth import growth
from .hand_over import hand_over
from .held_locks import held_locks
from .import_time import import_time
from .java import java_hand_over, java_held_locks, java_many_threads, java_one_thread, java_redlock
from .kinds import kinds
from .listeners import listeners
from .presence import presence
from .processes import contending_processes, fair_processes
from .read_lock import readers
from .redlock import redlock, redlock_asyncio, redlock_nodes_away
from .report import Figure, environment, text, write, write_summary
from .rounds import Tournament, disturbance
from .separate_locks import many_threads, one_thread
from .server import Server
from .waiters import waiters

__all__ = ["main"]

RESULTS = Path(__file__).parent / "results"
QUICK_RESULTS = Path(__file__).parent / "results-quick"


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure.

    Attributes:
        rounds: For the rates.
        seconds: A contestant's turn in such a round.
        long_rounds: For what takes several seconds a turn: contending processes, waiters, held locks.
        contend_seconds: A turn of the contending processes.
        watch_seconds: How long the server is watched while others wait. More than 10 s see the waiters' own period.
        lease_seconds: The watchdog timeout of the held locks; three periods of it are watched.
    """

    rounds: int
    seconds: float
    long_rounds: int
    contend_seconds: float
    watch_seconds: float
    lease_seconds: float


FULL = Effort(rounds=15, seconds=0.5, long_rounds=5, contend_seconds=8.0, watch_seconds=12.0, lease_seconds=30.0)
QUICK = Effort(rounds=3, seconds=0.3, long_rounds=1, contend_seconds=3.0, watch_seconds=5.0, lease_seconds=9.0)

Play = Callable[[Server, Effort, Tournament], Figure]


def _rates(figure: Callable[..., Figure]) -> Play:
    return lambda server, effort, tournament: figure(
        server, rounds=effort.rounds, seconds=effort.seconds, tournament=tournament
    )


FIGURES: dict[str, Play] = {
    "one_thread": _rates(one_thread),
    "many_threads": _rates(many_threads),
    "cluster": _rates(cluster),
    "many_coroutines": _rates(many_coroutines),
    "readers": _rates(readers),
    "redlock": _rates(redlock),
    "redlock_asyncio": _rates(redlock_asyncio),
    "redlock_nodes_away": lambda server, effort, tournament: redlock_nodes_away(
        server, rounds=effort.long_rounds, tournament=tournament
    ),
    "waiters": lambda server, effort, tournament: waiters(
        server, rounds=effort.long_rounds, watch_seconds=effort.watch_seconds, tournament=tournament
    ),
    "contending_processes": lambda server, effort, tournament: contending_processes(
        server, rounds=effort.long_rounds, seconds=effort.contend_seconds, tournament=tournament
    ),
    "fair_processes": lambda server, effort, tournament: fair_processes(
        server, rounds=effort.long_rounds, seconds=effort.contend_seconds, tournament=tournament
    ),
    "hand_over": lambda server, effort, tournament: hand_over(server, rounds=effort.long_rounds, tournament=tournament),
    "crowd": lambda server, effort, tournament: crowd(
        server,
        rounds=effort.long_rounds,
        tournament=tournament,
        sizes=QUICK_SIZES if effort.long_rounds == 1 else SIZES,
    ),
    "growth": lambda server, effort, tournament: growth(server, rounds=effort.long_rounds, tournament=tournament),
    # Its numbers hardly scatter, and a turn takes more than a minute.
    "held_locks": lambda server, effort, tournament: held_locks(
        server, rounds=1, lease_seconds=effort.lease_seconds, tournament=tournament
    ),
    "presence": lambda server, effort, tournament: presence(
        server, rounds=effort.long_rounds, lease_seconds=effort.lease_seconds, tournament=tournament
    ),
    "java_one_thread": _rates(java_one_thread),
    "java_many_threads": _rates(java_many_threads),
    "java_redlock": _rates(java_redlock),
    "java_hand_over": lambda server, effort, tournament: java_hand_over(
        server, rounds=effort.long_rounds, seconds=effort.contend_seconds, tournament=tournament
    ),
    "java_crowd": lambda server, effort, tournament: java_crowd(
        server, rounds=effort.long_rounds, tournament=tournament
    ),
    "cross_hand_over": lambda server, effort, tournament: cross_hand_over(
        server, rounds=effort.long_rounds, seconds=effort.contend_seconds, tournament=tournament
    ),
    "java_held_locks": lambda server, effort, tournament: java_held_locks(
        server, rounds=1, lease_seconds=effort.lease_seconds, tournament=tournament
    ),
    "coordinators_one_thread": _rates(coordinators_one_thread),
    "coordinators_many_threads": _rates(coordinators_many_threads),
    "coordinators_hand_over": lambda server, effort, tournament: coordinators_hand_over(
        server, rounds=effort.long_rounds, tournament=tournament
    ),
    "coordinators_elections": lambda server, effort, tournament: elections(
        server, rounds=effort.long_rounds, tournament=tournament
    ),
    "listeners": _rates(listeners),
    "kinds": _rates(kinds),
    "import_time": lambda server, effort, tournament: import_time(rounds=effort.rounds, tournament=tournament),
}


GROUPS = {
    "redisson": [name for name in FIGURES if name.startswith(("java_", "cross_"))],
    "coordinators": [name for name in FIGURES if name.startswith("coordinators_")],
}
"""Words that stand for several figures."""


def _by_default(*, quick: bool) -> list[str]:
    """All figures, without those that compare with etcd and ZooKeeper; with Redisson if there is Java, and time."""
    java = not quick and shutil.which("java") and shutil.which("mvn")
    left_out = {*GROUPS["coordinators"], *([] if java else GROUPS["redisson"])}
    return [name for name in FIGURES if name not in left_out]


def figure_names(word: str) -> list[str]:
    """What a word of the command line stands for; refuse what is no figure."""
    if word not in FIGURES and word not in GROUPS:
        raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join([*FIGURES, *GROUPS])}")
    return GROUPS.get(word, [word])


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Measure, compare with the bounds, write the results."
    )
    known = ", ".join(FIGURES)
    parser.add_argument(
        "figure",
        nargs="*",
        type=figure_names,
        metavar="FIGURE",
        help=f"of {known}; or redisson, coordinators: all that compare with Redisson, with etcd and ZooKeeper; "
        "by default all but the latter, with --quick without both",
    )
    parser.add_argument(
        "--quick", action="store_true", help="short turns and few rounds: the same ratios, less certain"
    )
    parser.add_argument("--rounds", type=int, help="rounds of the rates and of the import")
    parser.add_argument("--seconds", type=float, help="a contestant's turn in a round of the rates")
    parser.add_argument("--long-rounds", type=int, help="rounds of the waiters and of the contending processes")
    parser.add_argument("--contend-seconds", type=float, help="a turn of the contending processes")
    parser.add_argument("--watch-seconds", type=float, help="how long the waiters' commands are counted")
    parser.add_argument("--lease-seconds", type=float, help="watchdog timeout of the held locks")
    parser.add_argument("--server", metavar="PATH", help="server binary to start; by default the embedded extra's")
    parser.add_argument("--seed", type=int, help="for the order of the contestants")
    parser.add_argument(
        "--calm", action="store_true", help="wait for a quiet machine, and keep the rounds that others disturbed least"
    )
    parser.add_argument(
        "--output",
        type=Path,
        help=f"folder for the results; by default {RESULTS.name}, with --quick {QUICK_RESULTS.name}",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a bound is not kept")
    return parser.parse_args(arguments)


def effort_of(options: argparse.Namespace) -> Effort:
    """The preset, and what the command line changes."""
    preset = QUICK if options.quick else FULL
    chosen = {
        name: getattr(options, name) for name in Effort.__dataclass_fields__ if getattr(options, name) is not None
    }
    return replace(preset, **chosen)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen figures; the exit code."""
    options = parse(arguments)
    effort = effort_of(options)
    output = options.output or (QUICK_RESULTS if options.quick else RESULTS)
    chosen = list(dict.fromkeys(chain.from_iterable(options.figure))) or _by_default(quick=options.quick)
    # SIGTERM must end the server, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    figures: list[Figure] = []
    failed: list[str] = []
    with Server(options.server) as server:
        tournament = Tournament(random.Random(options.seed), server.pid, calm=options.calm)
        about = environment(server.version(), {"effort": "quick" if options.quick else "full"})
        for name in chosen:
            try:
                figure = FIGURES[name](server, effort, tournament)
            except Exception:
                # A contestant that does not do the work has no figure; the others have.
                failed.append(name)
                traceback.print_exc()
            else:
                note = disturbance(figure.samples)
                figures.append(figure if note is None else replace(figure, notes=[*figure.notes, note]))
                print(text(figures[-1]), flush=True)
                write(figures[-1], about, output)
                write_summary(output, FIGURES)
    claims = [claim for figure in figures for claim in figure.claims]
    short = [claim for claim in claims if not claim.passed]
    print(f"{len(claims) - len(short)} of {len(claims)} bounds are kept.")
    for claim in short:
        print(f"  short: {claim.what}: {claim.measured_text}, bound {claim.bound_text}")
    for name in failed:
        print(f"  failed: {name}")
    if output == RESULTS:
        print("python -m benchmarks.plots shows the results in the README and in the documentation.")
    return 1 if failed or (short and options.strict) else 0


if __name__ == "__main__":
    sys.exit(main())
