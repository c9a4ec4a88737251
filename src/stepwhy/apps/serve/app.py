"""The addresses of the server, and what answers them.

Addresses name an entry by a number that the index knows, never by a path. Reading is GET; whatever
writes, or starts a process, is POST and goes through `_writing`, which asks for the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from stepwhy.apps.serve import pages
from stepwhy.apps.serve.filters import filter_of
from stepwhy.apps.serve.guard import STORED_PAGE, Guard, plain_headers
from stepwhy.apps.serve.jobs import Jobs
from stepwhy.apps.serve.notes import note_of, write_note
from stepwhy.apps.serve.removal import delete_run
from stepwhy.apps.serve.scan import PAGE_FILE
from stepwhy.base.errors import InputError, NotAFileError, StepwhyError
from stepwhy.read.inputs.side_files import read_side_file
from stepwhy.read.inputs.within import check_within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from stepwhy.apps.serve.access import Access
    from stepwhy.apps.serve.index import Index
    from stepwhy.apps.serve.summaries import Entry

    Write = Callable[[Request, dict[str, str]], Response]

# Pages have at most 10 MB.
_MOST_PAGE_BYTES = 1 << 26
_MOST_TIMELINES = 4

_MOST_FORM_BYTES = 1 << 16
_MOST_FORM_FIELDS = 20
_FORM_TYPE = "application/x-www-form-urlencoded"


class Site:
    """Everything that requests need.

    Args:
        index: The entries.
        access: Who may read and write.
        folder: An empty private folder for timelines.

    Attributes:
        jobs: Explanations that were asked for.
    """

    def __init__(self, index: Index, access: Access, folder: Path) -> None:
        self._index = index
        self._access = access
        self._folder = folder
        self._timelines: dict[str, Path] = {}
        self.jobs = Jobs(index.expire)

    def app(self) -> ASGIApp:
        """The application."""
        routes = [
            Route("/", self.overview, methods=["GET"]),
            Route("/state", self.state, methods=["GET"]),
            Route("/serve.css", _text(pages.style, "text/css"), methods=["GET"]),
            Route("/serve.js", _text(pages.script, "text/javascript"), methods=["GET"]),
            Route("/compare", self.compare, methods=["GET"]),
            Route("/explain", self._writing(self.explain_all), methods=["POST"]),
            Route("/run/{id}", self.run, methods=["GET"]),
            Route("/run/{id}/report", self.report, methods=["GET"]),
            Route("/run/{id}/explain", self._writing(self.explain), methods=["POST"]),
            Route("/run/{id}/note", self._writing(self.note), methods=["POST"]),
            Route("/run/{id}/delete", self._writing(self.delete), methods=["POST"]),
            Route("/run/{id}/timeline", self._writing(self.timeline), methods=["POST"]),
        ]
        handlers = {HTTPException: self._failed, StepwhyError: self._failed}
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False
        return Guard(app, self._access, self._shell(form_key=""))

    # --- Reading ---

    def overview(self, request: Request) -> Response:
        """All runs."""
        entries = self._index.entries()
        page = pages.list_page(
            self._shell(request),
            entries,
            filter_of(request.query_params),
            note=self._index.note,
            working=self.jobs.unfinished(),
        )
        return HTMLResponse(page)

    def state(self, _request: Request) -> Response:
        """A number that grows when something changes."""
        self._index.entries()
        return JSONResponse({"version": self._index.version})

    def run(self, request: Request) -> Response:
        """One run."""
        entry = self._entry(request)
        page = pages.run_page(self._shell(request), entry, self.jobs.state(entry.id))
        return HTMLResponse(page)

    def report(self, request: Request) -> Response:
        """The stored page of an entry."""
        entry = self._entry(request)
        path = self._index.root / entry.path
        file = path / PAGE_FILE if entry.summary.kind == "run" else path
        is_page = entry.summary.kind != "result"
        data = read_side_file(self._index.root, file, _MOST_PAGE_BYTES) if is_page else None
        if data is None:
            raise HTTPException(404, "This run has no page. Explain it to make one.")
        return HTMLResponse(data, headers={"content-security-policy": STORED_PAGE})

    def compare(self, request: Request) -> Response:
        """Two runs side by side; the older one is A, unless they were swapped."""
        names = dict.fromkeys(request.query_params.getlist("run"))
        if len(names) != 2:
            raise HTTPException(400, "Tick two runs in the list to compare them.")
        entries = [self._named(name) for name in names]
        if "keep" not in request.query_params:
            entries.sort(key=lambda entry: entry.summary.time_ns)
        from stepwhy.apps.serve.pairs import pair  # noqa: PLC0415 - the statistics take time to import

        compared = pair(self._index.root, *entries)
        return HTMLResponse(pages.compare_page(self._shell(request), compared))

    # --- Writing ---

    def explain(self, request: Request, _form: Mapping[str, str]) -> Response:
        """Explain a run, or explain it again."""
        entry = self._run_entry(request)
        self._start_explaining(entry)
        return _see(entry)

    def explain_all(self, _request: Request, _form: Mapping[str, str]) -> Response:
        """Explain all runs that are not explained."""
        for entry in self._index.entries():
            if entry.summary.kind == "run" and entry.summary.state == "unexplained":
                self._start_explaining(entry)
        return RedirectResponse("/", 303)

    def note(self, request: Request, form: Mapping[str, str]) -> Response:
        """Change the note of a run."""
        entry = self._run_entry(request)
        note = note_of(form.get("text", ""), form.get("tags", ""))
        write_note(self._index.root, self._index.root / entry.path, note)
        self._index.expire()
        return _see(entry)

    def delete(self, request: Request, _form: Mapping[str, str]) -> Response:
        """Delete a run."""
        entry = self._run_entry(request)
        if self.jobs.is_busy(entry.id):
            raise HTTPException(409, "This run is being explained. Delete it afterwards.")
        delete_run(self._index.root, entry.path)
        self._index.expire()
        return RedirectResponse("/", 303)

    def timeline(self, request: Request, _form: Mapping[str, str]) -> Response:
        """The timeline of a run as a file for Perfetto."""
        entry = self._run_entry(request)
        try:
            file = self._timeline(entry)
        except StepwhyError as error:
            return PlainTextResponse(str(error), 409)
        return FileResponse(file, media_type="application/gzip", filename="timeline.json.gz")

    def _timeline(self, entry: Entry) -> Path:
        known = self._timelines.get(entry.id)
        if known is not None:
            return known
        run_dir = self._checked(entry)
        file = self._folder / f"{entry.id}.json.gz"
        self.jobs.export(run_dir, file)
        self._timelines[entry.id] = file
        while len(self._timelines) > _MOST_TIMELINES:
            oldest = next(iter(self._timelines))
            self._timelines.pop(oldest).unlink(missing_ok=True)
        return file

    def _start_explaining(self, entry: Entry) -> None:
        self._timelines.pop(entry.id, None)
        self.jobs.explain(entry.id, self._checked(entry))

    # --- Shared ---

    def _writing(self, write: Write) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that asks for the token before it does anything."""

        async def endpoint(request: Request) -> Response:
            form = await read_form(request)
            headers = plain_headers(request.headers)
            if not self._access.may_write(headers, request.cookies, form):
                raise HTTPException(
                    403, "Open the address that 'stepwhy serve' printed to make changes."
                )
            return await run_in_threadpool(write, request, form)

        return endpoint

    def _shell(self, request: Request | None = None, *, form_key: str | None = None) -> pages.Shell:
        if form_key is None and request is not None:
            known = self._access.knows(plain_headers(request.headers), request.cookies)
            form_key = self._access.form_key if known else ""
        root = self._index.root
        return pages.Shell(
            root.name or str(root), self._index.version, form_key or "", self._access.is_private
        )

    def _entry(self, request: Request) -> Entry:
        return self._named(request.path_params["id"])

    def _named(self, name: str) -> Entry:
        entry = self._index.get(name)
        if entry is None:
            raise HTTPException(404, "There is no such run. It may have been deleted.")
        return entry

    def _run_entry(self, request: Request) -> Entry:
        entry = self._entry(request)
        if entry.summary.kind != "run":
            raise HTTPException(409, "Only run directories can be changed.")
        return entry

    def _checked(self, entry: Entry) -> Path:
        """The path of an entry, which must not have become a link out of the folder.

        Raises:
            NotAFileError: It leads out of the folder.
        """
        root = self._index.root
        try:
            return root.resolve().joinpath(*check_within(root, root / entry.path))
        except OSError:
            raise HTTPException(404, "There is no such run. It may have been deleted.") from None

    def _failed(self, request: Request, error: Exception) -> Response:
        """The page of an error."""
        status, text = _status(error)
        page = pages.message_page(self._shell(request), _TITLES.get(status, "Failed"), text)
        return HTMLResponse(page, status)


_TITLES = {403: "Refused", 404: "Not found", 405: "Refused", 409: "Not now"}


def _status(error: Exception) -> tuple[int, str]:
    if isinstance(error, HTTPException):
        return error.status_code, error.detail
    if isinstance(error, NotAFileError):
        return 403, str(error)
    return (404 if isinstance(error, InputError) else 409), str(error)


def _text(make: Callable[[], str], media_type: str) -> Callable[[Request], Response]:
    def endpoint(_request: Request) -> Response:
        return Response(make(), media_type=media_type)

    return endpoint


def _see(entry: Entry) -> Response:
    return RedirectResponse(f"/run/{quote(entry.id)}", 303)


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; of repeated ones, the last.

    Args:
        request: The request.

    Raises:
        HTTPException: It is no form, or too large.
    """
    kind = request.headers.get("content-type", _FORM_TYPE).partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise HTTPException(415, "Only forms are accepted.")
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > _MOST_FORM_BYTES:
                raise HTTPException(413, "The form is too large.")
    except ClientDisconnect:
        raise HTTPException(400, "The form is incomplete.") from None
    try:
        text = data.decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FORM_FIELDS))
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None
