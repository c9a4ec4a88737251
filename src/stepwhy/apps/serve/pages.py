"""Fill the templates of the server's own pages.

They need no script, and load nothing but the style and script of this server. All names are
escaped.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import jinja2
import msgspec

from stepwhy import __version__
from stepwhy.apps.serve.access import FORM_FIELD
from stepwhy.apps.serve.filters import NOT_EXPLAINED, PAGE_SIZE, choices, verdict_of
from stepwhy.apps.serve.summaries import copies
from stepwhy.apps.serve.times import date_text
from stepwhy.apps.serve.trend import trends
from stepwhy.base import units
from stepwhy.base.text import plain
from stepwhy.result import CATEGORIES
from stepwhy.show import picture, words
from stepwhy.show.html.bidi import isolate

if TYPE_CHECKING:
    from stepwhy.apps.serve.filters import Filter
    from stepwhy.apps.serve.jobs import Job
    from stepwhy.apps.serve.pairs import Pair
    from stepwhy.apps.serve.summaries import Entry, Summary

_TEMPLATES = resources.files("stepwhy.apps.serve") / "templates"
_REPORT = resources.files("stepwhy.show") / "templates"
_STATES = {
    "explained": "",
    "unexplained": "Not explained yet",
    "unfinished": "Running, or ended without a record",
    "damaged": "Damaged",
}
_BAR_WIDTH = 1000


class Shell(msgspec.Struct, frozen=True):
    """What every page has.

    Args:
        folder: Name of the served folder.
        version: Number that grows with each change.
        form_key: For forms; '' if the reader may not write.
        is_private: Whether reading needs the token as well.
    """

    folder: str
    version: int = 0
    form_key: str = ""
    is_private: bool = False


def list_page(
    shell: Shell, entries: list[Entry], asked: Filter, *, note: str = "", working: int = 0
) -> str:
    """The list of all runs, and below it the trend of the step time.

    Args:
        shell: What every page has.
        entries: All entries, newest first.
        asked: The filter.
        note: Why the list is not complete; '' if it is.
        working: Number of runs that wait to be explained.
    """
    chosen = asked.chosen(entries)
    pages = max(1, -(-len(chosen) // PAGE_SIZE))
    page = min(asked.page, pages)
    charts, left_out = trends(chosen, asked.axis)
    return _page(
        "list.html.jinja",
        shell,
        asked=asked,
        choices=choices(entries),
        entries=chosen[(page - 1) * PAGE_SIZE : page * PAGE_SIZE],
        found=len(chosen),
        total=len(entries),
        page=page,
        pages=pages,
        links={number: _address(asked, number) for number in (page - 1, page + 1)},
        by_date=_address(msgspec.structs.replace(asked, axis="date")),
        by_commit=_address(msgspec.structs.replace(asked, axis="commit")),
        trends=charts,
        copied=copies(entries),
        left_out=left_out,
        has_commits=any(entry.summary.commit for entry in entries),
        unexplained=sum(e.summary.state == "unexplained" for e in entries),
        note=note,
        working=working,
    )


def run_page(shell: Shell, entry: Entry, job: Job | None) -> str:
    """One run: figures, findings, note, and what can be done with it."""
    can_explain = entry.summary.kind == "run"
    return _page("run.html.jinja", shell, entry=entry, job=job, can_explain=can_explain)


def compare_page(shell: Shell, pair: Pair) -> str:
    """Two runs side by side."""
    return _page("compare.html.jinja", shell, pair=pair, longest=max(*pair.wall, 1))


def message_page(shell: Shell, title: str, text: str, *, forward: str = "") -> str:
    """A page with one message.

    Args:
        shell: What every page has.
        title: Its heading.
        text: One or more sentences.
        forward: Address that follows at once; '' to stay.
    """
    return _page("message.html.jinja", shell, title=title, text=text, forward=forward)


def style() -> str:
    """The style of all pages: that of the report, and additions."""
    colours = "".join(
        f".c-{name} {{ --c: {words.CATEGORY_WORDS[name].colour}; }}\n" for name in CATEGORIES
    )
    report = (_REPORT / "style.css").read_text(encoding="utf-8")
    return report + colours + _asset("serve.css")


def script() -> str:
    """The script of all pages; they work without it."""
    return _asset("serve.js")


def _address(asked: Filter, page: int = 1) -> str:
    """The list with a filter, as a relative address."""
    fields = {
        "q": asked.text,
        "framework": asked.framework,
        "verdict": asked.verdict,
        "branch": asked.branch,
        "by": "commit" if asked.axis == "commit" else "",
        "page": str(page) if page > 1 else "",
    }
    return "/?" + urlencode({name: value for name, value in fields.items() if value})


def _page(template: str, shell: Shell, **values: Any) -> str:
    text = _environment().get_template(template).render(shell=shell, **values)
    return isolate(plain(text))


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(ns=units.format_ns, count=units.format_count, date=date_text)
    environment.globals.update(
        category_words=words.CATEGORY_WORDS,
        category_of=_category_of,
        verdict_words=words.VERDICT_WORDS,
        format_like=words.format_like,
        share=words.share,
        present=picture.present,
        segments=_segments,
        state_words=_STATES,
        verdict_of=verdict_of,
        verdict_name=_verdict_name,
        step_text=_step_text,
        form_field=FORM_FIELD,
        not_explained=NOT_EXPLAINED,
        stepwhy_version=__version__,
    )
    return environment


def _segments(categories: dict[str, int], whole_ns: int) -> list[tuple[str, float, float]]:
    """Category, start and width of each part of a bar, in thousandths of its length."""
    parts, start = [], 0.0
    for name, ns in picture.present(categories):
        width = _BAR_WIDTH * ns / max(whole_ns, 1)
        parts.append((name, round(start, 1), round(width, 1)))
        start += width
    return parts


def _category_of(summary: Summary) -> str:
    """The category whose colour stands for a verdict; '' if it is unknown."""
    return words.category_of(summary.bound_by)


def _verdict_name(summary: Summary) -> str:
    """The verdict in one or two words; '' for a page."""
    if summary.kind == "page":
        return ""
    if summary.state != "explained":
        return _STATES[summary.state]
    return "Cannot tell" if summary.bound_by == "unknown" else summary.bound_by.capitalize()


def _step_text(summary: Summary) -> str:
    """The step time; an en dash if it is unknown."""
    return units.format_ns(summary.median_ns) if summary.median_ns is not None else "–"  # noqa: RUF001


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
