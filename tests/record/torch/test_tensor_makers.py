"""Which lines of the program make tensors what they are, as one step shows."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn.utils.rnn import pad_sequence  # noqa: E402
from torch.utils.data import DataLoader, Dataset, Subset  # noqa: E402

from stepwhy.record.torch import tensor_makers  # noqa: E402
from stepwhy.record.torch.dispatch_modes import make_mode  # noqa: E402
from stepwhy.record.torch.semantic_mode import StepNotes  # noqa: E402
from stepwhy.record.torch.tensor_makers import padding_lines  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.framework
TABLE: Any = torch.nn.Embedding(50, 4)
SOURCE = Path(__file__).read_text().splitlines()


def noted(step: Callable[[], Any]) -> StepNotes:
    notes = StepNotes(list(TABLE.parameters()))
    with make_mode(notes.run):
        step()
    assert notes.stopped is None
    return notes


def code_at(line: str) -> str:
    return SOURCE[int(re.findall(r"\((\d+)\)", line)[0]) - 1].strip()


def doubles(step: Callable[[], Any]) -> list[tuple[str, str]]:
    return [(made.by, code_at(made.line)) for made in noted(step).makers.doubles]


class Normalize:
    def __init__(self) -> None:
        self.mean, self.count = torch.from_numpy(np.ones(4)), 1

    def __call__(self, x: Any) -> Any:
        return x - self.mean


class Filters(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bank", torch.from_numpy(np.ones((4, 4))))

    def forward(self, x: Any) -> Any:
        return x.double() @ self.bank


def test_an_attribute_in_float64_has_the_line_that_sets_it() -> None:
    normalize = Normalize()
    assert doubles(lambda: normalize(torch.ones(2, 4))) == [
        ("attribute mean of Normalize", "self.mean, self.count = torch.from_numpy(np.ones(4)), 1")
    ]


def test_a_buffer_has_the_line_that_registers_it_and_a_conversion_its_own() -> None:
    filters = Filters()
    assert doubles(lambda: filters(torch.ones(2, 4))) == [
        ("aten::_to_copy", "return x.double() @ self.bank"),
        (
            "attribute bank of Filters",
            'self.register_buffer("bank", torch.from_numpy(np.ones((4, 4))))',
        ),
    ]


def test_files_of_pytorch_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    node_of = tensor_makers._node_of
    monkeypatch.setattr(
        tensor_makers, "_node_of", lambda code: read.append(code.co_filename) or node_of(code)
    )
    filters = Filters()
    assert len(doubles(lambda: filters(torch.ones(2, 4)))) == 2
    assert set(read) == {__file__}


class Keeping:
    """A method that keeps the dictionary of its locals."""

    def __init__(self) -> None:
        self.bank = torch.from_numpy(np.ones(4))

    def by_vars(self, x: Any) -> Any:
        kept, scale = vars(), 2
        return x * self.bank * kept["x"] * scale

    def by_frame(self, x: Any) -> Any:
        kept, scale = sys._getframe().f_locals, 2
        return x * self.bank * kept["x"] * scale


@pytest.mark.parametrize("method", [Keeping.by_vars, Keeping.by_frame])
def test_a_method_that_keeps_its_locals_still_has_them(method: Callable[..., Any]) -> None:
    keeping = Keeping()
    results: list[Any] = []
    noted(lambda: results.append(method(keeping, torch.ones(4))))
    assert results[0].tolist() == [2.0] * 4


def test_an_array_that_becomes_a_tensor_in_the_step() -> None:
    values = np.ones(4)

    def step() -> Any:
        weights = torch.tensor(values)
        return torch.ones(4) * weights

    assert doubles(step) == [("data that becomes a tensor", "weights = torch.tensor(values)")]


def test_a_tensor_of_unknown_making_has_the_line_that_reads_it() -> None:
    weights = torch.from_numpy(np.ones(4))
    assert doubles(lambda: torch.ones(4) * weights) == [
        ("aten::mul", "assert doubles(lambda: torch.ones(4) * weights) == [")
    ]


def test_a_model_in_single_precision_has_none_and_single_numbers_do_not_count() -> None:
    one = torch.tensor(1.0, dtype=torch.float64)
    assert doubles(lambda: torch.ones(4) * one) == []


class Readings(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> Any:
        self.last = np.full(4, float(place))
        return self.last


def test_items_of_a_data_set_have_the_line_that_returns_them() -> None:
    loader = DataLoader(Subset(Readings(), range(8)), 4)
    assert doubles(lambda: next(iter(loader))) == [("items of Readings", "return self.last")]


ROWS = [[1, 2, 3], [4, 5], [6], [7, 8, 9]]


class Padded(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, place: int) -> Any:
        row = ROWS[place]
        return np.pad(row, (0, 12 - len(row)))


def by_full(rows: list[list[int]]) -> Any:
    batch = torch.zeros((len(rows), 12), dtype=torch.long)
    for place, row in enumerate(rows):
        batch[place, : len(row)] = torch.tensor(row)
    return batch


def by_list(rows: list[list[int]]) -> Any:
    rows = [row + [0] * (12 - len(row)) for row in rows]
    return torch.tensor(rows)


def by_pad(rows: list[list[int]]) -> Any:
    whole = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return torch.nn.functional.pad(whole, (0, 9))


def each_padded(rows: list[list[int]]) -> Any:
    padded = [torch.nn.functional.pad(torch.tensor(row), (0, 12 - len(row))) for row in rows]
    return torch.stack(padded)


def padding(loader: Any) -> list[tuple[str, str]]:
    notes = noted(lambda: TABLE(next(iter(loader))))
    (found,) = [each for each in notes.inputs.padded if each.columns == 12]
    assert found.padded == 9
    return [(made.by, code_at(made.line)) for made in padding_lines(found.maker, 12)]


@pytest.mark.parametrize(
    ("collate", "by", "code"),
    [
        (by_full, "aten::zeros", "batch = torch.zeros((len(rows), 12), dtype=torch.long)"),
        (by_list, "data that becomes a tensor", "return torch.tensor(rows)"),
        (by_pad, "aten::constant_pad_nd", "return torch.nn.functional.pad(whole, (0, 9))"),
        (each_padded, "aten::constant_pad_nd", None),
    ],
)
def test_the_line_that_pads_a_batch(collate: Any, by: str, code: str | None) -> None:
    loader = DataLoader(ROWS, 4, collate_fn=collate)  # type: ignore[arg-type]
    ((found, line),) = padding(loader)
    assert found == by
    assert line == code or line.startswith("padded = [")


WHOLE: Any = torch.tensor([row + [0] * (12 - len(row)) for row in ROWS])


def test_rows_that_were_padded_before_the_step_have_no_line() -> None:
    loader = DataLoader(WHOLE, 4, collate_fn=torch.stack)
    assert padding(loader) == []


def test_a_data_set_that_pads_its_items() -> None:
    assert padding(DataLoader(Padded(), 4)) == [
        ("items of Padded", "return np.pad(row, (0, 12 - len(row)))")
    ]


PROGRAM = """
MAX_LEN = 96
WIDTH = 96

def encode(text, max_length=96):
    return tokenizer(text, max_length=64)

parser.add_argument("--context", default=96)
config = {"seq_len": 96, "heads": 96}
"""


def lengths(tmp_path: Path, monkeypatch: Any, program: str, columns: int) -> list[tuple[str, str]]:
    path = tmp_path / f"train{columns}.py"
    path.write_text(program)
    monkeypatch.setattr(tensor_makers, "program_files", lambda: [(str(path), "train.py")])
    return [(made.by, made.line) for made in padding_lines(None, columns)]


def test_lines_that_give_a_length_the_number_of_columns(tmp_path, monkeypatch) -> None:
    program = PROGRAM.replace('"seq_len": 96, ', "")
    assert lengths(tmp_path, monkeypatch, program, 96) == [
        ("MAX_LEN = 96", "train.py(2)"),
        ("max_length = 96", "train.py(5)"),
        ("--context = 96", "train.py(8)"),
    ]


def test_inputs_without_the_last_column(tmp_path, monkeypatch) -> None:
    assert lengths(tmp_path, monkeypatch, PROGRAM, 63) == [("max_length = 64", "train.py(6)")]


def test_of_many_lines_none_is_the_one(tmp_path, monkeypatch) -> None:
    assert lengths(tmp_path, monkeypatch, PROGRAM, 96) == []
