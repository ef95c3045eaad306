"""Tables: rows as pandas, polars or Arrow, with one column for each tag and field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _seiner

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """Rows of a query, completely in memory.

    In the wide shape, the columns are ``time``, ``measurement``, the tags and the fields, by name, and each row is a
    row that was written. Rows come source by source, each source in time order. A field with several types among
    the selected sources has a column for each type, such as ``usage::f64`` and ``usage::i64``. A tag or field gets
    such a suffix, too, if another column has its name.

    A table can be written again, by `Store.append_table` and `Client.append_table`. The object has the Arrow
    PyCapsule interface, so ``pyarrow.table(table)``, ``polars.DataFrame(table)`` and DuckDB accept it directly.
    The metadata of each Arrow column contain its ``kind`` (time, measurement, tag or field) and its ``name`` without
    suffixes.
    """

    def __init__(self, native: _seiner.Table) -> None:
        self._native = native

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self._native)

    def __repr__(self) -> str:
        return f"<seiner.Table: {len(self)} rows of {', '.join(self.columns)}>"

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._native.columns

    def arrow(self) -> pyarrow.Table:
        """Returns a pyarrow table. Requires pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    def polars(self) -> polars.DataFrame:
        """Returns a polars data frame. Requires polars."""
        import polars

        return polars.DataFrame(self)

    def pandas(self) -> pandas.DataFrame:
        """Returns a pandas data frame. Requires only pandas.

        The measurement and the tags are categories. A column without missing values has a type of NumPy, a column of
        numbers or booleans with missing values a nullable type (``Int64``, ``Float64``, …), so that integers stay
        exact and NaN differs from a missing value.
        """
        import pandas

        columns = self.columns
        frame = {name: _pandas_column(*self._native.numpy(at)) for at, name in enumerate(columns)}
        # The copy is writable, unlike the table's memory.
        return pandas.DataFrame(frame, columns=columns, copy=True)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Returns the rows through the Arrow PyCapsule interface."""
        return self._native.__arrow_c_stream__(requested_schema)


def _pandas_column(kind: str, values: Any, missing: Any, texts: list[str]) -> Any:
    import pandas

    if kind == "dictionary":
        codes = np.frombuffer(values, dtype=np.int32)
        return pandas.Categorical.from_codes(codes, categories=pandas.Index(texts, dtype=object))
    if kind == "str":
        return np.array(values, dtype=object)
    array = np.frombuffer(values, dtype=kind)
    if kind == "M8[ns]":
        return pandas.DatetimeIndex(array, copy=False).tz_localize("UTC")
    if missing is None:
        return array
    arrays = {"b": pandas.arrays.BooleanArray, "f": pandas.arrays.FloatingArray}
    nullable = arrays.get(array.dtype.kind, pandas.arrays.IntegerArray)
    return nullable(array, np.frombuffer(missing, dtype=np.bool_))
