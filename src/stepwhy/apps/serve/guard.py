"""The outermost layer of the server: refuses requests, and adds headers to every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from stepwhy.apps.serve import pages
from stepwhy.apps.serve.access import TOKEN_PARAMETER, Access

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN_PAGE: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Content security policy of the server's own pages."""

STORED_PAGE: Final = (
    "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Policy of a stored page, which may come from someone else: it is an origin of its own, without
cookies, and can load and send nothing."""

_HEADERS: Final = {
    "content-security-policy": OWN_PAGE,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    # Not 'same-origin': the window of Perfetto must receive the timeline.
    "cross-origin-opener-policy": "same-origin-allow-popups",
}


class Guard:
    """Wraps an application.

    Args:
        app: The application.
        access: The rules.
        shell: What refusals show of the server.
    """

    def __init__(self, app: ASGIApp, access: Access, shell: pages.Shell) -> None:
        self._app = app
        self._access = access
        self._shell = shell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refused(Request(scope)) or self._app
        await answer(scope, receive, send_with_headers)

    def _refused(self, request: Request) -> Response | None:
        """The answer to a request that does not reach the application; None for all others."""
        reason = self._access.refusal(request.method, plain_headers(request.headers))
        if reason:
            return PlainTextResponse(reason, 403)
        token = request.query_params.get(TOKEN_PARAMETER)
        if token is not None and request.method == "GET":
            return self._welcome(token)
        if self._access.is_private and not self._access.knows(
            plain_headers(request.headers), request.cookies
        ):
            return PlainTextResponse(
                "Open the address that 'stepwhy serve' printed: it contains a token.", 403
            )
        return None

    def _welcome(self, token: str) -> Response:
        """The answer to the address that was printed at the start.

        A page that goes on by itself, not a redirection: browsers keep the cookie of a link from
        another site to themselves until a page of this server follows it.
        """
        access = self._access
        if not access.is_token(token):
            return PlainTextResponse("The token is not that of this server.", 403)
        text = "This browser may now make changes."
        page = pages.message_page(self._shell, "Welcome", text, forward="/")
        answer = Response(page, media_type="text/html")
        answer.set_cookie(
            access.cookie_name, access.cookie, path="/", httponly=True, samesite="strict"
        )
        return answer


def plain_headers(headers: Headers) -> dict[str, str]:
    """Headers by name in lower case; repeated ones are joined, so that none is overlooked."""
    return {name: ", ".join(headers.getlist(name)) for name in {key.lower() for key in headers}}
