"""The first screen: what is wrong, where, and what fixing it gains."""

import re
from itertools import pairwise

import pytest
from msgspec import structs
from tests.show.test_html import Page
from tests.show.test_terminal import printed, unwrapped

from stepwhy.result import Evidence, Fix, Saving
from stepwhy.result.wall_clock import WallClock
from stepwhy.show import html, markdown, words
from stepwhy.show.blocks import Card, Code, Gain, Headline
from stepwhy.show.sections import findings, first_screen

MS = 1_000_000
BREAKABLE = re.compile(r"\d (%|[mµn]?s|[KMG]iB)(?![\w'])")


def block_of(result, kind):
    return next((block for block in first_screen(result) if isinstance(block, kind)), None)


def with_first(result, examples=None, **fields):
    """The result with a changed first finding, and examples per step."""
    first, *rest = result.findings
    steps = structs.replace(result.steps, examples=examples)
    return structs.replace(result, steps=steps, findings=(structs.replace(first, **fields), *rest))


@pytest.mark.parametrize(
    ("low", "high", "after", "rate"),
    [
        (38, 45, "17.4 to 24.4 ms", "1,026 → 2,623 to 3,678 examples/s"),
        (0, 45, "at best 17.4 ms", "1,026 → at best 3,678 examples/s"),
        (45, 45, "about 17.4 ms", "1,026 → about 3,678 examples/s"),
    ],
)
def test_the_gain_is_the_step_after_the_fix(sample, low, high, after, rate):
    saving = Saving(low * MS, high * MS, "input=free")
    result = with_first(sample("input_bound"), examples=64, saving=saving)
    assert block_of(result, Gain) == Gain("62.4 ms", after, "per step", rate, "")


def test_without_a_gain_the_step_and_the_reason_are_shown(sample):
    shown = {name: block_of(sample(name), Gain) for name in ("launch_bound", "healthy", "unknown")}
    assert shown["launch_bound"].remark == "no gain can be predicted"
    assert shown["healthy"] == Gain("62.8 ms", "", "per step", "", "no known problem")
    assert shown["unknown"] == Gain("900 ms", "", "in all", "", "")
    assert block_of(sample("no_devices"), Gain) is None


def test_a_known_cause_of_an_unknown_step_is_no_cannot_tell(sample):
    assert block_of(sample("unknown"), Headline).word == "Cannot tell"
    result = sample("input_bound")
    verdict = structs.replace(result.verdict, bound_by="unknown")
    shown = block_of(structs.replace(result, verdict=verdict), Headline)
    assert (shown.word, shown.tone) == ("Partly explained", "warning")


def test_a_gap_alone_explains_no_part_of_a_step(sample):
    result = sample("input_bound")
    verdict = structs.replace(result.verdict, bound_by="unknown")
    (first, *_) = words.found(result)
    gap = structs.replace(first, id="wall-device-gap")
    alone = structs.replace(result, verdict=verdict, findings=(gap,))
    assert block_of(alone, Headline).word == "Cannot tell"


def test_a_lone_run_is_no_steady_state(sample):
    clock = WallClock(1, 0, 62 * MS, None, ())
    for name, remark in (("towers", ""), ("healthy", ", no known problem")):
        result = structs.replace(sample(name), wall_clock=clock)
        assert block_of(result, Gain).remark == f"not a steady state{remark}"


def test_without_a_finding_the_largest_line_is_named(sample):
    text = unwrapped(printed(sample("one_line")))
    assert "no known problem The longest line is train.py(88): main (92 %)" in text


def test_several_ranks_have_no_rate_of_one(sample):
    result = with_first(sample("communication_bound"), examples=64)
    assert block_of(result, Gain).rate == ""


@pytest.mark.parametrize(
    ("fact", "place"),
    [
        (Evidence("placed by", "tf.device('/cpu:0')", "", "a/train.py:57"), "a/train.py:57"),
        (Evidence("hottest line", "a/train.py(57): main", ""), "a/train.py:57"),
        (Evidence("time", 5, "ns", "GPU:0"), None),
    ],
)
def test_the_place_is_the_first_line_that_evidence_names(sample, fact, place):
    text = markdown.render(with_first(sample("input_bound"), evidence=(fact,)))
    named = f"Prepare batches in worker processes · `{place}`\n"
    assert named in text if place else "worker processes\n" in text


def test_what_follows_the_first_sentence_is_no_headline(sample):
    verdict = structs.replace(sample("unknown").verdict, cause="It is cut. Record it again.")
    result = structs.replace(sample("unknown"), verdict=verdict)
    headline = block_of(result, Headline)
    assert (headline.text, headline.more) == ("It is cut.", "Record it again.")
    assert "Record it again." in markdown.render(result)


def test_short_code_is_shown_once_and_long_code_with_its_finding(sample):
    (section,) = findings(sample("input_bound"))
    card = next(block for block in section.blocks if isinstance(block, Card))
    assert block_of(sample("input_bound"), Code)
    assert not any(isinstance(block, Code) for block in card.fix)
    long = with_first(sample("input_bound"), fix=Fix("Do it.", "x = 1\n" * 9, "none"))
    (section,) = findings(long)
    assert block_of(long, Code) is None
    assert any(isinstance(block, Code) for block in section.blocks[0].fix)


def test_no_number_is_separated_from_its_unit_on_the_page(any_result):
    page = html.render(any_result)
    shown = re.sub(r"<(script|style|code|title)[ >].*?</\1>", "", page, flags=re.DOTALL)
    text = Page(shown).text
    assert [found[0] for found in BREAKABLE.finditer(text)] == []


@pytest.mark.parametrize("width", range(40, 60))
def test_no_number_is_separated_from_its_unit_in_the_terminal(sample, width):
    lines = printed(sample("input_bound"), width).split("What to change")[0].splitlines()
    broken = [b for a, b in pairwise(lines) if a[-1:].isdigit() and b]
    assert [line for line in broken if re.match(r" +(%|ms)", line)] == []


def test_code_of_a_fix_is_copied_as_it_is(sample):
    fix = Fix("Wait.", "sleep('5 ms')", "none")
    assert "sleep(&#39;5 ms&#39;)" in html.render(with_first(sample("input_bound"), fix=fix))


def test_contents_lead_to_every_part_and_count_the_checks(any_result):
    text = html.render(any_result)
    page = Page(text)
    links = [link for link in page.links if link.startswith("#")]
    assert {link[1:] for link in links} <= set(page.ids)
    assert len(links) == len(set(links))
    folds = re.findall(r'<section aria-labelledby="([^"]+)" class="fold', text)
    assert {f"#{fold}" for fold in folds} <= set(links)


def test_checks_are_counted_in_the_contents(sample):
    text = html.render(sample("healthy"))
    assert (
        '<a href="#checks">Checks <span class="soft">2 clear, 2 not visible here</span></a>' in text
    )


def test_idle_devices_are_named_and_not_listed(sample):
    result = sample("communication_bound")
    idle = structs.replace(result.devices[0], name="cuda:9", busy_ns=0)
    text = html.render(structs.replace(result, devices=(*result.devices, idle)))
    assert "Idle throughout: cuda:9." in text
    assert '<th scope="row">cuda:9' not in text
