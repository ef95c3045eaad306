"""`seiner serve --array`: a store on an array of files loses no rows when members fail and the server is killed."""

import json
import re
import time
from pathlib import Path

import numpy
import pytest
import requests
from load import Load, survivors
from program import Server, run

MIB = 1 << 20
WRITERS = 4


class Store(Server):
    """`seiner serve` on a RAID 6 of six files."""

    def __init__(self, folder, **settings):
        self.devices = {number: folder / f"member-{number}" for number in range(6)}
        self.control = folder / "control"
        made = run("raid", "create", "--level", 6, "--size", "24MiB", *self.devices.values())
        assert made.returncode == 0, made.stderr
        super().__init__(folder / "unused", folder / "log", array_control=self.control, **settings)
        self.others = self.arguments

    def start(self):
        # Several arguments, like the result of member-* in a shell.
        self.arguments = ["--array", *map(str, self.devices.values()), *self.others]
        return super().start()

    def order(self, what, *arguments):
        done = run("raid", what, self.control, *arguments)
        assert done.returncode == 0, done.stderr
        return done

    def array(self):
        return json.loads(self.order("status", "--json").stdout)

    def fail(self, member):
        self.order("fail", member)
        del self.devices[member]

    def replace(self, member, device):
        device.write_bytes(bytes(24 * MIB))
        self.order("replace", "--wait", member, device)
        self.devices[member] = device


def load(server, firsts, seconds, then=lambda: None):
    """Loads the server for a while. Returns the acknowledged rows of each writer."""
    with Load(server, firsts) as load:
        time.sleep(seconds)
        then()
    return [writer.rows for writer in load.writers]


def check(server, acknowledged):
    """Asserts that all acknowledged rows exist without a gap. Returns the existing rows."""
    rows = [survivors(server, number) for number in range(WRITERS)]
    for number, found in enumerate(rows):
        assert len(found) >= acknowledged[number], f"writer {number}: {acknowledged[number]} acknowledged, {len(found)} there"
        assert (found == numpy.arange(len(found))).all(), f"writer {number}: rows are missing before the last"
    return [len(found) for found in rows]


def test_metrics_match_the_documentation_and_show_a_degraded_array(tmp_path):
    page = (Path(__file__).parent.parent / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"^\| `((?:seiner|process)_\w+)` \|", page, re.MULTILINE))
    with Store(tmp_path, durability="100ms") as server:
        text = requests.get(server.url + "/metrics", timeout=60).text
        there = {name + "_total" * (kind == "counter") for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)}
        assert there == documented, there ^ documented
        assert text.count("# EOF") == 1 and text.endswith("# EOF\n")
        assert "\nseiner_array_degraded 0.0\n" in text
        server.fail(1)
        assert "\nseiner_array_degraded 1.0\n" in requests.get(server.url + "/metrics", timeout=60).text


@pytest.mark.parametrize("durability", ["sync", "100ms"])
def test_no_data_are_lost_with_two_members_under_load(tmp_path, durability):
    with Store(tmp_path, durability=durability) as server:
        rows = load(server, [0] * WRITERS, 0.5)
        status = server.status()
        assert status["array"]["condition"] == "whole" and status["data_directory"].startswith("array ")
        assert 0.8 * 96 * MIB < status["engine"]["disk_budget_bytes"] < 96 * MIB

        with Load(server, rows) as writing:
            for member in [1, 4]:
                time.sleep(0.3)
                server.fail(member)
            time.sleep(0.5)
        rows = check(server, [writer.rows for writer in writing.writers])
        assert server.status()["array"]["condition"] == "degraded"
        assert any("are lost or being rebuilt" in warning for warning in server.status()["warnings"])
        server.flush()
        server.stop()

        server.start()
        rows = check(server, rows)
        for number, member in enumerate([1, 4]):
            server.replace(member, tmp_path / f"new-{number}")
        assert server.array()["condition"] == "whole"
        server.order("scrub", "--wait")
        # The filled member must be correct now.
        server.fail(0)
        server.fail(2)
        rows = load(server, check(server, rows), 0.3)
        check(server, rows)
        server.stop()
    assert not (tmp_path / "unused").exists()
    looked = run("raid", "status", *server.devices.values())
    assert looked.returncode == 0 and "stopped" in looked.stdout


def test_killed_again_and_again_with_two_members_lost(tmp_path, dice):
    with Store(tmp_path, durability="sync") as server:
        rows = load(server, [0] * WRITERS, 0.3)
        server.fail(3)
        server.fail(5)
        for kill in range(6):
            rows = load(server, rows, dice.uniform(0.1, 0.8), server.kill)
            server.start()
            assert server.array()["doubtful_stripes"] == 0
            rows = check(server, rows)
        for number, member in enumerate([3, 5]):
            server.replace(member, tmp_path / f"new-{number}")
        rows = load(server, check(server, rows), 0.3, server.kill)
        server.start()
        server.fail(0)
        server.fail(1)
        check(server, rows)
        server.stop()


def test_killed_while_whole_and_while_a_member_is_filled(tmp_path, dice):
    with Store(tmp_path, durability="sync") as server:
        rows = [0] * WRITERS
        for kill in range(3):
            rows = load(server, rows, dice.uniform(0.1, 0.5), server.kill)
            server.start()
            rows = check(server, rows)
        server.fail(2)
        fresh = tmp_path / "fresh"
        fresh.write_bytes(bytes(24 * MIB))
        server.order("replace", 2, fresh)
        server.devices[2] = fresh
        rows = load(server, rows, dice.uniform(0, 0.1), server.kill)
        server.start()
        check(server, rows)
        server.stop()


def test_unusable_arrays_are_rejected_with_a_reason(tmp_path):
    server = Store(tmp_path)

    def rejected(*arguments):
        done = run("serve", "--listen", "127.0.0.1:0", "--array-control", server.control, *arguments)
        assert done.returncode == 2, done.stderr
        return done.stderr

    devices = list(server.devices.values())
    plain = tmp_path / "plain"
    plain.write_bytes(bytes(MIB))
    assert "superblock" in rejected("--array", plain)
    assert "--array-degraded" in rejected("--array", *devices[:5])
    assert "needs 4" in rejected("--array", *devices[:3])
    assert "empty" in rejected("--array", "a,,b")
    server.start()
    in_use = run("serve", "--listen", "127.0.0.1:0", "--array-control", tmp_path / "other", "--array", *devices)
    assert in_use.returncode == 1 and "is in use" in in_use.stderr
    server.order("stop")
    assert server.process.wait(30) == 0 and not server.control.exists()


def test_a_volume_with_other_contents_is_rejected_until_it_is_cleared(tmp_path):
    server = Store(tmp_path)
    # The data of the first stripe begin at 1 MiB.
    with open(server.devices[0], "r+b") as member:
        member.seek(MIB)
        member.write(b"something that somebody wants to keep")
    devices = list(server.devices.values())
    done = run("serve", "--listen", "127.0.0.1:0", "--array-control", server.control, "--array", *devices)
    assert done.returncode == 2 and "seiner raid clear --yes" in done.stderr
    assert run("raid", "clear", *devices).returncode == 2
    cleared = run("raid", "clear", "--yes", *devices)
    assert cleared.returncode == 0, cleared.stderr
    with server:
        check(server, load(server, [0] * WRITERS, 0.2))
        server.stop()
