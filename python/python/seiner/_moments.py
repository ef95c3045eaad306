"""Conversion of Python's times and durations for the engine."""

from __future__ import annotations

import datetime as dt
from typing import TypeAlias

import numpy as np

from .errors import Invalid

Moment: TypeAlias = "int | str | dt.datetime | dt.date | np.datetime64 | np.integer"
"""A time: ns since 1970, a text such as ``"-1h"`` or ``"2026-11-21T08:00:00Z"``, a ``datetime``
or ``date`` (UTC if it has no zone), a ``pandas.Timestamp``, or a ``numpy.datetime64``."""

Duration: TypeAlias = "int | str | dt.timedelta | np.timedelta64 | np.integer"
"""A duration: ns, a text such as ``"10s"`` or ``"1h30m"``, a ``timedelta``, a
``pandas.Timedelta``, or a ``numpy.timedelta64``."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_I64 = range(-(2**63), 2**63)


def _in_range(ns: int, given: object) -> int:
    if ns not in _I64:
        raise Invalid(f"{given!r} lies outside the years 1677 to 2262, which 64-bit ns can express")
    return ns


def _timedelta_ns(delta: dt.timedelta) -> int:
    # pandas adds the nanoseconds below the microseconds.
    return (delta // dt.timedelta(microseconds=1)) * 1000 + getattr(delta, "nanoseconds", 0)


def moment(given: Moment | None) -> int | str | None:
    """Returns ns since 1970, or a text that the engine parses."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, np.datetime64):
        if np.isnat(given):
            raise Invalid("NaT is not a time; pass None for an open end")
        return _scaled(given, "M8")
    if isinstance(given, dt.datetime):
        if given != given:
            raise Invalid("NaT is not a time; pass None for an open end")
        aware = given if given.tzinfo else given.replace(tzinfo=dt.timezone.utc)
        micros = (aware - _EPOCH) // dt.timedelta(microseconds=1)
        return _in_range(micros * 1000 + getattr(given, "nanosecond", 0), given)
    if isinstance(given, dt.date):
        return _in_range((given - _EPOCH.date()).days * 86_400_000_000_000, given)
    return _integer(given, "a time: give ns since 1970, a text, a datetime or a numpy.datetime64")


def duration(given: Duration | None) -> int | str | None:
    """Returns a duration in ns, or a text that the engine parses."""
    if given is None or isinstance(given, str):
        return given
    # NumPy treats numpy.timedelta64 as an integer, so this check comes first.
    if isinstance(given, np.timedelta64):
        return _scaled(given, "m8")
    if isinstance(given, dt.timedelta):
        return _in_range(_timedelta_ns(given), given)
    return _integer(given, "a duration: give ns, a text such as '10s', or a timedelta")


def _integer(given: object, wanted: str) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise Invalid(f"{given!r} is not {wanted}")
    return _in_range(int(given), given)


def _scaled(given: np.datetime64 | np.timedelta64, kind: str) -> int:
    ns = given.astype(f"{kind}[ns]")
    # NumPy overflows without an error.
    if ns.astype(given.dtype) != given:
        raise Invalid(f"{given!r} lies outside the range of 64-bit ns")
    return int(ns.astype(np.int64))
