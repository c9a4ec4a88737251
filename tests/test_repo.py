"""The repository as a whole: documented completely, light to import, installable by itself."""

import ast
import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from datetime import date
from pathlib import Path

import pytest

import stepwhy

ROOT = Path(__file__).resolve().parent.parent
PROSE = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
FRAMEWORKS = {"tensorflow", "torch", "jax", "keras", "pandas"}
NOT_FOR_HELP = FRAMEWORKS | {"numpy", "pyarrow", "msgspec", "jinja2", "rich", "google"}


def load(path):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def docs():
    sys.path.insert(0, str(ROOT / "docs"))  # where a script's own neighbours are
    yield load(ROOT / "docs/generate.py")
    sys.path.remove(str(ROOT / "docs"))


# --- Documentation ---


def test_generated_pages_are_what_the_code_says(docs):
    assert [str(path) for path in docs.drifted()] == []


def test_a_page_that_differs_or_is_left_over_is_noticed(docs, monkeypatch):
    wanted = docs.pages()
    changed = wanted | {"reference/cli.md": "planted"}
    del changed["diagnoses/input-bound.md"]
    monkeypatch.setattr(docs, "pages", lambda: changed)
    left_over = ROOT / "docs/diagnoses/input-bound.md"
    assert docs.drifted() == {ROOT / "docs/reference/cli.md": "planted", left_over: None}


def test_a_readme_whose_figures_differ_is_noticed(docs, monkeypatch):
    monkeypatch.setattr(docs.generate_readme, "figures", lambda: defaultdict(lambda: "PLANTED"))
    for name in docs.generate_readme.NAMES:
        assert "PLANTED" in docs.generate_readme.renewed(name)
        assert "PLANTED" not in (ROOT / name).read_text()


def described(picture):
    """The description that a PNG contains."""
    found = re.search(rb"tEXtDescription\0(.*).{4}\0{4}IEND", picture.read_bytes(), re.DOTALL)
    return found[1].decode("latin-1")


def test_the_picture_of_the_readme_shows_its_report():
    report = (ROOT / "docs/images/report.txt").read_bytes().decode("utf-8")
    replaced = report.encode("latin-1", "replace").decode("latin-1")
    assert described(ROOT / "docs/images/report.png") == replaced


@pytest.mark.traces
@pytest.mark.skipif(not os.environ.get("STEPWHY_TRACES"), reason="STEPWHY_TRACES names no folder")
def test_the_report_of_the_readme_is_what_its_trace_shows():
    pictures = load(ROOT / "docs/pictures.py")
    report, _ = pictures.readme_report(Path(os.environ["STEPWHY_TRACES"], pictures.TRACE))
    shown = (ROOT / "docs/images/report.txt").read_text()
    assert report == shown, "run python docs/pictures.py report.png, then docs/generate.py"


def test_every_error_and_dependency_is_documented(docs):
    assert list(docs.omissions()) == []


def test_an_undocumented_error_is_noticed(docs):
    page = (ROOT / "docs/reference/errors.md").read_text()
    assert docs.undocumented_errors(page.replace("### no-traces", "### other")) == ["no-traces"]
    assert docs.undocumented_errors(page.replace("Exit code 4.", "")) == ["cannot-write"]


def test_a_dependency_without_a_reason_is_noticed(docs):
    page = "| `one` | A reason. |\n| `two` |  |\n"
    project = {"dependencies": ["one>=1"], "optional-dependencies": {"x": ["two==2.*", "three"]}}
    assert docs.unjustified_dependencies(page, project) == ["two", "three"]


def unmentioned(words, text):
    return [word for word in words if not re.search(rf"{re.escape(word)}(?![\w-])", text)]


def cited_tests(page):
    """The test files, and the beginnings of names of test functions, that a page names."""
    words = re.findall(r"`((?:[\w/]+\.py)?(?:::)?(?:test_\w+\*?)?)`", page)
    planted = {"numba.py", "sitecustomize.py"}
    files = {word.partition("::")[0] for word in words if ".py" in word} - planted
    functions = {f for word in words if (f := word.rpartition("::")[2]).startswith("test_")}
    return files, {name for name in functions if not name.endswith(".py")}


def test_every_limit_on_the_page_on_security_has_its_test():
    files, functions = cited_tests((ROOT / "docs/explanation/security.md").read_text())
    sources = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(files) > 20
    assert len(functions) > 30
    names = [str(path) for path in (*sources, *(ROOT / "fuzz").glob("*.py"))]
    assert [f for f in files if not any(name.endswith(f"/{f}") for name in names)] == []
    text = "\n".join(sources.values())
    ends = {name: "" if name.endswith("*") else r"\(" for name in functions}
    begun = {name: re.search(rf"def {name.rstrip('*')}{ends[name]}", text) for name in functions}
    assert [name for name, found in begun.items() if not found] == []


def test_every_command_and_option_appears_in_the_reference(docs):
    page = (ROOT / "docs/reference/cli.md").read_text()
    words = [name for name, _ in docs.commands()]
    words += [p for _, c in docs.commands() for o in c.params for p in o.opts if p[0] == "-"]
    assert unmentioned(words, page) == []
    assert unmentioned([*words, "--planted"], page) == ["--planted"]


def test_every_command_has_a_guide(docs):
    guides = "".join(p.read_text() for p in (ROOT / "docs/how-to").glob("*.md"))
    assert unmentioned([name for name, _ in docs.commands()], guides) == []


def test_no_link_that_leads_elsewhere_is_committed():
    # A link to a folder of one machine, such as node_modules, is broken on all others.
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    listed = subprocess.run(
        ["git", "ls-files", "--stage"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert [line for line in listed.stdout.splitlines() if line.startswith("120000")] == []


def test_the_newest_version_of_the_changelog_is_this_one_and_has_a_date():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    versions = [heading.split(" - ") for heading in headings if heading != "Unreleased"]
    assert versions[0][0] == stepwhy.__version__
    assert [date.fromisoformat(day) for _, day in versions] == sorted(
        (date.fromisoformat(day) for _, day in versions), reverse=True
    )


def test_the_tutorial_shows_the_programs_as_they_are():
    page = (ROOT / "docs/tutorial.md").read_text()
    shown = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    pairs = ("torch/python_metrics", "tf1/towers")
    programs = [f"lab/{pair}/{name}.py" for pair in pairs for name in ("faulty", "fixed")]
    assert [program for program, code in zip(programs, shown, strict=True)
            if code not in (ROOT / program).read_text()] == []  # fmt: skip


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def broken_links(page, text):
    """Relative links of a page that lead to no file or heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        if not path.exists() or (anchor and anchor not in anchors(path.read_text())):
            yield target


@pytest.mark.parametrize("page", PROSE, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert list(broken_links(page, page.read_text())) == []


def test_a_broken_link_is_noticed():
    text = "[a](no-such-page.md) [b](docs/reference/errors.md#no-such-error) [c](CHANGELOG.md)"
    expected = ["no-such-page.md", "docs/reference/errors.md#no-such-error"]
    assert list(broken_links(ROOT / "README.md", text)) == expected


# --- Imports ---


def imported_by(code, *arguments):
    """Top-level modules that a fresh interpreter holds after running some code."""
    report = "\nimport sys\nprint(*{m.partition('.')[0] for m in sys.modules}, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code + report, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        timeout=240,
    )
    return set(done.stderr.splitlines()[-1].split())


def test_help_imports_nothing_heavy():
    assert imported_by("import stepwhy.cli") & NOT_FOR_HELP == set()
    assert "numpy" in imported_by("import stepwhy.engine")  # the check can see


def test_explaining_imports_no_framework(small_trace):
    code = (
        "import sys, stepwhy.cli\nstepwhy.cli.cli(['explain', sys.argv[1]], standalone_mode=False)"
    )
    loaded = imported_by(code, small_trace)
    assert loaded & FRAMEWORKS == set()
    assert "stepwhy" in loaded


def test_the_observer_imports_the_standard_library_alone():
    before = imported_by("")
    added = imported_by("import stepwhy.record.attach") - before
    assert added <= sys.stdlib_module_names | {"stepwhy"}


def module_level_imports(tree):
    """Names imported when a module is imported: outside functions and type checking."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_capture_modules_import_only_what_every_job_has():
    bottom = ("errors", "redaction", "regular_files", "text", "units", "whole_files")
    allowed = ("stepwhy.record", *(f"stepwhy.base.{name}" for name in bottom))
    foreign = [
        (str(path.relative_to(ROOT)), name)
        for path in sorted((ROOT / "src/stepwhy/record").rglob("*.py"))
        for name in module_level_imports(ast.parse(path.read_text()))
        if name.partition(".")[0] not in sys.stdlib_module_names
        and name not in ("stepwhy", "stepwhy.base")
        and not name.startswith(allowed)
    ]
    assert foreign == []


# The only ones that make JSON of texts: all others call `process.folder.encode`, which masks them.
MAKES_JSON = {
    "folder.py": "it masks",
    "registry.py": "names of types and counts alone",
    "sampler.py": "numbers and names of GPUs alone",
    "meters.py": "names of the framework's stages alone",
    "probe.py": "printed to the parent, not kept",
    "spec.py": "a variable of the environment, not kept",
}


def test_what_capture_writes_is_masked():
    folder = ROOT / "src/stepwhy/record"
    texts = {path.name: path.read_text() for path in folder.rglob("*.py")}
    assert {name for name, text in texts.items() if "json.dump" in text} == set(MAKES_JSON)


def made_when_imported(source):
    """What a module makes when it is imported that takes much longer than to read its code."""
    tree = ast.parse(source)
    if "dataclasses" in module_level_imports(tree):
        yield "dataclass"
    inside = [n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.ClassDef)]
    for node in (node for top in inside for node in ast.walk(top)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.compile":
            yield "expression"


def test_what_takes_long_to_make_is_seen():
    source = "import re\nfrom dataclasses import dataclass\nTABLE = {1: re.compile('a')}\n"
    assert list(made_when_imported(source)) == ["dataclass", "expression"]
    assert list(made_when_imported("def f():\n    return re.compile('a')\n")) == []


# What observes a training has nothing else to make them of.
MAY_MAKE_THEM = ("record",)


def test_modules_are_imported_in_no_time():
    made = {
        str(path.relative_to(ROOT)): found
        for path in sorted((ROOT / "src/stepwhy").rglob("*.py"))
        if path.relative_to(ROOT / "src/stepwhy").parts[0] not in MAY_MAKE_THEM
        and (found := list(made_when_imported(path.read_text())))
    }
    assert made == {}, "use msgspec.Struct, and stepwhy.base.patterns.regex"


# --- Private modules ---


def private_imports(source, package):
    """Names in an import that are private modules of a package other than the given one."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("stepwhy"):
            continue
        for name in (f"{node.module}.{alias.name}" for alias in node.names):
            parts = name.split(".")
            private = [i for i, part in enumerate(parts) if part.startswith("_") and part[1] != "_"]
            if private and not f"{package}.".startswith(".".join(parts[: private[0]]) + "."):
                yield name


def test_an_import_of_a_private_module_is_noticed():
    source = (
        "from stepwhy.base.columns import _tree\nfrom stepwhy.base.columns._slots import Slots\n"
    )
    expected = ["stepwhy.base.columns._tree", "stepwhy.base.columns._slots.Slots"]
    assert list(private_imports(source, "stepwhy.engine")) == expected
    assert list(private_imports(source, "stepwhy.base.columns")) == []


def test_private_modules_are_imported_in_their_own_package_only():
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / "src/stepwhy").rglob("*.py"))
        if (names := list(private_imports(path.read_text(), _package_of(path))))
    }
    assert found == {}


def _package_of(path):
    return ".".join(path.relative_to(ROOT / "src").parent.parts)


# --- The installed package ---


@pytest.fixture(scope="module")
def small_trace(tmp_path_factory):
    """A generated Kineto trace of 2,000 events."""
    generated = load(ROOT / "benchmarks/generated_trace.py")
    path = tmp_path_factory.mktemp("trace") / "trace.json.gz"
    path.write_bytes(gzip.compress(generated.kineto_trace(events=2_000)))
    return path


PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A Python with the package and its dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=240)
    # To install pip as well, and to compile what is not imported, would take seconds.
    into = [*PIP, "--python", folder / "bin/python"]
    subprocess.run([*into, "install", "-qq", "--no-compile", ROOT], check=True, timeout=240)
    return folder / "bin"


def run_installed(command, *arguments, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "STEPWHY"))}
    return subprocess.run(
        [command, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        **options,
    )


@pytest.mark.xdist_group("installed")
def test_the_installed_package_stands_alone(installed, small_trace, tmp_path):
    into = [*PIP[1:], "--python", installed / "python"]
    listed = run_installed(PIP[0], *into, "list", "--format=json")
    packages = {package["name"] for package in json.loads(listed.stdout)}
    assert "stepwhy" in packages
    assert packages & {"tensorflow-cpu", "torch", "pytest", "hypothesis"} == set()

    helped = run_installed(installed / "stepwhy", "--help", cwd=tmp_path)
    assert "explain" in helped.stdout
    assert helped.stderr == ""

    done = run_installed(installed / "stepwhy", "explain", small_trace, "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert result["steps"]["count"] == 6
    assert result["steps"]["source"] == "marker"
    assert sum(result["breakdown"]["categories"].values()) == result["breakdown"]["wall_ns"]
    assert done.stderr == ""


@pytest.mark.xdist_group("installed")
def test_help_loads_little(installed):
    """What makes `--help` slow is what it imports; `benchmarks/explain.py` measures the time."""
    code = (
        "import atexit, sys, stepwhy.cli\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "sys.argv[1:] = ['--help']\n"
        "stepwhy.cli.main()"
    )
    modules = run_installed(installed / "python", "-P", "-c", code).stderr.split()
    assert {m.partition(".")[0] for m in modules} & {"numpy", "msgspec", "rich", "jinja2"} == set()
    assert len(modules) < 250
    assert "stepwhy.cli" in modules


@pytest.mark.xdist_group("installed")
def test_the_installed_package_brings_its_own_files(installed, small_trace, tmp_path):
    page = tmp_path / "report.html"
    run_installed(installed / "stepwhy", "explain", small_trace, "--html", page)
    assert page.read_text().startswith("<!doctype html>")


def test_the_package_requires_no_framework():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[^\w]", r)[0] for r in project["dependencies"]}
    assert required & FRAMEWORKS == set()
