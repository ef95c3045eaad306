"""Results of queries, as Arrow, NumPy, pandas or polars on the same memory."""

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
    """Identity of a series."""

    measurement: str
    tags: tuple[tuple[str, str], ...]
    """Tags, sorted by name."""
    field: str

    def __str__(self) -> str:
        tags = ",".join(f'{name}="{value}"' for name, value in self.tags)
        return f"{self.measurement}{{{tags}}} {self.field}" if tags else f"{self.measurement} {self.field}"


@dataclass(frozen=True, eq=False)
class Series:
    """The samples of one series, or its aggregates."""

    key: SeriesKey
    type: str
    """Type of the field: ``f64``, ``f32``, ``i64``, ``u64``, ``bool`` or ``string``."""
    times: np.ndarray
    """Times of the samples, or starts of the steps: ``datetime64[ns]``, ascending, read-only."""
    columns: dict[str, np.ndarray]
    """Arrays as long as `times`: ``value``, or one array per aggregate. Read-only."""

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
        """Values of the samples, or of the first aggregate."""
        return next(iter(self.columns.values()))

    def __len__(self) -> int:
        return len(self.times)


class Result:
    """Result of `Store.query`: series with their samples or aggregates, completely in memory.

    The long form has one row per sample and the columns ``measurement``, ``tags`` (a text such as
    ``core=0,host=a``, or one column per tag with `tag_columns`), ``field``, ``time`` and ``value``.
    Aggregates have one column each in place of ``value``. The long form requires that all values have
    one type. The object has the Arrow PyCapsule interface, so ``pyarrow.table(result)``,
    ``polars.DataFrame(result)`` and DuckDB accept it directly.

    NumPy and Arrow share the memory that the engine filled. `numpy`, `by_series`, and series of 4,096
    samples and more in the long form are not copied, except for booleans (a byte in NumPy, a bit in
    Arrow). Shorter series are copied into common batches.
    """

    def __init__(self, answer: _seiner.Answer) -> None:
        self._answer = answer

    def __len__(self) -> int:
        """Returns the number of series."""
        return len(self._answer)

    def __iter__(self) -> Iterator[Series]:
        return (self._series(at) for at in range(len(self._answer)))

    def __repr__(self) -> str:
        return f"<seiner.Result: {len(self)} series, {self.rows} rows of {', '.join(self.columns)}>"

    @property
    def rows(self) -> int:
        """Number of rows of all series."""
        return self._answer.rows

    @property
    def columns(self) -> list[str]:
        """Names of the value columns: ``["value"]``, or the aggregates."""
        return self._answer.names

    def by_series(self) -> list[Series]:
        """Returns the series, each with its own arrays and its own type."""
        return list(self)

    def numpy(self) -> dict[SeriesKey, tuple[np.ndarray, ...]]:
        """Returns times and values of each series; with several aggregates, one array for each.

        The arrays are read-only views of the result's memory. Texts are arrays of objects.
        """
        return {series.key: (series.times, *series.columns.values()) for series in self}

    def arrow(self) -> pyarrow.Table:
        """Returns the long form as a pyarrow table. Requires pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    def polars(self) -> polars.DataFrame:
        """Returns the long form as a polars data frame. Requires polars."""
        import polars

        return polars.DataFrame(self)

    def pandas(self) -> pandas.DataFrame:
        """Returns the long form as a pandas data frame, with labels as categories. Requires only pandas."""
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
        """Returns the long form through the Arrow PyCapsule interface."""
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
