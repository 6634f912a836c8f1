"""Run many programs: ``python -m tests.programs --setting threads --programs 1000 --steps 1000 --seed 5 --jobs 2``."""

from __future__ import annotations

import argparse
import threading
import time
from random import Random
from collections import Counter

from tests.programs.actors import run_at_once
from tests.programs.programs import SETTINGS, Drawing
from tests.programs.running import Fault, Run, TooSlow
from tests.programs.shrinking import shrink
from tests.servers import VALKEY, Server


def one(setting, seed, steps, port):
    async def program():
        run = Run(port)
        given = steps if isinstance(steps, list) else None
        drawing = Drawing(SETTINGS[setting], Random(seed), run.model)
        try:
            with run:
                for step in given if given is not None else (drawing.step() for _ in range(steps)):
                    await run.do(step)
                while (step := drawing.unwind()) is not None:
                    assert await run.do(step)
        except (Fault, TooSlow) as error:
            return run, error
        return run, None

    result = []

    def work():
        try:
            result.append(run_at_once(program()))
        except BaseException as e:
            result.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


parser = argparse.ArgumentParser()
parser.add_argument("--setting", default="thread")
parser.add_argument("--programs", type=int, default=10)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--shrink", action="store_true")
args = parser.parse_args()
with Server.start(VALKEY) as server:
    began = time.monotonic()
    done = 0
    spent = 0
    kinds = Counter()
    for seed in range(args.seed, args.seed + args.programs):
        run, fault = one(args.setting, seed, args.steps, server.port)
        done += len(run.steps)
        kinds[type(fault).__name__] += 1
        if fault:
            print(seed, len(run.steps), type(fault).__name__, str(fault)[:300])
            t = time.monotonic()
            if args.shrink and isinstance(fault, Fault):

                def fails(steps):
                    _, other = one(args.setting, seed, steps, server.port)
                    return isinstance(other, Fault) and other.kind == fault.kind

                short = shrink(run.steps, fails)
                for step in short:
                    print("      ", step)
                print("   ", one(args.setting, seed, short, server.port)[1])
            spent += time.monotonic() - t
    print(kinds, done / (time.monotonic() - began - spent), "steps/s")
