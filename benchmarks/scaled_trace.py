"""Kineto traces as large as wanted: one recording, repeated in time, always the same bytes.

    python benchmarks/scaled_trace.py FOLDER MEGABYTES             # FOLDER/k<MEGABYTES>.json
    python benchmarks/scaled_trace.py FOLDER MEGABYTES --of TRACE  # FOLDER/scaled.json
    python benchmarks/scaled_trace.py FOLDER 0 --of TRACE          # FOLDER/scaled.json, as it is

Prints the path and what is in the trace as JSON; null where the one given is no Kineto trace.

What repeats is a recorded trace or, without one, a generated one whose records have the arguments
that recorded ones have. Each repetition begins where the last one ended, with correlation ids of
its own and its steps numbered on, so that totals are those of one repetition times their number.
"""

import argparse
import gzip
import json
import os
from collections import defaultdict
from pathlib import Path

from generated_trace import kineto_trace

BUSY = frozenset({"kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset"})
NUMBERED = ("correlation", "External id", "external id", "Ev Idx")
HEADER = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85899345920,
                          "computeMajor": 8, "computeMinor": 0, "numSms": 108}],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
    "baseTimeNanoseconds": 1700000000000000000,
}  # fmt: skip
OPERATION = {
    "Record function id": 0,
    "Concrete Inputs": ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "1"],
    "Input type": ["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"],
    "Input Strides": [[200704, 3136, 56, 1], [576, 9, 3, 1], [], [], [], [], []],
}
KERNEL = {
    "queued": 0, "device": 0, "context": 1, "stream": 7, "registers per thread": 32,
    "shared memory": 0, "blocks per SM": 4.740741, "warps per SM": 37.925926,
    "grid": [512, 1, 1], "block": [256, 1, 1], "est. achieved occupancy %": 59,
}  # fmt: skip
CALL = {"cbid": 211}
WRITTEN = '"written": '
LONGEST_END = 1000  # bytes


def recorded(path):
    """Records and header of a recorded trace.

    Raises:
        LookupError: It has no records.
    """
    data = Path(path).read_bytes()
    document = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    if isinstance(document, list):
        return document, {"schemaVersion": 1}
    return document.pop("traceEvents"), document


def generated(events=30_000):
    """Records and header of a generated trace, with the arguments that Kineto writes."""
    records = []
    for number, record in enumerate(json.loads(kineto_trace(events))["traceEvents"]):
        args, category = record["args"], record["cat"]
        more = {"cpu_op": OPERATION, "kernel": KERNEL, "cuda_runtime": CALL}.get(category, {})
        record["args"] = {"External id": number // 4 + 1, **more, **args}
        records.append(record)
        if "correlation" in args:
            records.append(arrow(record, args["correlation"]))
    return records, HEADER


def arrow(record, number):
    """The arrow that Kineto draws from a call to its kernel: its beginning, or its end."""
    place = {key: record[key] for key in ("pid", "tid", "ts")}
    end = {"ph": "f", "bp": "e"} if record["cat"] == "kernel" else {"ph": "s"}
    return {**end, "id": number, **place, "cat": "ac2g", "name": "ac2g"}


class Repetition:
    """Repeats records in time.

    Args:
        records: The records of one repetition.
    """

    def __init__(self, records):
        timed = [r for r in records if isinstance(r.get("ts"), int | float) and r["ph"] != "M"]
        start = min(r["ts"] for r in timed)
        self.records = records
        self.span_us = int(max(r["ts"] + r.get("dur", 0) for r in timed) - start) + 100
        ids = [r["args"].get(k, 0) for r in records if r.get("args") for k in NUMBERED]
        self.ids = 1 + max((i for i in ids if isinstance(i, int)), default=0)
        self.steps = len({r["name"] for r in records if r["name"].startswith("ProfilerStep#")})

    def record(self, record, number):
        """A record of one repetition."""
        moved = dict(record)
        if isinstance(record.get("ts"), int | float):
            moved["ts"] = round(record["ts"] + number * self.span_us, 3)
        if isinstance(record.get("id"), int):
            moved["id"] = record["id"] + number * self.ids
        if record["name"].startswith("ProfilerStep#"):
            step = int(record["name"].partition("#")[2]) + number * self.steps
            moved["name"] = f"ProfilerStep#{step}"
        if record.get("args"):
            args = moved["args"] = dict(record["args"])
            for key in NUMBERED:
                if isinstance(args.get(key), int) and args[key] > 0:
                    args[key] += number * self.ids
        return moved


def totals(records):
    """What the records say of the devices.

    Returns:
        Number of kernels, sum of their durations in ns, and time in which a device was busy in ns,
        summed over devices.
    """
    kernels = [r for r in records if r.get("cat", "").lower() == "kernel"]
    work = defaultdict(list)
    for record in records:
        if record.get("cat", "").lower() in BUSY:
            place = record["pid"], record["args"].get("device")
            work[place].append((record["ts"], record["ts"] + record["dur"]))
    return {
        "kernels": len(kernels),
        "kernel_ns": round(1000 * sum(r["dur"] for r in kernels)),
        "busy_ns": round(1000 * sum(map(covered_us, work.values()))),
    }


def covered_us(intervals):
    """Length of the union of intervals, each a start and an end."""
    covered, reached = 0, float("-inf")
    for start, end in sorted(intervals):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def write_scaled(path, records, header, size):
    """Write a trace of at least this many bytes, which says at its end what is in it.

    Returns:
        Numbers of events, repetitions and kernels, and times of the devices as `totals` has them.
    """
    repetition = Repetition(records)
    encode = json.JSONEncoder().encode
    count = events = 0
    with Path(path).open("w") as file:
        file.write(encode(header)[:-1] + ',\n"traceEvents": [\n')
        while file.tell() < size or not count:
            chosen = [r for r in records if count == 0 or r["ph"] != "M"]
            lines = ",\n".join(encode(repetition.record(r, count)) for r in chosen)
            file.write((",\n" if count else "") + lines)
            count += 1
            events += len(chosen)
        whole = {key: count * value for key, value in totals(records).items()}
        written = {"events": events, "repetitions": count, **whole}
        file.write(f'\n],\n"traceName": "scaled.json",\n{WRITTEN}{encode(written)}}}\n')
    return written


def kept(folder, megabytes):
    """The generated trace of a size in a folder, and what is in it; written where it is not there.

    Args:
        folder: Where it is, or will be, as `k<megabytes>.json`.
        megabytes: Its size at least, MB.
    """
    path = Path(folder) / f"k{megabytes}.json"
    written = written_in(path)
    if written is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        written = write_scaled(part, *generated(), megabytes * 1_000_000)
        part.replace(path)
    return path, written


def written_in(path):
    """What a trace says at its end of what is in it, None where it says nothing."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - LONGEST_END, 0))
        found = file.read().decode().rpartition(WRITTEN)
    return json.loads(found[2].rstrip()[:-1]) if found[1] else None


def plain(path, trace):
    """A recorded trace, decompressed, and what is in it."""
    data = Path(trace).read_bytes()
    path.write_bytes(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    return totals(recorded(trace)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("megabytes", type=int)
    parser.add_argument("--of", metavar="TRACE", help="recorded trace to repeat")
    given = parser.parse_args()
    path = given.folder / "scaled.json"
    try:
        if not given.of:
            path, written = kept(given.folder, given.megabytes)
        elif given.megabytes:
            written = write_scaled(path, *recorded(given.of), given.megabytes * 1_000_000)
        else:
            written = plain(path, given.of)
    except LookupError:
        written = None
    print(json.dumps(written and [str(path), written]))


if __name__ == "__main__":
    main()
