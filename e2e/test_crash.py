"""Ends of a server under load: comparison of the surviving rows with the acknowledged rows."""

import time

import numpy
import pytest

from load import REMOTE_STEP_NS, ROWS, STEP_NS, Load, RemoteWriter, Writer, survivors
from program import SLOW

WRITERS = 4
KILLS = 25 if SLOW else 5

# Small, so that buffers are sealed, segments change and journals are recycled all the time.
TIGHT = {"memory": "16 MiB", "block_bytes": "512 B", "segment_bytes": "1 MiB", "journal_bytes": "1 MiB"}

# Maximum loss with an interval of 100 ms, including delays on a busy machine.
LOSS_S = 1.0


def run_under_load(server, firsts, seconds, kind=Writer):
    """Loads a server and kills it. Returns the writers and the time of the kill."""
    with Load(server, firsts, kind) as load:
        time.sleep(seconds)
        killed = time.monotonic()
        server.kill()
    for writer in load.writers:
        assert writer.rows > writer.first, "no row was acknowledged, so nothing was tested"
    return load.writers, killed


def whole(rows, why):
    """Asserts that rows form a prefix: all rows from the first to the last."""
    missing = numpy.setdiff1d(numpy.arange(rows[-1] + 1 if len(rows) else 0), rows)
    assert len(missing) == 0, f"{why}: {len(missing)} rows are missing before the last, from {missing[0]} on"


def exercised(server, settings):
    """Asserts that there are segments. Otherwise the kills would prove little."""
    if settings is TIGHT:
        assert server.status()["engine"]["segments"] > 1


@pytest.mark.parametrize(
    ("settings", "kind", "step_ns"),
    # The test encodes remote write too slowly to fill segments, so that their number is not checked.
    [({}, Writer, STEP_NS), (TIGHT, Writer, STEP_NS), ({**TIGHT}, RemoteWriter, REMOTE_STEP_NS)],
    ids=["default", "tight", "remote-write"],
)
def test_sync_loses_nothing_acknowledged(serve, dice, settings, kind, step_ns):
    server = serve(durability="sync", **settings)
    firsts = [0] * WRITERS
    for kill in range(KILLS):
        writers, _ = run_under_load(server, firsts, dice.uniform(0.3, 1.5), kind)
        server.start()
        for writer in writers:
            rows = survivors(server, writer.number, step_ns)
            whole(rows, f"kill {kill}, writer {writer.number}")
            assert len(rows) >= writer.rows, (
                f"kill {kill}, writer {writer.number}: {writer.rows} rows were acknowledged, {len(rows)} survived"
            )
            assert len(rows) <= writer.rows + ROWS, "more rows than were ever sent"
        # Rows without an acknowledgement are sent again, as by any client.
        firsts = [writer.rows for writer in writers]
    exercised(server, settings)
    server.stop()


@pytest.mark.parametrize("settings", [{}, TIGHT], ids=["default", "tight"])
def test_interval_loses_the_last_moment_only(serve, dice, settings):
    server = serve(durability="100ms", **settings)
    firsts = [0] * WRITERS
    for kill in range(KILLS):
        writers, killed = run_under_load(server, firsts, dice.uniform(LOSS_S + 0.2, LOSS_S + 1.5))
        server.start()
        firsts = []
        for writer in writers:
            rows = survivors(server, writer.number)
            whole(rows, f"kill {kill}, writer {writer.number}")
            promised = writer.rows_until(killed - LOSS_S)
            assert len(rows) >= promised, (
                f"kill {kill}, writer {writer.number}: {promised} rows were acknowledged a second before, "
                f"{len(rows)} survived"
            )
            assert len(rows) <= writer.rows + ROWS, "more rows than were ever sent"
            # The client continues after the last row on the server.
            firsts.append(len(rows))
    exercised(server, settings)
    server.stop()


def test_the_harness_detects_a_loss(serve):
    """Canary: a server without durability loses rows, and this test must detect the loss."""
    server = serve(durability="memory")
    writers, _ = run_under_load(server, [0] * WRITERS, 0.5)
    server.start()
    assert sum(len(survivors(server, writer.number)) for writer in writers) < sum(writer.rows for writer in writers)


def test_flushed_rows_survive_with_durability_memory(serve):
    server = serve(durability="memory")
    with Load(server, [0] * WRITERS) as load:
        time.sleep(0.5)
    server.flush()
    acknowledged = [writer.rows for writer in load.writers]
    writers, _ = run_under_load(server, acknowledged, 0.5)
    server.start()
    for writer in writers:
        rows = survivors(server, writer.number)
        assert len(rows) >= acknowledged[writer.number]
        assert (rows[: acknowledged[writer.number]] == numpy.arange(acknowledged[writer.number])).all()


@pytest.mark.parametrize("durability", ["sync", "100ms", "memory"])
def test_sigterm_loses_nothing_acknowledged(serve, dice, durability):
    server = serve(durability=durability, **TIGHT)
    firsts = [0] * WRITERS
    for stop in range(2):
        with Load(server, firsts) as load:
            time.sleep(dice.uniform(0.3, 1.0))
            server.stop()
        server.start()
        for writer in load.writers:
            assert writer.rows > writer.first
            rows = survivors(server, writer.number)
            whole(rows, f"stop {stop}, writer {writer.number}")
            assert writer.rows <= len(rows) <= writer.rows + ROWS
        firsts = [writer.rows for writer in load.writers]


def test_kills_during_starts_lose_no_rows(serve):
    """Kills during starts must not lose rows."""
    server = serve(durability="sync", **TIGHT)
    writers, _ = run_under_load(server, [0] * WRITERS, 1.0)
    for pause in (0.0, 0.005, 0.01, 0.02, 0.04):
        server.start_without_waiting()
        time.sleep(pause)
        server.kill()
    server.start()
    for writer in writers:
        rows = survivors(server, writer.number)
        whole(rows, f"writer {writer.number}")
        assert len(rows) >= writer.rows
