"""Forms that browsers send, within limits."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from starlette.requests import Request

_MOST_BYTES = 1 << 16
_MOST_FIELDS = 20
_TYPE = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; of repeated ones, the last.

    Args:
        request: The request.

    Raises:
        HTTPException: It is no form, or too large.
    """
    kind = request.headers.get("content-type", _TYPE).partition(";")[0].strip().lower()
    if kind != _TYPE:
        raise HTTPException(415, "Only forms are accepted.")
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > _MOST_BYTES:
                raise HTTPException(413, "The form is too large.")
    except ClientDisconnect:
        raise HTTPException(400, "The form is incomplete.") from None
    try:
        text = data.decode()
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        raise HTTPException(400, "The form cannot be read.") from None


__all__ = ["read_form"]
