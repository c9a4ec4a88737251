"""Fill the template of the page."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from msgspec.structs import replace

from stepwhy.base import units
from stepwhy.base.text import plain
from stepwhy.read.kernel_names.short import short_name
from stepwhy.result import CATEGORIES
from stepwhy.show import advice, picture, watched, words
from stepwhy.show.found import explained_sentence, risk
from stepwhy.show.html import chart, levels, placement
from stepwhy.show.html.bidi import isolate
from stepwhy.show.html.devices import device_view
from stepwhy.show.html.lines import line_table
from stepwhy.show.html.memory import memory_charts
from stepwhy.show.html.operations import operation_tables
from stepwhy.show.html.ranks import rank_view
from stepwhy.show.html.timeline import timeline_view
from stepwhy.show.without_findings import nothing_found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import HealthEntry, Result
    from stepwhy.result.timeline import Timeline

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
    text = (
        _environment()
        .get_template("report.html.jinja")
        .render(
            result=result,
            found=words.found(result),
            notes=words.notes(result),
            explained=explained_sentence(result),
            others=_others(result),
            health=_health(result),
            advice=advice.next_steps(result) if result.verdict.bound_by == "unknown" else [],
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
            colour=words.colour_of(result.verdict.bound_by),
            clock=words.wall_clock_sentence(result),
            whole=words.whole(result),
            per=words.per_whole(result),
            unsure=words.is_unsure(result.verdict),
            partial=words.PARTIAL if words.is_partial(result) else "",
            healthy=words.is_healthy(result),
            nothing_found=nothing_found(result),
            gpus=words.gpu_sentences(result),
            sampled_lines=words.sampled_lines(result),
            phases=words.phase_sentence(result.breakdown),
            corrections=picture.corrections(result.breakdown),
            corrections_title=picture.CORRECTIONS_TITLE,
            together=words.parallel_sentence(result),
            is_hottest_listed=words.is_hottest_listed(result),
            style=_style(has_charts=view is not None and view.run is not None),
            script=script,
            script_hash=_hash(script),
        )
    )
    return isolate(plain(text))


def _style(*, has_charts: bool) -> str:
    """Style of the page; that of the library for charts comes first, so that it can be changed."""
    return (_asset("charts.css") if has_charts else "") + _asset("style.css")


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
    )
    environment.filters.update(
        ns=units.format_ns,
        count=units.format_count,
        calls=words.format_calls,
        bytes=_bytes,
        fraction=units.format_fraction,
        value=words.format_value,
        short=short_name,
    )
    environment.globals.update(
        categories=CATEGORIES,
        category_words=words.CATEGORY_WORDS,
        verdict_words=words.VERDICT_WORDS,
        risk=risk,
        present=picture.present,
        share=words.share,
        format_like=words.format_like,
        format_saving=words.format_saving,
        steps_line=words.steps_line,
        run_line=words.run_line,
        watching_sentence=watched.watching_sentence,
        events_title=watched.events_title,
        event_name=watched.event_name,
        event_reason=watched.event_reason,
        event_steps=watched.event_steps,
    )
    return environment


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """Hash for the content security policy, which allows only this script."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _bytes(count: int | None) -> str:
    return "–" if count is None else units.format_bytes(count)  # noqa: RUF001 - en dash intended


def _others(result: Result) -> list[Any]:
    order = list(words.VERDICT_WORDS)
    others = [finding for finding in result.findings if finding.verdict != "found"]
    return sorted(others, key=lambda finding: order.index(finding.verdict))


def _health(result: Result) -> list[tuple[str, HealthEntry]]:
    """What happened while the inputs were read, and in which of them; most severe first."""
    order = ("error", "warning", "info")
    found: dict[tuple[str, str], list[tuple[str, HealthEntry]]] = {}
    for file in result.inputs:
        for entry in file.health:
            if entry.count:
                found.setdefault((entry.counter, entry.help), []).append((file.path, entry))
    every = [_together(same) for same in found.values()]
    return sorted(every, key=lambda pair: order.index(pair[1].severity))


def _together(same: Sequence[tuple[str, HealthEntry]]) -> tuple[str, HealthEntry]:
    """The same event in one or several files."""
    path, entry = same[0]
    count = sum(other.count for _, other in same)
    where = path if len(same) == 1 else f"{units.format_count(len(same))} files"
    return where, replace(entry, count=count)
