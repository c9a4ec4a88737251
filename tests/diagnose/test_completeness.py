"""Each diagnosis has a rule, a literate test, a docs page and a line in the table."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from stepwhy import diagnose

ROOT = Path(__file__).parents[2]
HEADINGS = (
    "What it means",
    "Why it costs",
    "How it is measured",
    "Fix",
    "Fix risk",
    "When it abstains",
)
CASES = ("Fires", "Silent", "Abstains")
# They need an accelerator that is short of memory. `slow-link` needs a quiet machine for
# `lab/tf1/towers_tables`. `slow-group` needs several links. The pairs of `double-backward`,
# `lab/torch/gradient_penalty`, of `hot-line`, `lab/tf1/paired_losses`, and of
# `mostly-zero-operand`, `lab/torch/graph_blocks`, were not graded on a quiet machine yet. The fix
# of `unused-graph` saves memory, and no time.
WITHOUT_REPORT = {
    "allocator-pressure",
    "double-backward",
    "hot-line",
    "hung-collective",
    "late-arrival",
    "mismatched-collective",
    "mostly-zero-operand",
    "slow-group",
    "slow-link",
    "step-growth",
    "subnormal-numbers",
    "unused-graph",
}


def omissions(rules, tests, pages, table):
    """Missing parts of diagnoses, one line each.

    Args:
        rules: Folder of the diagnoses.
        tests: Folder of the literate tests.
        pages: Folder of the docs pages.
        table: Names in the table.
    """
    names = {path.stem for path in _rules(rules)}
    missing = [f"{name}: no line in TABLE" for name in sorted(names - set(table))]
    for name in table:
        missing += [f"{name}: {what}" for what in _of_one(rules, tests, pages, name)]
    return missing


def _rules(folder):
    """The modules of diagnoses: in the folder itself, and in those of the families."""
    found = [*folder.glob("*.py"), *folder.glob("*/*.py")]
    return [p for p in found if p.parent.name != "shared" and not p.stem.startswith("_")]


def _of_one(rules, tests, pages, name):
    rule = next((path for path in _rules(rules) if path.stem == name), None)
    slug = name.replace("_", "-")
    test, page = tests / f"{slug}.md", pages / f"{slug}.md"
    if rule is None:
        return ["no rule"]
    code = rule.read_text(encoding="utf-8")
    docstring = code.split('"""')[1]
    found = [h[3:] for h in docstring.splitlines() if h.startswith("## ")]
    missing = [f"no heading '{h}'" for h in HEADINGS if h not in found]
    if found != [h for h in HEADINGS if h in found]:
        missing.append("headings out of order")
    if "RULE = Rule(\n    __name__,\n" not in code:
        missing.append("wrong id")
    cases = test.read_text(encoding="utf-8") if test.exists() else ""
    missing += [f"no case '{kind}'" for kind in CASES if f"\n## {kind}: " not in cases]
    return missing + ([] if page.exists() else ["no page"])


@pytest.fixture
def places(tmp_path):
    """Copies of the folders of rules, tests and pages, in which a test removes something."""
    copies = []
    for source in _PLACES:
        copies.append(tmp_path / source.relative_to(ROOT))
        shutil.copytree(source, copies[-1], ignore=shutil.ignore_patterns("__pycache__"))
    return copies


_PLACES = (
    ROOT / "src" / "stepwhy" / "diagnose",
    ROOT / "tests" / "diagnose",
    ROOT / "docs" / "diagnoses",
)


def test_nothing_is_missing():
    assert omissions(*_PLACES, diagnose.TABLE) == []


def test_table_has_no_duplicates():
    assert len(set(diagnose.TABLE)) == len(diagnose.TABLE)


def test_a_missing_literate_test_is_noticed(places):
    (places[1] / "host-sync.md").unlink()
    assert omissions(*places, diagnose.TABLE) == [f"host_sync: no case '{k}'" for k in CASES]


def test_a_missing_case_is_noticed(places):
    test = places[1] / "host-sync.md"
    test.write_text(test.read_text(encoding="utf-8").replace("## Silent: ", "## Fires: "), "utf-8")
    assert omissions(*places, diagnose.TABLE) == ["host_sync: no case 'Silent'"]


def test_a_missing_line_in_the_table_is_noticed(places):
    table = [name for name in diagnose.TABLE if name != "host_sync"]
    assert omissions(*places, table) == ["host_sync: no line in TABLE"]


def test_a_missing_rule_is_noticed(places):
    (places[0] / "host" / "host_sync.py").unlink()
    assert omissions(*places, diagnose.TABLE) == ["host_sync: no rule"]


def test_a_missing_page_is_noticed(places):
    (places[2] / "host-sync.md").unlink()
    assert omissions(*places, diagnose.TABLE) == ["host_sync: no page"]


@pytest.mark.parametrize("heading", HEADINGS)
def test_a_missing_heading_is_noticed(places, heading):
    rule = places[0] / "host" / "host_sync.py"
    code = rule.read_text(encoding="utf-8").replace(f"## {heading}\n", "", 1)
    rule.write_text(code, encoding="utf-8")
    assert omissions(*places, diagnose.TABLE) == [f"host_sync: no heading '{heading}'"]


def test_pages_are_up_to_date(tmp_path):
    generator = _load(ROOT / "docs" / "generate_diagnoses.py")
    assert generator.drift(ROOT / "docs" / "diagnoses") == []
    shutil.copytree(ROOT / "docs" / "diagnoses", tmp_path / "pages")
    (tmp_path / "pages" / "host-sync.md").write_text("stale", encoding="utf-8")
    (tmp_path / "pages" / "gone.md").write_text("removed", encoding="utf-8")
    assert generator.drift(tmp_path / "pages") == ["gone.md", "host-sync.md"]


def test_only_diagnoses_that_nothing_real_has_shown_lack_a_report():
    recorded = {path.stem for path in (ROOT / "docs" / "reports").glob("*.txt")}
    ids = {name.replace("_", "-") for name in diagnose.TABLE}
    assert recorded <= ids
    assert ids - recorded <= WITHOUT_REPORT


def test_reports_show_their_own_finding():
    for path in (ROOT / "docs" / "reports").glob("*.txt"):
        assert f"({path.stem})" in path.read_text(encoding="utf-8")


def _load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
