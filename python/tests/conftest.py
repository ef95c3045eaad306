"""Fixture: a separate store for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import seiner


@pytest.fixture
def store(tmp_path: Path) -> Iterator[seiner.Store]:
    with seiner.open(tmp_path / "data", memory="32 MiB", segment_bytes="1 MiB", journal_bytes="4 MiB") as store:
        yield store
