"""Sizes in bytes, in readable notation."""

from __future__ import annotations

import re
from typing import TypeAlias

from .errors import Invalid

Size: TypeAlias = "int | str"
"""Bytes: an integer, or a text such as ``"256 MiB"`` or ``"1.5 GB"``."""

_UNITS = {"": 1, "b": 1}
_UNITS |= {unit + "b": 1000**power for power, unit in enumerate("kmgt", 1)}
_UNITS |= {unit + "ib": 1024**power for power, unit in enumerate("kmgt", 1)}


def byte_count(name: str, size: Size) -> int:
    """Returns the number of bytes of a size."""
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    if isinstance(size, str) and (match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", size)):
        number, unit = match.groups()
        if (factor := _UNITS.get(unit.lower())) is not None:
            return int(float(number) * factor) if "." in number else int(number) * factor
    raise Invalid(f"{name} = {size!r} is not a size; write bytes, or a text such as '256 MiB'")
