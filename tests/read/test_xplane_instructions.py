"""Lines of the program behind the instructions of compiled programs."""

import pytest
from tests.read.xplane_samples import (
    block,
    event,
    host,
    line,
    metadata_plane,
    number,
    plane,
    rows,
    source_of,
    xspace,
)

from stepwhy.read.formats.xplane.instructions import Instructions
from stepwhy.read.formats.xplane.reader import read
from stepwhy.read.shared.tensorflow.messages import message_class

SCRIPT, LAYERS = "/home/ann/lab/train.py", "/home/ann/lab/model/layers.py"
LIBRARY = "/usr/lib/python3.11/site-packages/optax/_src/base.py"


def stacks(message, *frames):
    """Add frames: file, line, function, and the number of the calling frame, 0 for none."""
    files, functions = [], []
    for file, at, function, parent in frames:
        for known, name in ((files, file), (functions, function)):
            if name not in known:
                known.append(name)
        message.file_locations.add(
            file_name_id=files.index(file) + 1,
            function_name_id=functions.index(function) + 1,
            line=at,
        )
        message.stack_frames.add(
            file_location_id=len(message.file_locations), parent_frame_id=parent
        )
    message.file_names.extend(name.encode() for name in files)
    message.function_names.extend(name.encode() for name in functions)


FRAMES = (
    (SCRIPT, 40, "<module>", 0),  # 1: calls the jitted function
    (SCRIPT, 20, "loss", 1),  # 2
    (LAYERS, 7, "Net.apply.<locals>.dense", 2),  # 3
    (LIBRARY, 99, "update", 1),  # 4: a library that the module calls
    (LIBRARY, 99, "update", 3),  # 5: and the same one, called by the layer
)


def module(*computations, frames=FRAMES):
    """A program of computations: of each its id, root and instructions."""
    message = message_class("HloModule")()
    stacks(message.stack_frame_index, *frames)
    for key, root, instructions in computations:
        computation = message.computations.add(id=key, root_id=root)
        for name, fields in instructions.items():
            metadata = {k: fields.pop(k) for k in (*METADATA,) if k in fields}
            one = computation.instructions.add(name=name.encode(), **fields)
            for field, value in metadata.items():
                setattr(one.metadata, field, value)
    return message


METADATA = ("op_name", "stack_frame_id", "source_file", "source_line")


def of(key, frame=0, *operands, **fields):
    """An instruction with an id and a frame, which reads others."""
    return {"id": key, "stack_frame_id": frame, "operand_ids": operands, **fields}


def lines(*computations, frames=FRAMES):
    known = Instructions(module(*computations, frames=frames))
    return {name: known.line(name) for _, _, instructions in computations for name in instructions}


def test_the_innermost_frame_of_the_program():
    assert lines((1, 4, {"dot": of(1, 3), "sub": of(2, 4), "add": of(3, 5), "mul": of(4, 2)})) == {
        "dot": "model/layers.py(7): dense",
        "sub": "train.py(40): <module>",
        "add": "model/layers.py(7): dense",
        "mul": "train.py(20): loss",
    }


def test_without_the_frame_of_the_script_the_last_folders_are_shown():
    frames = ((LAYERS, 7, "dense", 0),)
    assert lines((1, 1, {"dot": of(1, 1)}), frames=frames) == {"dot": "model/layers.py(7): dense"}


def test_before_frames_were_recorded():
    old = {"id": 1, "source_file": SCRIPT.encode(), "source_line": 20}
    library = {"id": 2, "source_file": LIBRARY.encode(), "source_line": 99}
    assert lines((1, 1, {"dot": old, "sub": library}), frames=()) == {
        "dot": "lab/train.py(20)",
        "sub": "",
    }


def test_a_fusion_is_of_the_line_of_its_result():
    fused = {"p": of(1), "a": of(2, 1, 1), "b": of(3, 1, 2), "root": of(4, 3, 3)}
    fusion = {"fusion": of(9, called_computation_ids=[5])}
    assert lines((5, 4, fused), (6, 9, fusion))["fusion"] == "model/layers.py(7): dense"


def test_else_of_the_most_frequent_line_in_it():
    fused = {"a": of(2, 2), "b": of(3, 2, 2), "c": of(4, 3), "root": of(5, 0, 3)}
    fusion = {"fusion": of(9, called_computation_ids=[5])}
    assert lines((5, 5, fused), (6, 9, fusion))["fusion"] == "train.py(20): loss"


def test_a_copy_is_of_what_uses_it_or_else_of_what_it_copies():
    instructions = {
        "parameter": of(1),
        "copy.1": of(2, 0, 1),
        "dot": of(3, 2, 2),
        "copy.2": of(4, 0, 3),
        "tuple": of(5, 0, 4, opcode=b"tuple"),
    }
    found = lines((1, 5, instructions))
    assert found["copy.1"] == found["copy.2"] == "train.py(20): loss"


def test_what_a_loop_starts_with_is_of_the_loop():
    instructions = {
        "copy": of(1),
        "dot": of(2, 2),
        "tuple": of(3, 0, 1, 2, opcode=b"tuple"),
        "while": of(4, 3, 3),
    }
    assert lines((1, 4, instructions))["copy"] == "model/layers.py(7): dense"


def test_what_is_next_to_nothing_is_of_what_calls_it():
    body = {"copy": of(1)}
    entry = {"while": of(2, 3, called_computation_ids=[5])}
    assert lines((5, 1, body), (6, 2, entry))["copy"] == "model/layers.py(7): dense"


def test_or_of_the_line_that_calls_the_program():
    instructions = {"copy": of(1), "dot": of(2, 3), "mul": of(3, 2)}
    assert lines((1, 3, instructions))["copy"] == "train.py(20): loss"
    instructions = {"copy": of(1), "dot": of(2, 3), "mul": of(3, 4)}
    assert lines((1, 3, instructions))["copy"] == "train.py(40): <module>"


def test_a_program_without_frames_has_no_lines():
    assert lines((1, 1, {"convert": of(1)}), frames=()) == {"convert": ""}


@pytest.mark.parametrize("frame", [6, -1, 1 << 30])
def test_frames_that_are_missing(frame):
    assert lines((1, 1, {"dot": of(1, frame)})) == {"dot": ""}


def test_frames_and_calls_in_circles():
    frames = ((LIBRARY, 1, "a", 2), (LIBRARY, 2, "b", 1))
    instructions = {"call": of(1, 1, called_computation_ids=[1])}
    assert lines((1, 1, instructions), frames=frames) == {"call": ""}


def program(message):
    """The plane of a compiled program with id 7."""
    hlo = block(1, message.SerializeToString())
    stat = block(5, number(1, 1), block(6, hlo))
    return metadata_plane(block(4, number(1, 7), block(2, block(2, b"jit_step(7)"), stat)))


def test_kernels_of_devices_and_of_the_cpu():
    data = program(module((1, 1, {"dot": of(1, 3)})))
    ran = event("k", 0, 5, hlo_op="dot", program_id=7)
    other = event("j", 5, 5, hlo_op="dot", program_id=8)
    cpu = xspace(host(line("tf_XLAEigen/9", ran)))
    assert [row[3] for row in rows(read(source_of(cpu + data)), "source")] == [
        "model/layers.py(7): dense"
    ]
    gpu = xspace(plane("/device:GPU:0", line("Stream #7(Compute)", ran, other)))
    assert [row[3] for row in rows(read(source_of(gpu + data)), "source")] == [
        "model/layers.py(7): dense",
        "",
    ]
