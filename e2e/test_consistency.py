"""Queries during writes."""

import time

import numpy
import pytest

from load import Load, survivors
from program import SLOW

WRITERS = 3
ANSWERS = 60 if SLOW else 12
# Enough rows for several writes of pieces of a segment.
WRITTEN = (32 if SLOW else 3) << 20
DEADLINE_S = 240

SETTINGS = {
    # Many small blocks in large segments, so that some blocks cross the pieces in which a segment is written.
    "large segments": {"memory": "16 MiB", "block_bytes": "512 B"},
    "small segments": {"memory": "16 MiB", "block_bytes": "512 B", "journal_bytes": "1 MiB", "segment_bytes": "1 MiB"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_answers_contain_all_rows_acknowledged_before(serve, settings):
    server = serve(**settings)
    answers = 0
    until = time.monotonic() + DEADLINE_S
    with Load(server, [0] * WRITERS) as load:
        while answers < ANSWERS or server.status()["engine"]["segment_written"] < WRITTEN:
            assert time.monotonic() < until, f"only {answers} answers; too little to prove anything"
            for writer in load.writers:
                acknowledged = writer.rows
                rows = survivors(server, writer.number)
                assert len(rows) >= acknowledged
                # A request in progress may be visible in part.
                assert (rows[:acknowledged] == numpy.arange(acknowledged)).all()
                answers += 1
            # Answers grow. The writers must still make progress.
            time.sleep(0.2)
    assert server.status()["engine"]["damaged_segments"] == 0
    for writer in load.writers:
        assert (survivors(server, writer.number) == numpy.arange(writer.rows)).all()
