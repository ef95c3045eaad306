"""Answers: the same memory as Arrow, NumPy, pandas or polars."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _seiner

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class SeriesKey(NamedTuple):
    """What tells a series from all others."""

    measurement: str
    tags: tuple[tuple[str, str], ...]
    """Sorted by name."""
    field: str

    def __str__(self) -> str:
        tags = ",".join(f'{name}="{value}"' for name, value in self.tags)
        return f"{self.measurement}{{{tags}}} {self.field}" if tags else f"{self.measurement} {self.field}"


@dataclass(frozen=True, eq=False)
class Series:
    """The samples of one series, or its aggregates."""

    key: SeriesKey
    type: str
    """The field's type: ``f64``, ``f32``, ``i64``, ``u64``, ``bool`` or ``string``."""
    times: np.ndarray
    """``datetime64[ns]``, ascending: the samples' times, or the starts of the steps. Read-only."""
    columns: dict[str, np.ndarray]
    """As long as `times`: ``value``, or one array an aggregate. Read-only."""

    @property
    def measurement(self) -> str:
        """The measurement."""
        return self.key.measurement

    @property
    def tags(self) -> dict[str, str]:
        """The tags."""
        return dict(self.key.tags)

    @property
    def field(self) -> str:
        """The field."""
        return self.key.field

    @property
    def values(self) -> np.ndarray:
        """The values, or the first of the aggregates."""
        return next(iter(self.columns.values()))

    def __len__(self) -> int:
        return len(self.times)


class Result:
    """What `Store.query` answers: series with their samples or aggregates, in memory as a whole.

    The long form has a row a sample and the columns ``measurement``, ``tags`` (a text such as
    ``core=0,host=a``; or a column a tag, by `tag_columns`), ``field``, ``time`` and ``value``; in
    place of ``value``, a column an aggregate. It needs all values to have one type. The object
    has the Arrow PyCapsule interface, so that ``pyarrow.table(result)``,
    ``polars.DataFrame(result)`` and DuckDB take it as it is.

    NumPy and Arrow share the memory that the engine filled: nothing is copied for `numpy`,
    `by_series`, or series of 4,096 samples and more in the long form, booleans excepted (a byte in
    NumPy, a bit in Arrow). Shorter series are put together.
    """

    def __init__(self, answer: _seiner.Answer) -> None:
        self._answer = answer

    def __len__(self) -> int:
        """How many series there are."""
        return len(self._answer)

    def __iter__(self) -> Iterator[Series]:
        return (self._series(at) for at in range(len(self._answer)))

    def __repr__(self) -> str:
        return f"<seiner.Result: {len(self)} series, {self.rows} rows of {', '.join(self.columns)}>"

    @property
    def rows(self) -> int:
        """The rows of all series."""
        return self._answer.rows

    @property
    def columns(self) -> list[str]:
        """``["value"]``, or the aggregates."""
        return self._answer.names

    def by_series(self) -> list[Series]:
        """The series, each with its own arrays and its own type."""
        return list(self)

    def numpy(self) -> dict[SeriesKey, tuple[np.ndarray, ...]]:
        """Times and values of each series; where several aggregates were asked for, an array each.

        The arrays are read-only views of the answer's memory; texts are arrays of objects.
        """
        return {series.key: (series.times, *series.columns.values()) for series in self}

    def arrow(self) -> pyarrow.Table:
        """The long form as a pyarrow table. Needs pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    def polars(self) -> polars.DataFrame:
        """The long form as a polars data frame. Needs polars."""
        import polars

        return polars.DataFrame(self)

    def pandas(self) -> pandas.DataFrame:
        """The long form as a pandas data frame; labels are categories. Needs pandas alone."""
        import pandas

        labels = self._answer.labels()
        series = self.by_series()
        rows = np.array([len(one) for one in series], dtype=np.int64)
        frame: dict[str, Any] = {}
        for name, texts in labels:
            codes, categories = pandas.factorize(np.array(texts, dtype=object))
            frame[name] = pandas.Categorical.from_codes(np.repeat(codes, rows), categories=categories)
        frame["time"] = _joined([one.times for one in series], np.dtype("M8[ns]"))
        for name in self.columns:
            frame[name] = _joined([one.columns[name] for one in series], np.dtype(np.float64))
        for name, values in frame.items():
            if getattr(values, "dtype", None) == np.dtype("M8[ns]"):
                frame[name] = pandas.DatetimeIndex(values, copy=False).tz_localize("UTC")
        return pandas.DataFrame(frame, copy=False)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The long form, by the Arrow PyCapsule interface."""
        return self._answer.__arrow_c_stream__(requested_schema)

    def _series(self, at: int) -> Series:
        _, measurement, tags, field, kind = self._answer.key(at)
        times = np.frombuffer(self._answer.times(at), dtype="M8[ns]")
        columns = {name: _array(*self._answer.values(at, place)) for place, name in enumerate(self.columns)}
        return Series(SeriesKey(measurement, tuple(tags), field), kind, times, columns)


def _array(numpy_type: str | None, values: Any) -> np.ndarray:
    if numpy_type is None:
        texts = np.array(values, dtype=object)
        texts.flags.writeable = False
        return texts
    return np.frombuffer(values, dtype=numpy_type)


def _joined(arrays: list[np.ndarray], empty: np.dtype) -> np.ndarray:
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays) if arrays else np.empty(0, empty)
