"""Damaged directories: a check finds the damage, a start sets it aside, and the server serves the rest."""

import json

import pytest
import requests

from load import Load, survivors
from program import run

ROWS = 5_000


def lines(measurement):
    return "".join(f"{measurement},s={n % 5} v={(n * n) % 1_009 / 8} {n * 1_000}\n" for n in range(ROWS))


@pytest.fixture
def two_segments(serve):
    """Returns a stopped server. The rows of `one` and of `two` are in different segments."""
    server = serve()
    segments = []
    for measurement in ("one", "two"):
        assert server.write(lines(measurement)).status_code == 204
        server.flush()
        (new,) = set(server.data.glob("segment-*.log")) - set(segments)
        segments.append(new)
    server.stop()
    return server, segments


def spoil(path, place, length=64):
    body = bytearray(path.read_bytes())
    start = place if place >= 0 else len(body) + place
    for at in range(start, min(start + length, len(body))):
        body[at] ^= 0x55
    path.write_bytes(body)


def test_a_sound_directory_is_reported_sound(two_segments):
    server, _ = two_segments
    report = run("check", "--json", server.data)
    assert report.returncode == 0, report.stdout + report.stderr
    assert json.loads(report.stdout)
    assert run("inspect", server.data).returncode == 0
    for part in ("files", "segments", "journal", "catalog", "layouts", "sources"):
        inspected = run("inspect", "--json", server.data, part)
        assert inspected.returncode == 0, inspected.stderr
        assert isinstance(json.loads(inspected.stdout), list)


def test_a_directory_after_a_kill_is_sound(serve):
    server = serve(durability="sync")
    with Load(server, [0, 0]):
        server.write("a v=1 1")
        server.kill()
    report = run("check", server.data)
    assert report.returncode == 0, report.stdout + report.stderr


@pytest.mark.parametrize("place", [5_000, -300], ids=["block", "footer"])
def test_damage_is_found_and_the_rest_serves(two_segments, place):
    server, (one, _) = two_segments
    spoil(one, place)
    report = run("check", server.data)
    assert report.returncode == 1
    assert one.name in report.stdout
    server.start()
    series = server.query("two")
    assert sum(len(answer["values"]) for answer in series.values()) == ROWS
    # Missing rows must be reported, by a warning or as a damaged segment.
    answer = server.ask("query", select="one", from_=0).json()
    whole = sum(len(series["values"]) for series in answer["series"]) == ROWS
    reported = any(one.name.split(".")[0] in warning for warning in answer.get("warnings", []))
    assert whole or reported or server.status()["engine"]["damaged_segments"] == 1
    assert server.write("two,s=0 v=1 99000000000").status_code == 204
    kept = {path.name.split(".")[0] for path in server.data.iterdir()}
    assert one.name.split(".")[0] in kept, "a damaged segment is kept"


def test_a_missing_segment_is_named_until_it_is_acknowledged(two_segments):
    server, (one, _) = two_segments
    one.unlink()
    report = run("check", server.data)
    assert report.returncode == 1 and one.name in report.stdout
    server.start()
    (loss,) = server.status()["losses"]
    assert (loss["file"], loss["rows"], loss["at_most"]) == (one.name, ROWS, False)
    assert any(one.name in warning for warning in server.status()["warnings"])
    health = requests.get(server.url + "/health", timeout=60)
    assert (health.status_code, health.json()["status"]) == (200, "warn")
    answer = server.ask("query", select="two", from_=0)
    assert answer.headers["seiner-losses"] == "1" and one.name in answer.json()["warnings"][0]
    assert f"seiner_lost_rows {ROWS}" in requests.get(server.url + "/metrics", timeout=60).text
    done = run("acknowledge", "--server", server.url)
    assert done.returncode == 0 and one.name in done.stdout, done.stdout + done.stderr
    assert server.status()["losses"] == []
    assert requests.get(server.url + "/health", timeout=60).json()["status"] == "pass"
    answer = server.ask("query", select="two", from_=0)
    assert "seiner-losses" not in answer.headers
    server.stop()
    assert run("check", server.data).returncode == 0


def test_a_torn_end_of_the_journal_costs_only_the_end(serve):
    server = serve(durability="sync")
    with Load(server, [0]) as load:
        while load.writers[0].rows < 3_000:
            pass
    server.kill()
    journal = max(server.data.glob("journal-*"))
    body = journal.read_bytes().rstrip(b"\0")
    journal.write_bytes(body[:-5])
    server.start()
    rows = survivors(server, 0)
    assert 0 < len(rows) < load.writers[0].rows
    assert rows[-1] == len(rows) - 1
    assert server.write("after v=1 1").status_code == 204
