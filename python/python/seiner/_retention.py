"""Which sources are kept how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ._moments import Duration, duration
from ._sizes import Size, byte_count
from .errors import Invalid

Policy: TypeAlias = Literal["fifo", "greedy", "cost-benefit", "fisherman", "patient"]


@dataclass(frozen=True, kw_only=True)
class Class:
    """A retention class: which sources are kept how long, and what happens when the disk budget is used up.

    All rules that are set hold together; without any, samples are kept for ever.
    """

    name: str
    """What it is called in reports; ``default`` is the class of all sources that no other means."""
    sources: str = ""
    """A selector such as ``accel{axis="x"}``; empty for all sources that no class before it has."""
    age: Duration | None = None
    """Samples older than this go."""
    coarser: str | None = None
    """What samples older than ``age`` become instead of going: ``"1m for 365d then 1h for ever"``."""
    rows: int | None = None
    """The latest rows of each source that are kept, at least (a ring)."""
    bytes: Size | None = None
    """The latest bytes of all sources together that are kept, about."""
    priority: int = 100
    """Where several classes may be shed, lower ones go first: 0 to 255."""
    when_full: Literal["refuse", "shed"] = "refuse"
    """Whether new samples are refused, or the oldest of the class are let go."""

    def _native(self) -> tuple[str, str, int | str | None, int | None, int | None, int, str, str | None]:
        if not 0 <= self.priority <= 255:
            raise Invalid(f"class {self.name!r}: priority = {self.priority} is not from 0 to 255")
        if self.rows is not None and self.rows < 1:
            raise Invalid(f"class {self.name!r}: a ring of {self.rows} rows keeps nothing; say 1 or more")
        quota = None if self.bytes is None else byte_count("bytes", self.bytes)
        return (self.name, self.sources, duration(self.age), self.rows, quota, self.priority, self.when_full, self.coarser)


def share_of_disk(disk: int | None, share: int, least: int, most: int) -> int:
    """A power of two that is about a share of the budget, within bounds."""
    if disk is None or disk // share >= most:
        return most
    return max(least, 1 << (max(1, disk // share).bit_length() - 1))
