"""Lists that a limit may have shortened."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

DEFAULT_LIMIT = 1_000_000
"""Default maximum length of a listing."""


class Listing(list[T]):
    """A list with an attribute that is true if a limit shortened it."""

    truncated: bool
    """True if there are more elements than the list contains."""

    def __init__(self, items: Iterable[T] = (), truncated: bool = False) -> None:
        super().__init__(items)
        self.truncated = truncated


def listing(items: Iterable[T], truncated: bool, limit: int | None) -> Listing[T]:
    """Returns a listing. Warns if it was shortened although no `limit` was given."""
    found = Listing(items, truncated)
    if truncated and limit is None:
        # The caller of the store's method.
        warnings.warn(f"only the first {len(found)} are listed, there are more; pass a higher limit", stacklevel=3)
    return found
