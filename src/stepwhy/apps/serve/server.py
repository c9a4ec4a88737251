"""Listen on an address, and answer until Ctrl-C."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.apps.serve.access import TOKEN_PARAMETER, Access
from stepwhy.base import output
from stepwhy.base.errors import NotFoundError, ServeError
from stepwhy.base.optional import needs_extra
from stepwhy.base.text import visible
from stepwhy.read.inputs.kinds import is_folder, is_there
from stepwhy.read.inputs.private_folder import private_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PATIENCE_S = 3  # for answers that are being sent at the end
_ALL = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to show, not to listen on


class Started(NamedTuple):
    """What to say at the start.

    Attributes:
        url: The address with the token.
        is_local: Whether only this machine can reach it.
        runs: Number of runs.
    """

    url: str
    is_local: bool
    runs: int


def serve(
    root: Path, host: str, port: int, *, private: bool, started: Callable[[Started], None]
) -> None:
    """Serve the runs of a folder until Ctrl-C or SIGTERM.

    Args:
        root: The folder.
        host: Address or name to listen on.
        port: Port; 0 for any that is free.
        private: Whether reading needs the token as well.
        started: Called when the server listens.

    Raises:
        NotFoundError: There is no such folder.
        MissingPackageError: The extra is not installed.
        ServeError: The address cannot be listened on.
    """
    if not is_folder(root):
        what = "is not a folder" if is_there(root) else "does not exist"
        raise NotFoundError(f"{visible(str(root))} {what}", "Name a folder of runs")
    with needs_extra("serve", "Served pages"):
        import uvicorn  # noqa: PLC0415 - an extra

        from stepwhy.apps.serve.app import Site  # noqa: PLC0415 - imports the extra
        from stepwhy.apps.serve.patience import MOST_CONNECTIONS, PatientProtocol  # noqa: PLC0415 - as above
    from stepwhy.apps.serve.index import Index  # noqa: PLC0415 - after the errors above
    from stepwhy.apps.serve.store import Store, store_file  # noqa: PLC0415

    with listening(host, port) as sock, private_folder() as folder:
        address, port = sock.getsockname()[:2]
        access = Access(address, port, names=(host,), private=private)
        root = root.resolve()
        store = Store(store_file(root))
        index = Index(root, store)
        site = Site(index, access, folder)
        _log_to_stderr()
        config = uvicorn.Config(
            site.app(),
            http=PatientProtocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=_PATIENCE_S,
        )
        started(Started(_url(address, port, access), access.is_local, len(index.entries())))
        try:
            uvicorn.Server(config).run(sockets=[sock])
        finally:
            site.jobs.close()
            store.close()


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: Address or name.
        port: Port; 0 for any that is free.

    Raises:
        ServeError: The name is unknown, or the port is in use or reserved.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ServeError(
            f"{host} cannot be listened on at port {port} ({reason})",
            "Choose another one with --port, or with --host an address of this machine",
        ) from None


def _url(address: str, port: int, access: Access) -> str:
    shown = _ALL.get(address, address)
    host = f"[{shown}]" if ":" in shown else shown
    return f"http://{host}:{port}/?{TOKEN_PARAMETER}={access.token}"


class _Lines(logging.Handler):
    """Prints what goes wrong as one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message, with the error behind it."""
        error = record.exc_info[1] if record.exc_info else None
        cause = f": {type(error).__name__}: {error}" if error is not None else ""
        output.line(f"stepwhy: {record.getMessage().splitlines()[0].strip()}{cause}")


def _log_to_stderr() -> None:
    logger = logging.getLogger("uvicorn")
    logger.handlers[:] = [_Lines(logging.WARNING)]
    logger.setLevel(logging.WARNING)
    logger.propagate = False
