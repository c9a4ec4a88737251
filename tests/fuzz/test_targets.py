"""A short run over the inputs that are no single traces, and what it takes for granted."""

import socket

import pytest
from fuzz.answers import AnsweringServer
from fuzz.inputs import make
from fuzz.printed import broken_document, broken_page, broken_text
from fuzz.targets import TARGETS
from fuzz.targets.names import _broken
from fuzz.targets.remote_answers import listing
from fuzz.targets.side_files import broken_result
from fuzz.trees import FOLDER, HUGE, LINK, PIPE, remove_tree, write_tree
from fuzz.worker import Batch, Worker
from msgspec.structs import replace

from stepwhy.engine import explain
from stepwhy.result import Finding

INPUTS = 60  # of each target: about 5 s in all
SEED = 20


@pytest.fixture(scope="module")
def judges():
    return {name: target.judge() for name, target in TARGETS.items()}


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_valid(name, judges, tmp_path):
    outcomes = [judges[name](files, tmp_path) for files in TARGETS[name].seeds()]
    # Some commands refuse some seeds: the missing file, and two ranks where one is expected.
    refused = {"no-placement", "input-not-found", "several-runs"} if name == "names" else set()
    assert [
        o for o in outcomes if o.kind == "failed" or o.what in {"no-traces", "unreachable"}
    ] == []
    assert {o.what for o in outcomes if o.kind == "refused"} <= refused
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_explained_or_refused(name, judges, tmp_path):
    failed = {}
    explained = refused = 0
    for index in range(INPUTS):
        outcome = judges[name](make(name, SEED, index), tmp_path)
        explained += outcome.kind == "explained"
        refused += outcome.kind == "refused"
        if outcome.kind == "failed":
            again = f"python fuzz/run.py --format {name} --seed {SEED} --first {index} --inputs 1"
            failed[again] = f"{outcome.what}\n{outcome.details}"
    assert failed == {}
    # The damage is neither too little nor too much to show anything.
    assert explained >= INPUTS / 20
    assert refused >= INPUTS / 20


@pytest.mark.parametrize("name", TARGETS)
def test_a_number_stands_for_one_input(name):
    wanted = range(40, 60)
    first = [make(name, SEED, index) for index in wanted]
    assert [make(name, SEED, index) for index in wanted] == first
    assert len({tuple(files.items()) for files in first}) > len(first) / 2
    seeds = TARGETS[name].seeds()
    assert [make(name, SEED, index) for index in range(len(seeds))] == list(seeds)


def test_a_worker_judges_inputs_of_targets():
    worker = Worker()
    worker.send(Batch("run_directories", SEED, 0, 1))
    outcomes = []
    while not outcomes:
        outcomes += filter(None, [worker.receive()])
    again = worker.judge(make("run_directories", SEED, 0), "run_directories")
    worker.stop()
    assert [(o.kind, o.what) for o in (*outcomes, again)] == [("explained", "kineto")] * 2


# --- files on disk ---


def test_links_pipes_and_folders_are_written_and_removed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    folder = tmp_path / "given"
    folder.mkdir()
    files = {
        "a/b.json": b"{}",
        f"a/l{LINK}": b"../../outside",
        f"p{PIPE}": b"",
        f"f{FOLDER}": b"",
        f"h{HUGE}": b"head",
        "a/b.json/impossible": b"",
        "../escaped": b"",
        "/escaped": b"",
        "n" * 300: b"",
    }
    write_tree(files, folder)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["given", "outside"]
    assert sorted(p.name for p in folder.iterdir()) == ["a", "f", "h", "p"]
    assert (folder / "a/l").readlink() == type(folder)("../../outside")
    assert (folder / "p").is_fifo()
    assert (folder / "h").stat().st_size == 1 << 40
    remove_tree(folder)
    assert list(folder.iterdir()) == []
    assert (outside / "kept").exists()


@pytest.mark.parametrize("kind", [LINK, PIPE])
@pytest.mark.parametrize("name", ["x", "x/new", "x/kept", "x/sub/new", f"x/pipe{PIPE}"])
def test_nothing_is_written_through_a_link_or_into_a_pipe(tmp_path, kind, name):
    outside, folder = tmp_path / "outside", tmp_path / "given"
    outside.mkdir()
    folder.mkdir()
    (outside / "kept").write_bytes(b"kept")
    write_tree({f"x{kind}": b"../outside", name: b"changed"}, folder)
    write_tree({f"y{kind}": b"../outside/kept", "y": b"changed", f"y{HUGE}": b"changed"}, folder)
    assert [p.name for p in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_bytes() == b"kept"
    assert sorted(p.name for p in folder.iterdir()) == ["x", "y"]


# --- what may be printed ---


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\r", "\x9b31m", "\u202e", "\u2028", "\u2066", "\x00", "\x7f"]
)
def test_what_steers_a_terminal_is_noticed(text):
    broken = [b.partition(" U+")[0] for b in broken_text(f"a {text} b".encode())]
    assert broken == ["control character"]


def test_other_text_may_be_printed():
    text = "plain\n\ttext \u00e9 \u4e2d \u0628 \U0001f468\u200d\U0001f469 [red] <b> \\x1b"
    assert list(broken_text(text.encode())) == []


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\xff", "encoding"),
        (b"Traceback (most recent call last):\n  x", "traceback"),
    ],
)
def test_other_things_that_may_not_be_printed(data, what):
    assert [b.partition(":")[0] for b in broken_text(data)] == [what]


@pytest.mark.parametrize("document", [b"{", b"[NaN]", b"", b"{} {}"])
def test_a_broken_document_is_noticed(document):
    assert [b.partition(":")[0] for b in broken_document(document)] == ["json"]


def test_markup_of_names_in_a_page_is_noticed():
    page = b"<html><td>%s</td></html>"
    assert list(broken_page(page % b"&lt;script&gt;stepwhy(1)")) == []
    for name in (b"<script>stepwhy(1)", b'"><img src=x onerror=stepwhy()>', b"</script><b>stepwhy"):
        assert len(list(broken_page(page % name))) == 1


def test_a_command_that_prints_a_name_as_it_is_fails(tmp_path):
    class Done:
        exit_code = 0
        stdout_bytes = b"name \x1b[31m"
        stderr_bytes = b""

    assert len(list(_broken(Done, ("explain", "PATH"), tmp_path))) == 1


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_tree(TARGETS["run_directories"].seeds()[0], folder)
    return explain([str(folder)])


def test_a_leak_is_noticed(result):
    assert list(broken_result(result)) == []
    leaky = replace(result, notes=(*result.notes, "it says: a-private-line-of-another-file"))
    assert [b.partition(":")[0] for b in broken_result(leaky)] == ["leak"]


def test_a_diagnosis_that_failed_is_noticed(result):
    failed = Finding("launch-bound", "error", "x", reason="KeyError")
    broken = broken_result(replace(result, findings=(failed,)))
    assert next(broken).startswith("diagnosis launch-bound failed")


# --- the server ---


def asked(server, question):
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(question)
        received = b""
        while data := connection.recv(4096):
            received += data
    return received


def test_the_server_answers_with_the_bytes_that_it_was_given():
    server = AnsweringServer()
    server.answers = {"/a": b"no HTTP at all {server}"}
    assert (
        asked(server, b"GET /a?x=1 HTTP/1.1\r\n\r\n") == f"no HTTP at all {server.address}".encode()
    )
    assert asked(server, b"GET /b HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404 ")
    server.otherwise = b"all else"
    assert asked(server, b"GET /b HTTP/1.1\r\n\r\n") == b"all else"


def test_what_is_fetched_leaves_nothing_behind(judges, tmp_path):
    outcome = judges["remote_answers"](make("remote_answers", SEED, 0), tmp_path)
    assert (outcome.kind, outcome.what) == ("explained", "chrome-trace")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("links", [["a/", "b/", "c/", "d/"], [f"{n}.json" for n in range(3000)]])
def test_folders_without_an_end_end_soon(judges, tmp_path, links):
    page = listing(*links)
    outcome = judges["remote_answers"]({"runs/.folder": page, ".any": page}, tmp_path)
    assert (outcome.kind, outcome.what) == ("refused", "remote-limit")
