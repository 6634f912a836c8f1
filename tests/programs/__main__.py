"""Run many programs: ``python -m tests.programs --setting threads --programs 1000 --steps 1000 --seed 5 --jobs 2``."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random

from tests.programs.programs import SETTINGS, Drawing
from tests.programs.running import Fault, Run, run_program
from tests.programs.shrinking import shrink
from tests.servers import VALKEY, Server


def one(setting, seed, steps, port):
    setting = SETTINGS[setting]

    async def program(run: Run):
        given = steps if isinstance(steps, list) else None
        drawing = Drawing(setting, Random(seed), run.model)
        for step in given if given is not None else (drawing.step() for _ in range(steps)):
            await run.do(step)
        while (step := drawing.unwind()) is not None:
            assert await run.do(step)

    return run_program(program, port, setting.form)


parser = argparse.ArgumentParser()
parser.add_argument("--setting", default="thread")
parser.add_argument("--programs", type=int, default=10)
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--shrink", action="store_true")
args = parser.parse_args()
with Server.start(VALKEY) as server:
    began = time.monotonic()
    cpu = time.process_time()
    done = 0
    spent = 0
    kinds = Counter()
    for seed in range(args.seed, args.seed + args.programs):
        run, fault = one(args.setting, seed, args.steps, server.port)
        done += len(run.steps)
        kinds[type(fault).__name__] += 1
        if fault:
            print(seed, len(run.steps), type(fault).__name__, str(fault)[:300])
            t=time.monotonic()
            if args.shrink and isinstance(fault, Fault):
                def fails(steps):
                    _, other = one(args.setting, seed, steps, server.port)
                    return isinstance(other, Fault) and other.kind == fault.kind
                short = shrink(run.steps, fails)
                for step in short: print("      ", step)
                print("   ", one(args.setting, seed, short, server.port)[1])
            spent += time.monotonic()-t
    print(kinds, done / (time.monotonic() - began - spent), "steps/s", done/(time.process_time()-cpu))
