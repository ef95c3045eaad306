"""Measures the rates of the package: 10 million float samples in and out, the best of three runs.

The frames of pandas and polars have two tags, a field of integers and four fields of floats. All runs are interleaved.
Build with `PROFILE=release ./run-tests.sh` first; otherwise the figures are those of a debug build.
CPU time is that of the whole process, including the engine's threads.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl

import seiner

SAMPLES = 10_000_000
SOURCES = 4000


def measured(call: Callable[[], object]) -> tuple[float, float]:
    """Returns wall time and CPU time of a call in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def run(figures: dict[str, list[tuple[float, float]]]) -> int:
    def measure(name: str, call: Callable[[], object]) -> None:
        figures.setdefault(name, []).append(measured(call))

    rng = np.random.default_rng(1)
    rows = SAMPLES // SOURCES
    times = np.arange(SAMPLES) * 10_000_000_000
    values = np.round(50 + np.cumsum(rng.normal(size=SAMPLES) * 0.1), 2)
    with tempfile.TemporaryDirectory() as directory, seiner.open(directory) as store:
        measure("append, one source", lambda: store.append("one", None, {"time": times, "value": values}))
        store.flush()
        measure("query, one series, the first time", lambda: store.query("one").numpy())
        measure("the same again, as pyarrow", lambda: store.query("one").arrow())
        measure("query, means of an hour", lambda: store.query("one", step="1h"))
        numbers = np.array([store.source("many", {"n": str(n)}) for n in range(SOURCES)])
        sources, turns = np.tile(numbers, rows), np.repeat(times[:rows], SOURCES)
        measure("samples, 4,000 sources in turn", lambda: store.samples("value", sources, turns, values))
        store.flush()
        measure("query, 4,000 series", lambda: store.query("many").numpy())
        return store.status()["segment_bytes"]


def frames() -> dict[str, pd.DataFrame | pl.DataFrame]:
    """Returns the same rows in frames with different columns for the tags."""
    rng, rows = np.random.default_rng(2), SAMPLES // 5
    texts = {"host": [f"host-{n:05}" for n in range(100)], "room": ["bath", "kitchen", "hall"]}
    tags = {name: np.array(values, dtype=object)[np.arange(rows) % len(values)] for name, values in texts.items()}
    fields = {name: np.round(50 + np.cumsum(rng.normal(size=rows) * 0.1), 2) for name in "abcd"}
    fields["count"] = rng.integers(0, 1000, rows)
    time_column = {"time": np.datetime64("2026-11-21", "ns") + np.arange(rows) * np.timedelta64(1, "s")}
    polars = pl.DataFrame(time_column | {name: values.tolist() for name, values in tags.items()} | fields)
    objects = pd.DataFrame(time_column | tags | fields).astype(dict.fromkeys(tags, object))
    return {
        "polars": polars,
        "polars, categorical tags": polars.with_columns(pl.col(*tags).cast(pl.Categorical)),
        "pandas, tags as str": objects.astype(dict.fromkeys(tags, "str")),
        "pandas, tags as category": objects.astype(dict.fromkeys(tags, "category")),
        "pandas, tags as object": objects,
    }


def run_frames(figures: dict[str, list[tuple[float, float]]], given: dict[str, pd.DataFrame | pl.DataFrame]) -> None:
    for name, frame in given.items():
        with tempfile.TemporaryDirectory() as directory, seiner.open(directory) as store:
            call = measured(lambda: store.append_table("m", frame, tags=["host", "room"]))
        figures.setdefault(f"append_table, {name}", []).append(call)


def main() -> None:
    figures: dict[str, list[tuple[float, float]]] = {}
    given = frames()
    for _ in range(3):
        stored = run(figures)
        run_frames(figures, given)
    print(f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"{SAMPLES:,} samples; {stored / SAMPLES / 2:.2f} bytes a sample on disk")
    for name, runs in figures.items():
        wall, cpu = (SAMPLES / 1e6 / min(run[at] for run in runs) for at in (0, 1))
        print(f"{name:40} {wall:8.1f} M samples a second, {cpu:8.1f} M a CPU-second")


if __name__ == "__main__":
    main()
