"""Tests of query results in every form."""

from __future__ import annotations

import datetime as dt
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import seiner

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


@pytest.fixture
def filled(store: seiner.Store) -> seiner.Store:
    """Creates long and short series: two hosts with 10,000 rows, a hundred with ten."""
    for host in range(102):
        rows = 10_000 if host in (50, 51) else 10
        values = np.arange(rows) * 0.25 + host
        store.append("cpu", {"host": f"h{host:03}", "rack": "odd" if host % 2 else ""}, {"time": START + np.arange(rows) * SECOND, "usage": values})
    return store


def expected() -> pd.DataFrame:
    pieces = []
    for host in range(102):
        rows = 10_000 if host in (50, 51) else 10
        tags = f"host=h{host:03}" + (",rack=odd" if host % 2 else "")
        times = pd.to_datetime(START + np.arange(rows) * SECOND, utc=True)
        pieces.append(pd.DataFrame({"measurement": "cpu", "tags": tags, "field": "usage", "time": times, "value": np.arange(rows) * 0.25 + host}))
    return pd.concat(pieces, ignore_index=True)


LABELS = ["measurement", "tags", "field"]


def plain(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({name: object for name in frame.columns if isinstance(frame[name].dtype, (pd.CategoricalDtype, pd.StringDtype))})


def test_the_long_form_is_the_same_everywhere(filled: seiner.Store) -> None:
    result = filled.query("cpu")
    assert (len(result), result.rows, result.columns) == (102, 21_000, ["value"])
    wanted = plain(expected())
    for frame in (result.pandas(), result.arrow().to_pandas(), result.polars().to_pandas()):
        pd.testing.assert_frame_equal(plain(frame), wanted, check_index_type=False)
    assert all(isinstance(result.pandas()[label].dtype, pd.CategoricalDtype) for label in LABELS)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_the_latest_sample_of_each_series(filled: seiner.Store, is_sealed: bool) -> None:
    filled.append("note", {"host": "h000"}, {"time": [START, START + 1], "text": ["a", "b"]})
    if is_sealed:
        filled.flush()
    last = expected().groupby("tags", sort=False, observed=True).tail(1).reset_index(drop=True)
    frame = filled.latest("cpu").pandas()
    pd.testing.assert_frame_equal(plain(frame), plain(last), check_index_type=False)
    assert filled.latest("note").pandas()["value"].tolist() == ["b"]
    # Series whose latest sample is older are omitted.
    assert len(filled.latest("cpu", start=START + 10 * SECOND)) == 2
    before = filled.latest('cpu{host="h050"}', end=START + 99 * SECOND, fields="usage", tag_columns=["host"]).pandas()
    assert (before["host"].tolist(), before["value"].tolist()) == (["h050"], [99 * 0.25 + 50])


def test_arrow_batches_of_long_series_stand_alone(filled: seiner.Store) -> None:
    batches = filled.query("cpu").arrow().to_batches()
    assert [batch.num_rows for batch in batches] == [500, 10_000, 10_000, 500]
    assert [len(batch["tags"].dictionary) for batch in batches] == [50, 1, 1, 50]
    for batch in batches:
        batch.validate(full=True)


def test_each_tag_is_a_column(filled: seiner.Store) -> None:
    for given in (True, ["host", "rack"]):
        result = filled.query("cpu", tag_columns=given)
        table = result.arrow()
        assert table.column_names == ["measurement", "host", "rack", "field", "time", "value"]
        racks = table["rack"].to_pylist()
        assert (racks.count("odd"), racks.count(None)) == (10_500, 10_500)
        pd.testing.assert_frame_equal(plain(result.pandas()), plain(table.to_pandas()), check_index_type=False)
        assert result.polars()["rack"].null_count() == 10_500
    assert filled.query("cpu", tag_columns="host").arrow().column_names[1:3] == ["host", "field"]


def test_other_libraries_read_results_directly(filled: seiner.Store) -> None:
    result = filled.query('cpu{host="h001"}')
    assert pa.table(result).num_rows == pl.DataFrame(result).height == 10
    assert pa.RecordBatchReader.from_stream(result).read_all().num_rows == 10


def test_series_by_key(filled: seiner.Store) -> None:
    result = filled.query('cpu{host=~"h00[12]"}')
    arrays = result.numpy()
    key = seiner.SeriesKey("cpu", (("host", "h001"), ("rack", "odd")), "usage")
    times, values = arrays[key]
    assert str(key) == 'cpu{host="h001",rack="odd"} usage'
    assert times.dtype == np.dtype("M8[ns]") and times.view(np.int64).tolist() == [START + n * SECOND for n in range(10)]
    assert values.tolist() == [1 + n / 4 for n in range(10)]
    first, second = result
    assert (first.measurement, first.tags, first.field, first.type) == ("cpu", {"host": "h001", "rack": "odd"}, "usage", "f64")
    assert second.tags == {"host": "h002"} and len(second) == 10
    assert repr(result) == "<seiner.Result: 2 series, 20 rows of value>"


def test_an_empty_answer_has_its_columns(store: seiner.Store) -> None:
    for result, names in ((store.query("none"), ["value"]), (store.query("none", step="1s", aggregates=["count", "max"]), ["count", "max"])):
        columns = [*LABELS, "time", *names]
        assert (len(result), result.rows, result.numpy()) == (0, 0, {})
        assert result.arrow().column_names == columns and result.arrow().num_rows == 0
        assert list(result.pandas().columns) == columns and result.pandas().empty
        assert result.polars().columns == columns and result.polars().is_empty()
    counts = store.query("none", aggregates=["count", "last_time"])
    assert counts.arrow().schema.types[-2:] == [pa.uint64(), pa.timestamp("ns", "UTC")]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (START + 2 * SECOND, START + 4 * SECOND),
        (str(START + 2 * SECOND), "2023-11-14T22:13:24Z"),
        (dt.datetime(2023, 11, 14, 22, 13, 22), dt.datetime(2023, 11, 14, 23, 13, 24, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
        (np.datetime64("2023-11-14T22:13:22"), np.datetime64("2023-11-14T22:13:24.000000000")),
        (pd.Timestamp("2023-11-14T22:13:22"), pd.Timestamp("2023-11-14T22:13:24.999999999", tz="UTC")),
        (np.int64(START + 2 * SECOND), np.int64(START + 4 * SECOND)),
    ],
)
def test_both_ends_are_included(filled: seiner.Store, start: seiner.Moment, end: seiner.Moment) -> None:
    values = filled.query('cpu{host="h000"}', start, end).by_series()[0].values
    assert values.tolist() == [0.5, 0.75, 1.0]


def test_open_ends_and_relative_times(filled: seiner.Store) -> None:
    select = 'cpu{host="h000"}'
    assert filled.query(select, end=START).rows == 1
    assert filled.query(select, START + SECOND).rows == 9
    assert filled.query(select, dt.date(2023, 11, 14), dt.date(2023, 11, 15)).rows == 10
    assert filled.query(select, "-1h").rows == 0
    filled.write_lines("now v=1")
    assert filled.query("now", "-1h", "now").rows == 1
    assert filled.query("now", end="-1h").rows == 0
    nanosecond = pd.Timestamp(START + 1, unit="ns")
    assert filled.query(select, nanosecond, START + SECOND - 1).rows == 0


@pytest.mark.parametrize("step", ["1h", 3600 * SECOND, dt.timedelta(hours=1), np.timedelta64(1, "h"), pd.Timedelta("1h")])
def test_aggregates_by_step(filled: seiner.Store, step: seiner.Duration) -> None:
    names = ["count", "sum", "min", "max", "mean", "first", "last", "first_time", "last_time"]
    result = filled.query('cpu{host="h050"}', step=step, aggregates=names)
    assert result.columns == names
    samples = filled.query('cpu{host="h050"}').pandas().set_index("time")["value"]
    groups = samples.groupby(samples.index.floor("1h"))
    frame = result.pandas().set_index("time")
    for name in ("count", "min", "max", "first", "last"):
        assert frame[name].tolist() == groups.agg(name).tolist(), name
    for name in ("sum", "mean"):
        np.testing.assert_allclose(frame[name], groups.agg(name))
    assert frame["last_time"].tolist() == [group.index[-1] for _, group in groups]
    assert frame.index.tolist() == list(groups.groups)
    table = result.arrow()
    assert table.schema.field("count").type == pa.uint64()
    assert table.schema.field("first_time").type == pa.timestamp("ns", "UTC")
    pd.testing.assert_frame_equal(plain(result.pandas()), plain(table.to_pandas()), check_index_type=False)
    arrays = next(iter(result.numpy().values()))
    assert len(arrays) == 10 and arrays[1].tolist() == frame["count"].tolist()


def test_aggregates_of_integers_are_exact(store: seiner.Store) -> None:
    store.write_lines("m i=9007199254740993i,u=18446744073709551615u 1\nm i=9007199254740993i,u=1u 2\nm f=0.5 1")
    names = ["min", "max", "first", "last", "sum"]
    figures = {one.field: [array.tolist() for array in one.columns.values()] for one in store.query("m", aggregates=names)}
    assert figures["i"] == [[2**53 + 1], [2**53 + 1], [2**53 + 1], [2**53 + 1], [2**54 + 2]]
    assert figures["u"] == [[1], [2**64 - 1], [2**64 - 1], [1], [2.0**64]]
    # The long form has one type per column.
    frame = store.query("m", fields=["i"], aggregates=names).pandas()
    assert str(frame["last"].dtype) == "int64" and frame["last"].tolist() == [2**53 + 1]
    mixed = store.query("m", aggregates="last")
    assert mixed.arrow().schema.field("last").type == pa.float64()
    assert sorted(mixed.pandas()["last"].tolist()) == [0.5, 1.0, 2.0**53]


def test_aggregates_of_the_whole_and_the_default(filled: seiner.Store) -> None:
    whole = filled.query('cpu{host="h050"}', aggregates="count").by_series()[0]
    assert (whole.times.view(np.int64).tolist(), whole.values.tolist()) == ([START], [10_000])
    assert filled.query("cpu", step="1h").columns == ["mean"]


def test_fields_and_names(filled: seiner.Store) -> None:
    filled.append("mem", {"host": "h001"}, {"time": [1], "free": [1], "used": [2.0]})
    assert filled.measurements() == ["cpu", "mem"]
    assert filled.tags() == filled.tags("cpu") == ["host", "rack"]
    assert filled.tags("mem") == ["host"]
    assert filled.values("host", 'cpu{rack="odd"}', limit=2) == ["h001", "h003"]
    assert filled.values("rack") == ["odd"]
    assert filled.fields() == [("free", "i64"), ("usage", "f64"), ("used", "f64")]
    assert [series.field for series in filled.query("mem", fields=["used"])] == ["used"]
    assert filled.sources("mem")[0][1:] == ("mem", {"host": "h001"})
    assert len(filled.sources(limit=5)) == 5
    assert not filled.values("rack").truncated and not filled.sources().truncated
    status = filled.status()
    assert (status["sources"], status["samples_accepted"], status["durability"]) == (103, 21_002, "interval")
    assert status["poisoned"] is None


def test_truncated_listings_are_marked(filled: seiner.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(limit: int | None) -> tuple[seiner.Listing[str], seiner.Listing[seiner.Source]]:
        return filled.values("host", limit=limit), filled.sources(limit=limit)

    hosts, sources = listed(None)
    count = len(sources)
    assert len(hosts) <= count and not hosts.truncated and not sources.truncated
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for limit in (0, 1, count - 1):
            assert [(len(cut), cut.truncated) for cut in listed(limit)] == [(limit, True)] * 2
        assert [(cut.truncated, isinstance(cut, list)) for cut in listed(count)] == [(False, True)] * 2
    monkeypatch.setattr("seiner._listing.DEFAULT_LIMIT", 3)
    with pytest.warns(UserWarning, match="only the first 3 are listed") as reported:
        assert all(cut.truncated for cut in listed(None))
    assert [warning.filename for warning in reported] == [__file__] * 2


def test_tags_are_escaped_in_text(store: seiner.Store) -> None:
    store.append("m", {"a b": "c,d=e", "é": "ü\\"}, {"time": [1], "v": [1.0]})
    assert store.query("m").arrow()["tags"].to_pylist() == ["a\\ b=c\\,d\\=e,é=ü\\"]
    assert store.query("m", tag_columns=["a b"]).arrow()["a b"].to_pylist() == ["c,d=e"]


def test_long_texts_that_compress_well_are_complete(store: seiner.Store) -> None:
    times = np.arange(12_000) + 1_700_000_000_000_000_000
    text = "x" * 5000
    for part in np.split(times, 12):
        store.append("m", None, {"time": part, "s": [text] * len(part)})
    for flush in (False, True):
        if flush:
            store.flush()
        (series,) = store.query("m")
        assert series.times.view(np.int64).tolist() == times.tolist()
        assert set(series.values) == {text}
        assert len(store.query("m", shape="wide")) == len(times)
