"""Tests that random frames are returned bit by bit, before and after a seal and a reopen."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seiner

I64 = st.integers(-(2**63), 2**63 - 1)
VALUES = {
    # Values are drawn as bits, so that every NaN occurs.
    "f64": (np.uint64, st.integers(0, 2**64 - 1)),
    "f32": (np.uint32, st.integers(0, 2**32 - 1)),
    "i64": (np.int64, I64),
    "u64": (np.uint64, st.integers(0, 2**64 - 1)),
    "bool": (np.bool_, st.booleans()),
    "string": (object, st.text(st.characters(codec="utf-8"), max_size=20)),
}
ARROW = {"f64": pa.float64(), "f32": pa.float32(), "i64": pa.int64(), "u64": pa.uint64(), "bool": pa.bool_(), "string": pa.string()}


def as_bits(kind: str, values: np.ndarray) -> list[object]:
    values = np.asarray(values)
    return values.view({"f64": np.uint64, "f32": np.uint32}[kind]).tolist() if kind in ("f64", "f32") else values.tolist()


def arrow_array(kind: str, cells: list[object]) -> pa.Array:
    dtype, _ = VALUES[kind]
    mask = np.array([cell is None for cell in cells])
    filler = "" if kind == "string" else 0
    values = np.array([filler if cell is None else cell for cell in cells], dtype=dtype)
    if kind in ("f64", "f32"):
        values = values.view({"f64": np.float64, "f32": np.float32}[kind])
    return pa.array(values, ARROW[kind], mask=mask)


@st.composite
def frames(draw: st.DrawFn) -> dict[str, list[object]]:
    """Draws columns by kind, with repeated times and gaps."""
    rows = draw(st.integers(1, 60))
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, unique=True))
    times = st.one_of(I64, st.integers(0, 20))
    frame: dict[str, list[object]] = {"time": draw(st.lists(times, min_size=rows, max_size=rows))}
    for kind in kinds:
        cell = st.one_of(VALUES[kind][1], VALUES[kind][1], st.none())
        frame[kind] = draw(st.lists(cell, min_size=rows, max_size=rows))
    frame["tag"] = draw(st.lists(st.sampled_from(["", "a", "b", "ü ,="]), min_size=rows, max_size=rows))
    return frame


Samples = dict[tuple[str, str], dict[int, object]]


def model(frame: dict[str, list[object]]) -> Samples:
    """Reference store: of cells at the same time, the last one counts."""
    samples: Samples = {}
    for row, time in enumerate(frame["time"]):
        for kind in frame.keys() - {"time", "tag"}:
            if frame[kind][row] is not None:
                samples.setdefault((str(frame["tag"][row]), kind), {})[time] = frame[kind][row]
    return samples


def found(store: seiner.Store) -> Samples:
    samples: Samples = {}
    for series in store.query("m"):
        times = series.times.view(np.int64).tolist()
        assert times == sorted(set(times))
        assert series.type == series.field
        cells = dict(zip(times, as_bits(series.type, series.values), strict=True))
        samples[(series.tags.get("tag", ""), series.field)] = cells
    return samples


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(frame=frames(), more=frames(), flush=st.booleans())
def test_tables_are_returned_bit_for_bit(frame: dict[str, list[object]], more: dict[str, list[object]], flush: bool) -> None:
    wanted = model(frame)
    for series, cells in model(more).items():
        wanted.setdefault(series, {}).update(cells)
    with tempfile.TemporaryDirectory() as directory:
        with seiner.open(directory, memory="4 MiB", block_bytes=256, segment_bytes="64 KiB", journal_bytes="64 KiB") as store:
            for given_frame in (frame, more):
                columns = {name: arrow_array(name, cells) for name, cells in given_frame.items() if name in VALUES}
                table = pa.table({"time": pa.array(given_frame["time"], pa.int64()), "tag": given_frame["tag"], **columns})
                receipt = store.append_table("m", table, tags=["tag"])
                assert receipt.samples == sum(cell is not None for name in columns for cell in given_frame[name])
                if flush:
                    store.flush()
            assert found(store) == wanted
        with seiner.open(directory) as store:
            assert found(store) == wanted


@settings(max_examples=50, deadline=None)
@given(bits=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=200), width=st.sampled_from([32, 64]))
def test_numpy_floats_keep_every_bit_through_every_form(bits: list[int], width: int) -> None:
    unsigned = np.array([bit % 2**width for bit in bits], dtype=f"u{width // 8}")
    values = unsigned.view(f"f{width // 8}")
    with tempfile.TemporaryDirectory() as directory, seiner.open(directory) as store:
        store.append("m", None, {"time": np.arange(len(bits)), "v": values})
        result = store.query("m")
        forms = {
            "numpy": next(iter(result.numpy().values()))[1],
            "arrow": result.arrow()["value"].to_numpy(),
            "pandas": result.pandas()["value"].to_numpy(),
            "polars": result.polars()["value"].to_numpy(),
        }
        for name, form in forms.items():
            assert form.dtype == values.dtype, name
            assert form.view(unsigned.dtype).tolist() == unsigned.tolist(), name
