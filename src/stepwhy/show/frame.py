"""A page inside another one, as notebooks show it."""

from __future__ import annotations

import html

_FRAME = '<iframe srcdoc="{}" style="width:100%;height:40em;border:0"></iframe>'


def framed(page: str) -> str:
    """A page as an HTML element that keeps its scripts and styles to itself.

    Args:
        page: A whole page, as `show.html.render` makes it.
    """
    return _FRAME.format(html.escape(page))
