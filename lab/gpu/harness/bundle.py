"""Write what a machine without a network needs: stepwhy, the lab, and stepwhy's dependencies."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from children import ROOT

# Without numba, which is optional, and NumPy, which PyTorch and JAX bring along.
PACKAGES = (
    "click", "jinja2", "markupsafe", "msgspec", "nvidia-ml-py", "protobuf", "py-spy", "rich",
    "pygments", "markdown-it-py", "mdurl",
)  # fmt: skip
_TAGS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64",
         "manylinux_2_5_x86_64", "manylinux1_x86_64")  # fmt: skip
_START = """#!/bin/sh
# Runs the GPU lab: ./gpu-lab --help
exec "${PYTHON:-python3}" "$(dirname "$0")/lab/gpu/harness" "$@"
"""
START_STEPWHY = """#!/bin/sh
# Runs stepwhy with the dependencies of this folder: ./stepwhy --help
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
export PYTHONPATH="$here/src:$here/site/$version${PYTHONPATH:+:$PYTHONPATH}"
export PATH="$here/site/$version/bin:$PATH"
exec "$python" -m stepwhy "$@"
"""


def write(file: Path, versions: list[str]) -> int:
    """Write the bundle; returns an exit code.

    Args:
        file: The archive, a tar.gz.
        versions: Versions of Python that it is for, such as '3.12'.
    """
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        for version in versions:
            if not _install(site / version, version):
                return 1
        for name, text in (("gpu-lab", _START), ("stepwhy", START_STEPWHY)):
            start = Path(folder) / name
            start.write_text(text, encoding="utf-8")
            start.chmod(0o755)
        with tarfile.open(file, "w:gz", compresslevel=6) as archive:
            for path, name in (
                (ROOT / "src", "src"), (ROOT / "lab/gpu", "lab/gpu"), (site, "site"),
                (Path(folder) / "gpu-lab", "gpu-lab"), (Path(folder) / "stepwhy", "stepwhy"),
            ):  # fmt: skip
                archive.add(path, f"gpu-lab/{name}", filter=_wanted)
    print(f"{file}: {file.stat().st_size / 2**20:.1f} MiB, for Python {', '.join(versions)}.")
    print("Copy it to the machine, then: tar xzf FILE && gpu-lab/gpu-lab")
    return 0


def _install(target: Path, version: str) -> bool:
    """Install the dependencies for a version of Python that need not be here."""
    tags = [word for tag in _TAGS for word in ("--platform", tag)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check",
         "--no-deps", "--no-compile", "--only-binary", ":all:", "--target", str(target),
         "--python-version", version, "--implementation", "cp", *tags, *PACKAGES],
        check=False,
    )  # fmt: skip
    if done.returncode:
        print(f"The dependencies for Python {version} could not be installed.", file=sys.stderr)
    return done.returncode == 0


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = member.name.split("/")
    return None if "__pycache__" in parts or member.name.endswith(".pyc") else member
