"""The committed scripts of the page belong to their sources."""

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = ROOT / "src/stepwhy/show/templates"
BUNDLES = [TEMPLATES / name for name in ("charts.css", "tables.js", "timeline.js")]


def recorded():
    lines = (ROOT / "web/bundle.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_bundles_were_made_from_these_sources():
    hashes = recorded()
    sources = [
        ROOT / "web/banner.txt",
        ROOT / "web/package-lock.json",
        *sorted((ROOT / "web/src").glob("*.ts")),
    ]
    expected = {str(path.relative_to(ROOT / "web")): digest(path) for path in sources}
    expected |= {path.name: digest(path) for path in BUNDLES}
    assert hashes == expected, "run scripts/bundle"


def test_the_scripts_are_small():
    assert sum(path.stat().st_size for path in TEMPLATES.glob("*.js")) < 150_000


def test_the_script_names_the_licence_of_what_it_contains():
    script = (TEMPLATES / "timeline.js").read_text(encoding="utf-8")
    assert "fflate: Copyright (c) 2023 Arjun Barrett" in script
    assert "uPlot: Copyright (c) 2022 Leon Sorokin" in script
