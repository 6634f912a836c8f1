"""Run many random programs.

``python -m tests.programs --setting threads --programs 1000 --steps 1000 --seed 5 --jobs 2``; without a setting it runs
programs of all. Each fault is printed with the command that repeats it, and as a short program.
"""

from __future__ import annotations

import sys

if "greenlets" in sys.argv:  # Before anything else is imported.
    from gevent import monkey

    monkey.patch_all()

import argparse
import subprocess
import time
from collections import Counter

from tests.programs.printing import as_python
from tests.programs.programs import SETTINGS, Setting, drawn, given
from tests.programs.running import Fault, run_steps
from tests.programs.shrinking import shrink
from tests.programs.steps import Step
from tests.servers import VALKEY, Server


def report(setting: Setting, seed: int, count: int, steps: list[Step], fault: Fault, port: int) -> None:
    """Print a fault, the command that repeats it, and the shortest program that meets a fault of its kind."""
    print(f"{setting.name}, seed {seed}: {fault}", flush=True)
    print(f"  python -m tests.programs --setting {setting.name} --programs 1 --steps {count} --seed {seed}")

    def still_fails(steps: list[Step]) -> bool:
        _, other = run_steps(given(setting, steps), port, tasks=setting.tasks)
        return isinstance(other, Fault) and other.kind == fault.kind

    run, _ = run_steps(given(setting, shrink(steps, still_fails)), port, tasks=setting.tasks)
    print("".join(f"    {step!r},\n" for step in run.steps))
    print(as_python(run.steps, tasks=setting.tasks), flush=True)


def run_setting(setting: Setting, seeds: range, count: int, until: float, *, shrinks: bool) -> int:
    """Run the programs of one setting. Returns how many met a fault."""
    ends: Counter[str] = Counter()
    began, done = time.process_time(), 0
    with Server(VALKEY) as server:
        for seed in seeds:
            if time.monotonic() > until:
                break
            run, fault = run_steps(drawn(setting, seed, count), server.port, tasks=setting.tasks)
            done += len(run.steps)
            ends[type(fault).__name__ if fault else "without a fault"] += 1
            if isinstance(fault, Fault) and shrinks:
                report(setting, seed, count, run.steps, fault, server.port)
            elif isinstance(fault, Fault):
                print(f"{setting.name}, seed {seed}: {fault}"[:400], f"; the last steps: {run.steps[-4:]}", flush=True)
    speed = done / (time.process_time() - began)
    print(f"{setting.name}: {dict(ends)}, {done} steps, {speed:.0f} for a second of processor time", flush=True)
    return ends["Fault"]


def run_all(names: list[str], args: argparse.Namespace) -> int:
    """Run settings in processes of their own, so many at once. Returns how many have failed."""
    waiting = [
        [name, args.seed + job * args.programs] for name in names for job in range(args.jobs if len(names) == 1 else 1)
    ]
    running: list[subprocess.Popen[bytes]] = []
    failed = 0
    while waiting or running:
        while waiting and len(running) < args.jobs:
            name, seed = waiting.pop(0)
            options = {"--setting": name, "--seed": seed, "--programs": args.programs, "--steps": args.steps}
            options["--minutes"] = args.minutes * args.jobs / max(len(names), args.jobs)
            words = [str(word) for option in options.items() for word in option]
            running.append(subprocess.Popen([sys.executable, "-m", "tests.programs", *words]))
        for process in [process for process in running if process.poll() is not None]:
            running.remove(process)
            failed += process.returncode != 0
        time.sleep(0.1)
    return failed


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description="Run random programs.")
    parser.add_argument("--setting", choices=SETTINGS, help="one setting (all)")
    parser.add_argument("--programs", type=int, default=10**6, help="programs of each setting, at most")
    parser.add_argument("--steps", type=int, default=400, help="steps of each program (400)")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (a fresh one)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (1)")
    parser.add_argument("--minutes", type=float, default=10**6, help="how long, in all")
    parser.add_argument("--no-shrinking", action="store_true", help="only print what was met")
    args = parser.parse_args()
    if args.seed is None:
        args.seed = time.time_ns() % 10**9
    print(f"random programs, from seed {args.seed}", flush=True)
    if args.setting is None or args.jobs > 1:
        return run_all([args.setting] if args.setting else list(SETTINGS), args) > 0
    until = time.monotonic() + 60 * args.minutes
    seeds = range(args.seed, args.seed + args.programs)
    return run_setting(SETTINGS[args.setting], seeds, args.steps, until, shrinks=not args.no_shrinking) > 0


if __name__ == "__main__":
    sys.exit(main())
