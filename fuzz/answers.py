"""A web server on this machine that answers with bytes as they are given, valid or not."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_MOST_ASKED = 1 << 16  # bytes of a question
# The one who asks is in the same process, and asks at once.
_PATIENCE_S = 5.0


class AnsweringServer:
    """Answers each connection once and closes it.

    Attributes:
        address: Its host and port.
        answers: Whole answers by path.
        otherwise: The answer for other paths; None: status 404, or a redirect to a folder.
    """

    def __init__(self) -> None:
        self.answers: dict[str, bytes] = {}
        self.otherwise: bytes | None = None
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "{}:{}".format(*self._socket.getsockname())
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            threading.Thread(target=self._answer_once, args=(connection,), daemon=True).start()

    def _answer_once(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(_PATIENCE_S)
            self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        asked = b""
        while b"\r\n\r\n" not in asked and len(asked) < _MOST_ASKED:
            received = connection.recv(_MOST_ASKED)
            if not received:
                return
            asked += received
        path = asked.partition(b" ")[2].partition(b" ")[0].decode("latin-1").partition("?")[0]
        whole = self.answers.get(path, self.otherwise) or self._usual(path)
        connection.sendall(whole.replace(b"{server}", self.address.encode()))
        # Closing while something is unread would reset the connection, and lose the answer.
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(_MOST_ASKED):
            pass

    def _usual(self, path: str) -> bytes:
        """The answer to what there is none for: a folder has its address with a slash."""
        if f"{path}/" in self.answers:
            moved = f"HTTP/1.1 301 Moved\r\nLocation: {path}/\r\nContent-Length: 0\r\n\r\n"
            return moved.encode("latin-1")
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
