from stepwhy.diagnose.shared.placement import listed


def test_listed():
    assert listed(["a", "", "b", "a", "c"], most=2) == "a, b and 1 more"
    assert listed([]) == ""
