"""What is logged of a result, and where, with stand-ins for the loggers."""

import json
import sys
from contextlib import contextmanager
from io import StringIO
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

import stepwhy
from stepwhy.base.errors import NoTracesError, OutputError
from stepwhy.integrations import lightning_loggers, summary_writers
from stepwhy.integrations.active_runs import ActiveRuns
from stepwhy.integrations.contents import Report, metrics, report_of, texts
from stepwhy.result import CATEGORIES, Finding
from tests.engine.test_explain import kineto


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("deep") / "folder" / "trace.json"
    path.parent.mkdir()
    path.write_text(kineto())
    return path


@pytest.fixture(scope="module")
def result(trace):
    return stepwhy.explain(trace, predict=False).result


@pytest.fixture
def report(result):
    return Report(result, "<!doctype html>")


class Watched:
    run_dir = None

    def __init__(self, result):
        self.result = result


# --- What ---


def test_the_numbers_are_the_step_and_its_breakdown(result):
    found = metrics(result)
    step_ms = found.pop("stepwhy/step_time_ms")
    assert step_ms == result.steps.median_ns / 1e6
    assert list(found) == [f"stepwhy/breakdown/{name}_ms" for name in CATEGORIES]
    assert sum(found.values()) == pytest.approx(result.breakdown.wall_ns / 1e6)


def test_what_was_not_measured_is_left_out(result):
    untraced = replace(result, steps=replace(result.steps, source="hook", traced=()))
    known = {name for name, ns in result.breakdown.categories.items() if ns}
    assert set(metrics(untraced)) == {
        "stepwhy/step_time_ms",
        *(f"stepwhy/breakdown/{name}_ms" for name in known),
    }
    nothing = dict.fromkeys(CATEGORIES, 0)
    unknown = replace(untraced, breakdown=replace(result.breakdown, categories=nothing))
    assert list(metrics(unknown)) == ["stepwhy/step_time_ms"]
    assert metrics(replace(result, steps=replace(result.steps, source="whole-trace"))) == {}


def test_the_texts_are_the_verdict_and_the_findings(result):
    first = Finding("first", "found", "Do\nit", cost_ns_per_step=2_000_000)
    second = Finding("second", "found", "Do that")
    found = texts(replace(result, findings=(first, second)))
    assert found["stepwhy/verdict"] == result.verdict.sentence
    assert found["stepwhy/first_finding"] == r"first: Do\nit (costs 2.00 ms per step)"
    assert found["stepwhy/findings"] == "first, second"
    none = texts(replace(result, findings=()))
    assert set(none) == {"stepwhy/verdict", "stepwhy/bound_by"}


def test_paths_are_shortened(trace):
    report = report_of(trace)
    assert report.result.inputs[0].path == "folder/trace.json"
    assert json.loads(report.json)["schema"] == "stepwhy.result/1"
    assert report.page.startswith("<!doctype html>")
    assert str(trace.parent.parent) not in report.page


def test_a_result_and_an_explanation_can_be_logged(result, trace):
    assert report_of(result).page.startswith("<!doctype html>")
    explained = stepwhy.explain(trace, predict=False)
    assert report_of(explained).page == explained.html


def test_the_page_of_a_watched_block_is_the_one_it_wrote(result, tmp_path):
    watched = Watched(result)
    assert report_of(watched).page.startswith("<!doctype html>")
    watched.run_dir = tmp_path
    assert report_of(watched).page.startswith("<!doctype html>")
    (tmp_path / "report.html").write_text("its own")
    assert report_of(watched).page == "its own"


def test_a_block_without_a_result_cannot_be_logged():
    with pytest.raises(NoTracesError, match="not explained"):
        report_of(Watched(None))


# --- Where ---


class Client:
    """Stands for `MlflowClient`."""

    def __init__(self):
        self.logged, self.texts = [], {}

    def log_batch(self, run_id, metrics, tags):
        self.logged.append((run_id, metrics, tags))

    def log_text(self, run_id, text, path):
        self.texts[path] = text if run_id else ""


@pytest.fixture
def mlflow(load):
    """`stepwhy.integrations.mlflow`, with a client that records."""
    entities = {"Metric": lambda *values: values, "RunTag": lambda *values: values}
    client = Client()
    members = {"active_run": lambda: None, "MlflowClient": lambda: client}
    module = load("mlflow", mlflow=members, mlflow__entities=entities)
    module.client = client
    return module


def active(module, run):
    """Make a run active in a stand-in."""
    sys.modules[module].active_run = lambda: run


def test_mlflow_receives_numbers_tags_and_files(mlflow, result):
    mlflow.log_result(result, run_id="r1", step=3)
    ((run_id, numbers, tags),) = mlflow.client.logged
    assert (run_id, dict(tags)) == ("r1", texts(result))
    assert {name: value for name, value, *_ in numbers} == metrics(result)
    assert {step for *_, step in numbers} == {3}
    assert sorted(mlflow.client.texts) == ["stepwhy/report.html", "stepwhy/result.json"]


def test_mlflow_logs_to_the_active_run(mlflow, result):
    with pytest.raises(OutputError, match="No run of MLflow is active"):
        mlflow.log_result(result)
    active("mlflow", SimpleNamespace(info=SimpleNamespace(run_id="r2")))
    mlflow.log_result(result)
    assert mlflow.client.logged[0][0] == "r2"


class Artifact:
    def __init__(self, name, type):  # noqa: A002 - as W&B calls it
        self.name, self.kind, self.files = name, type, {}

    @contextmanager
    def new_file(self, name, **_):
        self.files[name] = StringIO()
        yield self.files[name]


class Run:
    """Stands for a run of Weights & Biases."""

    id = "w1"

    def __init__(self):
        self.summary, self.logged, self.artifacts = {}, [], []
        self.log, self.log_artifact = self.logged.append, self.artifacts.append


@pytest.fixture
def wandb(load):
    members = {"run": None, "Artifact": Artifact, "Html": lambda file, **_: file.read()}
    return load("wandb", wandb=members)


def test_wandb_receives_numbers_texts_the_page_and_the_result(wandb, result):
    run = Run()
    wandb.log_result(result, run=run)
    (logged,) = run.logged
    assert logged.pop("stepwhy/report").startswith("<!doctype html>")
    assert (logged, run.summary) == (metrics(result), texts(result))
    (artifact,) = run.artifacts
    assert json.loads(artifact.files["result.json"].getvalue())["schema"] == "stepwhy.result/1"


def test_wandb_logs_to_the_active_run(wandb, result):
    with pytest.raises(OutputError, match="No run of Weights & Biases is active"):
        wandb.log_result(result)
    sys.modules["wandb"].run = run = Run()
    wandb.log_result(result)
    assert len(run.logged) == 1


@pytest.mark.usefixtures("wandb")
def test_runs_that_were_active_at_the_beginning_have_the_result(mlflow, result):
    """Also if another callback has closed them since, but none that has it already."""
    sys.modules["wandb"].run = run = Run()
    active("mlflow", SimpleNamespace(info=SimpleNamespace(run_id="r1")))
    runs = ActiveRuns()
    runs.note()
    active("mlflow", None)
    runs.log(Watched(result), 5, axis="step", without=["w1"])
    assert [one[0] for one in mlflow.client.logged] == ["r1"]
    assert run.logged == []
    runs.log(Watched(result), 5, axis="step")
    assert [one["step"] for one in run.logged] == [5]
    assert len(mlflow.client.logged) == 1


@pytest.mark.usefixtures("wandb")
def test_without_a_run_or_a_result_nothing_is_logged(mlflow, result):
    runs = ActiveRuns()
    runs.note()
    runs.log(Watched(result))
    sys.modules["wandb"].run = run = Run()
    runs.log(Watched(None))
    assert (mlflow.client.logged, run.logged) == ([], [])


@pytest.mark.usefixtures("mlflow", "wandb")
def test_a_logger_that_fails_is_one_line_and_the_next_has_the_result(result, capsys, monkeypatch):
    def fail(*_, **__):
        raise OSError("no server")

    monkeypatch.setattr(Client, "log_batch", fail)
    active("mlflow", SimpleNamespace(info=SimpleNamespace(run_id="r1")))
    sys.modules["wandb"].run = run = Run()
    ActiveRuns().log(Watched(result))
    err = capsys.readouterr().err
    assert err == "stepwhy: the result was not logged to MLflow: OSError: no server\n"
    assert len(run.logged) == 1


class Writer:
    """Stands for a `SummaryWriter`."""

    def __init__(self):
        self.scalars, self.written = {}, {}

    def add_scalar(self, name, value, step):
        self.scalars[name] = (value, step)

    def add_text(self, name, text, step):
        self.written[name] = (text, step)

    def flush(self):
        pass


def test_a_summary_writer_receives_numbers_and_the_report(report):
    writer = Writer()
    summary_writers.write(report, writer, 9)
    assert writer.scalars == {name: (ms, 9) for name, ms in metrics(report.result).items()}
    assert writer.written == {"stepwhy/findings": (report.markdown, 9)}


class CSVLogger:
    saved = 0

    def log_metrics(self, numbers, step):
        self.logged = (numbers, step)

    def save(self):
        self.saved += 1


class TensorBoardLogger:
    def __init__(self):
        self.experiment = Writer()


class OwnTensorBoardLogger(TensorBoardLogger):
    """A subclass, as programs write them."""


class MLFlowLogger:
    run_id = "r7"

    def __init__(self):
        self.experiment = Client()


class WandbLogger:
    def __init__(self):
        self.experiment = Run()


@pytest.mark.usefixtures("mlflow", "wandb")
def test_each_logger_of_lightning_receives_what_it_can_hold(result):
    table, events = CSVLogger(), OwnTensorBoardLogger()
    runs = MLFlowLogger(), WandbLogger()
    done = lightning_loggers.log(Watched(result), [table, events, *runs], 4)
    assert done == ["r7", "w1"]
    assert (table.logged, table.saved) == ((metrics(result), 4), 1)
    assert len(events.experiment.scalars) == len(metrics(result))
    assert runs[0].experiment.logged[0][0] == "r7"
    assert runs[1].experiment.logged[0]["trainer/global_step"] == 4


def test_a_logger_of_lightning_that_fails_is_one_line(result, capsys):
    table = CSVLogger()
    done = lightning_loggers.log(Watched(result), [object(), table], 4)
    assert (done, table.saved) == ([], 1)
    err = capsys.readouterr().err
    assert err.startswith("stepwhy: the result was not logged to object: AttributeError: ")
    assert err.count("\n") == 1


def test_without_a_result_or_a_logger_nothing_is_rendered(result):
    assert lightning_loggers.log(Watched(None), [object()], 4) == []
    assert lightning_loggers.log(Watched(result), [], 4) == []
