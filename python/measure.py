"""Measures the rates of the package: 10 million float samples in and out, the best of three runs.

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


def main() -> None:
    figures: dict[str, list[tuple[float, float]]] = {}
    for _ in range(3):
        stored = run(figures)
    print(f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}")
    print(f"{SAMPLES:,} samples; {stored / SAMPLES / 2:.2f} bytes a sample on disk")
    for name, runs in figures.items():
        wall, cpu = (SAMPLES / 1e6 / min(run[at] for run in runs) for at in (0, 1))
        print(f"{name:36} {wall:8.1f} M samples a second, {cpu:8.1f} M a CPU-second")


if __name__ == "__main__":
    main()
