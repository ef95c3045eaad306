"""Tests that data documented as not copied keep their addresses."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import seiner

ROWS = 5000


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.fixture
def result(store: seiner.Store) -> seiner.Result:
    for host in ("a", "b"):
        store.append("m", {"host": host}, {"time": np.arange(ROWS), "v": np.random.default_rng(4).normal(size=ROWS)})
    return store.query("m")


def test_numpy_and_arrow_share_the_answer(result: seiner.Result) -> None:
    batches = result.arrow().to_batches()
    for series, (times, values), batch in zip(result, result.numpy().values(), batches, strict=True):
        assert address(series.times) == address(times) == batch["time"].buffers()[1].address
        assert address(series.values) == address(values) == batch["value"].buffers()[1].address
    assert len({batch[label].indices.buffers()[1].address for batch in batches for label in ("measurement", "tags", "field")}) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint64])
def test_all_numbers_are_shared(store: seiner.Store, dtype: type) -> None:
    store.append("m", None, {"time": np.arange(ROWS), "v": np.arange(ROWS).astype(dtype)})
    result = store.query("m")
    assert result.arrow()["value"].chunk(0).buffers()[1].address == address(result.by_series()[0].values)


def test_pandas_and_polars_share_one_series(store: seiner.Store) -> None:
    store.append("m", None, {"time": np.arange(ROWS), "v": np.arange(ROWS) * 0.5})
    result = store.query("m")
    (series,) = result
    assert address(result.pandas()["value"].to_numpy()) == address(series.values)
    assert address(result.polars()["value"].to_numpy(allow_copy=False)) == address(series.values)


def test_a_view_outlives_the_answer_and_the_store(tmp_path: object) -> None:
    store = seiner.open(str(tmp_path))
    store.append("m", None, {"time": np.arange(ROWS), "v": np.arange(ROWS) * 0.5})
    result = store.query("m")
    values, table, frame = result.by_series()[0].values, result.arrow(), pl.DataFrame(result)
    store.close()
    del result, store
    gc.collect()
    assert values.tolist() == table["value"].to_pylist() == frame["value"].to_list() == (np.arange(ROWS) * 0.5).tolist()


def test_views_are_read_only(result: seiner.Result) -> None:
    series = result.by_series()[0]
    for array in (series.times, series.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


def test_input_is_released(store: seiner.Store) -> None:
    for wrap in (dict, pa.table):
        values = np.arange(100.0)
        alive = weakref.ref(values)
        store.append("m", {"by": wrap.__name__}, wrap({"time": np.arange(100), "v": values}))
        del values
        gc.collect()
        assert alive() is None
