"""The report as Markdown; a Markdown parser reads it back."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import structs

from stepwhy.result import Evidence
from stepwhy.show import markdown, words
from stepwhy.show.markdown_text import code, code_block, line, prose, table

PARSER = MarkdownIt("commonmark").enable("table")
# What chats and GitHub make a link, a mention or a reference of, outside of code.
LIVE = re.compile(r"@|://|www\.|#\d|[`|<>$~*_\\]")
ATTACKS = (
    "` @everyone",
    "``` \n# owned",
    "| a | b |",
    "<img src=x onerror=alert(1)>",
    "<!-- x -->",
    "</details><script>x</script>",
    "[click](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "https://evil.example www.evil.example me@evil.example evil.example",
    "@someone org/repo#1 #12 GH-12 0123456789abcdef :tada:",
    "**bold** _it_ ~~gone~~ $x$ $$y$$",
    "\\",
    "\\`",
    "`",
    "a`b``c```d",
    "\n\n---\n\n- item",
    "&lt;b&gt; &#64;",
    "\u202e\x1b[31m",
)


def tokens(text):
    """All tokens of a document, nested ones included."""
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def live_text(text):
    return "\n".join(token.content for token in tokens(text) if token.type == "text")


def shown(text):
    """What a reader sees of inline Markdown."""
    parts = PARSER.parseInline(text)[0].children
    assert {part.type for part in parts} <= {"text", "code_inline"}
    return "".join(part.content for part in parts)


@pytest.mark.parametrize("show_all", [False, True])
def test_the_report_is_at_most_120_lines_unless_all_is_shown(any_result, show_all):
    many = tuple(
        structs.replace(f, evidence=f.evidence * 9, id=f"{f.id}-{n}", title=f"{f.title} {n}")
        for n in range(12)
        for f in any_result.findings
    )
    text = markdown.render(structs.replace(any_result, findings=many), show_all=show_all)
    if not show_all:
        assert len(text.splitlines()) <= markdown.MOST_LINES
    found = [f for f in many if f.verdict == "found"]
    assert not found or f"({code(found[0].id)})" in text
    assert not show_all or all(code(f.id) in text for f in found)


def test_it_has_verdict_breakdown_findings_and_what_was_not_checked(sample):
    text = markdown.render(sample("input_bound"))
    parts = [
        "**Input-bound**: The GPU waits for the next batch 74 % of each step.",
        "**62.4 ms → 17.4 to 24.4 ms per step**",
        "Prepare batches in worker processes · `data/augment.py:88`",
        "```python\nDataLoader(dataset, batch_size=64,\n           num_workers=8",
        "`python train.py -b 64`",
        "| input wait | 46.1 ms | 74 % | waiting for the next batch |",
        "#### 1. Prepare batches in worker processes (`input-bound`)",
        "Costs **46.1 ms per step**, 74 % of it; fixing it should save **38 to 45 ms**.",
        "- time waiting for the next batch: 46.1 ms · `DataLoader`",
        "- hottest line meanwhile: `data/augment.py:88`",
        "Risk: may change numerical results",
        "### Not checked",
        "- `misplaced-op`, `soft-placement-fallback`: the signal is missing: the trace",
        "- Input: `runs/resnet/rank0.pt.trace.json.gz` · kineto-json, 80,211 of 80,214 events kept",
    ]
    places = [text.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


def test_the_breakdown_is_a_table(sample):
    rows = [t for t in tokens(markdown.render(sample("launch_bound"))) if t.type == "tr_open"]
    assert len(rows) == 1 + 5


def test_what_does_not_fit_is_listed_by_title(sample):
    result = sample("input_bound")
    many = tuple(
        structs.replace(result.findings[0], id=f"finding-{n}", title=f"Change {n}")
        for n in range(20)
    )
    text = markdown.render(structs.replace(result, findings=many))
    titles = re.findall(r"^(\d+)\. \*\*Change \d+\*\* \(`finding-\d+`\): costs", text, re.MULTILINE)
    in_full = re.findall(r"^#### (\d+)\. ", text, re.MULTILINE)
    assert [int(n) for n in in_full + titles] == list(range(1, len(in_full) + 9))
    assert f"{20 - len(in_full) - 8} more" in text


def test_without_a_verdict_it_says_what_to_do(sample):
    text = markdown.render(sample("unknown"))
    assert "- Mark the steps: call `prof.step()` once per iteration" in text
    assert "What to change" not in text


def test_a_failed_and_a_partial_run_say_so(sample):
    result = sample("truncated")
    run = structs.replace(result.run, ending="The training ended with exit code 1.")
    text = markdown.render(structs.replace(result, run=run))
    assert text.startswith("The training ended with exit code 1.\n\n**")
    assert words.PARTIAL in text


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("show_all", [False, True])
def test_names_cannot_break_out(hostile, attack, show_all):
    text = markdown.render(hostile(f" {attack}"), show_all=show_all)
    kinds = {token.type for token in tokens(text)}
    assert not kinds & {"html_inline", "html_block", "image", "link_open", "em_open", "s_open"}
    allowed = live_text(text).replace("<0.", "").replace("<1 ", "")
    assert LIVE.findall(allowed) == []
    harmless = markdown.render(hostile(" x"), show_all=show_all)
    assert blocks(text) == blocks(harmless)
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)


def blocks(text):
    return [(t.type, t.tag) for t in PARSER.parse(text) if t.type != "fence"]


def test_code_of_a_fix_cannot_end_its_block(sample):
    result = sample("input_bound")
    fix = structs.replace(result.findings[0].fix, code="x = 1\n```\n# owned\n````")
    finding = structs.replace(result.findings[0], fix=fix)
    text = markdown.render(structs.replace(result, findings=(finding,)))
    blocks_of_code = [t for t in tokens(text) if t.type == "fence"]
    assert [t.content for t in blocks_of_code] == ["x = 1\n```\n# owned\n````\n"]


def test_short_names_of_kernels(sample):
    result = sample("input_bound")
    name = "void at::native::tril_kernel<float>(float*)"
    finding = structs.replace(result.findings[0], evidence=(Evidence("time", 1, "ns", name),))
    text = markdown.render(structs.replace(result, findings=(finding,)))
    assert "- time: 1 ns · `tril_kernel<float>`" in text


@given(st.text(string.printable + "`|<>@éµ\u202e"))
def test_prose_and_code_show_the_text_as_it_is(text):
    plain = " ".join(re.sub("[\x00-\x1f\x7f-\x9f\u202e]", "", text).split())
    if not re.search("[\x00-\x1f\x7f\u202e]", text) and "`" not in text:
        assert shown(line(text)) == plain
        assert shown(code(text)) == plain
    assert "\n" not in prose(text) + code(text)
    assert LIVE.findall(live_text(line(text))) == []


@given(st.text(string.printable + "`|\\"))
def test_a_cell_stays_one_cell(text):
    lines = table(("a", "b"), [(prose(text), "x"), (code(text), "x")], frozenset())
    rows = list(tokens("\n".join(lines)))
    assert sum(token.type == "td_open" for token in rows) == 4
    assert [t.content for t in rows if t.type == "inline"][3::2] == ["x", "x"]


@given(st.text(string.printable + "`~"))
def test_a_block_of_code_stays_one_block(text):
    found = PARSER.parse("\n".join([*code_block(text, "python"), "", "end"]))
    assert found[0].type == "fence"
    assert found[2].content == "end"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a wait of 46.1 ms", "a wait of 46.1 ms"),
        ("in train.py.", "in `train.py`."),
        ("(see tf.data)", "(see `tf.data`)"),
        ("call f(x_y), then", "call `f(x_y)`, then"),
        ("as `stepwhy run` does", "as `stepwhy run` does"),
        ("with 'stepwhy run train.py', or", "with 'stepwhy run `train.py`', or"),
        ("ask @me", "ask `@me`"),
        ("a `b", "a `` `b ``"),
    ],
)
def test_only_what_could_be_markup_becomes_code(text, expected):
    assert prose(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1. one", "1\\. one"), ("- one", "\\- one"), ("12 ms", "12 ms"), ("1.5 ms", "1.5 ms")],
)
def test_a_line_does_not_begin_a_list(text, expected):
    assert line(text) == expected
