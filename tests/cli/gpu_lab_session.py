"""Run a session of the GPU lab as on a machine with a GPU, with canned outputs of its programs.

    python gpu_lab_session.py FOLDER CARD KILL_AFTER EXPLANATION [ARGUMENT]...

The process kills itself once it has run so many programs; 0: never.
"""

import contextlib
import importlib.util
import json
import os
import signal
import sys
from pathlib import Path

HARNESS = Path(__file__).parents[2] / "lab/gpu/harness"
PEAKS = {
    "fp32": 50e12, "tf32": 300e12, "bf16": 700e12, "memory": 2.8e12, "pinned": 50e9,
    "pageable": 10e9, "launch_s": 6e-6, "kernel_s": 2e-6, "sync_s": 25e-6, "malloc_s": 350e-6,
    "image_s": 350e-6, "pass_s": 400e-6, "memory_bytes": 80e9, "cores": 16,
}  # fmt: skip
CLOCKS = {
    "samples": 4, "missing": "", "sm_mhz": [1700, 1980, 1980], "power_w": [300, 500, 640],
    "temperature_c": [50, 60, 66], "reasons": {"power cap": 0.25},
}  # fmt: skip


def main():
    folder, card, kill_after, explanation, *words = sys.argv[1:]
    sys.path.insert(0, str(HARNESS))
    from children import Ended

    spec = importlib.util.spec_from_file_location("gpu_lab", HARNESS / "__main__.py")
    lab = importlib.util.module_from_spec(spec)
    sys.modules["gpu_lab"] = lab
    spec.loader.exec_module(lab)
    ran = []

    def run(command, _limit_s, _variables=None):
        ran.append(command)
        if len(ran) == int(kill_after):
            os.kill(os.getpid(), signal.SIGKILL)
        if "--out" in command:
            _write(Path(command[command.index("--out") + 1]), command)
        if "measure_peaks.py" in " ".join(command):
            output = json.dumps(PEAKS)
        elif "explain" in command:
            output = Path(explanation).read_text()
        elif "probe.py" in " ".join(command):
            output = json.dumps({"gpu": True, "held": True, "context": False, "captured": 9,
                                 "loss": 0.5,
                                 "context_before": False, "subscriber": "subscribed"})  # fmt: skip
        else:
            ms = "10.0" if ".faulty." in " ".join(command) else "6.0"
            output = f"loss 1.5 to 0.5\nms per step {' '.join([ms] * 5)}\n"
        return Ended(8 if "channels-last" in command else 0, 0.1, output, "")

    lab.run, lab._ROUNDS = run, 2
    if cores := os.environ.get("CORES_OF_GPU_LAB"):
        os.cpu_count = lambda: int(cores)
    lab.query = lambda _fields: f"{card}\n"
    lab.environment = lambda tiny: {
        "tiny": tiny, "card": card and f"{card} MIG 1g.10gb", "nvidia_smi": f"{card}, 580.1",
        "memory_bytes": 80e9, "driver": "580.1", "date": "2026-01-02",
        "python": "3.12.1", "versions": ["torch 2.11.0"], "missing_names": [],
    }  # fmt: skip
    lab.Clocks = _Clocks
    sys.argv = ["gpu-lab", "--out", folder, "--budget", "1000", *words]
    sys.exit(lab.main())


class _Clocks(contextlib.nullcontext):
    def __enter__(self):
        return self

    def since(self, _started):
        return CLOCKS


def _write(folder, command):
    """What `stepwhy run` or `stepwhy try` leaves."""
    folder.mkdir(parents=True)
    if "try" in command:
        refused = "channels-last" in command
        trial = {"verdict": "refused" if refused else "gain",
                 "reason": "the model has no convolution" if refused else ""}  # fmt: skip
        (folder / "trial.json").write_text(json.dumps(trial))
        return
    window = folder / "process-1/windows/000"
    window.mkdir(parents=True)
    (window / "window.json").write_text('{"first_step": 1, "last_step": 4}')
    (window / "trace.json.gz").write_bytes(os.urandom(1000))
    (folder / "report.html").write_text("a page")


if __name__ == "__main__":
    main()
