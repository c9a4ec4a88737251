"""Which rows of the results of a step are read, in this process."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint  # noqa: E402

from stepwhy.record.torch.dispatch_modes import make_mode  # noqa: E402
from stepwhy.record.torch.part_masks import TooLargeError, nothing, operand, reshaped  # noqa: E402
from stepwhy.record.torch.semantic_mode import StepNotes  # noqa: E402
from stepwhy.record.torch.tensor_reads import TensorReads  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Loss = Callable[[Any], Any]

nn, functional = torch.nn, torch.nn.functional
BATCH, LENGTH, WIDTH, WORDS = 8, 32, 64, 128
ROWS = BATCH * LENGTH
TARGETS = torch.randint(WORDS, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
# One of eight positions counts.
COUNTED = (torch.arange(ROWS) % 8 == 3).view(BATCH, LENGTH)
LABELS = TARGETS.masked_fill(~COUNTED, -100)
INDEX = torch.arange(0, WORDS, 16)


class Model:
    """Embeddings, a layer on each position, and scores."""

    def __init__(self) -> None:
        self.words, self.layer = nn.Embedding(WORDS * 4, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)
        modules = nn.ModuleList([self.words, self.layer, self.norm, self.head])
        self.parameters = list(modules.parameters())

    def hidden(self) -> Any:
        return self.norm(functional.gelu(self.layer(self.words(TARGETS))))

    def scores(self) -> Any:
        return self.head(self.hidden())


def noted(loss: Loss) -> StepNotes:
    """The notes of a step of a new model."""
    model = Model()
    notes = StepNotes(model.parameters)
    reads = TensorReads(lambda one: notes.results.is_paused or notes.parts.read(one))
    reads.begin()
    try:
        with make_mode(notes.run):
            loss(model).backward()
    finally:
        reads.end()
    assert notes.stopped is None
    assert notes.parts.is_known
    return notes


def unused(loss: Loss) -> dict[str, float]:
    """Share of each operation of a step that nothing reads, the largest one of its name."""
    notes = noted(loss)
    found = notes.parts.unused()
    assert found is not None
    assert len(found.shares) == len(found.places) == len(notes.ops)
    shares: dict[str, float] = {}
    for op, share in zip(notes.ops, found.shares, strict=True):
        name = notes.names[op].removeprefix("aten::")
        if share:
            shares[name] = max(share, shares.get(name, 0))
    return shares


def ways(loss: Loss) -> set[tuple[str, bool]]:
    """How the rows are chosen, and whether from a table."""
    found = noted(loss).parts.unused()
    assert found is not None
    return {(one.how, one.of_table) for one in found.choices}


def by_targets(model: Any) -> Any:
    return functional.cross_entropy(model.scores().view(-1, WORDS), LABELS.view(-1))


def by_fresh_targets(model: Any) -> Any:
    counted = torch.from_numpy(np.arange(ROWS) % 8 == 3)
    counted[0] = False  # what an array became is no state because it is changed
    labels = TARGETS.view(-1).masked_fill(~counted, -100)
    return functional.cross_entropy(model.scores().view(-1, WORDS), labels)


def by_mask(model: Any) -> Any:
    each = functional.cross_entropy(model.scores().transpose(1, 2), TARGETS, reduction="none")
    return (each * COUNTED.float()).sum() / COUNTED.sum()


def by_filled_mask(model: Any) -> Any:
    each = functional.cross_entropy(
        model.scores().flatten(0, 1), TARGETS.view(-1), reduction="none"
    )
    return each.masked_fill(~COUNTED.view(-1), 0.0).sum()


def by_where(model: Any) -> Any:
    each = (model.scores() - 1).square().mean(-1)
    return torch.where(COUNTED, each, torch.zeros_like(each)).sum()


def by_row_mask(model: Any) -> Any:
    return (functional.softplus(model.scores()) * COUNTED[..., None]).mean()


def by_boolean_index(model: Any) -> Any:
    return functional.cross_entropy(model.scores()[COUNTED], TARGETS[COUNTED])


def by_index(model: Any) -> Any:
    return model.scores().flatten(0, 1)[COUNTED.view(-1).nonzero()[:, 0]].square().mean()


def by_select(model: Any) -> Any:
    rows = COUNTED.view(-1).nonzero()[:, 0]
    return torch.index_select(model.scores().view(-1, WORDS), 0, rows).square().mean()


def by_gather(model: Any) -> Any:
    rows = COUNTED.view(-1).nonzero().expand(-1, WORDS)
    return model.scores().view(-1, WORDS).gather(0, rows).square().mean()


@pytest.mark.parametrize(
    "loss",
    [
        by_targets, by_fresh_targets, by_mask, by_filled_mask, by_where, by_row_mask,
        by_boolean_index, by_index, by_select, by_gather,
    ],
)  # fmt: skip
def test_rows_that_nothing_reads_are_found_in_both_directions(loss: Loss) -> None:
    found = unused(loss)
    assert found["addmm"] == found["mm"] == pytest.approx(7 / 8)
    assert found["gelu"] == found["gelu_backward"] == pytest.approx(7 / 8)
    assert found["native_layer_norm_backward"] == pytest.approx(7 / 8)


def test_zeros_that_a_choice_spreads_back_count_if_it_could_be_made_before() -> None:
    def first(model: Any) -> Any:
        return functional.cross_entropy(model.head(model.hidden()[COUNTED]), TARGETS[COUNTED])

    assert unused(by_boolean_index)["index_put"] == pytest.approx(7 / 8)
    found = unused(first)
    assert "index_put" in found  # after the layers before it, whose rows are not mixed either
    assert found["addmm"] == pytest.approx(7 / 8)


def test_positions_that_are_cut_off_are_found() -> None:
    def loss(model: Any) -> Any:
        return functional.cross_entropy(model.scores()[:, -1], TARGETS[:, 0])

    assert unused(loss)["addmm"] == pytest.approx(31 / 32)
    assert ways(loss) == {("place", False)}


def test_parts_that_are_split_off_are_found() -> None:
    def loss(model: Any) -> Any:
        first, _ = model.scores().split([4, 28], 1)
        return first.square().mean() + model.scores().unbind(1)[5].mean()

    assert unused(loss)["addmm"] == pytest.approx(31 / 32)


def test_rows_of_a_table_are_found() -> None:
    def loss(model: Any) -> Any:
        table = functional.normalize(model.words.weight)
        return (table[INDEX] * functional.embedding(INDEX + 1, table)).sum()

    found = unused(loss)
    assert found["div"] == pytest.approx(1 - 16 / 512)
    assert "index_put" not in found  # the gradient of the table has all of its rows in any case
    assert ways(loss) == {("rows", True)}


def test_the_rest_of_a_matrix_beside_its_diagonal_is_found() -> None:
    def loss(model: Any) -> Any:
        hidden = model.hidden().view(ROWS, WIDTH)
        return (hidden @ hidden.t().detach()).diagonal().sum()

    found = unused(loss)
    assert found.keys() == {"mm", "t", "diagonal_backward"}
    assert found["mm"] == pytest.approx(1 - 16 / ROWS)
    assert ways(loss) == {("diagonal", False)}


def test_pairs_that_nothing_reads_are_found() -> None:
    def loss(model: Any) -> Any:
        hidden = model.hidden()[0]
        pairs = hidden[:, None] - hidden[None]
        return pairs.square().sum(-1)[torch.arange(8), torch.arange(8) + 3].sum()

    assert unused(loss)["sub"] == pytest.approx(1 - 8 / LENGTH**2)


def test_distances_that_nothing_reads_are_found() -> None:
    def loss(model: Any) -> Any:
        hidden = model.hidden().view(ROWS, WIDTH)
        return torch.cdist(hidden, hidden.detach().flip(0), p=1)[:, 0].sum()

    assert unused(loss)["_cdist_forward"] == pytest.approx(1 - 1 / ROWS)


def contrast(model: Any) -> Any:
    # A mean over the pairs of a class, of which each is compared with all others.
    similar = model.hidden().view(ROWS, WIDTH) @ model.words.weight[:ROWS].t()
    each = similar - similar.logsumexp(1, keepdim=True)
    is_same = TARGETS.view(-1, 1) % 16 == torch.arange(ROWS) % 16
    return -(each * is_same).sum(1).mean()


def no_weight_yet(model: Any) -> Any:
    weight = torch.zeros(1, 1)
    return model.hidden().mean() + (model.scores().square().mean(-1) * weight).sum()


def sampled(model: Any) -> Any:
    # They must all be computed before the best of them are known.
    return model.scores().flatten(0, 1).amax(-1).topk(5).values.sum()


def mined(model: Any) -> Any:
    each = functional.cross_entropy(
        model.scores().flatten(0, 1), TARGETS.view(-1), reduction="none"
    )
    return each[each.detach().argsort()[-8:]].mean()


def gated(model: Any) -> Any:
    hidden = model.hidden()
    gate = functional.one_hot(model.layer(hidden).argmax(-1) % 4, 4).float()
    experts = torch.stack([model.head(hidden) for _ in range(4)], -1)
    return (experts * gate[..., None, :]).sum(-1).square().mean()


def dropped(model: Any) -> Any:
    return functional.dropout(functional.dropout(model.scores(), 0.9), 0.9).square().mean()


def dead(model: Any) -> Any:
    return torch.relu(model.scores() - 1e4).mean()


def attention_mask(model: Any) -> Any:
    hidden = model.hidden()
    causal = torch.ones(LENGTH, LENGTH).triu(1).bool()
    scores = hidden @ hidden.transpose(1, 2)
    return scores.masked_fill(causal, -1e9).softmax(-1).matmul(hidden).square().mean()


def next_words(model: Any) -> Any:
    return functional.cross_entropy(
        model.scores()[:, :-1].reshape(-1, WORDS), TARGETS[:, 1:].reshape(-1), label_smoothing=0.1
    )


def a_third_is_padding(model: Any) -> Any:
    labels = TARGETS.clone()
    labels[:, -LENGTH // 3 :] = -100
    return functional.cross_entropy(model.scores().view(-1, WORDS), labels.view(-1))


def metric_of_all(model: Any) -> Any:
    scores = model.scores()
    assert (scores.argmax(-1) == TARGETS).float().mean().item() <= 1
    return functional.cross_entropy(scores[:, -1], TARGETS[:, 0])


def read_by_the_host(model: Any) -> Any:
    scores = model.scores()
    assert scores.detach().numpy().shape
    return scores[:, -1].mean()


def few_columns(model: Any) -> Any:
    # Each row has its own, as the values of actions.
    columns = torch.arange(ROWS).view(BATCH, LENGTH, 1) % 8
    return model.scores()[..., :8].gather(-1, columns).mean()


def mixed_rows(model: Any) -> Any:
    scores = functional.batch_norm(model.scores().flatten(0, 1), None, None, training=True)
    return scores.view(BATCH, LENGTH, WORDS)[:, -1].mean()


def last_of_several_layers(model: Any) -> Any:
    hidden = model.words(TARGETS)
    for _ in range(3):
        hidden = hidden + functional.gelu(model.layer(model.norm(hidden)))
        hidden = hidden + hidden.mean(1, keepdim=True)
    return hidden[:, 0].mean()


def written_in_place(model: Any) -> Any:
    scores = model.scores()
    rows = scores.view(ROWS, WORDS)
    scores += 1
    return rows[:, 0].mean() + scores[:, -1].mean()


def differentiated_again(model: Any) -> Any:
    hidden = model.words(TARGETS)
    (slope,) = torch.autograd.grad(
        model.head(hidden).tanh()[:, -1].sum(), hidden, create_graph=True
    )
    return slope.square().mean()


def run_again(model: Any) -> Any:
    return checkpoint(model.head, model.hidden(), use_reentrant=False)[:, :-1].mean()


@pytest.mark.parametrize(
    "loss",
    [
        contrast, no_weight_yet, sampled, mined, gated, dropped, dead, attention_mask, next_words,
        a_third_is_padding, metric_of_all, read_by_the_host, mixed_rows, last_of_several_layers,
        written_in_place, run_again,
    ],
)  # fmt: skip
def test_what_is_needed_is_not_accused(loss: Loss) -> None:
    assert unused(loss) == {}


def test_columns_that_differ_from_row_to_row_are_needed() -> None:
    # Those that are cut off are not.
    assert unused(few_columns)["mm"] == pytest.approx(15 / 16)


def test_gradients_that_are_differentiated_again_read_everything() -> None:
    assert "addmm" not in unused(differentiated_again)


def test_small_operations_do_not_count() -> None:
    def loss(model: Any) -> Any:
        return model.head(model.words(TARGETS[:1, :8]))[:, -1].mean()

    assert unused(loss) == {}


def test_what_later_steps_read_is_needed() -> None:
    notes = noted(by_boolean_index)
    first = notes.parts.unused()
    assert first is not None
    later = notes.parts.unused(first.storages)
    assert later is not None
    assert not any(later.shares)


def test_no_result_is_kept_alive() -> None:
    kept = []

    def loss(model: Any) -> Any:
        scores = model.scores()
        stacked = torch.stack([scores[:, -1], scores[:, 0]])
        kept.extend(weakref.ref(one.untyped_storage()) for one in (scores, stacked))
        return stacked.mean() + by_mask(model) + scores.masked_fill(~COUNTED[..., None], 0).mean()

    notes = noted(loss)
    gc.collect()
    assert notes.parts.is_known
    assert [one() for one in kept] == [None, None]


def test_the_mask_of_a_view_is_that_of_the_same_elements() -> None:
    mask = np.arange(24).reshape(2, 3, 4) % 5 == 0
    assert (reshaped(mask, (2, 3, 4), (6, 4)) == mask.reshape(6, 4)).all()
    assert (reshaped(mask, (2, 3, 4), (2, 1, 12)) == mask.reshape(2, 1, 12)).all()
    rows = mask[:, :, :1]
    assert reshaped(rows, (2, 3, 4), (6, 4)).shape == (6, 1)
    assert reshaped(rows, (2, 3, 4), (6, 2, 2)).shape == (6, 1, 1)
    assert reshaped(np.array(True), (), (1, 1)).shape == (1, 1)


def test_the_mask_of_an_operand_has_its_shape() -> None:
    mask = np.arange(6).reshape(2, 3) == 4
    assert operand(mask, (3,)).tolist() == [False, True, False]
    assert operand(mask, (2, 1)).tolist() == [[False], [True]]
    assert operand(mask, ()).tolist() is True


def test_large_masks_are_refused() -> None:
    with pytest.raises(TooLargeError):
        nothing((1 << 13, 1 << 13))


def test_what_is_cut_off_a_convolution_is_not_read() -> None:
    layer: Any = nn.Conv1d(WIDTH, WIDTH, 3, padding=LENGTH)

    def causal(model: Model) -> Any:
        padded = layer(model.hidden().transpose(1, 2))
        return padded[:, :, : LENGTH // 2].contiguous().relu().mean()

    shares = unused(causal)
    assert shares["convolution"] == shares["convolution_backward"]
    assert shares["convolution"] == pytest.approx(1 - (LENGTH // 2) / (3 * LENGTH - 2))
