"""Why there is no answer, for programs: one marker on each abstention.

`docs/reference/abstentions.md` is generated from `CODES` and `SIGNALS`. The names are stable: a
program may compare them. Sentences for people are in `Finding.reason` and `Verdict.sentence`.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

AbstentionCode = Literal["missing-signal", "incomplete-record", "not-applicable", "failed"]

MEANINGS: dict[AbstentionCode, str] = {
    "missing-signal": "The record lacks a signal; `missing` names it.",
    "incomplete-record": "The record has too little of a signal, or is unreliable; `missing` "
    "names what it lacks.",
    "not-applicable": "The pattern cannot occur in such a run; nothing is missing.",
    "failed": "The diagnosis itself failed, which is a bug of stepwhy.",
}
CODES: tuple[AbstentionCode, ...] = get_args(AbstentionCode)

SIGNALS = {
    # What profilers record, and `Meta.signals` names.
    "device-time": "device activity of the steps",
    "device-activity": "activity of the accelerator",
    "kernels": "individual kernels or operations on the device",
    "host-ops": "framework operations on the host",
    "runtime-calls": "calls to the device API",
    "sync-calls": "waits for the device",
    "placement": "the device of every node of the graph",
    "graph-ops": "operations with their name in the graph",
    "steps": "steps with a duration",
    "session-runs": "the runs of a session from start to end",
    "step-log": "start and end of every step of the run, which `stepwhy run` logs",
    "input": "fetches of batches",
    "programs": "the compiled programs that ran",
    # What single diagnoses need beyond that.
    "all-ranks": "all ranks of the run",
    "process-groups": "which ranks exchange how many bytes with each other",
    "collective-calls": "which collectives each rank has entered",
    "open-collectives": "which collectives have not ended",
    "causes-of-waits": "why ranks wait for each other",
    "enough-steps": "enough steps",
    "common-steps": "the same steps of all ranks",
    "enough-operations": "enough operations, kernels or copies",
    "kernel-launches": "which operation launched a kernel",
    "kernel-names": "names of kernels that show what they compute, and with which type",
    "layouts": "the layout of convolutions",
    "requested-devices": "the devices that the program requested",
    "backward-ops": "the operations of a backward pass, and when gradients are complete",
    "optimizer-steps": "the steps of an optimizer",
    "gradient-graph": "which nodes of the backward pass lead to parameters of an optimizer",
    "collective-names": "the type of each collective, such as all-reduce",
    "stages": "the passes of all pipeline stages",
    "program-lines": "lines of the program that cause the time of the step",
    "stacks": "samples of the program's stack, or Python frames",
    "thread-states": "what threads waited for",
    "cores": "the number of threads and cores, and how long threads waited for a core",
    "quiet-machine": "the run on a machine without other work",
    "memory": "used and total memory over time",
    "page-faults": "page faults",
    "copy-memory": "whether copies use pinned or pageable host memory",
    "bandwidth": "copies large enough to measure the bandwidth of the link",
    "fed-values": "the values that a session is fed with, and fetches",
    "parameter-types": "the types of the parameters",
    "operands": "types and shapes of what operations work on, or what flows between them",
    "same-arguments": "which arguments of jitted functions are the same in each call",
    "semantic-step": "a step whose operations were looked at one by one",
    "batch-size": "the number of examples in a batch",
    "accelerators": "the accelerators of the machine",
    "input-reads": "whether data is read more than once",
    "queue-levels": "fill levels of queues",
    "workers": "worker processes of a loader",
    "garbage": "times of garbage collections",
    "whole-run": "a run that was not stopped",
    "running-statistics": "updates of running statistics by normalisations",
    "compiled-functions": "which functions were compiled",
    "start-up": "the start and the end of the program",
    "callbacks": "calls from compiled code into Python",
    "profiled-steps": "steps with and without a profiler",
    "step-work": "how much work each step does",
    "towers": "operations of any tower",
    # What a verdict needs.
    "events": "events with a duration",
    "step-content": "what the steps do",
    "framework": "a supported framework",
    "traced-steps": "a traced step",
    "device-owners": "which process used which device",
    "common-clock": "one clock for host and device",
    "whole-step": "a whole step",
    "awaited-work": "the device work that the host waits for",
    "traced-waits": "a traced step in which the host waits for the device",
    "last-wait": "when the device finished the last step",
    "cause-of-idle-time": "why the device idles",
    "format": "data that the file format cannot represent",
}
"""Names and descriptions of what a record can lack."""


class Abstention(msgspec.Struct, frozen=True):
    """Why there is no answer, as stable names; the words are beside it.

    Args:
        code: 'missing-signal', 'incomplete-record', 'not-applicable' or 'failed'.
        missing: What the record lacks, from the table in docs/reference/abstentions.md.
    """

    code: AbstentionCode
    missing: tuple[str, ...] = ()
