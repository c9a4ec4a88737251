"""A large file of any format, always the same.

    python benchmarks/large_files.py FORMAT MEGABYTES FILE

The layers, kernels and names of small programs are repeated in time; times, sizes and ids differ.
Prints how many bytes it holds. Without arguments, prints the formats and the suffix of each.
"""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import large_binaries
import large_json
import pyarrow.parquet

from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import read_trace
from stepwhy.show.export.chrome_trace import write_chrome_trace
from stepwhy.trace.store import save

# Names of their files: the formats that are recognised by them.
SUFFIXES = {"kineto": ".pt.trace.json", "xplane": ".xplane.pb", "store": ".stepwhy"}
FORMATS = ("kineto", "xplane", "store", "exported", *large_json.MAKERS, *large_binaries.MAKERS)


def make(name, megabytes, path):
    """Write a file of a format."""
    if name == "kineto":
        beside("scaled_trace.py", path.parent, megabytes)
        next(path.parent.glob("*.json")).rename(path)
    elif name == "xplane":
        beside("generated_xplane.py", path, megabytes)
    elif name == "store":
        profile = path.with_suffix(".xplane.pb")
        beside("generated_xplane.py", profile, megabytes)
        save(read_trace(read_source(profile))[0], path)
        profile.unlink()
    elif name == "exported":
        make("kineto", megabytes, path.with_suffix(".of"))
        trace = read_trace(read_source(path.with_suffix(".of")))[0]
        write_chrome_trace(trace, path)
        path.with_suffix(".of").unlink()
    elif name in large_json.MAKERS:
        large_json.write(name, 1_000_000 * megabytes, path)
    else:
        large_binaries.MAKERS[name](1_000_000 * megabytes, path)


def beside(script, *arguments):
    """Run a script of this folder."""
    command = [sys.executable, Path(__file__).with_name(script), *map(str, arguments)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def uncompressed(path):
    """Bytes that a file holds; of a store those of its columns, but of those with one value."""
    if not zipfile.is_zipfile(path):
        return path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".parquet")]
        return sum(columns_bytes(io.BytesIO(archive.read(name))) for name in members)


def columns_bytes(file):
    """Bytes of the columns of a table, decoded."""
    table = pyarrow.parquet.read_table(file)
    return sum(column.nbytes for column in table.columns if len(column.unique()) > 1)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(print(json.dumps({name: SUFFIXES.get(name, "") for name in FORMATS})))
    make(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    print(uncompressed(Path(sys.argv[3])))
