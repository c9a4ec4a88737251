"""What XProf's overview page says of the steps of an XPlane profile, as JSON on the last line."""

import json
import sys
import tempfile
from pathlib import Path

from xprof.convert import raw_to_tool_data

# It keeps what it computed beside the profile, and uses that the next time.
with tempfile.TemporaryDirectory() as folder:
    link = Path(folder, "host.xplane.pb")
    link.symlink_to(Path(sys.argv[1]).resolve())
    page, _ = raw_to_tool_data.xspace_to_tool_data(
        [str(link)], "overview_page", {"use_saved_result": False}
    )
table = next(t for t in json.loads(page) if any(c["id"] == "stepTimeMs" for c in t["cols"]))
names = [c["id"] for c in table["cols"]]
steps = [dict(zip(names, (cell["v"] for cell in row["c"]), strict=True)) for row in table["rows"]]


def mean_ns(name):
    """Mean of a column in milliseconds, ns."""
    return round(1e6 * sum(step[name] for step in steps) / max(len(steps), 1))


print(
    json.dumps(
        {
            "steps": len(steps),
            "step_ns": mean_ns("stepTimeMs"),
            "compute_ns": mean_ns("deviceComputeTimeMs"),
        }
    )
)
