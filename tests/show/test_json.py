import json
import math

import msgspec
import numpy as np
from msgspec import structs

from stepwhy.result import Result
from stepwhy.show import json as report


def test_json_reads_back_as_the_same_result(any_result):
    text = report.render(any_result)
    assert text.endswith("}\n")
    assert msgspec.json.decode(text, type=Result) == any_result


def test_all_fields_of_the_contract_are_there(sample):
    parsed = json.loads(report.render(sample("towers")))
    assert list(parsed) == [field.name for field in structs.fields(Result)]
    assert parsed["findings"][0]["fix"]["risk"] == "none"
    assert parsed["devices"][0]["h2d_bytes"] is None


def test_equal_results_give_equal_text(sample):
    result = sample("towers")
    turned = dict(reversed(result.breakdown.categories.items()))
    other = structs.replace(result, breakdown=structs.replace(result.breakdown, categories=turned))
    assert report.render(other) == report.render(result)


def test_a_path_that_is_not_utf8_is_still_json(hostile):
    parsed = json.loads(report.render(hostile("\udcff")))
    assert parsed["inputs"][0]["path"] == "stepwhy-runs/towers\ufffd"


def test_non_finite_numbers_become_null(sample):
    result = sample("towers")
    steps = structs.replace(result.steps, profiler_cost=math.nan)
    parsed = json.loads(report.render(structs.replace(result, steps=steps)))
    assert parsed["steps"]["profiler_cost"] is None


def test_scalars_of_numpy_are_numbers(sample, hostile):
    """One in the evidence of a rule lost the whole report."""
    for result in (sample("towers"), hostile("\udcff")):
        cost = np.int64(7) / 2
        steps = structs.replace(result.steps, profiler_cost=cost, observer_cost_ns=np.int64(5))
        parsed = json.loads(report.render(structs.replace(result, steps=steps)))
        assert parsed["steps"]["profiler_cost"] == 3.5
        assert parsed["steps"]["observer_cost_ns"] == 5
