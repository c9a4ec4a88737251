"""Harmless damage to files of every format: only what is damaged is lost, and all ways agree."""

from itertools import islice

import pytest
from fuzz.formats import BY_NAME, seeds
from fuzz.slight.damages import Loses, damages, middle
from fuzz.slight.judge import Whole

SEEDS = 2  # of each format: about 10 s in all
EVENTS = b'{"a": [1, 2], "traceEvents": [%b], "b": 1}'
RECORD = b'{"ph": "X", "name": "n%d", "ts": %d, "dur": 1}'


@pytest.mark.parametrize("name", BY_NAME)
def test_only_what_is_damaged_is_lost(name):
    faults = {}
    # The last seeds of a format have most kinds of records.
    for number, files in enumerate(islice(reversed(seeds(name)), SEEDS)):
        whole = Whole(next(iter(files.values())), name)
        for damage in damages(whole.data):
            found = whole.judge(damage).faults
            if found:
                faults[number, damage.name] = found
    assert faults == {}


def events(count):
    return EVENTS % b", ".join(RECORD % (n, n) for n in range(count))


def test_the_record_in_the_middle_is_damaged():
    place = middle(events(9))
    assert place.record == RECORD % (4, 4)
    assert place.data[place.last :] == b'], "b": 1}'


def test_damage_of_a_list_of_events_is_of_every_kind():
    found = {damage.name: damage for damage in damages(events(9))}
    assert len(found) == 17
    assert found["NaN as time"].data.count(b'"dur": NaN') == 1
    assert found["null as name"].data.count(b'"name": null') == 1
    assert found["double comma"].loses is Loses.NOTHING
    assert found["cut at 50%"].data == events(9)[: len(events(9)) // 2]


def test_a_loss_is_noticed():
    (files,) = seeds("horovod")[:1]
    whole = Whole(files["timeline.json"], "timeline.json")
    lost = whole.data[: -len(whole.data) // 3]
    damage = next(islice(damages(whole.data), 1))._replace(data=lost)
    assert whole.judge(damage).faults
