import io
import re
import subprocess
import sys

import pytest
from msgspec import structs
from rich.cells import cell_len
from rich.console import Console

from stepwhy.result import Evidence
from stepwhy.show import terminal, words

WORDS = (
    "Input-bound",
    "Host-bound",
    "Communication-bound",
    "Transfer-bound",
    "No known problem",
    "Cannot tell",
    "Partly explained",
)


def printed(result, width=100, *, show_all=False, encoding="utf-8", colours=None):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, color_system=colours, force_terminal=bool(colours))
    terminal.render(result, show_all=show_all, console=console)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def unwrapped(text):
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 79, 80, 120, 200])
@pytest.mark.parametrize("show_all", [False, True])
def test_no_line_is_wider_than_the_terminal_or_ends_in_blanks(any_result, width, show_all):
    lines = printed(any_result, width, show_all=show_all).splitlines()
    assert max(cell_len(line) for line in lines) <= min(width, 120)
    assert [line for line in lines if line != line.rstrip()] == []


def test_the_verdict_is_the_first_line(any_result):
    first, second = printed(any_result, 200).split("\n")[1:3]
    assert first in {f"■ {word}" for word in WORDS}
    assert second.strip() == any_result.verdict.sentence


def test_the_picture_sums_to_the_step(sample):
    text = printed(sample("input_bound"))
    bar = next(line for line in text.splitlines() if "CCC" in line).strip()
    assert len(bar) == 98
    assert (bar.count("C"), bar.count("I"), bar.count("?")) == (18, 72, 1)


def test_a_legend_row_names_time_share_and_meaning(sample):
    row = next(row for row in printed(sample("input_bound")).splitlines() if "I input" in row)
    assert row.split() == [
        *("I", "input", "wait", "46.1", "ms", "74", "%"),
        *("━━━━━━━━━━━━━━━━━╸", "waiting", "for", "the", "next", "batch"),
    ]


def test_unexplained_time_is_never_hidden(sample):
    result = sample("healthy")
    categories = result.breakdown.categories | {"unexplained": 1}
    wall = sum(categories.values())
    breakdown = structs.replace(result.breakdown, wall_ns=wall, categories=categories)
    text = printed(structs.replace(result, breakdown=breakdown))
    assert "? unexplained  <0.1 ms  <0.1 %" in text


def test_a_finding_has_cost_saving_evidence_fix_and_code(sample):
    text = unwrapped(printed(sample("towers")))
    for part in (
        "1 Move the towers' ops off the CPU of the first task (misplaced-op)",
        "costs 14.2 ms per step, 22 % of it · fixing it should save 11 to 17 ms",
        "misplaced ops 38 · tower_0/dense/MatMul and 37 more",
        "requested device /job:worker/task:1/device:CPU:0",
        "device it ran on /job:worker/replica:0/task:0/device:CPU:0",
        "copied per step because of it 32.0 MiB",
        "placed by tf.device('/cpu:0') · train_towers.py:57",
        "Pin only the variables to the CPU",
        "with tf.device(variables_on_cpu): logits = build_tower(images)",
    ):
        assert part in text
    assert "Risk" not in text


def test_code_keeps_its_lines(sample):
    assert "      with model.no_sync():\n          loss.backward()\n" in printed(
        sample("communication_bound")
    )


def test_a_risk_is_stated(sample):
    assert "Risk: may change numerical results" in printed(sample("input_bound"))


def test_later_findings_have_only_a_title_without_all(sample):
    result = sample("input_bound")
    many = tuple(structs.replace(result.findings[0], title=f"Change thing {n}") for n in range(6))
    result = structs.replace(result, findings=many)
    brief, full = printed(result), printed(result, show_all=True)
    assert (brief.count("DataLoader("), full.count("DataLoader(")) == (4, 6)
    assert "6  Change thing 5  costs 46.1 ms per step" in brief
    assert "2 more with --all" in brief
    assert "more with --all" not in full


def test_abstentions_are_listed_in_one_line(sample):
    result = sample("healthy")
    text = "Not checked   misplaced-op, soft-placement-fallback · see --all"
    assert text in printed(result)
    more = structs.replace(result, findings=(*result.findings, *result.findings[-1:] * 2))
    assert "misplaced-op, soft-placement-fallback and" in printed(more)


def test_what_makes_times_unreliable_stands_first(sample):
    result = sample("healthy")
    text = printed(
        structs.replace(result, verdict=structs.replace(result.verdict, caveat="It was hot."))
    )
    assert text.strip().startswith("■ It was hot.")


def test_kernels_have_short_names(sample):
    result = sample("input_bound")
    name = "void at::native::tril_kernel<float>(float*)"
    fact = Evidence("time of the kernel", 1, "ns", name)
    finding = structs.replace(result.findings[0], evidence=(fact,))
    kernel = structs.replace(result.ops[0], name=name)
    text = printed(structs.replace(result, ops=(kernel,), findings=(finding,)), show_all=True)
    assert text.count("tril_kernel<float>") == 2
    assert "at::native" not in text


def test_all_lists_every_check_and_the_tables(sample):
    text = unwrapped(printed(sample("input_bound"), show_all=True))
    for part in (
        "exposed-transfer Copies hide behind compute",
        "exposed-communication does not apply: one device",
        "misplaced-op, the signal is missing: the trace does not show",
        "4.00 ms 6.4 % 53 aten::convolution_backward backward cuda:0",
        "cuda:0 20 % 11.2 ms 0 ns 0 ns 1.30 ms",
        "info: Rows of one thread were merged. (merged_rows: 12)",
    ):
        assert part in text


def test_unknown_verdict_shows_advice(sample):
    text = unwrapped(printed(sample("unknown")))
    assert "What to do - Mark the steps: call prof.step() once per iteration" in text
    assert "Where the trace goes" in text
    assert "per step" not in text.replace("not per step", "")
    assert "Nothing" not in text


def test_health_needs_a_clear_check(sample):
    result = sample("healthy")
    assert "2 checks came back clear" in printed(result)
    abstained = tuple(f for f in result.findings if f.verdict in words.ABSTAINED)
    text = printed(structs.replace(result, findings=abstained))
    assert "no check had the data" in text


def test_damaged_input_is_reported_at_the_top_and_explained_below(sample):
    text = printed(sample("truncated"))
    top, below = text.split("Where the step goes")
    assert words.PARTIAL in top
    assert "1,980 of 2,017 events kept" in below
    assert "error: The file ends inside an event; copy it again. (truncated: 1)" in below


def test_an_unknown_cost_of_watching_is_listed_with_all(sample):
    result = sample("healthy")
    steps = structs.replace(result.steps, observer_cost_missing_steps=128)
    unknown = structs.replace(result, steps=steps)
    assert "Cost of watching" not in printed(unknown)
    assert "Cost of watching unknown" in printed(unknown, show_all=True)


def test_many_inputs_are_summarised(sample):
    text = printed(sample("communication_bound"))
    assert "ddp/rank2.json" in text
    assert "ddp/rank3.json" not in text
    assert "and 5 more files · 205,025 events" in text


def test_ascii_terminals_get_ascii_of_the_same_shape(any_result):
    ascii_lines = printed(any_result, encoding="ascii").splitlines()
    assert [len(line) for line in ascii_lines] == [
        cell_len(line) for line in printed(any_result).splitlines()
    ]


def test_every_character_of_the_report_has_an_ascii_substitute(sample):
    for name in ("launch_bound", "towers", "communication_bound"):
        text = printed(sample(name), encoding="ascii", show_all=True)
        assert set(re.findall(r"[^\n]*\?[^\n]*", text)) == {
            line for line in text.splitlines() if "? unexplained" in line or "CCC" in line
        }


def test_colours_replace_letters(sample):
    text = printed(sample("input_bound"), colours="truecolor")
    assert "\x1b[38;2;217;140;28m" in text
    assert "CCC" not in text


def test_no_color_is_respected(sample, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;2" not in printed(sample("input_bound"), colours="truecolor")


def test_names_from_a_trace_cannot_control_the_terminal(hostile):
    text = printed(hostile("\x1b]0;owned\x07\u202e\udcff[red]\n"), show_all=True)
    assert {c for c in text if ord(c) < 32} == {"\n"}
    assert "\u202e" not in text
    assert "[red]" in text


def test_prints_to_standard_output(sample, capsys):
    terminal.render(sample("towers"))
    assert "misplaced-op" in capsys.readouterr().out


def test_import_loads_no_heavy_modules():
    heavy = "[m for m in ('jinja2', 'numpy', 'pyarrow', 'pygments') if m in sys.modules]"
    code = f"import sys; import stepwhy.show.terminal; print({heavy})"
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240).stdout
    assert out.strip() == "[]"


def test_ending_comes_before_the_verdict(sample):
    result = sample("input_bound")
    ending = "The training ended with exit code 1 (ValueError) after 305 timed steps."
    text = unwrapped(
        printed(structs.replace(result, run=structs.replace(result.run, ending=ending)))
    )
    assert text.startswith(f"■ {ending} ■ Input-bound {result.verdict.sentence}")
