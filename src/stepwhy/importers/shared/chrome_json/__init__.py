"""Chrome trace JSON as records: shared by every importer whose format is built on it.

The list of events is read piece by piece (`Document`), so that only one piece at a time exists as
objects; what is needed later is kept as columns (`Collector`). Each piece goes through three
readers, from fast to forgiving, with the same result: a typed decode; a decode whose records are
coerced one by one; and a scan for complete records where the text is not JSON (torn, NaN, trailing
commas). The JSON itself is parsed by `msgspec`; only the scan is written here, because no library
salvages a torn file.

Source: the "Trace Event Format" document of the Chromium project (JSON array and object formats).
"""

from stepwhy.columns.growing import Growing
from stepwhy.columns.interning import Codes, KeyCodes
from stepwhy.importers.shared.chrome_json.codes import first_seen
from stepwhy.importers.shared.chrome_json.document import Document
from stepwhy.importers.shared.chrome_json.events import (
    SLICE,
    A,
    Batch,
    Event,
    count_untimed,
    looks_like_chrome_json,
    phases_of,
)
from stepwhy.importers.shared.chrome_json.table import Collector, Place, Table, Title
from stepwhy.importers.shared.chrome_json.times import LARGEST_NS, usable

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
