"""Tests that invalid input raises errors with the place and the remedy."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import seiner

TIMES = np.arange(3)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"v": TIMES}, "there is no column \"time\" among \"v\""),
        ({"time": TIMES}, "no column is left to be a field"),
        ({"time": TIMES, "v": TIMES[:2]}, 'column "v" has 2 rows, the first one 3'),
        ({"time": TIMES, "v": np.zeros((3, 2))}, "has 2 dimensions"),
        ({"time": TIMES, "v": np.zeros(3, dtype=complex)}, "is complex128"),
        ({"time": TIMES, "v": np.zeros(3, dtype=np.longdouble)}, "is float128|is longdouble"),
        ({"time": TIMES, "v": np.zeros(3, dtype="m8[s]")}, "is timedelta64"),
        ({"time": TIMES, "v": np.zeros(3, dtype="M8[s]")}, 'field "v" is Timestamp'),
        ({"time": TIMES, "v": np.zeros(3, dtype="S4")}, r"is \|S4"),
        ({"time": TIMES, "v": ["a", 1, 2.5]}, "holds float, int, str"),
        ({"time": TIMES, "v": [object(), "a", None]}, "holds object, str"),
        ({"time": TIMES, "v": [2**70, 1, 2]}, "beyond 64 bits"),
        ({"time": TIMES.astype(float), "v": TIMES}, "Float64 is not a type for times"),
        ({"time": np.array([1, 2, "NaT"], dtype="M8[ns]"), "v": TIMES}, "row 2 has no time"),
        ({"time": np.array([2**62, 0, 0], dtype="M8[s]"), "v": TIMES}, "1677 to 2262"),
        (pd.DataFrame({"v": TIMES}), "neither a column 'time' nor an index of times"),
        (pd.DataFrame([[1, 2, 3]], columns=["time", "v", "v"]), "more than once"),
        (pa.table({"time": TIMES, "v": [{"a": 1}] * 3}), 'field "v" is Struct'),
        (pa.table({"time": TIMES, "v": pa.array([1, 2, 3], pa.decimal128(5, 2))}), 'field "v" is Decimal'),
        ([1, 2, 3], "a list has no columns"),
        (None, "a NoneType has no columns"),
    ],
)
def test_invalid_columns_are_rejected(store: seiner.Store, data: object, text: str) -> None:
    with pytest.raises(seiner.Invalid, match=text):
        store.append("m", None, data)
    assert store.query("{}").rows == 0


@pytest.mark.parametrize(
    ("measurement", "tags", "text"),
    [
        ("", {}, "the measurement is empty"),
        ("m", {"": "x"}, "a tag has an empty name"),
        ("m", {"a": 1}, "tag 'a' is 1"),
        ("m" * 20_000, {}, "more than 16384"),
    ],
)
def test_invalid_names_are_rejected(store: seiner.Store, measurement: str, tags: dict[str, str], text: str) -> None:
    with pytest.raises(seiner.Invalid, match=text):
        store.append(measurement, tags, {"time": TIMES, "v": TIMES})


def test_invalid_tables_are_rejected(store: seiner.Store) -> None:
    with pytest.raises(seiner.Invalid, match='tag column "v" is Int64'):
        store.append_table("m", {"time": TIMES, "v": TIMES, "w": TIMES}, tags=["v"])
    with pytest.raises(seiner.Invalid, match='no column "host"'):
        store.append_table("m", {"time": TIMES, "v": TIMES}, tags=["host"])
    with pytest.raises(seiner.Rejected, match="the measurement is empty"):
        store.append_table("", {"time": TIMES, "a": ["x"] * 3, "v": TIMES}, tags=["a"])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"select": "m{"}, "selector, character"),
        ({"select": "m", "start": "yesterday"}, "is not a time"),
        ({"select": "m", "start": 1.5}, "is not a time"),
        ({"select": "m", "start": True}, "is not a time"),
        ({"select": "m", "end": np.datetime64("NaT")}, "NaT is not a time"),
        ({"select": "m", "end": pd.NaT}, "NaT is not a time"),
        ({"select": "m", "end": dt.datetime(9999, 1, 1)}, "1677 to 2262"),
        ({"select": "m", "end": np.datetime64("9999-01-01")}, "64-bit ns"),
        ({"select": "m", "end": 2**63}, "1677 to 2262"),
        ({"select": "m", "step": "10x"}, "is not a duration"),
        ({"select": "m", "step": 0}, "is not positive"),
        ({"select": "m", "step": 1.0}, "is not a duration"),
        ({"select": "m", "aggregates": "median"}, '"median" is not an aggregate'),
        ({"select": "m", "aggregates": []}, "at least one"),
        ({"select": "m", "aggregates": ["min", "min"]}, "each once"),
    ],
)
def test_invalid_queries_are_rejected(store: seiner.Store, arguments: dict[str, object], text: str) -> None:
    with pytest.raises(seiner.Invalid, match=text):
        store.query(**arguments)  # type: ignore[arg-type]


def test_a_long_form_has_one_type(store: seiner.Store) -> None:
    store.append("m", None, {"time": TIMES, "f": [1.0, 2.0, 3.0], "i": TIMES})
    result = store.query("m")
    for form in (result.arrow, result.pandas, result.polars):
        with pytest.raises(seiner.Invalid, match=r'f64 of field "f" and i64 of field "i"; .* fields=\[...\]'):
            form()
    assert len(result.numpy()) == 2
    store.append("m", {"time": "x"}, {"time": TIMES, "f": [1.0, 2.0, 3.0]})
    with pytest.raises(seiner.Invalid, match='tag "time" cannot be a column'):
        store.query("m", fields="f", tag_columns=["time"]).arrow()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"memory": "plenty"}, "memory = 'plenty' is not a size"),
        ({"memory": -1}, "is not a size"),
        ({"memory": 1000}, "less than 1 MiB"),
        ({"durability": "eternal"}, "none of \"interval\""),
        ({"interval_ms": 0}, "choose `sync`"),
        ({"block_bytes": 1}, "between 256 and 65536"),
        ({"idle_seal": -1.0}, "is not a number of seconds"),
    ],
)
def test_invalid_settings_are_rejected(tmp_path: Path, settings: dict[str, object], text: str) -> None:
    with pytest.raises(seiner.Invalid, match=text):
        seiner.open(tmp_path, **settings)  # type: ignore[arg-type]


def test_a_directory_is_opened_by_one_store_at_a_time(tmp_path: Path) -> None:
    with seiner.open(tmp_path) as store:
        with pytest.raises(seiner.InUse, match="choose another directory"):
            seiner.open(tmp_path)
        assert not store.closed
    assert store.closed
    seiner.open(tmp_path).close()


def test_a_closed_store_raises_closed(tmp_path: Path) -> None:
    store = seiner.open(tmp_path)
    store.close()
    store.close()
    for call in (store.measurements, store.status, store.flush, store.commit, lambda: store.query("m")):
        with pytest.raises(seiner.Closed, match="seiner.open"):
            call()
    with pytest.raises(seiner.Closed):
        store.append("m", None, {"time": TIMES, "v": TIMES})
    assert repr(store).endswith("closed>")


def test_an_impossible_directory_raises_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(seiner.DiskError, match="file") as caught:
        seiner.open(tmp_path / "file")
    assert isinstance(caught.value, OSError) and isinstance(caught.value, seiner.SeinerError)


def test_damage_is_reported(tmp_path: Path) -> None:
    with seiner.open(tmp_path, segment_bytes="64 KiB", block_bytes=512) as store:
        store.append("m", None, {"time": np.arange(100_000), "v": np.random.default_rng(3).normal(size=100_000)})
        store.flush()
    segment = max((path for path in tmp_path.rglob("*") if path.is_file()), key=os.path.getsize)
    content = bytearray(segment.read_bytes())
    for at in range(1000, len(content) // 2, 97):
        content[at] ^= 0xFF
    segment.write_bytes(content)
    with seiner.open(tmp_path) as store, pytest.raises(seiner.Damaged, match="offset"):
        store.query("m").arrow()


def test_old_names_still_work(tmp_path: Path) -> None:
    assert seiner.Refused is seiner.Rejected
    with seiner.open(tmp_path) as store:
        receipt = store.write_lines("m v=1 1\nm")
        assert receipt.refused == receipt.rejected and receipt.refused_total == receipt.rejected_total == 1
        store.flush()
