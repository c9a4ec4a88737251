"""Fill the template of the page."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from stepwhy.base import units
from stepwhy.base.text import plain
from stepwhy.result import CATEGORIES
from stepwhy.show import picture, sections, watched, words
from stepwhy.show.blocks import UNIT, Facts, Headline, Section
from stepwhy.show.html import chart, levels, placement
from stepwhy.show.html.bidi import isolate
from stepwhy.show.html.devices import device_view
from stepwhy.show.html.lines import line_table
from stepwhy.show.html.memory import memory_charts
from stepwhy.show.html.operations import operation_tables
from stepwhy.show.html.ranks import rank_view
from stepwhy.show.html.timeline import timeline_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.result import Result
    from stepwhy.result.timeline import Timeline

_INPUTS = 32  # files that the page names
_TEMPLATES = resources.files("stepwhy.show") / "templates"


def page(result: Result, timeline: Timeline | None = None) -> str:
    """The whole page for a result, with its timeline if there is one."""
    view = timeline_view(timeline, result)
    operations = operation_tables(result, timeline.views if timeline else ())
    ranks = rank_view(result)
    has_tables = bool(operations) or ranks is not None
    scripts = _scripts(
        has_tables=has_tables,
        has_heat=ranks is not None and ranks.heat is not None,
        has_timeline=view is not None,
    )
    script = "".join(map(_asset, scripts))
    opening = sections.first_screen(result)
    # The verdict and the gain are the title: names of pages are read in a row of tabs.
    found = next(block for block in opening if isinstance(block, Headline))
    text = (
        _environment()
        .get_template("report.html.jinja")
        .render(
            result=result,
            title=f"{found.word}: {found.text}",
            parts=[],
            opening=opening,
            picture=list(sections.picture(result)),
            findings=sections.findings(result),
            record=_record(result),
            steps=sections.steps_texts(result, show_all=True),
            timeline=view,
            operations=operations,
            ranks=ranks,
            devices=device_view(result),
            lines=line_table(result),
            chart=chart.step_chart(result.steps),
            levels=levels.level_charts(result),
            placement=placement.placement_view(result.placement),
            memory=memory_charts(result),
            events=watched.listed_events(result),
            whole=words.whole(result),
            # The style of the library for charts comes first, so that it can be changed.
            style=(_asset("charts.css") if view is not None and view.run is not None else "")
            + _asset("style.css"),
            script=script,
            # The content security policy allows only this script.
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    return isolate(plain(text))


def _scripts(*, has_tables: bool, has_heat: bool, has_timeline: bool) -> list[str]:
    """Scripts of the page, without those of parts that it does not have."""
    scripts = ["copy.js", "placement.js"]
    scripts += ["ranks.js"] * has_heat
    return scripts + ["tables.js"] * has_tables + ["timeline.js"] * has_timeline


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_together,
    )
    environment.filters.update(
        ns=units.format_ns,
        count=units.format_count,
        bytes=_bytes,
        fraction=units.format_fraction,
        kind=lambda block: type(block).__name__,
    )
    environment.globals.update(
        categories=CATEGORIES,
        category_words=words.CATEGORY_WORDS,
        present=picture.present,
        share=words.share,
        format_like=words.format_like,
        events_title=watched.events_title,
        event_name=watched.event_name,
        event_reason=watched.event_reason,
        event_steps=watched.event_steps,
    )
    return environment


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _bytes(count: int | None) -> str:
    return "–" if count is None else units.format_bytes(count)  # noqa: RUF001 - en dash intended


def _together(value: object) -> object:
    """What a template shows, without a line break between a number and its unit."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return UNIT.sub("\N{NO-BREAK SPACE}", value)


def _record(result: Result) -> Iterator[tuple[Section, str, str]]:
    """The checks without a finding, and what was read: each with a short name and a count."""
    if (checks := sections.checks(result)).groups:
        clear, missing = (len(checks.ids(is_clear=one)) for one in (True, False))
        count = f"{clear} clear, {missing} not visible here" if missing else f"{clear} clear"
        yield Section("checks", "Other checks", (checks,)), "Checks", count
    # The steps have a section with a chart.
    _, *rows = sections.reading(result, show_all=True, most_inputs=_INPUTS).rows
    yield Section("record", "What was read", (Facts(tuple(rows)),)), "Record", ""
