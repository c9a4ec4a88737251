"""A finished run as metrics."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from tests.kineto_samples import sample

from stepwhy.cli import cli

pytest.importorskip("prometheus_client")
from prometheus_client.parser import text_string_to_metric_families as parsed


def test_a_trace_has_steps_a_breakdown_and_no_unknown_values(tmp_path):
    trace, out = tmp_path / "run.pt.trace.json", tmp_path / "run.prom"
    trace.write_bytes(sample("2024 fractional"))
    done = CliRunner().invoke(cli, ["export", str(trace), "--to", "prometheus", "--out", str(out)])
    assert done.exit_code == 0, done.output
    values = {
        (s.name, s.labels.get("category")): s.value
        for family in parsed(out.read_text())
        for s in family.samples
    }
    steps = values["stepwhy_steps_total", None]
    assert values["stepwhy_step_duration_seconds_count", None] == steps >= 1
    total = sum(v for (name, _), v in values.items() if name == "stepwhy_step_breakdown_seconds")
    assert total > 0
    names = {name for name, _ in values}
    assert "stepwhy_input_wait_seconds_total" not in names
    assert "stepwhy_process_resident_memory_bytes" not in names


def test_the_file_is_named_after_its_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.pt.trace.json").write_bytes(sample("2024 fractional"))
    done = CliRunner().invoke(cli, ["export", "run.pt.trace.json", "--to", "prometheus"])
    assert done.stderr.splitlines()[0] == "Exported: run.prom"
    assert 'run="run"' in (tmp_path / "run.prom").read_text()
