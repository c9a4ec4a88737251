"""The tree of errors: every leaf has a slug, an exit code and a next action."""

import pytest

from stepwhy.base import errors
from stepwhy.base.errors import (
    CaptureError,
    EditError,
    EngineError,
    InputError,
    MeasurementError,
    NotFoundError,
    OutputError,
    QueryError,
    ServeError,
    StepwhyError,
)


def leaves(kind=StepwhyError):
    below = kind.__subclasses__()
    return [leaf for child in below for leaf in leaves(child)] if below else [kind]


def test_the_tree_in_the_docstring_is_the_tree_in_the_code():
    drawn = {w for w in errors.__doc__.replace("├", " ").split() if w.endswith("Error")}
    assert drawn == {c.__name__ for c in vars(errors).values() if isinstance(c, type)} - {
        "ClassVar"
    }
    for leaf in leaves():
        (line,) = [n for n in errors.__doc__.splitlines() if leaf.__name__ in n]
        assert leaf.slug in line or f"exit code {leaf.exit_code}" in line


def test_slugs_are_unique():
    slugs = [leaf.slug for leaf in leaves()]
    assert len(set(slugs)) == len(slugs)
    assert "error" not in slugs


@pytest.mark.parametrize("leaf", leaves())
def test_exit_codes_say_what_kind_of_thing_went_wrong(leaf):
    expected = {
        InputError: 3,
        OutputError: 4,
        CaptureError: 5,
        MeasurementError: 6,
        EditError: 8,
        QueryError: 9,
        ServeError: 10,
        EngineError: 11,
    }
    (code,) = [code for kind, code in expected.items() if issubclass(leaf, kind)]
    assert leaf.exit_code == code


@pytest.mark.parametrize("leaf", leaves())
def test_a_message_ends_with_the_next_action(leaf):
    error = leaf("run.json is empty", "Record it again")
    assert str(error) == "run.json is empty. Record it again."
    assert (error.what, error.todo) == ("run.json is empty", "Record it again")


def test_a_very_long_name_does_not_bury_the_message():
    error = NotFoundError(f"{'a' * 5000}.json does not exist", "Check the address")
    text = str(error)
    assert len(text) < 600
    assert text.startswith("aaa")
    assert text.endswith("a.json does not exist. Check the address.")
    assert "characters left out" in text
