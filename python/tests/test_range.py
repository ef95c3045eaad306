"""Tests of the first and last time of samples."""

from __future__ import annotations

import numpy as np
import pytest

import seiner

DAY = 86_400_000_000_000
START = 1_700_000_000_000_000_000


def test_a_range_is_that_of_the_samples(store: seiner.Store) -> None:
    assert store.range() is None
    store.append("power", {"site": "a"}, {"time": [START, START + 5], "v": [1.0, 2.0]})
    store.append("power", {"site": "b"}, {"time": [START - 7], "w": [1]})
    store.append("other", None, {"time": [START + DAY], "v": [True]})
    for flush in (False, True):
        if flush:
            store.flush()
        assert store.range() == (START - 7, START + DAY)
        assert store.range("power") == seiner.Range(first=START - 7, last=START + 5)
        assert store.range('power{site="a"}').last == START + 5
        assert store.range("power", fields="w") == (START - 7, START - 7)
        assert store.range("power", START - 6, START + 4) == (START, START)
        assert store.range("power", start=np.datetime64(START, "ns")) == (START, START + 5)
        assert store.range("power", end=START - 8) is None and store.range("none") is None
    with pytest.raises(seiner.Invalid):
        store.range("power{")
    store.close()
    with pytest.raises(seiner.Closed):
        store.range()


@pytest.mark.parametrize("seed", range(4))
def test_a_range_is_that_of_a_query(store: seiner.Store, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(6):
        times = rng.integers(0, 20_000, 3000) * 1_000_000
        store.append("m", {"n": str(rng.integers(3))}, {"time": times, "v": rng.normal(size=3000)})
        low = int(rng.integers(0, 20_000))
        store.delete(f"m{{n={rng.integers(3)}}}", low * 1_000_000, (low + 4000) * 1_000_000)
        if rng.random() < 0.5:
            store.flush()
        start, end = sorted(int(time) * 1_000_000 for time in rng.integers(0, 20_000, 2))
        for select, interval in (("m", (None, None)), ("m{n=1}", (start, end)), ("m", (start, None))):
            times = [series.times.view(np.int64) for series in store.query(select, *interval)]
            wanted = (min(one[0] for one in times), max(one[-1] for one in times)) if times else None
            assert store.range(select, *interval) == wanted
