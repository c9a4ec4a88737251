"""What is kept of a Chrome trace while its records go by: columns, and the names of its rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from stepwhy.read.formats.chrome_trace.counters import whole_numbers
from stepwhy.read.shared.chrome_json import Collector, Document, phases_of
from stepwhy.read.shared.chrome_samples import Samples
from stepwhy.read.shared.chrome_spans import ASYNC, ON_THREAD, Identified, Identities, of_phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json import Event, Place
    from stepwhy.trace import Health

Args = dict[str, Any]

METADATA: Final = ord("M")
"""Phase of the records that name rows."""


class Titles:
    """What a file calls its processes (several names each, in order) and threads."""

    def __init__(self) -> None:
        self.processes: dict[Any, dict[str, None]] = defaultdict(dict)
        self.threads: dict[Place, str] = {}

    def learn(self, events: Iterable[Event[Args]]) -> None:
        """Take names from records of metadata."""
        for event in events:
            args = event.args or {}
            name, labels = args.get("name"), args.get("labels")
            if event.name == "process_name" and isinstance(name, str):
                self.processes[event.pid][name.strip()] = None
            elif event.name == "process_labels" and isinstance(labels, str):
                self.processes[event.pid][labels.strip()] = None
            elif event.name == "thread_name" and isinstance(name, str):
                self.threads[event.pid, event.tid] = name.strip()


class Found(msgspec.Struct):
    """What a file holds.

    Args:
        ranges: Records of ranges on threads.
        detached: Records of ranges that an id holds together.
        samples: Samples of counters.
        titles: Names of rows.
        phases: How many records there are of every phase, by its code point; 0 stands for those
            that are no single character.
    """

    ranges: Collector = msgspec.field(default_factory=Collector)
    detached: Collector = msgspec.field(default_factory=Collector)
    samples: Samples = msgspec.field(default_factory=lambda: Samples(whole_numbers))
    titles: Titles = msgspec.field(default_factory=Titles)
    phases: Counter[int] = msgspec.field(default_factory=Counter)


def collect(source: Source, health: Health) -> Found:
    """Read a file.

    Args:
        source: The file.
        health: Counts what cannot be read.

    Raises:
        CorruptInputError: It holds not a single complete record.
    """
    found, identities = Found(), Identities()
    for batch in Document(source, Args, health, event=Identified, may_be_unclosed=True):
        found.phases.update(phases_of(batch))
        found.ranges.add(batch, of_phase(batch, ON_THREAD))
        metadata = [batch.events[i] for i in of_phase(batch, (METADATA,)).tolist()]
        found.titles.learn(metadata)
        rows = of_phase(batch, ASYNC)
        detached: list[Any] = [batch.events[i] for i in rows.tolist()]
        found.detached.add(batch, rows, **identities.of(detached))
        found.samples.add(batch)
    return found
