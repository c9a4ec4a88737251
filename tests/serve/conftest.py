from __future__ import annotations

import pytest

from tests.serve.runs import COMMIT, Client, index_of, write_run


@pytest.fixture
def root(tmp_path):
    """A folder with three runs, one of them without a result."""
    folder = tmp_path / "runs"
    folder.mkdir()
    write_run(folder, "train-1", day=1, commit=COMMIT, branch="main")
    write_run(folder, "train-2", day=2, scale=2.0, page="<title>It is slow – stepwhy</title>")  # noqa: RUF001
    write_run(folder, "train-3", "launch_bound", day=3, result=False, exit_code=1)
    return folder


@pytest.fixture
def site(root, tmp_path):
    pytest.importorskip("starlette")
    from stepwhy.apps.serve.access import Access
    from stepwhy.apps.serve.app import Site

    private = tmp_path / "private"
    private.mkdir()
    made = Site(index_of(root), Access("127.0.0.1", 8600), private)
    yield made
    made.jobs.close()


@pytest.fixture
def client(site):
    return Client(site.app(), site._access)
