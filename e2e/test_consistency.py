"""Queries while writes go on."""

import time

import numpy
import pytest

from load import Load, survivors
from program import SLOW

WRITERS = 3
SECONDS = 20 if SLOW else 4

SETTINGS = {
    # Many small blocks in large segments: blocks lie across the pieces in which a segment is written.
    "large segments": {"memory": "16 MiB", "block_bytes": "512 B"},
    "small segments": {"memory": "16 MiB", "block_bytes": "512 B", "journal_bytes": "1 MiB", "segment_bytes": "1 MiB"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_an_answer_has_all_that_was_acknowledged_before(serve, settings):
    server = serve(**settings)
    answers = 0
    until = time.monotonic() + SECONDS
    with Load(server, [0] * WRITERS) as load:
        while time.monotonic() < until:
            for writer in load.writers:
                acknowledged = writer.rows
                rows = survivors(server, writer.number)
                assert len(rows) >= acknowledged
                # A request that is just being taken may be there in part.
                assert (rows[:acknowledged] == numpy.arange(acknowledged)).all()
                answers += 1
    assert answers > WRITERS
    status = server.status()["engine"]
    assert status["segment_written"] > 1 << 20, "too little was read from the disk to prove anything"
    assert status["damaged_segments"] == 0
    for writer in load.writers:
        assert (survivors(server, writer.number) == numpy.arange(writer.rows)).all()
