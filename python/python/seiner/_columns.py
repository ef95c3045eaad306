"""Conversion of columns to objects with the Arrow PyCapsule interface.

Arrow data are passed through. NumPy arrays and pandas columns of contiguous numbers are wrapped, not
copied. A missing value is a null in Arrow, a masked element in NumPy, a missing value of a nullable type
in pandas, and ``None`` among texts. NaN is a value.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from . import _seiner
from ._moments import moment
from .errors import Invalid

# A column for `_seiner.record_batch`: name, values, mask, and 'bool', 'dictionary' or the unit of times.
_Given = tuple[str, Any, Any, "str | None"]


def record_batches(data: Any, time: str) -> Any:
    """Returns `data` as an object with ``__arrow_c_stream__`` or ``__arrow_c_array__``."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _seiner.record_batch(list(_pandas_columns(data, time)))
    if isinstance(data, Mapping):
        return _seiner.record_batch([_column(str(name), values) for name, values in data.items()])
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return data
    raise Invalid(
        f"a {type(data).__name__} has no columns; pass a dict of arrays, a pandas or polars data frame, "
        "or anything with the Arrow PyCapsule interface"
    )


def numbers(name: str, values: Any) -> np.ndarray:
    """Returns a contiguous column of numbers, or of times in ns (int64), without missing values."""
    _, given, missing, unit = _column(name, values)
    if not isinstance(given, np.ndarray) or unit == "bool" or (missing is not None and missing.any()):
        raise Invalid(f"{name} must be an array of numbers without missing values")
    return given if unit is None else _nanoseconds(name, given, unit)


def _nanoseconds(name: str, values: np.ndarray, unit: str) -> np.ndarray:
    factor = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}[unit]
    bound = (2**63 - 1) // factor
    if factor > 1 and values.size and (values.max() > bound or values.min() < -bound):
        raise Invalid(f"{name}: a time lies outside the years 1677 to 2262, which 64-bit ns can express")
    return values * factor if factor > 1 else values


def _column(name: str, values: Any) -> _Given:
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(values, (pandas.Series, pandas.Index)):
        return _pandas_column(name, values.to_series() if isinstance(values, pandas.Index) else values)
    if not isinstance(values, np.ndarray) and (
        hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")
    ):
        return name, values, None, None
    if isinstance(values, np.ma.MaskedArray):
        return _numpy_column(name, np.asarray(values.data), np.ma.getmaskarray(values))
    array = np.asarray(values)
    if array is not values and array.dtype.kind in "US":
        # NumPy converts all elements to texts if one is a text.
        return _objects(name, list(values), None)
    return _numpy_column(name, array, None)


def _numpy_column(name: str, values: np.ndarray, missing: np.ndarray | None) -> _Given:
    if values.ndim != 1:
        raise Invalid(f"column {name!r} has {values.ndim} dimensions instead of one")
    kind = values.dtype.kind
    if kind == "M":
        values, unit = _in_unit(name, values)
        absent = np.isnat(values)
        if missing is not None or absent.any():
            missing = absent if missing is None else absent | missing
        return name, _plain(values).view(np.int64), _mask(missing), unit
    if kind in "OUT":
        return _objects(name, values.tolist(), missing)
    if kind == "f" and values.dtype.itemsize == 2:
        values = values.astype(np.float32)
    if kind not in "biuf" or values.dtype.itemsize > 8:
        raise Invalid(
            f"column {name!r} is {values.dtype}; columns are numbers of up to 64 bits, bool, texts or datetime64"
        )
    plain = _plain(values)
    return (name, plain.view(np.uint8), _mask(missing), "bool") if kind == "b" else (name, plain, _mask(missing), None)


def _plain(values: np.ndarray) -> np.ndarray:
    """Returns a contiguous, aligned array in native byte order, without a copy if it is one already."""
    return np.require(values, dtype=values.dtype.newbyteorder("="), requirements=["C", "A"])


def _mask(missing: np.ndarray | None) -> np.ndarray | None:
    return None if missing is None else np.ascontiguousarray(missing, dtype=np.bool_).view(np.uint8)


def _in_unit(name: str, values: np.ndarray) -> tuple[np.ndarray, str]:
    unit, count = np.datetime_data(values.dtype)
    if count == 1 and unit in ("s", "ms", "us", "ns"):
        return values, unit
    if unit in ("Y", "M", "W", "D", "h", "m"):
        return values.astype("M8[s]"), "s"
    raise Invalid(f"column {name!r} is {values.dtype}; convert it to datetime64[ns]")


def _is_missing(item: Any) -> bool:
    return item is None or type(item).__name__ in ("NAType", "NaTType")


def _objects(name: str, items: list[Any], missing: np.ndarray | None) -> _Given:
    """Converts Python objects of one kind: texts, booleans, integers, floats or datetimes."""
    if missing is not None:
        items = [None if absent else item for item, absent in zip(items, missing)]
    texts = _seiner.texts(name, items)
    if texts is not None:
        return name, texts, None, None
    kinds = {type(item) for item in items if not _is_missing(item)}
    if not kinds:
        return name, [None] * len(items), None, None
    absent = np.array([_is_missing(item) for item in items], dtype=np.bool_)
    if all(issubclass(kind, (bool, np.bool_)) for kind in kinds):
        return _numpy_column(name, _filled(items, absent, False, np.bool_), absent)
    if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        try:
            return _numpy_column(name, _filled(items, absent, 0, np.int64), absent)
        except OverflowError:
            raise Invalid(f"column {name!r} holds integers beyond 64 bits; make it an array of uint64") from None
    if all(issubclass(kind, (float, np.floating)) for kind in kinds):
        return _numpy_column(name, _filled(items, absent, 0.0, np.float64), absent)
    if all(issubclass(kind, (dt.datetime, np.datetime64)) for kind in kinds):
        times = [0 if gone else moment(item) for item, gone in zip(items, absent)]
        return name, np.array(times, dtype=np.int64), _mask(absent), "ns"
    named = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise Invalid(f"column {name!r} holds {named}; a column has values of one kind: text, bool, int or float")


def _filled(items: Iterable[Any], absent: np.ndarray, filler: Any, dtype: Any) -> np.ndarray:
    return np.array([filler if gone else item for item, gone in zip(items, absent)], dtype=dtype)


# ---- pandas


def _pandas_columns(frame: Any, time: str) -> Iterable[_Given]:
    pandas = sys.modules["pandas"]
    if isinstance(frame.columns, pandas.MultiIndex):
        raise Invalid("the columns of the data frame have several levels; join their names into one text each")
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise Invalid(f"column {name!r} stands more than once in the data frame; rename or drop one of them")
    if time not in frame.columns:
        index = frame.index
        if not isinstance(index, pandas.DatetimeIndex) and index.name != time:
            raise Invalid(f"the data frame has neither a column {time!r} nor an index of times")
        yield _pandas_column(time, index.to_series())
    for name in frame.columns:
        yield _pandas_column(str(name), frame[name])


def _pandas_column(name: str, column: Any) -> _Given:
    pandas = sys.modules["pandas"]
    dtype = column.dtype
    if isinstance(dtype, np.dtype):
        return _numpy_column(name, column.to_numpy(), None)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return _numpy_column(name, column.to_numpy(dtype=f"M8[{dtype.unit}]"), None)
    if isinstance(dtype, pandas.ArrowDtype) or getattr(dtype, "storage", None) == "pyarrow":
        return name, column.array.__arrow_array__(), None, None
    if isinstance(dtype, pandas.CategoricalDtype):
        return _categories(name, column)
    missing = column.isna().to_numpy(dtype=np.bool_)
    stored = getattr(dtype, "numpy_dtype", None)
    if stored is not None and stored.kind in "biuf":
        return _numpy_column(name, column.to_numpy(dtype=stored, na_value=stored.type(0)), missing)
    return _objects(name, column.astype(object).tolist(), missing if missing.any() else None)


def _categories(name: str, column: Any) -> _Given:
    """Converts categories of texts to a dictionary, and other categories to plain values."""
    texts = _seiner.texts(name, column.cat.categories.tolist())
    if texts is None:
        missing = column.isna().to_numpy(dtype=np.bool_)
        return _objects(name, column.astype(object).tolist(), missing)
    codes = column.cat.codes.to_numpy()
    missing = codes < 0
    return name, (_plain(codes), texts), _mask(missing) if missing.any() else None, "dictionary"
