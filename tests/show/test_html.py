import json
import re
from html.parser import HTMLParser

import pytest
from msgspec import structs

from stepwhy.base.errors import OutputError
from stepwhy.result import CATEGORIES, Edit, Evidence
from stepwhy.result.timeline import ClockMatch, Timeline, TimelineRow
from stepwhy.show import html
from stepwhy.show.html import chart
from stepwhy.show.html.timeline import timeline_view

VOID = {"meta", "link", "br", "input", "img", "hr"}


class Page(HTMLParser):
    """Tags, headings, links and ids of a page; fails on tags that do not nest."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.headings, self.links, self.ids, self._open = [], [], [], [], []
        self.text = ""
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.links += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "data")]
        self.ids += [v for k, v in attrs if k == "id"]
        if tag not in VOID:
            self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not self._open or self._open[-1] not in ("script", "style"):
            self.text += f" {data}"

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def test_it_is_one_well_formed_page_without_requests(any_result):
    text = html.render(any_result)
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert [link for link in page.links if not link.startswith(("data:", "#"))] == []
    assert "url(" not in text
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_headings_and_labels_serve_a_screen_reader(any_result):
    page = Page(html.render(any_result))
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    steps_down = [b - a for a, b in zip(page.headings, page.headings[1:], strict=False)]
    assert max(steps_down) <= 1
    assert len(page.ids) == len(set(page.ids))
    labelled = {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a}
    assert labelled <= set(page.ids)
    assert all(a.get("aria-label") for _, a in page.tags if a.get("role") == "img")


@pytest.mark.parametrize(
    "poison", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}"]
)
def test_names_from_a_trace_are_inert(hostile, poison):
    page, harmless = Page(html.render(hostile(poison))), Page(html.render(hostile("benign")))
    assert poison in page.text
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in harmless.tags]
    assert [set(a) for _, a in page.tags] == [set(a) for _, a in harmless.tags]
    assert page.count("script") == 1


def test_names_stay_text_in_every_context(hostile):
    """In titles, attributes and the script, only escapes of control characters are added."""
    name = "</title></script>\x1b]0;x\x07\x9b\u202e\u2066' onload=x //"
    text = html.render(hostile(name))
    page, harmless = Page(text), Page(html.render(hostile("benign")))
    assert [(tag, set(a)) for tag, a in page.tags] == [(t, set(a)) for t, a in harmless.tags]
    assert not set("\x1b\x07\x9b\u202e\u2066") & set(text)
    shown = r"</title></script>\x1b]0;x\x07\x9b\u202e\u2066' onload=x //"
    assert shown in page.text
    assert any(shown in value for _, a in page.tags for value in a.values() if value)
    assert script_of(text) == script_of(html.render(hostile("")))


def script_of(text):
    return re.search("<script>.*</script>", text, re.DOTALL)[0]


HEBREW, ARABIC = "\u05e9\u05dc\u05d5\u05dd", "\u0635\u0648\u0631\u0629"


def test_right_to_left_names_are_isolated(hostile):
    name = f"{HEBREW}-2 {ARABIC}.json <b>{HEBREW}"
    text = html.render(hostile(name))
    page, other = Page(text), Page(html.render(hostile("-2 <b>")))
    outside = re.sub("<bdi>[^<]*</bdi>|<title>[^<]*</title>|<[^>]*>", "", text)
    assert not re.search("[\u0590-\u08ff]", outside)
    assert f"<bdi>{HEBREW}-2 {ARABIC}</bdi>.json &lt;b&gt;<bdi>{HEBREW}</bdi>" in text
    assert [tag for tag, _ in page.tags if tag != "bdi"] == [tag for tag, _ in other.tags]
    assert name in Page(text.replace("<bdi>", "").replace("</bdi>", "")).text


def test_a_page_without_such_names_has_no_isolation(any_result):
    assert "bdi" not in html.render(any_result)


def test_the_policy_allows_the_page_s_own_script_only(sample):
    text = html.render(sample("towers"))
    assert len(re.findall(r"script-src 'sha256-[\w+/]{43}='", text)) == 1


def test_table_of_the_breakdown_matches_the_bar(sample):
    text = html.render(sample("input_bound")).replace("\N{NO-BREAK SPACE}", " ")
    bar = 'aria-label="Where the step goes: compute 18 %, transfer 2.1 %, input wait 74 %'
    assert bar in text
    assert "46.1 ms</td>" in text
    assert all(f".c-{category} {{" in text for category in CATEGORIES)


def test_a_finding_shows_all_its_evidence_and_its_fix(sample):
    text = " ".join(Page(html.render(sample("towers"))).text.split())
    for part in (
        "Move the towers' ops off the CPU of the first task",
        "Costs 14.2 ms per step, 22 % of it",
        "Fixing it should save 11 to 17 ms",
        "tf.device('/cpu:0') · train_towers.py:57",
        "with tf.device(variables_on_cpu):",
    ):
        assert part in text


def test_a_kernel_has_a_short_name_and_the_full_one_under_the_pointer(sample):
    result = sample("input_bound")
    kernel = structs.replace(result.ops[0], name="void at::native::tril_kernel<float>(float*)")
    text = html.render(structs.replace(result, ops=(kernel, *result.ops[1:])))
    full = "void at::native::tril_kernel&lt;float&gt;(float*)"
    assert f'<th scope="row" title="{full}">tril_kernel&lt;float&gt;</th>' in text
    assert 'title="aten::batch_norm"' not in text


def test_lists_clear_checks_and_abstentions(sample):
    text = " ".join(Page(html.render(sample("healthy"))).text.split())
    assert "No known problem" in text
    assert "exposed-transfer Copies hide behind compute" in text
    assert (
        "misplaced-op, soft-placement-fallback the signal is missing: the trace does not show"
        in text
    )


def test_unknown_verdict_only_recommends_a_better_trace(sample):
    text = Page(html.render(sample("unknown"))).text
    assert "Mark the steps" in text
    assert "What to change" not in text
    assert "per step" not in text.replace("not per step", "")


def test_damaged_input_is_reported_at_the_top(sample):
    text = Page(html.render(sample("truncated"))).text
    assert text.index("Part of the input") < text.index("Where the step goes")
    assert "The file ends inside an event" in text


def test_missing_bytes_are_not_zero(sample):
    assert ">0 B<" not in html.render(sample("input_bound"))


def test_chart_marks_warm_up_and_cuts_tall_bars(sample):
    drawn = chart.step_chart(sample("input_bound").steps)
    assert [bar.warm_up for bar in drawn.bars] == [True] * 3 + [False] * 45
    assert [bar.is_cut for bar in drawn.bars] == [True] * 3 + [False] * 45
    assert drawn.slowest == "Step 1: 558 ms"
    assert max(bar.height for bar in drawn.bars) == chart.HEIGHT


def test_a_long_run_shares_bars_and_loses_no_slow_step(sample):
    steps = sample("launch_bound").steps
    durations = (*[10_000_000] * 4999, 80_000_000)
    drawn = chart.step_chart(structs.replace(steps, durations_ns=durations))
    assert len(drawn.bars) <= 240
    assert drawn.slowest == "Slowest of steps 4999 to 5000: 80.0 ms"


def test_steps_of_similar_length_are_not_cut(sample):
    steps = structs.replace(sample("towers").steps, durations_ns=(5, 6, 5, 6))
    assert chart.step_chart(steps).slowest == ""


@pytest.mark.parametrize("durations", [(), (5,)])
def test_too_few_steps_make_no_chart(sample, durations):
    steps = structs.replace(sample("towers").steps, durations_ns=durations)
    assert chart.step_chart(steps) is None


def test_steps_of_no_duration_do_not_divide_by_zero(sample):
    steps = structs.replace(sample("towers").steps, durations_ns=(0, 0, 0, 0))
    assert {bar.height for bar in chart.step_chart(steps).bars} == {0.0}


def test_write_leaves_the_page_and_nothing_else(tmp_path, sample):
    target = tmp_path / "report.html"
    target.write_text("old")
    html.write(target, sample("towers"))
    assert target.read_text(encoding="utf-8") == html.render(sample("towers"))
    assert list(tmp_path.iterdir()) == [target]


def test_write_survives_text_that_utf8_cannot_encode(tmp_path, hostile):
    html.write(str(tmp_path / "report.html"), hostile("\udcff\x00"))
    assert "\\xff\\x00" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_missing_folder_is_a_typed_error(tmp_path, sample):
    with pytest.raises(OutputError, match=r"cannot be written: No such file.*\. Name a file"):
        html.write(tmp_path / "missing" / "report.html", sample("towers"))


def test_failed_rename_leaves_no_file(tmp_path, sample):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(OutputError):
        html.write(tmp_path / "report.html", sample("towers"))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_ending_comes_before_the_verdict(sample):
    result = sample("input_bound")
    ending = "The training ended with exit code 1 (<Error>) after 305 timed steps."
    text = Page(
        html.render(structs.replace(result, run=structs.replace(result.run, ending=ending)))
    )
    assert text.text.index(ending) < text.text.index("Input-bound", 100)


# --- The timeline ---


def test_a_page_without_a_timeline_has_no_script_for_it(sample):
    text = html.render(sample("input_bound"))
    assert 'id="timeline"' not in text
    assert "stepwhyTimeline" not in text


def test_a_timeline_that_could_not_be_made_says_why(sample):
    broken = Timeline(span_ns=0, rows=(), columns={}, slices=0, problem="MemoryError: <too large>")
    text = html.render(sample("input_bound"), broken)
    assert "The timeline could not be made (MemoryError: &lt;too large&gt;)" in text
    assert "Prepare batches in worker processes" in text


def test_what_is_drawn_together_is_said(sample):
    timeline = Timeline(
        span_ns=10**9,
        rows=(TimelineRow("stream 7", "GPU:0", "stream", (1,)),),
        columns={"gap": b""},
        slices=3_000_000,
        merged=2_500_000,
        shortest_ns=4000,
        unplaced="storage",
        aligned=True,
    )
    text = " ".join(html.render(sample("input_bound"), timeline).split())
    assert "2,500,000 of 3,000,000 slices, all shorter than 4.00 µs, are drawn together" in text
    assert "contains more storage than the timeline" in text
    assert "each rank begins at its first step" in text


@pytest.mark.parametrize(
    ("match", "text"),
    [
        (
            ClockMatch(7_000, 1_200_000_000, 5e-5),
            (
                "differ by up to 1.20 s and by 50.0 µs per second. They are aligned by "
                "collectives, which end on all ranks together: times of different ranks can be "
                "compared within 7.00 µs."
            ),
        ),
        (ClockMatch(7_000, 8_000, 1e-9), "differ by up to 8.00 µs. They are aligned"),
        (ClockMatch(7_000, 6_000, 0.0), "agree: collectives end on all of them within 7.00 µs."),
    ],
)
def test_how_well_ranks_can_be_compared_is_said(sample, match, text):
    rows = (TimelineRow("Steps", "", "steps", (0,)),)
    timeline = Timeline(0, rows, {}, 0, match=match, ranks=(32, 1024), has_waits=True)
    page = html.render(sample("input_bound"), timeline).replace("\N{NO-BREAK SPACE}", " ")
    assert f"The clocks of the ranks {text}" in page
    assert "32 of 1,024 ranks are drawn: those that the others wait for longest." in page
    assert "waits for other ranks</li>" in page


def test_clocks_that_were_not_compared_are_said_to_be_as_recorded(sample):
    rows = (TimelineRow("Steps", "", "steps", (0,)),)
    page = html.render(sample("input_bound"), Timeline(0, rows, {}, 0, ranks=(2, 2)))
    assert "collectives do not show how well these clocks agree" in page
    first = html.render(sample("input_bound"), Timeline(0, rows, {}, 0, aligned=True, ranks=(2, 2)))
    assert "how well these clocks agree" not in first


def test_without_ranks_nothing_is_said_of_them(sample):
    timeline = Timeline(0, (TimelineRow("Steps", "", "steps", (0,)),), {}, 0)
    page = html.render(sample("input_bound"), timeline)
    assert "The clocks of the ranks" not in page
    assert "waits for other ranks</li>" not in page


def test_a_finding_names_what_it_is_about(sample):
    timeline = Timeline(0, (TimelineRow("Steps", "", "steps", (0,)),), {}, 0)
    header = json.loads(timeline_view(timeline, sample("input_bound")).header)
    jumps = {jump["id"]: jump["names"] for jump in header["jumps"]}
    assert jumps["input-bound"][:2] == ["DataLoader", "cuda:0"]
    assert [one["id"] for one in header["predicted"]] == ["input-bound", "launch-bound"]
    step = header["predicted"][0]
    assert step["low"] <= step["middle"] <= step["high"] < 1


def jump_of(sample, *evidence, edit=None):
    finding = structs.replace(sample("input_bound").findings[0], evidence=evidence, edit=edit)
    result = structs.replace(sample("input_bound"), findings=(finding,))
    timeline = Timeline(0, (TimelineRow("Steps", "", "steps", (0,)),), {}, 0)
    return json.loads(timeline_view(timeline, result).header)["jumps"][0]


def test_each_name_of_a_piece_of_evidence_is_looked_for(sample):
    jump = jump_of(
        sample,
        Evidence("operations", 12, "count", "a/Conv2D, a/Relu and 8 more"),
        Evidence("MatMul operations", 2, "count", "b/MatMul (train.py(31): model)"),
        Evidence("responsible device scope", "train.py(24)", ""),
        Evidence("batches are prepared by", "the training loop", ""),
    )
    assert jump["names"] == [
        "a/Conv2D",
        "a/Relu",
        "b/MatMul (train.py(31): model)",
        "b/MatMul",
        "train.py(24)",
    ]


def test_only_a_name_can_tell_which_computation_is_meant(sample):
    assert jump_of(sample, edit=Edit("ops", "fused"))["category"] == -1
    assert jump_of(sample, edit=Edit("input", "free"))["category"] == CATEGORIES.index("input_wait")


def test_names_cannot_end_the_script_of_the_header(sample):
    rows = (TimelineRow("</script><b>", "<!--", "stream", (0,)),)
    header = timeline_view(Timeline(0, rows, {}, 0), sample("input_bound")).header
    assert "<" not in header
    assert json.loads(header)["rows"][0]["title"] == "</script><b>"
