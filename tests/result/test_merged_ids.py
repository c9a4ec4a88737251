"""Ids of diagnoses that became part of another one are still understood."""

import msgspec
import pytest
from msgspec.structs import replace
from tests.show.conftest import SAMPLES

from stepwhy.diagnose import TABLE
from stepwhy.result import MERGED, Finding, current_id, stored_result

IDS = {name.replace("_", "-") for name in TABLE}


@pytest.mark.parametrize("former", MERGED)
def test_a_former_id_stands_for_one_of_today(former):
    assert former not in IDS
    assert current_id(former) in IDS


def test_other_ids_stand_for_themselves():
    assert current_id("input-bound") == "input-bound"


def test_a_stored_result_is_read_under_the_ids_of_today():
    findings = (
        Finding("missing-prefetch", "found", "Prepare the next batch", 5),
        Finding("input-bound", "found", "Prepare batches", 5, explained_by="missing-prefetch"),
        Finding("serial-input", "clear", "No serial work"),
    )
    result = stored_result(
        msgspec.json.encode(replace(SAMPLES["input_bound"](), findings=findings))
    )
    assert [(f.id, f.verdict, f.explained_by) for f in result.findings] == [
        ("serial-input", "found", ""),
        ("input-bound", "found", "serial-input"),
    ]
