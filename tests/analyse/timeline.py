"""Small traces drawn by hand: tracks at first use, times in one unit."""

from itertools import pairwise

import numpy as np

from stepwhy.trace import NULL, Copy, DeviceKind, Kind, Meta, Role, TraceBuilder

MS = 1_000_000
STEP = "ProfilerStep#1"


class Timeline:
    """Collects slices [start, end) in multiples of `unit_ns`.

    Args:
        unit_ns: Length of one unit of time.
    """

    def __init__(self, unit_ns=MS):
        self.builder = TraceBuilder()
        self.unit_ns = unit_ns

    def thread(self, name="main", process=1):
        """A host thread."""
        number = self.builder.intern(name)
        return self.builder.track(Role.HOST_THREAD, name, process=process, thread=number)

    def stream(self, device="GPU:0", number=7, kind=DeviceKind.GPU):
        """A stream of an accelerator."""
        row = self.builder.device(device, kind)
        return self.builder.track(Role.STREAM, f"stream {number}", thread=number, device=row)

    def executor(self, device="CPU:0", lane=0):
        """A lane of the op executor of a CPU device."""
        row = self.builder.device(device, DeviceKind.CPU)
        return self.builder.track(Role.EXECUTOR, f"lane {lane}", thread=lane, device=row)

    def add(self, track, kind, start, end, *, name="", **values):
        """One slice; `scope` and `source` may be given as text."""
        for text in ("scope", "source"):
            if text in values:
                values[text] = self.builder.intern(values[text])
        at, dur = round(start * self.unit_ns), round((end - start) * self.unit_ns)
        return self.builder.slice(track, kind, name or kind.name, at, dur, **values)

    def steps(self, *bounds, track=None):
        """Markers of consecutive steps."""
        track = self.thread() if track is None else track
        for start, end in pairwise(bounds):
            self.add(track, Kind.STEP, start, end, name=STEP)
        return self

    def launch(
        self, call, work, correlation, *, kind=Kind.KERNEL, track=None, stream=None, **values
    ):
        """A host call [start, end) and the device slice that it caused."""
        track = self.thread() if track is None else track
        stream = self.stream() if stream is None else stream
        self.add(track, Kind.LAUNCH, *call, correlation=correlation)
        self.add(stream, kind, *work, correlation=correlation, **values)

    def copy(self, start, end, direction=Copy.H2D, size=NULL, stream=None):
        """A copy on a device stream."""
        stream = self.stream() if stream is None else stream
        self.add(stream, Kind.MEMCPY, start, end, copy=int(direction), bytes=size)

    def mark(
        self,
        start,
        end,
        *,
        profiled=0,
        graph=None,
        wait=None,
        cpu=None,
        delay=None,
        light=0,
        built=None,
        optimizer=None,
        drained=NULL,
    ):
        """A step of the log, with times in the run call, in a loader, on a core and so on."""
        self.builder.add(
            "marks",
            start_ns=round(start * self.unit_ns),
            dur_ns=round((end - start) * self.unit_ns),
            profiled=profiled,
            light=light,
            graph_ns=NULL if graph is None else round(graph * self.unit_ns),
            input_wait_ns=NULL if wait is None else round(wait * self.unit_ns),
            compile_ns=NULL if built is None else round(built * self.unit_ns),
            optimizer_ns=NULL if optimizer is None else round(optimizer * self.unit_ns),
            cpu_ns=NULL if cpu is None else round(cpu * self.unit_ns),
            run_delay_ns=NULL if delay is None else round(delay * self.unit_ns),
            drained=drained,
        )

    def trace(self, **meta):
        """The finished trace."""
        return self.builder.finish(Meta("test", **meta))


def in_units(times_ns, unit_ns=MS):
    """Times as multiples of the unit."""
    return [t / unit_ns for t in times_ns.tolist()]


class Run(Timeline):
    """A run drawn step after step."""

    def __init__(self):
        super().__init__()
        self.at = 0
        self.op = ""
        self.wobble = np.random.default_rng(1)

    def go(self, count, length, *, traced=()):
        """Unprofiled steps of a length in ms, with those of the given places traced."""
        for place in range(count):
            if place in traced:
                self.trace_step(length)
            self.mark_step(length)
        return self

    def mark_step(self, length):
        length = round(length * self.wobble.uniform(0.97, 1.03), 3)
        self.mark(self.at, self.at + length)
        self.at += length

    def trace_step(self, length):
        """A traced step, half of it an operation."""
        self.steps(self.at, self.at + length)
        row = self.add(self.thread(), Kind.OP, self.at, self.at + length / 2, name=self.op)
        if self.op:
            self.builder.add("operands", slice=row, shapes=self.builder.intern("8x8,8x8"))
        self.mark(self.at, self.at + length, profiled=1)
        self.at += length

    def change(self, steps=-1):
        """The observer notices a lasting change; from outside, since so many steps."""
        at = round(self.at * self.unit_ns)
        kind = self.builder.intern("change")
        self.builder.add("events", kind=kind, start_ns=at - MS, dur_ns=MS, name=kind, count=steps)
        return self


class SharedMachine(Run):
    """A run on two cores, some of which other programs use at times."""

    def __init__(self):
        super().__init__()
        self.totals = dict.fromkeys(("cpu_ns", "run_delay_ns", "machine_busy_ns", "job_cpu_ns"), 0)
        self.sample()

    def sample(self):
        for name, value in self.totals.items():
            self.builder.add(
                "counters",
                name=self.builder.intern(name),
                time_ns=round(self.at * self.unit_ns),
                value=round(value * self.unit_ns),
            )

    def work(self, count, length, *, waiting=0.0, others=None, traced=(), op=""):
        """Steps that wait for a core for a share of their time, which other programs use."""
        self.op = op
        others = bool(waiting) if others is None else others
        for place in range(count):
            before = self.at
            self.go(1, length, traced=(0,) if place in traced else ())
            passed = self.at - before
            ran = passed * (1 - waiting)
            added = (ran, passed - ran, ran + (passed if others else 0), ran)
            for name, value in zip(self.totals, added, strict=True):
                self.totals[name] += value
            if place % 8 == 0:
                self.sample()
        self.sample()
        return self
