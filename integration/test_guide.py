"""The examples of the guide, as they are printed there."""

import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).resolve().parents[1] / "docs/how-to/callbacks-and-loggers.md"
_EXAMPLES = re.findall(r"^```python\n(.*?)```", _PAGE.read_text(), re.MULTILINE | re.DOTALL)
# What the examples call their training.
_TRAIN = """
import numpy, stepwhy

def train():
    for _ in range(30):
        with stepwhy.step():
            numpy.ones((64, 64)).dot(numpy.ones((64, 64)))

"""


def name(example):
    return re.search(r"stepwhy\.integrations\.(\w+)", example)[1]


def test_there_is_one_of_each():
    assert [name(one) for one in _EXAMPLES] == [
        "keras",
        "lightning",
        "transformers",
        "mlflow",
        "wandb",
    ]


@pytest.mark.parametrize("example", _EXAMPLES, ids=name)
def test_an_example_of_the_guide_runs(run, example, tmp_path):
    ended = run((_TRAIN if "train()\n\nwith" in example else "") + example)
    assert ended.code == 0, ended.err
    (run_dir,) = (tmp_path / "stepwhy-runs").iterdir()
    assert (run_dir / "report.html").is_file()
    assert f"stepwhy explain stepwhy-runs/{run_dir.name}" in " ".join(ended.err.split())
    assert "Error" not in ended.err
