"""Generator of timelines of SageMaker Debugger."""

import json

EPOCH_US = 1_600_000_000_000_000


def timeline(**rows):
    """A file with a row for each keyword ('_' for ':' and '.'): (name, start, duration), us."""
    records = [_named(0, {"start_time_since_epoch_in_micros": EPOCH_US})]
    for pid, (row, ranges) in enumerate(rows.items(), start=1):
        title = row.replace("_", ":", 1).replace("_", ".")
        records.append(_named(pid, {"name": title}))
        records += [
            {"ph": "X", "name": name or title, "pid": pid, "ts": start, "dur": length}
            for name, start, length in ranges
        ]
    lines = ",\n".join(json.dumps(record) for record in records)
    return f"[\n{lines}\n]\n".encode()


def _named(pid, args):
    return {"name": "process_name", "ph": "M", "pid": pid, "args": args}


def fetches(*times):
    """Fetches of batches: (start, duration) of each, us."""
    return timeline(DataIterator=[("dataset::GetNext", *each) for each in times])


def steps(count=6, first_us=5000, step_us=1000):
    """Steps of a training, and of an evaluation after it."""
    train = [("", 0, first_us)]
    train += [("", first_us + n * step_us, step_us - 10) for n in range(count - 1)]
    end = first_us + count * step_us
    return timeline(
        Step_ModeKeys_TRAIN=train, Step_ModeKeys_EVAL=[("", end, 300), ("", end + 400, 300)]
    )


def seeds():
    """Names and contents of valid files."""
    return [
        ("1590461127873222_0001_model_timeline.json", fetches((0, 9), (2, 5), (9, 20), (40, 3))),
        ("1594662624718694_905-host_pythontimeline.json", steps()),
    ]


EXTREMES = {
    "fetches": lambda size: fetches(*((n * 10, 9) for n in range(size // 80))),
    "rows": lambda size: timeline(
        DataIterator=[("dataset::GetNext", 0, 5)],
        **{f"Row_{n}": [("", 0, 1)] for n in range(size // 160)},
    ),
}
"""Files with much of one thing, of about `size` bytes."""
