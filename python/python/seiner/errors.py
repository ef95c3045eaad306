"""Errors of the package. All of them are subclasses of `SeinerError`."""

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
    "Rejected",
    "SeinerError",
]


class SeinerError(Exception):
    """Any error of this package."""


class InUse(SeinerError):
    """The directory is open in another store, in this process or another one."""


class Closed(SeinerError):
    """The store was closed."""


class Damaged(SeinerError):
    """Bytes on disk differ from what was written. The text names the file and the offset."""


class DiskError(SeinerError, OSError):
    """The disk or the file system failed: no space, no permission, an I/O error."""


class DiskFull(SeinerError):
    """The disk budget is used up and no class may be shed. Some rows of the call may have been accepted.

    Appends are accepted again as soon as there is space.
    """


class Poisoned(SeinerError):
    """A write to disk failed earlier. The store rejects writes until it is opened again."""


class Invalid(SeinerError, ValueError):
    """An argument is not valid. The text names the place and the remedy."""


class Rejected(SeinerError, ValueError):
    """Some rows were rejected. The others are stored.

    Raised by the append methods unless they are called with `strict=False`.
    """

    def __init__(self, receipt: Receipt) -> None:
        first = "; ".join(f"row {place}: {reason}" for place, reason in receipt.rejected[:3])
        more = ", ..." if receipt.rejected_total > 3 else ""
        super().__init__(
            f"{receipt.rejected_total} rows were rejected, {receipt.rows} are stored: {first}{more}"
        )
        self.receipt = receipt
        """Receipt of the call, with the rejected rows."""


Refused = Rejected
"""Deprecated name of `Rejected`."""
