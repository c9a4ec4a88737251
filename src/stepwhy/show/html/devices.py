"""The section on devices: all of them, or of many those of the ranks that matter."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units
from stepwhy.base.patterns import regex
from stepwhy.show import words
from stepwhy.show.ranks import those_that_matter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import Device, Result

_MOST = 32
# How devices of several ranks are named.
_OF_RANK = regex(r"rank (\d+) ")


class DeviceView(msgspec.Struct, frozen=True):
    """What the template shows.

    Args:
        devices: The devices.
        note: How busy the others are; '' if all are shown.
    """

    devices: tuple[Device, ...]
    note: str


def device_view(result: Result) -> DeviceView:
    """Template data of the devices."""
    every = tuple(one for one in result.devices if one.busy_ns) or result.devices
    idle = ", ".join(one.name for one in result.devices if one not in every)
    if len(every) <= _MOST:
        return DeviceView(every, f"Idle throughout: {idle}." if idle else "")
    matter = {rank.rank for rank in those_that_matter(result.ranks, _MOST)}
    shown = [one for one in every if _rank(one) in matter][:_MOST] or every[:_MOST]
    names = {one.name for one in shown}
    return DeviceView(tuple(shown), _note(result, [one for one in every if one.name not in names]))


def _rank(device: Device) -> int | None:
    found = _OF_RANK.match(device.name)
    return None if found is None else int(found[1])


def _note(result: Result, others: Sequence[Device]) -> str:
    shares = [one.busy_fraction for one in others]
    middle, least, most = (units.format_fraction(f(shares)) for f in (median, min, max))
    spread = f"{middle} ({least} to {most})" if least != most else middle
    count = units.format_count(len(others))
    return f"The other {count} devices are busy for {spread} of the {words.whole(result)}."
