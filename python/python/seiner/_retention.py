"""Retention classes."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Literal, TypeAlias

from ._moments import Duration, duration
from ._sizes import Size, byte_count
from .errors import Invalid

Policy: TypeAlias = Literal["fifo", "greedy", "cost-benefit", "fisherman", "patient"]


@dataclass(frozen=True, kw_only=True)
class Class:
    """A retention class: its sources, the limits up to which samples are kept, and the behaviour when the disk is full.

    All rules that are set apply together. Without a rule, samples are kept for ever.
    """

    name: str
    """Name in reports. ``default`` is the class of all sources that no other class covers."""
    sources: str = ""
    """A selector such as ``accel{axis="x"}``; empty for all sources that no earlier class covers."""
    age: Duration | None = None
    """Age at which samples expire."""
    rollup: str | None = None
    """Roll-up: steps for samples older than ``age``, instead of expiry: ``"1m for 365d then 1h for ever"``."""
    rows: int | None = None
    """Minimum number of latest rows kept per source (a ring)."""
    bytes: Size | None = None
    """Approximate number of latest bytes kept, for all sources together."""
    priority: int = 100
    """Priority, 0 to 255. If several classes may be shed, lower priorities are shed first."""
    when_full: Literal["refuse", "shed"] = "refuse"
    """Behaviour when the disk is full: reject new samples, or shed the oldest of the class."""
    coarser: InitVar[str | None] = None
    """Deprecated name of ``rollup``, which takes precedence."""

    def __post_init__(self, coarser: str | None) -> None:
        if self.rollup is None and coarser is not None:
            object.__setattr__(self, "rollup", coarser)

    def _native(self) -> tuple[str, str, int | str | None, int | None, int | None, int, str, str | None]:
        if not 0 <= self.priority <= 255:
            raise Invalid(f"class {self.name!r}: priority = {self.priority} is not from 0 to 255")
        if self.rows is not None and self.rows < 1:
            raise Invalid(f"class {self.name!r}: a ring of {self.rows} rows keeps nothing; say 1 or more")
        quota = None if self.bytes is None else byte_count("bytes", self.bytes)
        return (self.name, self.sources, duration(self.age), self.rows, quota, self.priority, self.when_full, self.rollup)


def share_of_disk(disk: int | None, share: int, least: int, most: int) -> int:
    """Returns a power of two near a share of the budget, within bounds."""
    if disk is None or disk // share >= most:
        return most
    return max(least, 1 << (max(1, disk // share).bit_length() - 1))
