"""The documentation as a site, without MkDocs: scripts/docs-site builds it and checks the rest."""

import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

import stepwhy
from stepwhy.diagnose import TABLE
from tests.test_repo import anchors

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SYMPTOMS = ("index", "waiting-for-data", "slow-host", "devices", "several-ranks")
MOST_LINES = 95  # of a guide: two screens


def load(name):
    """A module of the site's tools."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / f"web/site/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def hooks():
    return load("hooks")


@pytest.fixture(scope="module")
def check():
    return load("check")


def pages_of(nav):
    """The files that a navigation names, in its order."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for pages in entry.values():
                yield from pages_of(pages)


# --- Navigation ---


def test_each_page_has_one_place_in_the_navigation(hooks):
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    named = Counter(pages_of(hooks.with_diagnoses(nav, (DOCS / hooks.INDEX).read_text())))
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert named == Counter(written), "add the page to `nav` in mkdocs.yml"


def test_diagnoses_are_grouped_by_family(hooks):
    rows = [("input", "a"), ("host", "b"), ("input", "c")]
    index = "".join(f"| {family} | [`{name}`]({name}.md) | It. |\n" for family, name in rows)
    nav = [{"Start": ["README.md"]}, {"Diagnoses": ["diagnoses/index.md"]}]
    found = hooks.with_diagnoses(nav, index)
    families = [{"Input": ["diagnoses/a.md", "diagnoses/c.md"]}, {"Host": ["diagnoses/b.md"]}]
    assert found == [
        {"Start": ["README.md"]},
        {"Diagnoses": ["diagnoses/index.md", *families]},
    ]


def test_each_diagnosis_belongs_to_a_symptom():
    pages = "".join((DOCS / "how-to" / f"{name}.md").read_text() for name in SYMPTOMS)
    linked = set(re.findall(r"\.\./diagnoses/([\w-]+)\.md", pages))
    assert {name.replace("_", "-") for name in TABLE} - linked == set()


def test_guides_are_short():
    lengths = {p.name: len(p.read_text().splitlines()) for p in (DOCS / "how-to").glob("*.md")}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


# --- Markdown as on GitHub ---


def test_anchors_are_those_of_github(hooks):
    dashed = "Why? \u2013 Because"
    headings = ["`stepwhy ops`", "What is not found", "On a CPU: page faults", dashed]
    text = "\n".join(f"## {heading}" for heading in headings)
    assert {hooks.slug(heading, "-") for heading in headings} == anchors(text)


def test_bars_in_tables_lose_their_backslash_in_code(hooks):
    text = "| `--format [a\\|b]` | a \\| b |\nno table: `a\\|b`\n"
    expected = "| `--format [a|b]` | a \\| b |\nno table: `a\\|b`\n"
    assert hooks.on_page_markdown(text, page=None) == expected


# --- Nothing is loaded from a network ---


@pytest.mark.parametrize(
    "page",
    [
        '<script src="https://example.org/a.js"></script>',
        '<link rel="stylesheet" href="//example.org/a.css">',
        '<link rel="preconnect" href="https://example.org">',
        '<img src="a.png" srcset="a.png 1x, https://example.org/b.png 2x">',
        "<style>@import 'https://example.org/a.css';</style>",
        "<p style=\"background: url('https://example.org/a.png')\">",
        '<iframe src="http://example.org">',
        '<pre class="mermaid">graph TD</pre>',
    ],
)
def test_what_a_page_would_load_is_noticed(check, page):
    assert len(check.loaded_by_page(page)) == 1


def test_links_and_local_files_load_nothing(check):
    page = (
        '<a href="https://example.org">a</a> <link rel="canonical" href="https://example.org">'
        '<script src="a.js"></script><img src="data:image/png;base64,AA==">'
        "<code>url(https://a)</code>"
    )
    assert check.loaded_by_page(page) == []


def test_a_style_sheet_that_loads_a_font_is_noticed(check, tmp_path):
    (tmp_path / "a.css").write_text("@font-face { src: url(https://example.org/a.woff2) }")
    (tmp_path / "index.html").write_text('<link rel="stylesheet" href="a.css">')
    assert list(check.problems(tmp_path)) == ["a.css would load https://example.org/a.woff2"]


# --- Contents ---


def test_every_public_name_is_in_the_reference():
    page = (DOCS / "reference/python.md").read_text()
    names = set(stepwhy.__all__) - {"__version__"}
    assert {name for name in names if f"## `stepwhy.{name}`" not in page} == set()


def test_each_compared_tool_has_its_sources():
    page = (DOCS / "comparison.md").read_text()
    parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    tools = re.findall(r"^### (.+)$", parts["Where the others are better"], re.MULTILINE)
    rows = re.findall(r"^\| (.+?) \| .+\]\(https://", parts["Versions and sources"], re.MULTILINE)
    assert len(tools) > 5
    assert [tool for tool in tools if tool.split()[0] not in " ".join(rows)] == []
    assert re.search(r"\*\*\d{1,2} \w+ 20\d\d\*\*", page)
