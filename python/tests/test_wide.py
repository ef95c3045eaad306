"""Tests of the wide shape: rows come back as they were written, in every form, and can be written again."""

from __future__ import annotations

import tempfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seiner

TIMES = np.arange(4) * 1_000_000_000 + 1_700_000_000_000_000_000


def mixed(store: seiner.Store) -> None:
    """Appends two sources with fields of all types and missing values, and one of another measurement."""
    rows = {
        "time": pa.array(TIMES),
        "host": ["a", "a", "b", "b"],
        "core": [None, None, "0", "0"],
        "f": pa.array([0.5, None, float("nan"), -0.0]),
        "g": pa.array([0.5, 1.5, None, 2.5], pa.float32()),
        "i": pa.array([2**63 - 1, None, 3, None]),
        "u": pa.array([2**64 - 1, 1, None, 2], pa.uint64()),
        "ok": pa.array([True, None, False, True]),
        "state": ["", None, "on", "off"],
    }
    store.append_table("m", pa.table(rows), tags=["host", "core"])
    store.append("other", {"time": "x"}, {"time": TIMES[:1], "f": [7]})


def same(a: object, b: object) -> bool:
    return a is b or a == b and str(a) == str(b) or a != a and b != b


def rows_of(table: pa.Table) -> list[dict[str, object]]:
    return [{name: cell for name, cell in row.items() if cell is not None} for row in table.to_pylist()]


def test_rows_come_back_as_they_were_written(store: seiner.Store) -> None:
    mixed(store)
    table = store.query("m", shape="wide")
    assert (len(table), table.columns) == (4, ["time", "measurement", "core", "host", "f", "g", "i", "ok", "state", "u"])
    assert repr(table).startswith("<seiner.Table: 4 rows of time, measurement")
    arrow = table.arrow()
    assert arrow["time"].type == pa.timestamp("ns", "UTC")
    assert arrow["i"].to_pylist() == [2**63 - 1, None, 3, None]
    assert arrow["u"].to_pylist() == [2**64 - 1, 1, None, 2]
    assert arrow["ok"].to_pylist() == [True, None, False, True]
    assert arrow["state"].to_pylist() == ["", None, "on", "off"]
    assert arrow["core"].to_pylist() == [None, None, "0", "0"]
    assert arrow["g"].type == pa.float32()
    assert all(same(a, b) for a, b in zip(arrow["f"].to_pylist(), [0.5, None, float("nan"), -0.0], strict=True))
    assert arrow.schema.field("host").metadata == {b"kind": b"tag", b"name": b"host"}
    assert pl.DataFrame(table)["host"].cast(pl.String).to_list() == table.polars()["host"].cast(pl.String).to_list()
    assert table.polars()["i"].to_list() == arrow["i"].to_pylist()


def test_pandas_tells_missing_values_from_nan_and_keeps_integers(store: seiner.Store) -> None:
    mixed(store)
    frame = store.query("m", shape="wide").pandas()
    kinds = {name: str(dtype) for name, dtype in frame.dtypes.items() if name != "state"}
    assert kinds == {
        "time": "datetime64[ns, UTC]",
        "measurement": "category",
        "core": "category",
        "host": "category",
        "f": "Float64",
        "g": "Float32",
        "i": "Int64",
        "ok": "boolean",
        "u": "UInt64",
    }
    assert frame["i"][0] == 2**63 - 1 and frame["i"][1] is pd.NA and frame["u"][0] == 2**64 - 1
    assert frame["state"].isna().tolist() == [False, True, False, False] and frame["state"][0] == ""
    assert frame["core"].isna().tolist() == [True, True, False, False]
    assert frame.groupby("host", observed=True)["g"].sum().to_dict() == {"a": 2.0, "b": 2.5}
    whole = store.query("m", fields="g", shape="wide").pandas()
    assert len(whole) == 3 and whole["g"].dtype == np.float32, "the row without the field is left out"
    whole.loc[0, "g"] = 1.0
    frame.loc[1, "i"] = 5
    assert store.query("m", fields="g", shape="wide").pandas()["g"][0] == 0.5, "the frame has memory of its own"


def test_a_field_with_two_types_has_two_columns(store: seiner.Store) -> None:
    mixed(store)
    table = store.query("{}", fields=["f"], shape="wide")
    assert table.columns == ["time", "measurement", "core", "host", "time::tag", "f::f64", "f::i64"]
    assert table.arrow()["f::i64"].to_pylist() == [None, None, None, 7]


def test_an_empty_answer_has_its_columns(store: seiner.Store) -> None:
    empty = store.query("none", shape="wide")
    assert (len(empty), empty.columns) == (0, ["time", "measurement"])
    assert empty.pandas().empty and empty.arrow().num_rows == 0 and empty.polars().is_empty()
    mixed(store)
    late = store.query("m", "2100-01-01", shape="wide")
    assert len(late) == 0 and late.pandas().columns.tolist() == late.columns
    assert late.pandas()["u"].dtype == np.uint64 and late.polars().width == 10


def test_arguments_of_the_long_shape_are_rejected(store: seiner.Store) -> None:
    for argument in ({"step": "1h"}, {"aggregates": "mean"}, {"tag_columns": True}):
        with pytest.raises(seiner.Invalid, match="need the long shape"):
            store.query("m", shape="wide", **argument)
    with pytest.raises(seiner.Invalid, match="'tall' is neither"):
        store.query("m", shape="tall")


@pytest.mark.parametrize("form", ["table", "arrow", "polars", "pandas"])
def test_a_wide_frame_can_be_written_again(store: seiner.Store, tmp_path: object, form: str) -> None:
    mixed(store)
    table = store.query("m", shape="wide")
    given_frame = table if form == "table" else getattr(table, form)()
    with seiner.open(f"{tmp_path}/copy") as copy:
        assert copy.append_table(None, given_frame).rows == 4
        back = copy.query("m", shape="wide")
        assert back.columns == table.columns
        for row, wanted in zip(rows_of(back.arrow()), rows_of(table.arrow()), strict=True):
            assert row.keys() == wanted.keys()
            assert all(same(row[name], wanted[name]) for name in wanted), (row, wanted)
        assert copy.fields() == store.fields("m")


def test_a_table_keeps_its_names_without_the_suffixes(store: seiner.Store, tmp_path: object) -> None:
    mixed(store)
    table = store.query("{}", shape="wide")
    for form in (table, table.arrow()):
        with seiner.open(f"{tmp_path}/{type(form).__name__}{form.__class__.__module__}") as copy:
            copy.append_table(None, form)
            assert copy.fields() == store.fields()
            assert copy.query("other", shape="wide").arrow().to_pylist() == store.query("other", shape="wide").arrow().to_pylist()


def test_categories_are_tags_unless_they_are_fields(store: seiner.Store) -> None:
    frame = pd.DataFrame(
        {
            "time": TIMES,
            "house": pd.Categorical(["7", None, "8", "8"]),
            "mode": pd.Categorical(["on", "off", "on", "off"]),
            "floor": pd.Categorical([1, 2, 1, 2]),
            "flow": [1.0, 2.0, 3.0, 4.0],
        }
    )
    store.append_table("a", frame)
    assert store.tags("a") == ["house", "mode"]
    assert store.fields("a") == [("floor", "i64"), ("flow", "f64")]
    store.append_table("b", frame, fields=["mode", "flow"])
    assert (store.tags("b"), store.fields("b")) == (["house"], [("flow", "f64"), ("mode", "string")])
    store.append_table("c", frame, tags=["house"])
    assert store.tags("c") == ["house"] and ("mode", "string") in store.fields("c")
    polars = pl.DataFrame({"time": TIMES, "house": ["7", "8", "7", "8"], "flow": TIMES}).with_columns(
        pl.col("house").cast(pl.Enum(["7", "8"]))
    )
    store.append_table("d", polars)
    assert store.tags("d") == ["house"] and len(store.sources("d")) == 2


def test_columns_without_a_clear_role_are_rejected_with_a_remedy(store: seiner.Store) -> None:
    frame = pd.DataFrame({"time": TIMES, "measurement": pd.Categorical(["a"] * 4), "v": TIMES})
    with pytest.raises(seiner.Invalid, match='"measurement" and the argument "b".*pass None, or leave the column out'):
        store.append_table("b", frame)
    with pytest.raises(seiner.Invalid, match='no column "measurement" among "time", "v".*add one, or name'):
        store.append_table(None, {"time": TIMES, "v": TIMES})
    with pytest.raises(seiner.Invalid, match='column "v" stands more than once; rename or drop'):
        store.append("m", None, pa.table([TIMES, TIMES, TIMES], names=["time", "v", "v"]))
    with pytest.raises(seiner.Invalid, match="'v' stands more than once in the data frame; rename or drop"):
        store.append("m", None, pd.DataFrame([[1, 2, 3]], columns=["time", "v", "v"]))
    with pytest.raises(seiner.Invalid, match='column "1" stands more than once'):
        store.append("m", None, pd.DataFrame([[1, 2, 3]], columns=["time", 1, "1"]))
    with pytest.raises(seiner.Invalid, match="several levels; join"):
        store.append("m", None, pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("time", ""), ("v", "mean")])))
    with pytest.raises(seiner.Invalid, match="no column is left to be a field"):
        store.append_table("m", pd.DataFrame({"time": TIMES, "house": pd.Categorical(["7"] * 4)}))
    with pytest.raises(seiner.Invalid, match="row 1 has no time"):
        store.append("m", None, pd.DataFrame({"time": pd.to_datetime(["2026-11-21", None], utc=True), "v": [1, 2]}))
    with pytest.raises(seiner.Rejected, match="row 1"):
        store.append_table(None, pl.DataFrame({"time": TIMES[:2], "measurement": ["a", None], "v": [1, 2]}))
    assert store.query("{}", shape="wide").arrow()["measurement"].to_pylist() == ["a"], "nothing else was written"


CELLS = {
    "f": st.floats(width=64),
    "i": st.integers(-(2**63), 2**63 - 1),
    "u": st.integers(0, 2**64 - 1),
    "ok": st.booleans(),
    "s": st.text(st.characters(codec="utf-8"), max_size=9),
}
TYPES = {"f": pa.float64(), "i": pa.int64(), "u": pa.uint64(), "ok": pa.bool_(), "s": pa.string()}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 50),
            st.sampled_from([None, "a", "b ,=", "ü"]),
            st.fixed_dictionaries({}, optional=CELLS),
        ),
        max_size=40,
    ),
    flush=st.booleans(),
)
def test_random_rows_come_back(rows: list[tuple[int, str | None, dict[str, object]]], flush: bool) -> None:
    wanted: dict[tuple[str | None, int], dict[str, object]] = {}
    for time, tag, cells in rows:
        if cells:
            wanted.setdefault((tag, time), {}).update(cells)
    columns = {name: pa.array([cells.get(name) for *_, cells in rows], TYPES[name]) for name in CELLS}
    columns["time"] = pa.array([time for time, *_ in rows], pa.int64())
    columns["tag"] = pa.array([tag for _, tag, _ in rows], pa.string())
    given_table = pa.table(columns)
    with tempfile.TemporaryDirectory() as directory, seiner.open(directory) as store:
        store.append_table("m", given_table, tags=["tag"])
        if flush:
            store.flush()
        table = store.query("m", shape="wide")
        frame = table.pandas()
        found = {}
        for at, row in enumerate(table.arrow().to_pylist()):
            key = (row.get("tag"), row["time"].value)
            found[key] = {name: row[name] for name in CELLS if row.get(name) is not None}
            for name in found[key]:
                assert same(frame[name].array[at], found[key][name]) or frame[name].array[at] == found[key][name]
        assert found.keys() == wanted.keys()
        for key, cells in wanted.items():
            assert cells.keys() == found[key].keys()
            assert all(same(found[key][name], cell) for name, cell in cells.items())
        with seiner.open(f"{directory}/copy") as copy:
            copy.append_table(None, frame)
            again = copy.query("m", shape="wide").arrow().to_pylist()
            assert [{k: v for k, v in row.items() if v is not None and v == v} for row in again] == [
                {k: v for k, v in row.items() if v is not None and v == v} for row in table.arrow().to_pylist()
            ]
