"""Products with an operand of zeros: which are found, and that chance is no pattern."""

from __future__ import annotations

import pytest

from stepwhy.record.torch.provenance import DATA, STATE, Storage
from stepwhy.record.torch.zero_operands import ZeroOperands

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework

ATEN = torch.ops.aten
MM, BMM, ADDMM, CONVOLUTION = (
    op.default for op in (ATEN.mm, ATEN.bmm, ATEN.addmm, ATEN.convolution)
)
LONG = 1_000_000  # ns
SIZE = 96


class Storages:
    """Storages of tensors, all of the same origin unless it says otherwise."""

    def __init__(self, origins):
        self.origins, self.known = origins, {}

    def __call__(self, tensor):
        holder = tensor.untyped_storage()
        made = Storage(holder, self.origins, is_outside=True)
        return self.known.setdefault(holder.data_ptr(), made)


def noted(func, *args, origins=DATA, took_ns=LONG, in_backward=False, found=None):
    """What is noted of a product."""
    found = found or ZeroOperands()
    found.note(
        func,
        args,
        {},
        func.name().partition(".")[0],
        Storages(origins),
        place=4,
        took_ns=took_ns,
        in_backward=in_backward,
    )
    return [(one.share, one.pattern, one.size) for one in found.found]


def other(columns=32, rows=SIZE):
    return torch.rand(rows, columns)


def scattered(rows=SIZE, columns=SIZE, share=0.95):
    values = torch.rand(rows, columns, generator=torch.Generator().manual_seed(2))
    return values * (values > share)


def few(rows, columns, count):
    values = torch.zeros(rows, columns)
    places = torch.rand(rows, columns).argsort(1)[:, :count]
    return values.scatter_(1, places, 1.0)


def stuffed():
    image = torch.zeros(2, 4, 24, 24)
    image[:, :, ::2, ::2] = torch.rand(2, 4, 12, 12) + 1
    return image


def convolution(image):
    return image, torch.rand(8, 4, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1


@pytest.mark.parametrize("origins", [DATA, STATE])
def test_a_diagonal_is_found_whatever_it_depends_on(origins):
    ((share, *pattern),) = noted(MM, torch.diag(torch.rand(SIZE) + 1), other(), origins=origins)
    assert (share, pattern) == (990, ["diagonal", 0])


@pytest.mark.parametrize("count", [6, 12])
def test_blocks_are_counted(count):
    blocks = torch.block_diag(*torch.rand(count, SIZE * 4 // count, SIZE * 4 // count))
    found = ZeroOperands()
    ((share, *_),) = noted(MM, blocks, other(rows=SIZE * 4), found=found)
    assert share == 1000 - round(1000 / count)


def test_an_operand_may_be_the_second_one_or_be_transposed():
    diagonal = torch.diag(torch.rand(SIZE) + 1)
    for args in ((other(SIZE, 32), diagonal), (other(SIZE, 32), diagonal.t())):
        assert [pattern for _, pattern, _ in noted(MM, *args)] == ["diagonal"]
    bias = torch.rand(SIZE)
    assert [p for _, p, _ in noted(ADDMM, bias, other(SIZE, 32), diagonal)] == ["diagonal"]


def test_matrices_of_a_batch_are_looked_at_together_or_as_one_for_all():
    batch = torch.stack([scattered() for _ in range(4)])
    for operand in (batch, scattered().expand(4, SIZE, SIZE)):
        ((share, _, _),) = noted(BMM, operand, torch.rand(4, SIZE, 32))
        assert share > 900


def test_zeros_that_activations_have_by_chance_do_not_count():
    assert noted(MM, scattered(), other(), origins=STATE) == []
    assert len(noted(MM, scattered(), other(), origins=DATA)) == 1


def test_the_same_few_values_in_each_row_are_not_by_chance():
    args = few(SIZE, 200, 5), other(rows=200)
    ((_, pattern, size),) = noted(MM, *args, origins=STATE)
    assert (pattern, size) == ("few", 5)


def test_gradients_are_no_operands_but_those_of_the_forward_pass_are():
    diagonal, found = torch.diag(torch.rand(SIZE) + 1), ZeroOperands()
    storages, names = Storages(DATA), {"took_ns": LONG, "place": 1}
    arguments = (diagonal, other()), {}, "aten::mm", storages
    found.note(MM, *arguments, in_backward=True, **names)
    assert found.found == []
    found.note(MM, *arguments, in_backward=False, **names)
    found.note(MM, (diagonal.t(), other()), {}, "aten::mm", storages, in_backward=True, **names)
    assert [one.pattern for one in found.found] == ["diagonal"] * 2


def test_an_image_with_zeros_between_its_values_is_found():
    ((share, pattern, size),) = noted(CONVOLUTION, *convolution(stuffed()), origins=STATE)
    assert (share, pattern, size) == (750, "stuffed", 4)


@pytest.mark.parametrize(
    "image",
    [
        torch.rand(2, 4, 24, 24),
        torch.rand(2, 4, 24, 24).sub(0.8).relu(),
        torch.nn.functional.pad(torch.rand(2, 4, 6, 6), [9] * 4),
    ],
    ids=["dense", "by chance", "around"],
)
def test_other_images_are_not(image):
    assert noted(CONVOLUTION, *convolution(image)) == []


@pytest.mark.parametrize(
    "operand",
    [torch.rand(SIZE, SIZE), scattered(share=0.5), torch.ones(SIZE, SIZE).tril(), torch.eye(8)],
    ids=["dense", "half", "causal", "small"],
)
def test_other_operands_are_not(operand):
    assert noted(MM, operand, other(rows=len(operand))) == []


def test_short_products_are_not_looked_at():
    assert noted(MM, torch.eye(SIZE), other(), took_ns=1000) == []


def test_operands_stay_as_they_are_and_random_numbers_too():
    diagonal, columns = torch.diag(torch.rand(SIZE)), other()
    kept = diagonal.clone(), columns.clone()
    state = torch.get_rng_state()
    noted(MM, diagonal, columns)
    assert torch.equal(kept[0], diagonal)
    assert torch.equal(kept[1], columns)
    assert torch.equal(state, torch.get_rng_state())


def test_equal_products_are_measured_once():
    found, storages, diagonal = ZeroOperands(), Storages(DATA), torch.diag(torch.rand(SIZE))
    for place in range(2):
        arguments = (diagonal, other()), {}, "aten::mm", storages
        found.note(MM, *arguments, place=place, took_ns=LONG, in_backward=False)
    first, second = found.found
    assert (first.op, second.op) == (0, 1)
    assert first[1:] == second[1:]


def test_what_makes_an_operand_is_known():
    found, storages = ZeroOperands(), Storages(DATA)
    integers = torch.eye(SIZE, dtype=torch.int64)
    values, unrelated = integers.float(), torch.rand(SIZE, SIZE)
    pairs = [(tensor, storages(tensor)) for tensor in (integers, values, unrelated)]
    found.made("aten::eye", [], pairs[:1], place=0)
    found.made("aten::_to_copy", pairs[:1], pairs[1:2], place=1)
    found.made("aten::rand", [], pairs[2:], place=2)
    found.note(
        MM,
        (values, other()),
        {},
        "aten::mm",
        storages,
        place=3,
        took_ns=LONG,
        in_backward=False,
    )
    assert found.makers == [0, 1]


def test_a_constant_is_one_whose_sources_last():
    found = ZeroOperands()
    noted(MM, torch.eye(SIZE), other(), origins=1 << 6, found=found)
    (one,) = found.found
    assert one.sources == 2
    assert [found.rows(lasting)[0][-1] for lasting in (None, 0, 2)] == [-1, 0, 1]
    found = ZeroOperands()
    noted(MM, torch.eye(SIZE), other(), origins=DATA, found=found)
    assert found.rows(2)[0][-1] == 0
