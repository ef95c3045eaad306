"""Lists that a limit may have cut."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

DEFAULT_LIMIT = 1_000_000
"""The length of a listing for which no limit is given."""


class Listing(list[T]):
    """A list that says whether a limit cut it."""

    truncated: bool
    """Whether there are more than are listed."""

    def __init__(self, items: Iterable[T] = (), truncated: bool = False) -> None:
        super().__init__(items)
        self.truncated = truncated


def listing(items: Iterable[T], truncated: bool, limit: int | None) -> Listing[T]:
    """A listing. Warns if it was cut without a `limit` that was given."""
    found = Listing(items, truncated)
    if truncated and limit is None:
        # The caller of the store's method.
        warnings.warn(f"only the first {len(found)} are listed, there are more; pass a higher limit", stacklevel=3)
    return found
