"""Tests with threads, forks, and ends of programs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import seiner


def longest_standstill(call: Callable[[], object]) -> float:
    """Returns the longest pause of another thread, as a share of a call's time."""
    stop, longest = threading.Event(), 0.0

    def count() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    thread = threading.Thread(target=count)
    thread.start()
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    stop.set()
    thread.join()
    return longest / took


def test_other_threads_run_while_the_engine_works(store: seiner.Store) -> None:
    rows = 1_000_000
    times, values = np.arange(rows), np.random.default_rng(5).normal(size=rows)
    numbers = values.tolist()
    assert longest_standstill(lambda: sorted(numbers)) > 0.7, "a call that holds the lock is not detected"
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: store.append("m", None, {"time": times, "v": values}),
        "query": lambda: store.query("m"),
        "aggregate": lambda: store.query("m", step=10),
        "lines": lambda: store.write_lines(b"l v=1.5\n" * rows),
    }
    for name, call in calls.items():
        # A busy machine may pause any thread for a while.
        shares = [longest_standstill(call) for _ in range(3)]
        assert min(shares) < 0.5, (name, shares)


def test_writers_and_readers_at_the_same_time(store: seiner.Store) -> None:
    errors: list[BaseException] = []

    def work(job: object) -> None:
        try:
            job()  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    def write(name: str) -> None:
        for turn in range(20):
            times = np.arange(turn * 1000, (turn + 1) * 1000)
            store.append("m", {"writer": name}, {"time": times, "v": times * 1.0})

    def read() -> None:
        for _ in range(30):
            for series in store.query("m"):
                # If a row is present, all earlier rows are too.
                assert np.array_equal(series.values, np.arange(len(series)))

    jobs = [lambda name=name: write(name) for name in "abcd"] + [read, read]
    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert store.query("m").rows == 80_000


def test_closing_under_a_reader_is_an_error_not_a_crash(tmp_path: Path) -> None:
    store = seiner.open(tmp_path)
    store.append("m", None, {"time": np.arange(50_000), "v": np.arange(50_000) * 1.0})
    outcomes: list[object] = []

    def read() -> None:
        try:
            while True:
                outcomes.append(store.query("m").rows)
        except seiner.SeinerError as error:
            outcomes.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    while not outcomes:
        time.sleep(0.001)
    store.close()
    thread.join()
    assert isinstance(outcomes[-1], seiner.Closed) and set(outcomes[:-1]) == {50_000}
    seiner.open(tmp_path).close()


def run(program: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, str(directory)], capture_output=True, text=True, timeout=60)


def test_the_end_of_a_program_commits(tmp_path: Path) -> None:
    ended = run(
        "import sys, seiner\n"
        "store = seiner.open(sys.argv[1], interval_ms=60_000)\n"
        "store.append('m', None, {'time': [1, 2], 'v': [1.0, 2.0]})\n",
        tmp_path,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with seiner.open(tmp_path) as store:
        assert store.query("m").rows == 2


@pytest.mark.parametrize(("durability", "kept"), [("sync", 2), ("memory", 0)])
def test_a_killed_program_keeps_its_durable_rows(tmp_path: Path, durability: str, kept: int) -> None:
    ended = run(
        "import os, signal, sys, seiner\n"
        f"store = seiner.open(sys.argv[1], durability={durability!r})\n"
        "store.append('m', None, {'time': [1, 2], 'v': [1.0, 2.0]})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
        tmp_path,
    )
    assert ended.returncode == -9
    with seiner.open(tmp_path) as store:
        assert store.query("m").rows == kept


def test_a_dropped_store_releases_its_directory(tmp_path: Path) -> None:
    store = seiner.open(tmp_path)
    store.append("m", None, {"time": [1], "v": [1.0]})
    del store
    with seiner.open(tmp_path) as again:
        assert again.query("m").rows == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_forked_child_does_not_change_the_store(tmp_path: Path) -> None:
    ended = run(
        "import os, sys, seiner\n"
        "store = seiner.open(sys.argv[1], interval_ms=60_000)\n"
        "store.append('m', None, {'time': [1], 'v': [1.0]})\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try:\n"
        "        store.append('m', None, {'time': [2], 'v': [2.0]})\n"
        "    except seiner.Invalid as error:\n"
        "        print(error, flush=True)\n"
        "    sys.exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
        "store.append('m', None, {'time': [3], 'v': [3.0]})\n",
        tmp_path,
    )
    assert ended.returncode == 0, ended.stderr
    assert "opened before the process forked" in ended.stdout
    with seiner.open(tmp_path) as store:
        assert [series.values.tolist() for series in store.query("m")] == [[1.0, 3.0]]


def test_control_c_interrupts_long_work(tmp_path: Path) -> None:
    ended = run(
        "import os, signal, sys, threading, numpy as np, seiner\n"
        "store = seiner.open(sys.argv[1], durability='memory')\n"
        "values = np.zeros(20_000_000)\n"
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    store.append('m', None, {'time': np.arange(len(values)), 'v': values})\n"
        "except KeyboardInterrupt:\n"
        "    assert store.status()['rows_accepted'] < len(values)\n"
        "    sys.exit(3)\n",
        tmp_path,
    )
    assert ended.returncode == 3, ended.stderr
