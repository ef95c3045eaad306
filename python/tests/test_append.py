"""Tests of appends in every supported form of data."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import seiner

TIMES = np.arange(5) * 1_000_000_000 + 1_700_000_000_000_000_000


def read(store: seiner.Store, select: str) -> dict[str, tuple[list[int], list[object]]]:
    """Returns times in ns and values by field."""
    return {
        series.field: (series.times.view(np.int64).tolist(), series.values.tolist())
        for series in store.query(select).by_series()
    }


ALL_TYPES = {
    "f64": np.array([0.1, -0.0, 1e300, np.inf, 5e-324]),
    "f32": np.array([0.1, -0.0, 1e30, np.inf, 1e-45], dtype=np.float32),
    "i64": np.array([0, 1, -1, 2**63 - 1, -(2**63)]),
    "u64": np.array([0, 1, 2, 2**64 - 1, 2**63], dtype=np.uint64),
    "bool": np.array([True, False, True, True, False]),
    "string": np.array(["on", "", "off", "é", "a\0b"], dtype=object),
}


def as_given(kind: str, columns: dict[str, np.ndarray]) -> object:
    match kind:
        case "dict":
            return columns
        case "lists":
            return {name: list(values) for name, values in columns.items()}
        case "pandas":
            return pd.DataFrame(columns)
        case "polars":
            return pl.DataFrame(columns)
        case "table":
            return pa.table(columns)
        case "batch":
            return pa.record_batch(columns)
        case "reader":
            return pa.table(columns).to_reader(max_chunksize=2)
        case "dict of arrow":
            return {name: pa.chunked_array([values[:2], values[2:]]) for name, values in columns.items()}
        case "dict of polars":
            return {name: pl.Series(values) for name, values in columns.items()}
        case "dict of pandas":
            return {name: pd.Series(values) for name, values in columns.items()}
    raise AssertionError(kind)


@pytest.mark.parametrize(
    "kind",
    ["dict", "pandas", "polars", "table", "batch", "reader", "dict of arrow", "dict of polars", "dict of pandas"],
)
def test_every_container_keeps_every_type(store: seiner.Store, kind: str) -> None:
    receipt = store.append("m", {"kind": kind}, as_given(kind, {"time": TIMES, **ALL_TYPES}))
    assert receipt == seiner.Receipt(5, 30, [], 0)
    assert store.fields() == sorted((name, name) for name in ALL_TYPES)
    for name, (times, values) in read(store, "m").items():
        assert times == TIMES.tolist()
        assert values == ALL_TYPES[name].tolist()
        assert str(values) == str(ALL_TYPES[name].tolist()), "the sign of zero differs"


def test_lists_are_columns(store: seiner.Store) -> None:
    store.append("m", None, {"time": TIMES.tolist(), "i": [1, 2, 3, 4, 5], "s": ["a", None, "b", None, "c"]})
    assert read(store, "m") == {
        "i": (TIMES.tolist(), [1, 2, 3, 4, 5]),
        "s": (TIMES[::2].tolist(), ["a", "b", "c"]),
    }


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "u1", "u2", "u4", "f2", ">f8", ">i4"])
def test_narrow_and_foreign_numbers_are_widened_exactly(store: seiner.Store, dtype: str) -> None:
    values = np.array([0, 1, 2, 3, 100]).astype(dtype)
    store.append("m", None, {"time": TIMES, "v": values})
    assert read(store, "m")["v"][1] == values.tolist()


def test_strided_and_read_only_arrays(store: seiner.Store) -> None:
    values = np.arange(10.0)[::-2]
    values.flags.writeable = False
    store.append("m", None, {"time": TIMES, "v": values})
    assert read(store, "m")["v"][1] == [9.0, 7.0, 5.0, 3.0, 1.0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit(store: seiner.Store, unit: str) -> None:
    times = TIMES.view("M8[ns]").astype(f"M8[{unit}]")
    store.append("m", {"in": "numpy"}, {"time": times, "v": TIMES})
    store.append("m", {"in": "arrow"}, pa.table({"time": pa.array(times), "v": TIMES}))
    store.append("m", {"in": "pandas"}, pd.DataFrame({"v": TIMES}, index=pd.DatetimeIndex(times)))
    for where in ("numpy", "arrow", "pandas"):
        assert read(store, f"m{{in={where}}}")["v"][0] == TIMES.tolist()


def test_time_zones_are_converted(store: seiner.Store) -> None:
    index = pd.DatetimeIndex(TIMES.view("M8[ns]"), tz="UTC").tz_convert("Asia/Tokyo")
    store.append("m", {"in": "index"}, pd.DataFrame({"v": TIMES}, index=index))
    store.append("m", {"in": "column"}, pd.DataFrame({"t": index, "v": TIMES}), time="t")
    store.append("m", {"in": "polars"}, pl.DataFrame({"time": index, "v": TIMES}))
    store.append("m", {"in": "objects"}, {"time": index.to_pydatetime().tolist(), "v": TIMES})
    for where in ("index", "column", "polars", "objects"):
        assert read(store, f"m{{in={where}}}")["v"][0] == TIMES.tolist(), where


def test_missing_values_are_gaps_and_nan_is_a_value(store: seiner.Store) -> None:
    gaps = {
        "numpy": {"v": np.ma.masked_array(np.arange(5.0), mask=[0, 1, 0, 0, 0])},
        "nullable": pd.DataFrame({"v": pd.array([0.0, None, 2.0, 3.0, 4.0], dtype="Float64")}),
        "polars": pl.DataFrame({"v": [0.0, None, 2.0, 3.0, 4.0]}),
        "arrow": pa.table({"v": [0.0, None, 2.0, 3.0, 4.0]}),
    }
    for where, data in gaps.items():
        if isinstance(data, dict):
            data = {"time": TIMES, **data}
        elif isinstance(data, pd.DataFrame):
            data["time"] = TIMES
        elif isinstance(data, pl.DataFrame):
            data = data.with_columns(time=pl.Series(TIMES))
        else:
            data = data.append_column("time", pa.array(TIMES))
        # The second field keeps the row with the gap, which would otherwise be empty.
        receipt = store.append("gap", {"in": where}, data)
        assert (receipt.rows, receipt.samples) == (4, 4), where
        assert read(store, f"gap{{in={where}}}")["v"][1] == [0.0, 2.0, 3.0, 4.0]
    nan = np.array([0.0, np.nan, 2.0, 3.0, 4.0])
    for where, data in {"numpy": {"time": TIMES, "v": nan}, "pandas": pd.DataFrame({"time": TIMES, "v": nan})}.items():
        assert store.append("nan", {"in": where}, data).samples == 5
        assert np.isnan(read(store, f"nan{{in={where}}}")["v"][1][1])


def test_gaps_in_every_type(store: seiner.Store) -> None:
    mask = pa.array([False, True, False, False, True])
    gaps = mask.to_numpy(zero_copy_only=False)
    columns = {name: pa.array(values, mask=gaps) for name, values in ALL_TYPES.items()}
    columns["whole"] = pa.array([1, 2, 3, 4, 5])
    columns["none"] = pa.nulls(5)
    columns["never"] = pa.nulls(5, pa.float64())
    store.append("m", None, pa.table({"time": TIMES, **columns}))
    for name, (times, values) in read(store, "m").items():
        present = columns[name].is_valid().to_numpy(zero_copy_only=False)
        assert times == TIMES[present].tolist()
        assert values == columns[name].drop_null().to_pylist()
    assert "none" not in read(store, "m") and "never" not in read(store, "m")


def test_pandas_types(store: seiner.Store) -> None:
    frame = pd.DataFrame(
        {
            "time": TIMES,
            "category": pd.Categorical(["a", "b", None, "a", "b"]),
            "text": pd.Series(["a", None, "c", "d", "e"]),
            "flag": pd.array([True, None, False, True, True], dtype="boolean"),
            "count": pd.array([1, None, 2**63 - 1, 4, 5], dtype="Int64"),
            "arrow": pd.array([1, None, 3, 4, 5], dtype="int64[pyarrow]"),
            "object": pd.Series([True, None, False, True, True], dtype=object),
        }
    )
    store.append("m", None, frame)
    found = {name: values for name, (_, values) in read(store, "m").items()}
    assert found == {
        "category": ["a", "b", "a", "b"],
        "text": ["a", "c", "d", "e"],
        "flag": [True, False, True, True],
        "count": [1, 2**63 - 1, 4, 5],
        "arrow": [1, 3, 4, 5],
        "object": [True, False, True, True],
    }


def test_rows_of_a_table_go_to_their_sources(store: seiner.Store) -> None:
    columns = {
        "ts": TIMES,
        "host": ["a", "b", "a", "b", None],
        "core": pd.Categorical(["0", "0", "1", "", "0"]),
        "v": [1.0, 2.0, 3.0, 4.0, 5.0],
        "w": [1, 2, 3, 4, 5],
    }
    frame = pd.DataFrame(columns)
    for name, data in {"pandas": frame, "polars": pl.from_pandas(frame), "arrow": pa.Table.from_pandas(frame)}.items():
        receipt = store.append_table(name, data, time="ts", tags=["host", "core"])
        assert receipt == seiner.Receipt(5, 10, [], 0)
        tags = [source.tags for source in store.sources(name)]
        assert tags == [
            {"core": "0", "host": "a"},
            {"core": "0", "host": "b"},
            {"core": "1", "host": "a"},
            {"host": "b"},
            {"core": "0"},
        ]
        assert read(store, name + '{host="b",core=""}') == {"v": ([TIMES[3]], [4.0]), "w": ([TIMES[3]], [4])}
    store.append_table("some", frame, time="ts", tags=["host"], fields=["w"])
    assert store.fields("some") == [("w", "i64")]


def test_tag_columns_and_tags_name_the_same_source(store: seiner.Store) -> None:
    number = store.source("m", {"b": "2", "a": "1"})
    store.append_table("m", {"time": TIMES, "a": ["1"] * 5, "b": ["2"] * 5, "v": TIMES}, tags=["b", "a"])
    store.append("m", {"a": "1", "b": "2", "c": ""}, {"time": TIMES, "w": TIMES})
    assert [source.number for source in store.sources()] == [number]


def test_samples_by_number(store: seiner.Store) -> None:
    numbers = np.array([store.source("m", {"n": str(n)}) for n in range(100)])
    times = np.repeat(TIMES, 100)
    values = np.random.default_rng(1).normal(size=500)
    assert store.samples("v", np.tile(numbers, 5), times, values).samples == 500
    store.samples("v", int(numbers[0]), times[:1].view("M8[ns]") + np.timedelta64(1, "D"), [7.0])
    result = {series.tags["n"]: series.values for series in store.query("m")}
    assert result["99"].tolist() == values[99::100].tolist()
    assert result["0"][-1] == 7.0
    with pytest.raises(seiner.Invalid, match="source 100 is not registered"):
        store.samples("v", 100, TIMES, np.zeros(5))
    with pytest.raises(seiner.Invalid, match="not equally many"):
        store.samples("v", numbers[:4], TIMES, np.zeros(5))
    with pytest.raises(seiner.Invalid, match="samples are float64, not Int64"):
        store.samples("v", numbers[:5], TIMES, TIMES)


def test_line_protocol(store: seiner.Store) -> None:
    before = dt.datetime.now(dt.timezone.utc)
    receipt = store.write_lines('m,a=1 v=1.5,s="x" 5\nnonsense\nm,a=1 v=2i 6\n\nm,a=2 v=3', precision="s")
    assert (receipt.rows, receipt.samples, receipt.rejected_total) == (2, 3, 2)
    assert [line for line, _ in receipt.rejected] == [2, 3]
    assert "f64" in receipt.rejected[1][1]
    assert read(store, 'm{a="1"}')["v"] == ([5_000_000_000], [1.5])
    now = store.query('m{a="2"}', before).by_series()[0].times[0].astype("M8[us]").item()
    assert now.replace(tzinfo=dt.timezone.utc) >= before - dt.timedelta(milliseconds=1)
    with pytest.raises(seiner.Invalid, match="is not a precision"):
        store.write_lines(b"m v=1", precision="fortnight")


def test_rejected_rows_are_named_and_the_others_kept(store: seiner.Store) -> None:
    store.append("m", {"a": "1"}, {"time": TIMES, "v": np.zeros(5)})
    table = pa.table({"time": TIMES + 1, "a": ["1", "2", "1", "2", "3"], "v": [1, None, 3, 4, 5]})
    with pytest.raises(seiner.Rejected, match=r'2 rows were rejected, 2 are stored: row 0: field "v" is f64') as caught:
        store.append_table("m", table, tags=["a"])
    assert [row for row, _ in caught.value.receipt.rejected] == [0, 2]
    assert store.append_table("m", table, tags=["a"], strict=False).rejected_total == 2
    assert read(store, 'm{a="2"}')["v"][1] == [4]


def test_long_inputs_come_in_pieces(store: seiner.Store) -> None:
    rows = 100_000
    times = np.arange(rows)
    values = np.random.default_rng(2).normal(size=rows)
    texts = np.array([str(n % 7) for n in range(rows)])
    store.append("m", None, {"time": times, "v": values, "s": texts})
    store.append_table("t", {"time": times, "s": texts, "v": values}, tags=["s"])
    whole = read(store, "m")
    assert whole["v"] == (times.tolist(), values.tolist())
    assert whole["s"][1] == texts.tolist()
    for n in range(7):
        assert read(store, f"t{{s={n}}}")["v"] == (times[n::7].tolist(), values[n::7].tolist())
    with pytest.raises(seiner.Rejected) as caught:
        store.append("m", None, {"time": times[-10:], "v": np.arange(10)})
    assert caught.value.receipt.rejected_total == 10
    again = pa.table({"time": times, "v": pa.chunked_array([values[:70_000], values[70_000:]])})
    assert store.append("m", None, again).rows == rows
    assert read(store, "m")["v"][1] == values.tolist()
