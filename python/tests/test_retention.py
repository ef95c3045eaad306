"""Tests of retention and of disk usage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import seiner

SECOND = 1_000_000_000


def noise(store: seiner.Store, measurement: str, count: int, first: int = 0) -> None:
    values = np.random.default_rng(first).random(count)
    times = (first + np.arange(count)) * SECOND
    store.append(measurement, {"n": "1"}, {"time": times, "v": values})


def rows(store: seiner.Store, select: str) -> int:
    return sum(len(series.times) for series in store.query(select))


def test_deleted_samples_are_gone_and_new_ones_stay(tmp_path: Path) -> None:
    with seiner.open(tmp_path) as store:
        noise(store, "a", 1000)
        noise(store, "b", 1000)
        assert store.delete("a", 100 * SECOND, 199 * SECOND) == 1
        assert store.delete("none") == 0
        noise(store, "a", 10, first=100)
    with seiner.open(tmp_path) as store:
        assert (rows(store, "a"), rows(store, "b")) == (910, 1000)
        assert store.delete("{}") == 2
        assert rows(store, "{}") == 0


def test_a_ring_keeps_the_latest_rows(tmp_path: Path) -> None:
    classes = [seiner.Class(name="ring", sources="a", rows=500)]
    with seiner.open(tmp_path, classes=classes, block_bytes=512) as store:
        noise(store, "a", 5000)
        noise(store, "b", 5000)
        assert 500 <= rows(store, "a") < 700
        assert rows(store, "b") == 5000
        reported = store.log()["classes"]
        assert [(one["name"], one["sources"]) for one in reported] == [("ring", 1), ("default", 1)]


@pytest.mark.parametrize("shed", [False, True])
def test_a_full_store_rejects_or_sheds(tmp_path: Path, shed: bool) -> None:
    budget = 16 << 20
    classes = [seiner.Class(name="default", when_full="shed" if shed else "refuse")]

    def fill(store: seiner.Store) -> None:
        for tick in range(60):
            noise(store, "a", 50_000, first=tick * 50_000)

    with seiner.open(tmp_path, disk=budget, classes=classes, durability="memory") as store:
        if shed:
            fill(store)
            assert store.status()["shed_bytes"] > 0
            last = next(iter(store.query("a"))).times[-1]
            assert int(np.int64(last)) == (60 * 50_000 - 1) * SECOND
            assert store.decisions()[-1]["u"] > 0.5
        else:
            with pytest.raises(seiner.DiskFull, match="raise `disk`"):
                fill(store)
            assert store.delete("a") == 1
        assert store.log()["used"] <= budget
    assert sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file()) <= budget


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"disk": "1 MiB"}, "a store needs"),
        ({"disk": "much"}, "is not a size"),
        ({"policy": "hungry"}, "fisherman"),
        ({"lanes": 1}, "between 2 and 256"),
        ({"merge_from": 2.0}, "merge_from"),
        ({"extra_writes": -1.0}, "extra_writes"),
        ({"classes": [seiner.Class(name="a", rows=0)]}, "1 or more"),
        ({"classes": [seiner.Class(name="a", age="-1s")]}, "is not a duration"),
        ({"classes": [seiner.Class(name="a", sources="{")]}, "class"),
        ({"classes": [seiner.Class(name="a"), seiner.Class(name="b")]}, "first"),
        ({"classes": [seiner.Class(name="a", priority=300)]}, "255"),
        ({"classes": [seiner.Class(name="a", when_full="burn")]}, "neither"),  # type: ignore[arg-type]
    ],
)
def test_invalid_retention_settings_are_rejected(tmp_path: Path, settings: dict[str, object], reason: str) -> None:
    with pytest.raises(seiner.Invalid, match=reason):
        seiner.open(tmp_path, **settings)  # type: ignore[arg-type]


def test_the_old_name_of_rollup_works(tmp_path: Path) -> None:
    old = seiner.Class(name="a", age="1d", coarser="1m for 365d")
    new = seiner.Class(name="a", age="1d", rollup="1m for 365d")
    assert old == new
    with seiner.open(tmp_path, classes=[old]) as store:
        assert [one["name"] for one in store.log()["classes"]][0] == "a"


def test_rules_are_stored_with_the_data(tmp_path: Path) -> None:
    ring = [seiner.Class(name="ring", sources="a", rows=500)]
    with seiner.open(tmp_path, classes=ring, block_bytes=512) as store:
        noise(store, "b", 2000)
    # A program that gives no rules changes none.
    with seiner.open(tmp_path) as store:
        noise(store, "a", 5000)
        assert 500 <= rows(store, "a") < 700
    shorter = [seiner.Class(name="ring", sources="{}", rows=100)]
    with pytest.raises(seiner.Invalid, match="apply_retention"):
        seiner.open(tmp_path, classes=shorter)
    with seiner.open(tmp_path) as store:
        assert rows(store, "b") == 2000
    with seiner.open(tmp_path, classes=shorter, apply_retention=True) as store:
        assert rows(store, "b") < 1000
    with seiner.open(tmp_path, classes=[]) as store:
        noise(store, "b", 3000, first=10_000)
        assert rows(store, "b") >= 3000
