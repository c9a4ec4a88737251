"""Compiled programs, written down like HLO text.

One instruction per line, in a computation that begins with its name and ends with a blank line. The
first computation is the entry, and each calls only those below it. The last instruction of a
computation is its root::

    main
    buffer = f32[50,4] parameter(0)
    rows = f32[2,4] parameter(1)
    copy.1 = f32[50,4] copy(buffer)
    update = f32[50,4] fusion(copy.1, rows) calls=changing
"""

import re

from stepwhy.read.shared.tensorflow.messages import message_class

_LINE = re.compile(
    r"(?P<name>\S+) = (?P<type>\w+)(?:\[(?P<sizes>[\d,]*)\])? (?P<opcode>[\w-]+)\((?P<rest>[^)]*)\)"
    r"(?: (?P<options>.*))?"
)
_TYPES = {"pred": 1, "s32": 4, "s64": 5, "u32": 8, "f32": 11, "tuple": 13}


def hlo_proto(text):
    """A serialised `HloProto`."""
    message = message_class("HloProto")()
    blocks = [block.split("\n") for block in re.split(r"\n\s*\n", text.strip())]
    ids = {lines[0].strip(): number for number, lines in enumerate(blocks, start=1)}
    message.hlo_module.entry_computation_id = 1
    for name, *lines in reversed(blocks):  # as in real programs, callees come first
        computation = message.hlo_module.computations.add(id=ids[name.strip()])
        known = {}
        for line in lines:
            _add(computation.instructions.add(), _LINE.fullmatch(line.strip()), known, ids)
        computation.root_id = len(known)
    return message.SerializeToString()


def _add(instruction, match, known, ids):
    options = dict(pair.split("=") for pair in (match["options"] or "").split())
    known[match["name"]] = instruction.id = len(known) + 1
    instruction.name, instruction.opcode = match["name"].encode(), match["opcode"].encode()
    instruction.shape.element_type = _TYPES[match["type"]]
    sizes = [int(size) for size in (match["sizes"] or "").split(",") if size]
    instruction.shape.dimensions.extend(sizes)
    instruction.shape.layout.minor_to_major.extend(reversed(range(len(sizes))))
    arguments = [part.strip() for part in match["rest"].split(",") if part.strip()]
    if match["opcode"] == "parameter":
        instruction.parameter_number = int(arguments[0])
    elif match["opcode"] == "constant":
        literal = instruction.literal
        (literal.f32s if match["type"] == "f32" else literal.s32s).append(int(arguments[0]))
    else:
        instruction.operand_ids.extend(known[argument] for argument in arguments)
    instruction.tuple_index = int(options.get("index", 0))
    instruction.comparison_direction = options.get("direction", "").encode()
    kept = options.get("dimensions", "").split(",")
    instruction.dimensions.extend(int(place) for place in kept if place)
    instruction.custom_call_target = options.get("target", "").encode()
    instruction.metadata.op_name = options.get("named", "").encode()
    called = [ids[name] for name in options.get("calls", "").split("+") if name]
    instruction.called_computation_ids.extend(called)
    if "trips" in options:
        trips = '{"known_trip_count":{"n":"' + options["trips"] + '"}}'
        instruction.backend_config = trips.encode()
