"""What it costs to merge and compare many reduced ranks.

    python benchmarks/many_ranks.py [RANKS] [--steps N] [--collectives N] [--write FILE]

Simulates ranks that exchange data in pairs and all together, one of which is late, as the bytes to
which `stepwhy explain` reduces each trace. Prints their size, and the time to decode, merge and
compare them, and checks that the late rank is found and that the order of merging changes nothing.
"""

import argparse
import json
import random
import resource
import sys
import time
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.answers.rank_table import rank_uses
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.late_ranks import lateness_of
from stepwhy.analyse.ranks.calls import RunCalls
from stepwhy.analyse.ranks.collectives import Collectives, Role
from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.engine.analysed import Analysed
from stepwhy.engine.merging import Parts, ranks_of_run
from stepwhy.engine.ranks import choose
from stepwhy.engine.reduction import Part
from stepwhy.engine.summaries import decode, encode
from stepwhy.result import CATEGORIES, Breakdown, Device, Input, TraceTotals
from stepwhy.trace import Meta, TraceBuilder

WORK_NS, TRANSFER_NS = 400_000, 100_000
LATE = 0.25  # of the step
SHUFFLES = 3


def part_of(number, ranks, steps, count, rng):
    """One reduced rank: `count` collectives in each step, every other one within a pair."""
    late_ns = round(LATE * count * (WORK_NS + TRANSFER_NS))
    own_ns = rng.normal(WORK_NS, 2_000, (steps, count)).astype(np.int64)
    own_ns[:, 0] += late_ns if number == ranks // 3 else 0
    dur_ns = TRANSFER_NS + rng.integers(0, 20_000, (steps, count))
    dur_ns[:, 0] += WORK_NS + 10_000 + late_ns - own_ns[:, 0]
    ends = np.cumsum((own_ns + dur_ns).ravel())
    starts = rng.integers(0, 10**9) + ends - dur_ns.ravel()
    pair = f"[{number - number % 2}, {number - number % 2 + 1}]"
    roles = (
        Role("all-reduce", "dp", "", "dp", ranks),
        Role("all-gather", f"tp{number // 2}", pair, "tp", 2),
    )
    collectives = Collectives(
        roles=roles,
        role=np.tile(np.arange(count) % 2, steps),
        step=np.repeat(np.arange(steps), count),
        start_ns=starts,
        dur_ns=dur_ns.ravel(),
        bytes=np.tile(np.where(np.arange(count) % 2, 5_000_000, 50_000_000), steps),
        steps=np.arange(steps),
        numbering="marker",
    )
    return Part(number, (analysed(number, ranks, own_ns, dur_ns, collectives),))


def analysed(number, ranks, own_ns, dur_ns, collectives):
    """The rest of a reduced rank: its breakdown, one device, no findings."""
    per_step = np.zeros((len(own_ns), len(CATEGORIES)), dtype=np.int64)
    per_step[:, CATEGORIES.index("compute")] = own_ns.sum(axis=1)
    per_step[:, CATEGORIES.index("communication")] = dur_ns.sum(axis=1)
    mean = dict(zip(CATEGORIES, per_step.mean(axis=0).astype(int).tolist(), strict=True))
    path = f"traces/rank{number}.pt.trace.json.gz"
    rank = Rank(number, 0, mean, own_ns.sum(axis=1), collectives=collectives, per_step=per_step)
    wall_ns = sum(mean.values())
    device = Device("GPU:0", "gpu", wall_ns, 1.0, wall_ns, 0, 0, 0, 0, 0, "NVIDIA H100", mean)
    return Analysed(
        path=path,
        meta=Meta("kineto", "pytorch", rank=number, world_size=ranks),
        record=number.to_bytes(16, "little"),
        is_cut=False,
        input=Input(path, "kineto", 100_000, 100_000),
        bound_by="communication",
        models=("NVIDIA H100",),
        breakdown=Breakdown(wall_ns, mean, {}),
        devices=(device,),
        totals=TraceTotals(wall_ns * len(own_ns), ()),
        findings=(),
        rank=rank,
        calls=RunCalls(),
        place=(number, 0),
    )


class Timed:
    """Measures the CPU time of blocks."""

    def __init__(self):
        self.seconds = {}

    def __call__(self, name, call):
        begun = time.process_time()
        value = call()
        self.seconds[name] = round(time.process_time() - begun, 3)
        return value


def merged(parts, order):
    """Merge parts one by one, in an order."""
    found = Parts()
    for number in order:
        found.merge(Parts([parts[number]]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ranks", nargs="?", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--collectives", type=int, default=16)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    rng, timed = np.random.default_rng(1), Timed()
    made = (
        part_of(n, asked.ranks, asked.steps, asked.collectives, rng) for n in range(asked.ranks)
    )
    encoded = timed("make and encode", lambda: [encode(part) for part in made])
    parts = timed("decode", lambda: [decode(data) for data in encoded])
    order = list(range(asked.ranks))
    run = timed("merge", lambda: merged(parts, order))
    ranks, _ = timed("check", lambda: ranks_of_run(run))
    for _ in range(SHUFFLES):
        random.shuffle(order)
        again = ranks_of_run(merged(parts, order))[0]
        if [one.path for one in again] != [one.path for one in ranks]:
            sys.exit("the order of merging changes the ranks")
    timed("choose", lambda: choose(ranks))
    facts = Facts(_empty(ranks[0].meta), [one.rank for one in ranks])
    late = timed("find late ranks", lambda: facts.derived(lateness_of))
    if late[0].late is None or late[0].late.ranks != (asked.ranks // 3,):
        sys.exit(f"the late rank was not found: {late[0].late}")
    rows = timed("table of ranks", lambda: rank_uses(facts))
    if sum(row.late_steps is not None for row in rows) != 1:
        sys.exit("the table names other late ranks")
    result = {
        "ranks": asked.ranks,
        "steps": asked.steps,
        "collectives": asked.collectives,
        "bytes_per_rank": round(sum(map(len, encoded)) / asked.ranks),
        "cpu_s": timed.seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    print(json.dumps(result, indent=1))
    if asked.write:
        asked.write.write_text(json.dumps(result, indent=1) + "\n")


def _empty(meta):
    return replace(TraceBuilder().finish(meta), meta=meta)


if __name__ == "__main__":
    main()
