"""Backups of a store under load, and restores."""

import json
import os
import time

import pytest

from load import STEP_NS, Load, survivors
from program import run
from test_crash import TIGHT, whole

WRITERS = 4


def backup(folder, data, *flags, status=0):
    done = run("backup", folder, "--data", data, "--json", *flags)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


# With a low rate, the server reuses its journal files and removes segments while they are copied.
@pytest.mark.parametrize(
    ("settings", "flags"), [({}, ()), (TIGHT, ("--rate", "2MiB"))], ids=["default", "tight"]
)
def test_a_restored_backup_has_all_rows_acknowledged_before(serve, tmp_path, settings, flags):
    server = serve(durability="sync", **settings)
    folder, restored = tmp_path / "backups", tmp_path / "restored"
    with Load(server, [0] * WRITERS) as load:
        for _ in range(3):
            time.sleep(1)
            before = [writer.rows for writer in load.writers]
            made = backup(folder, server.data, *flags)
            assert made["sound"], made
        server.kill()
    assert all(rows > 0 for rows in before), "no row was acknowledged, so nothing was tested"
    done = run("restore", folder, "--data", restored)
    assert done.returncode == 0, done.stderr
    reader = serve("restored", durability="sync", **settings)
    for writer, acknowledged in zip(load.writers, before):
        rows = survivors(reader, writer.number, STEP_NS)
        whole(rows, f"writer {writer.number}")
        assert len(rows) >= acknowledged


def test_backups_are_stores_share_segments_and_are_removed_by_count(serve, tmp_path):
    server = serve()
    folder = tmp_path / "backups"
    names = []
    for part in range(4):
        lines = "\n".join(f"m,s={s} v={part * 1000 + row} {part * 1000 + row}" for s in range(20) for row in range(500))
        server.write(lines)
        server.flush()
        made = backup(folder, server.data, "--keep", "2")
        names.append(os.path.basename(made["directory"]))
        assert made["removed"] == names[-3:-2]
        assert made["segments"]["linked"] > 0 or part == 0
        time.sleep(1)
    assert sorted(os.listdir(folder)) == names[-2:]
    for name, rows in zip(names[-2:], (1500, 2000)):
        done = run("check", folder / name)
        assert done.returncode == 0, done.stdout
        done = run("query", 'm{s="7"}', "--from", "1970-01-01", "--format", "csv", "--data", folder / name)
        assert len(done.stdout.splitlines()) == rows + 1, done.stderr


def test_mistakes_are_named(tmp_path):
    (tmp_path / "rows.lp").write_text("m v=1 1700000000000000000\n")
    for name in ("a", "b"):
        assert run("write", "--data", tmp_path / name, tmp_path / "rows.lp").returncode == 0
    cases = [
        (("backup", tmp_path / "out", "--data", tmp_path / "none"), 1, "none"),
        (("backup", tmp_path / "out", "--data", tmp_path / "a", "--keep", "0"), 2, "--keep"),
        (("restore", tmp_path / "out", "--data", tmp_path / "new"), 2, "no complete backup"),
        (("restore", tmp_path / "a", "--data", tmp_path / "b"), 2, "not empty"),
    ]
    for arguments, status, text in cases:
        done = run(*arguments)
        assert done.returncode == status and text in done.stderr, (arguments, done.stderr)
    assert not (tmp_path / "new").exists()
    backup(tmp_path / "out", tmp_path / "a")
    done = run("backup", tmp_path / "out", "--data", tmp_path / "b")
    assert done.returncode == 2 and "another store" in done.stderr
    segment = next((tmp_path / "a").glob("segment-*.log"))
    content = bytearray(segment.read_bytes())
    content[10] ^= 1  # in the only block, not in the trailer
    segment.write_bytes(content)
    time.sleep(1)
    # The backup has the segment already, undamaged: it is the same segment by its trailer.
    made = backup(tmp_path / "out", tmp_path / "a", "--check-all")
    assert made["sound"] and made["segments"]["linked"] == 1
    made = backup(tmp_path / "other", tmp_path / "a", "--keep", "1", status=1)
    assert made["damage"][0]["file"] == segment.name
