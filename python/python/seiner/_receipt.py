"""What became of rows."""

from __future__ import annotations

from typing import NamedTuple


class Receipt(NamedTuple):
    """What became of the rows of a call."""

    rows: int
    """Rows accepted."""
    samples: int
    """Values accepted: a row with three fields has three."""
    refused: list[tuple[int, str]]
    """The first 100 refused rows: their place in the input (lines count from 1), and why."""
    refused_total: int
    """How many rows were refused altogether."""
