"""Ranges of times."""

from __future__ import annotations

from typing import NamedTuple


class Range(NamedTuple):
    """First and last time of samples, in ns since 1970. Both are times of samples."""

    first: int
    last: int
