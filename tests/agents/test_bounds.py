"""Answers of a limited size."""

from stepwhy.apps.agents.answers import LeftOut
from stepwhy.apps.agents.bounds import fitted, how_to_see, shortened, size_of


def test_small_data_stays_as_it_is():
    data = {"ops": [{"name": "mm"}], "findings": []}
    assert fitted(data, 1000) == ({"ops": [{"name": "mm"}], "findings": []}, [])


def test_the_largest_list_loses_rows_from_its_end():
    data = {"ops": list(range(100, 200)), "devices": [1, 2, 3]}
    found, left_out = fitted(data, 150)
    assert size_of(found) <= 150
    assert found["devices"] == [1, 2, 3]
    assert found["ops"] == list(range(100, 100 + len(found["ops"])))
    assert left_out == [LeftOut("ops", len(found["ops"]), 100, how_to_see("ops"))]


def test_findings_stay_and_lose_their_evidence():
    evidence = [{"what": "x" * 50} for _ in range(8)]
    data = {"findings": [{"id": n, "evidence": list(evidence)} for n in range(3)]}
    found, left_out = fitted(data, 600)
    assert size_of(found) <= 600
    assert [finding["id"] for finding in found["findings"]] == [0, 1, 2]
    (one,) = left_out
    shown = sum(len(finding["evidence"]) for finding in found["findings"])
    assert (one.what, one.shown) == ("findings[].evidence", shown)


def test_where_nothing_else_helps_texts_are_shortened_and_findings_left_out():
    data = {"findings": [{"id": n, "reason": "r" * 5000} for n in range(100)]}
    found, left_out = fitted(data, 3000)
    assert size_of(found) <= 3000
    assert found["findings"][0] == {"id": 0, "reason": "r" * 197 + "..."}
    assert left_out[0].total == 100


def test_a_long_text_ends_with_a_remark():
    text = "".join(f"line {n}\n" for n in range(1000))
    short = shortened(text, 100)
    assert len(short) < 200
    assert short.startswith("line 0\nline 1\n")
    shown = short.count("line ")
    assert f"({1001 - shown} more lines are left out" in short
    assert shortened("short", 100) == "short"
