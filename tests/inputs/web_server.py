"""Local web servers for tests, well-behaved or malicious."""

from __future__ import annotations

import base64
import gzip
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer


class Server:
    """Serves `files` by path, and their folders as pages of links.

    Attributes:
        files: Content by path, such as '/runs/trace.json'.
        pages: HTML by path of a folder, in place of links to the files in it.
        redirects: Target of the redirect by path.
        scripts: By path, a function that is called with the request handler instead of a response;
            the connection is closed afterwards.
        status: Status of all responses.
        login: Required 'user:password', or else the status is 401; '' for none.
        breaks_after: Number of bytes after which it closes the connection.
        goes_on: Event that lets it close the connection; None for at once.
        asked: Paths and queries of the requests.
        logins: The Authorization header of each request, or None.
    """

    def __init__(self, address):
        self.address = address
        self.files = {}
        self.pages = {}
        self.redirects = {}
        self.scripts = {}
        self.status = 200
        self.login = ""
        self.breaks_after = None
        self.goes_on = None
        self.asked = []
        self.logins = []

    def url(self, path, login="", query=""):
        return f"http://{login and login + '@'}{self.address}{path}{query and '?' + query}"

    def may_read(self, authorization):
        expected = "Basic " + base64.b64encode(self.login.encode()).decode()
        return not self.login or authorization == expected

    def page(self, folder):
        """Links in a folder's page, with those web servers add; None if there is no such folder."""
        if folder in self.pages:
            return self.pages[folder]
        inside = [p.removeprefix(folder) for p in self.files if p.startswith(folder)]
        names = {name.partition("/")[0] + "/" * ("/" in name) for name in inside}
        return links("../", "?C=N;O=D", "/elsewhere/", *sorted(names)) if inside else None


def links(*targets):
    """A page that links to targets."""
    return "".join(f'<a href="{target}">{target}</a>\n' for target in targets).encode()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server.behaviour
        server.asked.append(self.path)
        server.logins.append(self.headers["Authorization"])
        path = self.path.partition("?")[0]
        if path in server.scripts:
            self.close_connection = True
            server.scripts[path](self)
        elif path in server.redirects:
            self.redirect(server.redirects[path])
        elif path not in server.files and server.page(path + "/"):
            self.redirect(path + "/")
        else:
            self.content(path)

    def content(self, path):
        server = self.server.behaviour
        is_folder = path.endswith("/")
        content = server.page(path) if is_folder else server.files.get(path)
        status = 401 if not server.may_read(self.headers["Authorization"]) else server.status
        if status == 200 and content is None:
            status = 404
        self.answer(status, content if status == 200 else b"no", is_folder=is_folder)

    def redirect(self, target):
        self.send_response(301)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, status, content, *, is_folder):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "text/html" if is_folder else "application/gzip")
        self.end_headers()
        self.wfile.write(content[: self.server.behaviour.breaks_after])
        if self.server.behaviour.goes_on is not None:
            self.server.behaviour.goes_on.wait(30)

    def log_message(self, *_):
        pass


@contextmanager
def web_server():
    """Yields a `Server`; it stops at the end of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.behaviour = Server("{}:{}".format(*server.server_address))
    with _serving(server):
        yield server.behaviour


@contextmanager
def _serving(server):
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# --- Arbitrary responses ---


class Answers:
    """Exact bytes of the response to each request.

    Attributes:
        url: The address of a file on it.
        folder_url: The address of a folder on it.
        answer: Bytes that it sends before closing: status line, headers and body.
    """

    def __init__(self, address):
        self.url = f"http://{address}/trace.json"
        self.folder_url = f"http://{address}/runs/"
        self.answer = b""


class RawHandler(StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip():
            pass
        with suppress(OSError):  # the client has closed the connection
            self.wfile.write(self.server.answers.answer)


@contextmanager
def raw_server():
    """Yields `Answers`, to test a client in this process with arbitrary bytes.

    For example::

        with raw_server() as answers:
            for data in inputs:
                answers.answer = data
                explain([answers.url])
    """
    server = ThreadingTCPServer(("127.0.0.1", 0), RawHandler)
    server.daemon_threads = True
    server.answers = Answers("{}:{}".format(*server.server_address))
    with _serving(server):
        yield server.answers


# --- Scripts of malicious servers ---


def until_hung_up(handler):
    """Wait for the client to close the connection."""
    try:
        while handler.rfile.read(1):
            pass
    except OSError:
        pass


def _send_forever(handler, chunk):
    try:
        while True:
            handler.wfile.write(chunk)
    except OSError:
        pass


def silent(handler):
    """Send no response."""
    until_hung_up(handler)


def _begin(handler, *headers):
    lines = ["HTTP/1.1 200 OK", "Content-Type: text/html", *headers, "", ""]
    handler.wfile.write("\r\n".join(lines).encode())


def endless_body(handler):
    """Send an endless body of unknown length."""
    _begin(handler)
    _send_forever(handler, b" " * (1 << 16))


def endless_chunks(handler):
    """Send an endless chunked body."""
    _begin(handler, "Transfer-Encoding: chunked")
    _send_forever(handler, b"10000\r\n" + b" " * (1 << 16) + b"\r\n")


def gzip_bomb(handler):
    """Send endless zeros, compressed by a factor of a thousand."""
    _begin(handler, "Content-Encoding: gzip")
    _send_forever(handler, gzip.compress(bytes(1 << 24)))


def many_headers(handler):
    """Send endless headers."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    _send_forever(handler, b"X-Header: value\r\n" * 1000)


def long_header(handler):
    """Send one endless header."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Header: ")
    _send_forever(handler, b"x" * (1 << 16))


def continues(handler):
    """Announce a response again and again."""
    _send_forever(handler, b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)


def endless_chunk_extension(handler):
    """Send one chunk with an endless size."""
    _begin(handler, "Transfer-Encoding: chunked")
    handler.wfile.write(b"1;")
    _send_forever(handler, b"x" * (1 << 16))


def drip(clock):
    """A script that sends one byte of an endless body every 30 seconds of a fake clock."""

    def script(handler):
        _begin(handler)
        try:
            while True:
                handler.wfile.write(b" ")
                clock.wait_until_read()
                clock.now += 30
        except OSError:
            pass

    return script


def drip_headers(clock):
    """A script that sends ten bytes of a header in five minutes of a fake clock, then nothing."""

    def script(handler):
        for byte in b"HTTP/1.1 2":
            handler.wfile.write(bytes([byte]))
            clock.now += 30
        until_hung_up(handler)

    return script


class Clock:
    """Fake monotonic time, in seconds.

    Args:
        step: Advance at each reading.
    """

    def __init__(self, step=0.0):
        self.now = 1000.0
        self.step = step
        self._is_read = threading.Event()

    def __call__(self):
        self._is_read.set()
        self.now += self.step
        return self.now

    def wait_until_read(self):
        """Wait until the clock is read."""
        self._is_read.clear()
        self._is_read.wait(30)
