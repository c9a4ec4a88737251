"""The committed script of the timeline belongs to its sources."""

import hashlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = ROOT / "src/stepwhy/report/templates/timeline.js"


def recorded():
    lines = (ROOT / "web/bundle.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ") for line in lines)}


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_bundle_was_made_from_these_sources():
    hashes = recorded()
    sources = [
        ROOT / "web/banner.txt",
        ROOT / "web/package-lock.json",
        *sorted((ROOT / "web/src").glob("*.ts")),
    ]
    expected = {str(path.relative_to(ROOT / "web")): digest(path) for path in sources}
    assert hashes == expected | {BUNDLE.name: digest(BUNDLE)}, "run scripts/bundle"


def test_the_script_is_small():
    assert BUNDLE.stat().st_size < 150_000


def test_the_script_names_the_licence_of_what_it_contains():
    assert "Copyright (c) 2023 Arjun Barrett" in BUNDLE.read_text(encoding="utf-8")
