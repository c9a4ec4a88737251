from stepwhy.report import advice


def test_a_trace_without_steps_is_told_how_to_mark_them(sample):
    assert advice.next_steps(sample("unknown"))[0].startswith("Mark the steps: call prof.step()")


def test_a_damaged_input_comes_first(sample):
    assert advice.next_steps(sample("truncated"))[0] == (
        "The file ends inside an event; copy it again."
    )


def test_missing_devices_are_asked_for(sample):
    assert "Record what the devices do as well." in advice.next_steps(sample("no_devices"))


def test_there_is_always_something_to_do(any_result):
    assert "stepwhy run" in advice.next_steps(any_result)[-1]
