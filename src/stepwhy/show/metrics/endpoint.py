"""Metrics at http://127.0.0.1:PORT/metrics, for Prometheus to scrape.

Only programs of this machine can connect. A request that names another host is refused, so that a
web page cannot read the metrics through a name that leads to this machine (DNS rebinding).
"""

from __future__ import annotations

import socket
import threading
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from stepwhy.base.errors import OutputError
from stepwhy.show.metrics.prometheus import Collector, check_installed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepwhy.show.metrics.model import Run

ADDRESS = "127.0.0.1"
PATH = "/metrics"
_LOCAL = frozenset({ADDRESS, "localhost"})
# Seconds that a connection may stay silent.
_TIMEOUT_S = 10
# How often the server looks whether it must close.
_POLL_S = 0.2


class Endpoint:
    """Answers scrapes on a port of this machine.

    Args:
        port: The port; 0 for any free one.

    Attributes:
        port: The port, known after `prepare`.
    """

    what = "metrics for Prometheus"

    def __init__(self, port: int) -> None:
        self.port = port
        self._server: _Server | None = None

    def prepare(self) -> None:
        """Occupy the port.

        Raises:
            MissingPackageError: prometheus-client is not installed.
            OutputError: Another program uses the port.
        """
        check_installed()
        try:
            self._server = _Server((ADDRESS, self.port), _Handler)
        except OSError as error:
            raise OutputError(
                f"port {self.port} cannot be used ({error.strerror or 'unknown error'})",
                "Name another one with --metrics-port",
            ) from None
        self.port = self._server.server_address[1]

    def start(self, read: Callable[[], Run]) -> None:
        """Answer from now on."""
        from prometheus_client import make_wsgi_app  # noqa: PLC0415 - optional

        if self._server is not None:
            registry: Any = Collector(read)
            self._server.set_app(_guarded(make_wsgi_app(registry)))
            threading.Thread(
                target=self._server.serve_forever,
                args=(_POLL_S,),
                name="stepwhy-endpoint",
                daemon=True,
            ).start()

    def publish(self, run: Run) -> None:
        """Nothing: each scrape reads the numbers."""

    def close(self, run: Run) -> None:  # noqa: ARG002 - of the protocol
        """Close the port."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Bind without asking for the machine's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = ADDRESS, self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: the terminal belongs to the training."""


class _Handler(WSGIRequestHandler):
    timeout = _TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Print nothing."""


def _guarded(app: Any) -> Any:
    """The application for requests that ask this machine for the metrics."""

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", ADDRESS)).rpartition(":")
        name = host[0] or host[2]
        if name in _LOCAL and environ.get("PATH_INFO") == PATH:
            answered: Iterable[bytes] = app(environ, start_response)
            return answered
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"The metrics are at http://{ADDRESS}:<port>{PATH}\n".encode()]

    return answer
