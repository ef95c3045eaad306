"""What can go wrong. Everything that this package raises on purpose is a `SeinerError`."""

from __future__ import annotations

from ._receipt import Receipt

__all__ = [
    "Closed",
    "Damaged",
    "DiskError",
    "DiskFull",
    "InUse",
    "Invalid",
    "Poisoned",
    "Refused",
    "SeinerError",
]


class SeinerError(Exception):
    """Any error of this package."""


class InUse(SeinerError):
    """Another store, in this process or another one, has the directory open."""


class Closed(SeinerError):
    """The store was closed."""


class Damaged(SeinerError):
    """Bytes on disk are not what was written; the text names the file and the offset."""


class DiskError(SeinerError, OSError):
    """The disk or the file system failed: no space, no permission, an I/O error."""


class DiskFull(SeinerError):
    """The disk budget is used up and no class may be shed; rows of the call may have been accepted before.

    The next append is taken as soon as there is room again.
    """


class Poisoned(SeinerError):
    """A write to disk failed earlier. The store refuses writes until it is opened again."""


class Invalid(SeinerError, ValueError):
    """What was passed in makes no sense; the text names the place and the remedy."""


class Refused(SeinerError, ValueError):
    """Some rows could not be accepted; the others were, and stay.

    Raised by the append methods unless they are called with `strict=False`.
    """

    def __init__(self, receipt: Receipt) -> None:
        first = "; ".join(f"row {place}: {reason}" for place, reason in receipt.refused[:3])
        more = ", ..." if receipt.refused_total > 3 else ""
        super().__init__(
            f"{receipt.refused_total} rows were refused, {receipt.rows} are stored: {first}{more}"
        )
        self.receipt = receipt
        """How many rows were accepted, and which ones were not."""
