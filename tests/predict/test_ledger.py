"""The user's own measured fixes."""

import pytest

from stepwhy.predict import ledger

ENTRY = ledger.LedgerEntry(
    name="train.py",
    edit="python=gone",
    family="removed",
    step_ns=2000,
    remaining_ns=1000,
    structural_low_ns=800,
    structural_high_ns=1250,
    low_ns=800,
    high_ns=1250,
    measured_ns=1250,
    date="2026-01-02",
)


@pytest.fixture
def path(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "ledger.jsonl"
    monkeypatch.setenv(ledger.LEDGER, str(path))
    return path


def test_without_a_file_nothing_is_known(path):
    assert ledger.read() == ()
    assert not path.parent.exists()


def test_what_is_appended_is_read(path):
    assert ledger.append(ENTRY) == path
    ledger.append(ENTRY)
    assert ledger.read() == (ENTRY, ENTRY)


def test_a_fix_calibrates_later_predictions(path):
    ledger.append(ENTRY)
    fix = ledger.whole_record().fixes[-1]
    assert (fix.name, fix.family, fix.on_this_machine) == ("train.py", "removed", True)
    assert fix.score == pytest.approx(1.0)
    assert fix.error == pytest.approx(-0.125)  # predicted 1000 of 2000, measured 1250
    assert path.is_file()


def test_damaged_lines_are_left_out(path):
    ledger.append(ENTRY)
    with path.open("a") as file:
        file.write('{"name": 3}\nnot JSON\n')
    assert ledger.read() == (ENTRY,)


def test_an_empty_variable_means_no_file(monkeypatch):
    monkeypatch.setenv(ledger.LEDGER, "")
    assert ledger.append(ENTRY) is None
    assert ledger.read() == ()


def test_the_file_is_in_the_folder_for_data(monkeypatch, tmp_path):
    monkeypatch.delenv(ledger.LEDGER, raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert ledger.ledger_path() == tmp_path / "stepwhy" / "ledger.jsonl"
