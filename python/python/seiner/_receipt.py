"""Receipts of appended rows."""

from __future__ import annotations

from typing import NamedTuple


class Receipt(NamedTuple):
    """Outcome of a call that appends rows."""

    rows: int
    """Number of rows accepted."""
    samples: int
    """Number of values accepted: a row with three fields has three."""
    rejected: list[tuple[int, str]]
    """The first 100 rejected rows: index in the input (lines count from 1) and reason."""
    rejected_total: int
    """Number of rows rejected in total."""

    @property
    def refused(self) -> list[tuple[int, str]]:
        """Deprecated name of `rejected`."""
        return self.rejected

    @property
    def refused_total(self) -> int:
        """Deprecated name of `rejected_total`."""
        return self.rejected_total
