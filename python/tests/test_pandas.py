"""Tests of pandas data frames with unusual columns: every way to hold texts, times and missing values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import seiner

ROWS = 2000
TEXTS = ["", "a", "b ,=", "ü", "a text of more than twelve bytes", "日本"]


def frame_of(seed: int, missing: float) -> pd.DataFrame:
    """Returns random rows whose columns `tag` and `text` are Python objects, with None for missing texts."""
    rng = np.random.default_rng(seed)
    texts = np.array(TEXTS, dtype=object)
    frame = pd.DataFrame({"time": pd.date_range("2026-11-21", periods=ROWS, freq="s", tz="UTC")})
    for name in ("tag", "text"):
        column = texts[rng.integers(0, len(texts), ROWS)]
        column[rng.random(ROWS) < missing] = None
        frame[name] = pd.Series(column, dtype=object)
    frame["v"] = rng.normal(size=ROWS)
    return frame


def samples(store: seiner.Store, select: str) -> dict[tuple[str, str], list[tuple[int, object]]]:
    """Returns times and values by tag and field."""
    return {
        (series.tags.get("tag", ""), series.field): list(zip(series.times.view(np.int64).tolist(), series.values.tolist()))
        for series in store.query(select)
    }


@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["object", "str", "string[python]", "string[pyarrow]", "large_string[pyarrow]", "category"])
def test_texts_of_every_kind_are_the_same_as_from_polars(store: seiner.Store, kind: str, missing: float) -> None:
    frame = frame_of(7, missing)
    columns = {name: frame[name].tolist() if frame[name].dtype == object else frame[name] for name in frame}
    store.append_table("polars", pl.DataFrame(columns, schema_overrides={"tag": pl.String, "text": pl.String}), tags=["tag"])
    store.append_table("pandas", frame.astype({"tag": kind, "text": kind}), tags=["tag"])
    assert samples(store, "pandas") == samples(store, "polars")
    # A part of a frame shares the memory of the whole.
    store.append_table("part", frame.astype({"tag": kind, "text": kind})[1::3], tags=["tag"])
    wanted = samples(store, "polars")
    times = set(frame["time"][1::3].dt.as_unit("ns").astype("int64"))
    assert samples(store, "part") == {
        key: kept for key, cells in wanted.items() if (kept := [cell for cell in cells if cell[0] in times])
    }


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_every_missing_text_is_a_gap(store: seiner.Store, missing: object) -> None:
    store.append("m", None, {"time": np.arange(3), "s": pd.Series(["a", missing, "b"], dtype=object)})
    (series,) = store.query("m")
    assert series.values.tolist() == ["a", "b"] and series.times.view(np.int64).tolist() == [0, 2]


def test_texts_that_are_not_unicode_are_named(store: seiner.Store) -> None:
    with pytest.raises(seiner.Invalid, match=r'column "s", row 1: the text is not valid Unicode .*surrogates'):
        store.append("m", None, {"time": np.arange(2), "s": ["a", "\ud800"]})


def test_mixed_objects_are_rejected_with_their_types(store: seiner.Store) -> None:
    for items in (["a", 1, None], ["a", 1.5], [b"x", "a"], [1, "a"]):
        column = pd.Series(items, dtype=object)
        with pytest.raises(seiner.Invalid, match="a column has values of one kind"):
            store.append("m", None, pd.DataFrame({"time": np.arange(len(items)), "v": column}))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata", "America/St_Johns"])
def test_times_of_every_unit_and_zone(store: seiner.Store, unit: str, zone: str | None) -> None:
    # The hour in which clocks are set back occurs twice.
    utc = pd.date_range("2026-11-01T03:00", periods=20, freq="10min", tz="UTC").as_unit(unit)
    times = utc.tz_localize(None) if zone is None else utc.tz_convert(zone)
    store.append("column", None, pd.DataFrame({"time": times, "v": range(20)}))
    store.append("index", None, pd.DataFrame({"v": range(20)}, index=times))
    store.append("arrow", None, pd.DataFrame({"time": pd.Series(times).convert_dtypes(dtype_backend="pyarrow"), "v": range(20)}))
    wanted = utc.as_unit("ns").tz_localize(None).to_numpy()
    for where in ("column", "index", "arrow"):
        (series,) = store.query(where)
        assert (series.times == wanted).all(), where


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_row_without_a_time_is_named(store: seiner.Store, zone: str | None) -> None:
    times = pd.to_datetime(["2026-11-21", "2026-11-22", None]).tz_localize(zone)
    with pytest.raises(seiner.Invalid, match="row 2 has no time"):
        store.append("m", None, pd.DataFrame({"time": times, "v": [1.0, 2.0, 3.0]}))


def test_numbers_of_every_kind(store: seiner.Store) -> None:
    numbers = pd.DataFrame(
        {
            "i8": pd.array([1, None, -3], dtype="Int8"),
            "f": pd.array([1.5, None, 3.0], dtype="Float32"),
            "decimal": pd.array([1.5, None, 3.0], dtype="double[pyarrow]"),
            "u": pd.array([2**64 - 1, None, 0], dtype="uint64[pyarrow]"),
            "flag": pd.array([True, None, False], dtype="bool[pyarrow]"),
            "codes": pd.Categorical([30, None, 10]),
            "sparse": pd.arrays.SparseArray([0.0, 0.0, 2.5]),
        }
    )
    store.append("m", None, numbers.assign(time=np.arange(3)))
    found = {series.field: (series.type, series.values.tolist()) for series in store.query("m")}
    assert found == {
        "i8": ("i64", [1, -3]),
        "f": ("f32", [1.5, 3.0]),
        "decimal": ("f64", [1.5, 3.0]),
        "u": ("u64", [2**64 - 1, 0]),
        "flag": ("bool", [True, False]),
        "codes": ("i64", [30, 10]),
        "sparse": ("f64", [0.0, 0.0, 2.5]),
    }


def test_strided_and_shared_columns(store: seiner.Store) -> None:
    square = np.random.default_rng(3).normal(size=(50, 4))
    frame = pd.DataFrame(square, columns=list("abcd"))[::-2].assign(time=np.arange(25))
    store.append("m", None, frame)
    for series in store.query("m"):
        assert series.values.tolist() == square[::-2, "abcd".index(series.field)].tolist()


def test_empty_frames_write_nothing(store: seiner.Store) -> None:
    empty = pd.DataFrame({"time": pd.DatetimeIndex([], tz="UTC"), "tag": pd.Series([], dtype=object), "v": np.array([])})
    polars = pl.DataFrame(schema={"time": pl.Datetime, "tag": pl.String, "v": pl.Float64})
    for frame in (empty, empty.astype({"tag": "category"}), empty.astype({"tag": "str"}), polars):
        assert store.append_table("m", frame, tags=["tag"]).rows == 0
    assert store.measurements() == []
