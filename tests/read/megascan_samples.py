"""Generator of MegaScan traces: the raw file of a rank, and ranks aggregated by its script."""

import json

MS = 1_000_000
"""A millisecond in ns, the unit of raw files; aggregated ones are in us."""


def raw(*iterations, rank=0, told=None):
    """The file of one rank.

    Args:
        iterations: (pad_before, duration, [(name, start, end, microbatch, chunk), ...]) in ms.
        rank: Its pipeline stage.
        told: Fields that newer versions add to each record, e.g. {"g_rk": 3, "dev": 1}.
    """
    records = []
    for pad, duration, ranges in iterations:
        records.append({"name": "iteration", "ph": "B", "pad_before": round(pad * MS)})
        ordered = sorted(edges(ranges, rank), key=lambda e: e["rel_ts"])
        records += [{**edge, **(told or {})} for edge in ordered]
        records.append(
            {
                "name": "iteration",
                "ph": "E",
                "rel_ts": round((duration - 0.1) * MS),
                "duration_wall": round(duration * MS),
                "duration_cuda": round((duration - 0.1) * MS),
            }
        )
    return json.dumps(records, indent=2).encode()


def edges(ranges, rank):
    """Begin and end records; what was passed to the scope stands in the end."""
    found = []
    for name, start, end, *labels in ranges:
        found.append({"name": name, "ph": "B", "rel_ts": round(start * MS)})
        microbatch, chunk = labels or (0, 0)
        scope = {"microbatch": microbatch, "model_chunk": chunk, "pp_rank": rank}
        found.append({**scope, "name": name, "ph": "E", "rel_ts": round(end * MS)})
    return found


def aggregated(ranks, *, begins=None, ends=None, whole=False, extra=()):
    """All ranks in one Chrome trace.

    Args:
        ranks: {rank: [(iteration, name, start, end), ...]}, times in ms.
        begins, ends: {iteration: ms} of the marks that some versions write for every rank.
        whole: As newer versions do it: whole slices with the rank's coordinates.
        extra: Further records.
    """
    records = []
    for name, times in (("iteration begin", begins), ("iteration end", ends)):
        for number, time in (times or {}).items():
            records += [chrome(name, "i", time, rank, number) for rank in ranks]
    for rank, ranges in ranks.items():
        for number, name, start, end in ranges:
            if whole:
                told = {"dp_rk": 0, "pp_rk": rank, "tp_rk": 0, "dev": rank, "g_rk": rank}
                one = chrome(name, "X", start, rank, number, told=told)
                records.append({**one, "dur": round((end - start) * 1000)})
                continue
            told = {"microbatch": 0, "model_chunk": 0, "pp_rank": rank}
            records.append(chrome(name, "B", start, rank, number))
            records.append(chrome(name, "E", end, rank, number, told=told))
    return json.dumps([*sorted(records, key=lambda r: r["ts"]), *extra], indent=2).encode()


def chrome(name, ph, time, rank, number, *, told=()):
    return {
        "name": name,
        "cname": "thread_state_running",
        "ph": ph,
        "ts": round(time * 1000),
        "pid": rank,
        "tid": 0,
        "args": {"iteration": number, **dict(told)},
    }
