"""Who may read and write."""

import pytest

from stepwhy.apps.serve.access import FORM_FIELD, Access, is_loopback
from tests.serve.runs import Client

OWN = "127.0.0.1:8600"


@pytest.fixture
def access():
    return Access("127.0.0.1", 8600)


def headers(host=OWN, **others):
    return {"host": host, **{name.replace("_", "-"): value for name, value in others.items()}}


@pytest.mark.parametrize("host", [OWN, "localhost:8600", "LOCALHOST", "[::1]:8600", "127.0.0.1:9"])
def test_own_hosts_are_served(access, host):
    """The port may be that of a tunnel."""
    assert access.refusal("GET", headers(host)) == ""


@pytest.mark.parametrize(
    "host",
    [
        "", "attacker.example:8600", "localhost.attacker.example", "192.168.1.2:8600",
        "127.0.0.1.nip.io", "a@127.0.0.1", "[", "0.0.0.0:8600", "127.0.0.1:8600, evil.example",
        "127.0.0.1 evil", "2130706433", "\udcff",
    ],
)  # fmt: skip
def test_other_hosts_are_refused(access, host):
    assert access.refusal("GET", headers(host)) != ""


def test_a_server_for_other_machines_has_its_own_names(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "Node7")
    access = Access("10.0.0.7", 8600, names=("train.example",))
    for host in ("10.0.0.7:8600", "node7:8600", "train.example"):
        assert access.refusal("GET", headers(host)) == ""
    assert access.refusal("GET", headers("attacker.example")) != ""


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://attacker.example", "http://127.0.0.1:3000", "http://localhost:8600", "null", "",
        "http://127.0.0.1:8600.attacker.example", "file://", "http://127.0.0.1",
    ],
)  # fmt: skip
def test_other_origins_are_refused(access, method, origin):
    assert access.refusal(method, headers(origin=origin)) != ""


def test_own_origin_is_served(access):
    assert access.refusal("POST", headers(origin=f"http://{OWN}")) == ""
    assert access.refusal("POST", headers("localhost:9", origin="http://localhost:9")) == ""


def test_a_form_without_a_referrer_is_told_from_a_sandbox(access):
    """Chromium sends the origin 'null' for both."""
    own = headers(origin="null", sec_fetch_site="same-origin")
    sandbox = headers(origin="null", sec_fetch_site="cross-site")
    assert (access.refusal("POST", own), access.refusal("POST", sandbox) != "") == ("", True)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_embedding_is_refused_and_links_are_followed(access, site):
    link = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert access.refusal("GET", headers(sec_fetch_site=site, **link)) == ""
    assert access.refusal("POST", headers(sec_fetch_site=site, **link)) != ""
    for mode, dest in (("no-cors", "image"), ("no-cors", "script"), ("navigate", "iframe")):
        fetched = headers(sec_fetch_site=site, sec_fetch_mode=mode, sec_fetch_dest=dest)
        assert access.refusal("GET", fetched) != ""


def test_tokens_are_random_and_long(access):
    other = Access("127.0.0.1", 8600)
    secrets = {access.token, access.cookie, access.form_key, other.token, other.cookie}
    assert len(secrets) == 5
    assert min(map(len, secrets)) >= 43


def test_tokens_are_compared_in_constant_time(access, monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: compared.append((a, b)) or False)
    assert not access.is_token("x")
    assert compared == [(b"x", access.token.encode())]


def test_writing_needs_the_header_or_the_cookie_and_the_field(access):
    cookies, form = {access.cookie_name: access.cookie}, {FORM_FIELD: access.form_key}
    assert access.may_write({"x-stepwhy-token": access.token}, {}, {})
    assert access.may_write({}, cookies, form)
    for wrong in (
        ({}, {}, {}),
        ({}, cookies, {}),
        ({}, {}, form),
        ({}, cookies, {FORM_FIELD: access.cookie}),
        ({}, {access.cookie_name: access.token}, form),
        ({"x-stepwhy-token": access.cookie}, {}, form),
        ({"x-stepwhy-token": "\udcff"}, {}, {}),
    ):
        assert not access.may_write(*wrong)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("127.8.0.1", True), ("0.0.0.0", False),  # noqa: S104
     ("::", False),
     ("10.0.0.7", False), ("localhost", False)],
)  # fmt: skip
def test_loopback(host, local):
    assert is_loopback(host) is local


# --- through the application ---


def test_reading_needs_the_token_on_other_addresses(site, root):
    del root
    site._access = Access("10.0.0.7", 8600)
    client = Client(site.app(), site._access)
    client.host = "10.0.0.7:8600"
    paths = ("/", "/state", "/compare", "/serve.css", "/run/0000000000000000")
    assert {client.get(path).status for path in paths} == {403}
    assert client.get("/?token=wrong").status == 403
    assert client.get("/", cookie=client.cookie).status == 200
    assert client.get("/", x_stepwhy_token=client.access.token).status == 200


def test_reading_needs_the_token_if_asked_for(site):
    site._access = Access("127.0.0.1", 8600, private=True)
    client = Client(site.app(), site._access)
    assert client.get("/").status == 403
    welcome = client.get(f"/?token={client.access.token}")
    assert welcome.status == 200
    assert 'http-equiv="refresh" content="0; url=/"' in welcome.text
    assert client.access.token not in welcome.text


def test_the_token_sets_a_strict_cookie(client):
    answer = client.get(f"/?token={client.access.token}")
    parts = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert answer.headers["set-cookie"].startswith(client.cookie)
    assert client.get("/?token=wrong").status == 403
    assert "set-cookie" not in client.get("/").headers
