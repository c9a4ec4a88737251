"""Chrome trace JSON as records: shared by every importer whose format is built on it.

`Document` reads the list of events in chunks, so that only one chunk at a time exists as Python
objects. `Collector` keeps what is needed later as columns. Each chunk is read by the first of three
readers that succeeds: a typed decode; a decode that coerces records one by one; and a scan for
complete records in text that is not JSON (truncated, NaN, trailing commas). `msgspec` parses the
JSON; only the scan is written here, because no library salvages a truncated file.

Source: the "Trace Event Format" document of the Chromium project (JSON array and object formats).
"""

from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.interning import Codes, KeyCodes
from stepwhy.read.shared.chrome_json.document import Document
from stepwhy.read.shared.chrome_json.events import (
    SLICE,
    A,
    Batch,
    Event,
    count_untimed,
    looks_like_chrome_json,
    phases_of,
)
from stepwhy.read.shared.chrome_json.table import Collector, Place, Table, Title, first_seen
from stepwhy.read.shared.chrome_json.times import LARGEST_NS, usable

__all__ = [
    "LARGEST_NS",
    "SLICE",
    "A",
    "Batch",
    "Codes",
    "Collector",
    "Document",
    "Event",
    "Growing",
    "KeyCodes",
    "Place",
    "Table",
    "Title",
    "count_untimed",
    "first_seen",
    "looks_like_chrome_json",
    "phases_of",
    "usable",
]
