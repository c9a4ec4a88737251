"""The served pages."""

import html
import os
import shutil
import socket

import pytest

pytest.importorskip("starlette")

from stepwhy.apps.serve.guard import OWN_PAGE
from stepwhy.apps.serve.summaries import entry_id
from stepwhy.base.text import visible
from stepwhy.show.json import render
from tests.serve.runs import COMMIT, write_run
from tests.show.conftest import SAMPLES

WRITES = (
    "/explain",
    "/run/{id}/explain",
    "/run/{id}/note",
    "/run/{id}/delete",
    "/run/{id}/timeline",
)


def address(name, action=""):
    return f"/run/{entry_id(name)}{action}"


def names_in(page):
    return [name for name in ("train-1", "train-2", "train-3") if f">{name}</a>" in page]


def test_the_list_shows_all_runs(client):
    page = client.get("/").text
    assert names_in(page) == ["train-1", "train-2", "train-3"]
    assert "Not explained yet" in page
    assert "exit code 1" in page
    assert "62.0 ms" in page
    assert COMMIT[:10] in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=train-2", ["train-2"]),
        ("q=MAIN+0123456789", ["train-1"]),
        ("verdict=input", ["train-1", "train-2"]),
        ("verdict=not+explained", ["train-3"]),
        ("framework=PyTorch", ["train-1", "train-2"]),
        ("branch=main", ["train-1"]),
        ("q=nothing", []),
        ("page=7", ["train-1", "train-2", "train-3"]),
        ("page=-1&by=x&q=", ["train-1", "train-2", "train-3"]),
    ],
)
def test_filters(client, query, found):
    assert names_in(client.get(f"/?{query}").text) == found


def test_an_empty_folder_says_how_to_fill_it(client, root):
    for path in sorted(root.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert "stepwhy run train.py" in client.get("/").text


def test_new_runs_appear(client, root):
    version = client.get("/state").body
    assert client.get("/state").body == version
    write_run(root, "train-4", day=4)
    assert client.get("/state").body != version
    assert ">train-4</a>" in client.get("/").text


def test_the_trend_has_a_dot_for_each_run(client):
    page = client.get("/").text
    assert page.count('class="dot"') == 2
    assert 'aria-label="Median step of each run of train.py' in page
    assert "By" in page
    assert client.get("/?by=commit").text.count('class="dot"') == 0  # one run has a commit


def test_a_run(client):
    page = client.get(address("train-1")).text
    assert "Let worker processes" not in page
    assert "input-bound" in page or "missing" in page
    assert COMMIT in page
    assert "Open the report" not in page
    assert "Open the report" in client.get(address("train-2")).text


def test_without_the_token_a_page_has_no_forms_that_write(client):
    page = client.get(address("train-1")).text
    assert 'method="post"' not in page
    assert client.access.form_key not in page
    known = client.get(address("train-1"), cookie=client.cookie).text
    assert client.access.form_key in known
    assert client.access.token not in known


def test_two_runs_are_compared(client):
    page = client.get(f"/compare?run={entry_id('train-2')}&run={entry_id('train-1')}").text
    assert "B is slower: it takes 2.0 times as long" in page
    assert "One run each" in page
    assert page.index("A: <a") < page.index(">train-1</a>") < page.index(">train-2</a>")
    swapped = client.get(f"/compare?run={entry_id('train-2')}&run={entry_id('train-1')}&keep=1")
    assert "B is faster" in swapped.text


def test_findings_that_are_gone_or_new_are_named(client, root):
    write_run(root, "train-4", "launch_bound", day=4)
    page = client.get(f"/compare?run={entry_id('train-1')}&run={entry_id('train-4')}").text
    assert "as in A" in page  # launch-bound is in both
    assert "could not be checked" in page or ">gone<" in page


@pytest.mark.parametrize("query", ["", "run=1", "run=1&run=1", "run=1&run=2&run=3"])
def test_anything_but_two_runs_is_refused(client, query):
    assert client.get(f"/compare?{query}").status == 400


def test_a_copy_is_called_the_same_run(client, root):
    shutil.copytree(root / "train-1", root / "copy")
    page = client.get(f"/compare?run={entry_id('train-1')}&run={entry_id('copy')}").text
    assert "<h1>The same run</h1>" in page
    assert "Findings" not in page
    assert "the same run as" in client.get("/").text


def test_the_list_comes_before_the_charts(client):
    page = client.get("/").text
    assert page.index('id="runs"') < page.index('id="trend"')


def test_a_series_that_hardly_changes_has_no_chart(client, root):
    shutil.rmtree(root / "train-2")
    write_run(root, "train-4", day=4, scale=1.01)
    page = client.get("/").text
    assert "no change of more than 3 %" in page
    assert "<svg" not in page[page.index('id="trend"') :]


def test_a_run_without_a_result_cannot_be_compared(client):
    page = client.get(f"/compare?run={entry_id('train-1')}&run={entry_id('train-3')}")
    assert page.status == 200
    assert "has no stored result. Explain it first." in page.text


# --- security ---


def test_every_answer_has_the_headers(client):
    answers = [client.get(path) for path in ("/", "/none", "/serve.js", address("train-2"))]
    answers += [client.get("/", host="attacker.example"), client.post("/none")]
    for answer in answers:
        assert answer.headers["content-security-policy"] == OWN_PAGE
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in answer.headers
    assert OWN_PAGE.startswith("default-src 'none';")
    assert "unsafe" not in OWN_PAGE


def test_foreign_hosts_and_origins_get_403(client):
    assert client.get("/", host="attacker.example").status == 403
    assert client.get("/", origin="http://attacker.example").status == 403
    assert client.post("/explain", origin="http://attacker.example").status == 403
    assert client.post("/explain", host="attacker.example").status == 403


def test_the_writing_addresses_are_known(site):
    """Each of them is in the test below."""
    routes = site.app()._app.routes
    assert {route.path for route in routes if "POST" in route.methods} == set(WRITES)
    assert all(route.methods <= {"GET", "HEAD", "POST"} for route in routes)
    assert all(not route.methods & {"GET", "HEAD"} for route in routes if "POST" in route.methods)


@pytest.mark.parametrize("path", WRITES)
def test_nothing_is_written_without_the_token(client, root, path):
    path = path.format(id=entry_id("train-1"))
    before = sorted(root.rglob("*"))
    form = {"text": "hello"}
    for change in (
        {"cookie": None},
        {"cookie": f"{client.access.cookie_name}=wrong"},
        {"cookie": f"{client.access.cookie_name}={client.access.token}"},
        {"cookie": None, "x_stepwhy_token": "wrong"},
    ):
        assert client.post(path, form, **change).status == 403
    assert client.post(path, {**form, "form_key": "wrong"}).status == 403
    assert client.get(path).status in {404, 405}
    assert sorted(root.rglob("*")) == before
    assert client.post(path, form, content_type="text/plain").status == 415
    assert client.post(path, {"text": "x" * 70_000}).status == 413


UP = "../../etc/passwd"


@pytest.mark.parametrize(
    "path",
    [
        f"/run/{UP}", f"/run/{UP}/report", "/run/..%2f..%2fetc%2fpasswd/report",
        "/run/%2e%2e%2f%2e%2e/report", "/run/..%252f..%252fetc%252fpasswd/report",
        "/run//etc/passwd/report", "//etc/passwd", "/run/..\\..\\etc\\passwd/report",
        "/run/train-2\0/report", "/run/train-2/report", "/run/./report", "/run/%00/report",
        "/run/train-2/../../secret.html/report", "/../secret.html", "/templates/base.html.jinja",
        "/run/\u2025/report", "/run/" + "a" * 5000 + "/report", "/serve.css/../../secret.html",
    ],
)  # fmt: skip
def test_paths_in_addresses_lead_nowhere(client, root, path):
    (root.parent / "secret.html").write_text("<title>mine – stepwhy</title>")  # noqa: RUF001
    answer = client.get(path)
    assert answer.status == 404
    assert "mine" not in answer.text
    assert "root:" not in answer.text
    assert client.post(path).status in {404, 405}


def test_no_folder_is_listed(client):
    for path in ("/run", "/run/", "/runs", address("train-2", "/"), address("train-2", "/windows")):
        assert client.get(path).status == 404


def test_links_out_of_the_folder_are_refused(client, root):
    secret = root.parent / "secret"
    write_run(secret, "theirs", page="<title>mine – stepwhy</title>")  # noqa: RUF001
    page = root / "train-2" / "report.html"
    client.get("/")
    page.unlink()
    page.symlink_to(secret / "theirs" / "report.html")
    assert client.get(address("train-2", "/report")).status == 403
    (root / "linked").symlink_to(secret / "theirs")
    (root / "linked.html").symlink_to(secret / "theirs" / "report.html")
    (root / "linked.json").symlink_to(secret / "theirs" / "result.json")
    (root / "train-3" / "result.json").symlink_to(secret / "theirs" / "result.json")
    (root / "train-1" / "note.json").symlink_to(secret / "theirs" / "run.json")
    page = client.get("/").text
    assert "linked" not in page
    assert "mine" not in page
    assert client.get(address("linked")).status == 404
    assert "is a link out of" in client.get(address("train-3")).text


def test_a_run_that_becomes_a_link_is_neither_read_nor_changed(client, root, site):
    outside = write_run(root.parent, "outside", page="<title>mine – stepwhy</title>")  # noqa: RUF001
    client.get("/")
    site._index._clock = lambda: 0.0  # the folder is not looked through again
    (root / "train-2").rename(root.parent / "moved")
    (root / "train-2").symlink_to(outside)
    before = sorted(outside.iterdir())
    for action in ("/explain", "/note", "/delete", "/timeline"):
        assert client.post(address("train-2", action), {"text": "x"}).status in {403, 409}
    assert client.get(address("train-2", "/report")).status == 403
    assert sorted(outside.iterdir()) == before


def test_pipes_and_devices_are_refused(client, root, monkeypatch):
    page = root / "train-2" / "report.html"
    client.get("/")
    page.unlink()
    os.mkfifo(page)
    assert client.get(address("train-2", "/report")).status in {403, 404}
    page.unlink()
    page.symlink_to("/dev/zero")
    assert client.get(address("train-2", "/report")).status == 403
    os.mkfifo(root / "pipe.json")
    monkeypatch.chdir(root)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket.html")
        assert client.get("/").status == 200


def test_a_stored_page_is_sandboxed(client):
    answer = client.get(address("train-2", "/report"))
    assert "It is slow" in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none';")
    for forbidden in ("allow-same-origin", "allow-forms", "allow-popups", "allow-top", "connect"):
        assert forbidden not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m"


def test_names_stay_text(client, root):
    name = f"x{HOSTILE}".replace("/", "_")
    sample = SAMPLES["input_bound"]()
    from msgspec import structs

    verdict = structs.replace(sample.verdict, sentence=HOSTILE)
    findings = (structs.replace(sample.findings[0], title=HOSTILE, id=HOSTILE),)
    hostile = structs.replace(
        sample,
        verdict=verdict,
        findings=findings,
        run=structs.replace(sample.run, framework=HOSTILE, command=HOSTILE, devices=(HOSTILE,)),
    )
    about = {"commit": HOSTILE, "branch": HOSTILE, "command": [HOSTILE]}
    write_run(root, name, hostile, day=9, **about)
    note = {"text": HOSTILE, "tags": HOSTILE}
    assert client.post(address(name, "/note"), note).status == 303
    pair = f"/compare?run={entry_id(name)}&run={entry_id('train-1')}"
    for path in ("/", f"/?q={'%3Cscript%3E'}", address(name), pair):
        page = client.get(path, cookie=client.cookie).text
        assert "<script>" not in page
        assert "\u202e" not in page
        assert "\x1b" not in page
    assert html.escape(visible(name)[:10]) in client.get("/").text


# --- writing ---


def test_a_note_is_kept_beside_the_run(client, root):
    form = {"text": "the new loader\r\nhelps", "tags": "good, keep ,, good"}
    assert client.post(address("train-1", "/note"), form).status == 303
    assert (root / "train-1" / "note.json").is_file()
    page = client.get(address("train-1")).text
    assert "the new loader\nhelps" in page
    assert page.count('class="label">good<') == 1
    assert names_in(client.get("/?q=keep").text) == ["train-1"]
    client.post(address("train-1", "/note"), {"text": "", "tags": ""})
    assert not (root / "train-1" / "note.json").exists()


def test_a_run_is_deleted(client, root):
    assert client.post(address("train-1", "/delete")).status == 303
    assert not (root / "train-1").exists()
    assert client.get(address("train-1")).status == 404
    assert sorted(path.name for path in root.iterdir()) == ["train-2", "train-3"]


def test_only_run_directories_can_be_changed(client, root):
    (root / "stored.json").write_text(render(SAMPLES["towers"]()))
    assert ">stored.json</a>" in client.get("/").text
    for action in ("/delete", "/note", "/explain", "/timeline"):
        assert client.post(address("stored.json", action)).status == 409
    assert (root / "stored.json").is_file()


def test_explain_starts_a_process_for_each_run(client, root, site, monkeypatch):
    asked = []
    monkeypatch.setattr(site.jobs, "explain", lambda name, path: asked.append((name, path)))
    assert client.post(address("train-1", "/explain")).status == 303
    assert client.post("/explain").status == 303
    assert asked == [(entry_id(name), root / name) for name in ("train-1", "train-3")]


def test_a_timeline_is_sent_as_a_file(client, site, monkeypatch):
    made = []

    def export(run_dir, file):
        made.append(run_dir)
        file.write_bytes(b"gz")

    monkeypatch.setattr(site.jobs, "export", export)
    for _ in range(2):
        answer = client.post(address("train-1", "/timeline"))
        assert (answer.status, answer.body) == (200, b"gz")
        assert answer.headers["content-disposition"].startswith("attachment")
    assert len(made) == 1
