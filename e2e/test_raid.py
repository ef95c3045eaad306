"""`seiner raid` on arrays of files: served, killed, degraded and rejected. Clients are qemu and libnbd if installed."""

import json
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request

import pytest
from nbd import READ, TRIM, WRITE, Client
from program import PROGRAM, environment, run

MIB = 1 << 20
# Contents by which the blocks of a volume are compared.
needs_qemu = pytest.mark.skipif(shutil.which("qemu-io") is None, reason="qemu-io is missing: apt-get install qemu-utils")


class Serving:
    """`seiner raid serve` on a Unix socket."""

    def __init__(self, tmp_path, devices, *flags):
        self.control = tmp_path / "control"
        self.socket = tmp_path / "nbd"
        self.log = open(tmp_path / "serve.log", "ab")
        arguments = ["raid", "serve", "--nbd", self.socket, "--control", self.control, *flags, *devices]
        self.process = subprocess.Popen([PROGRAM, *map(str, arguments)], stderr=self.log, env=environment())
        deadline = time.monotonic() + 30
        while run("raid", "status", self.control).returncode != 0 or not self.socket.exists():
            reported = (tmp_path / "serve.log").read_text()
            assert self.process.poll() is None and time.monotonic() < deadline, reported
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def order(self, what, *arguments):
        done = run("raid", what, self.control, *arguments)
        assert done.returncode == 0, done.stderr
        return done

    def status(self):
        return json.loads(self.order("status", "--json").stdout)

    def stop(self):
        self.order("stop")
        assert self.process.wait(30) == 0

    def fill(self, pattern, start, length):
        self.qemu(f"write -P {pattern} {start} {length}")

    def holds(self, pattern, start, length):
        self.qemu(f"read -P {pattern} {start} {length}")

    def qemu(self, command):
        uri = f"nbd+unix:///array?socket={self.socket}"
        done = subprocess.run(
            ["qemu-io", "-f", "raw", "-c", command, "-c", "flush", uri], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0 and "failed" not in done.stdout, done.stdout + done.stderr


def create(tmp_path, level=6, count=6, *flags, size="16MiB"):
    devices = [tmp_path / f"disk{number}" for number in range(count)]
    done = run("raid", "create", "--level", level, "--size", size, *flags, *devices)
    assert done.returncode == 0, done.stderr
    assert "for data" in done.stdout
    return devices


@needs_qemu
def test_an_array_is_served_loses_two_members_and_gets_new_ones(tmp_path):
    devices = create(tmp_path)
    with Serving(tmp_path, devices) as serving:
        serving.fill(1, 0, 30 * MIB)
        assert serving.status()["condition"] == "whole"
        serving.order("fail", 1)
        serving.order("fail", 4)
        needed = run("raid", "fail", serving.control, 0)
        assert needed.returncode == 1 and "data would be lost" in needed.stderr
        serving.fill(2, 10 * MIB, 10 * MIB)
        serving.holds(1, 0, 10 * MIB)
        serving.holds(2, 10 * MIB, 10 * MIB)
        serving.holds(1, 20 * MIB, 10 * MIB)
        used = run("raid", "replace", serving.control, 1, devices[0])
        assert used.returncode == 1 and "is in use" in used.stderr
        again = run("raid", "replace", serving.control, 1, devices[1])
        assert again.returncode == 1 and "member of an array of ours" in again.stderr
        fresh = tmp_path / "fresh"
        fresh.write_bytes(bytes(16 * MIB))
        serving.order("replace", 4, fresh, "--wait")
        serving.order("replace", 1, devices[1], "--overwrite", "--yes", "--wait")
        assert serving.status()["condition"] == "whole"
        serving.order("scrub", "--wait")
        reported = serving.order("status").stdout
        assert "state    whole" in reported and "scrub: 100.0 %" in reported, reported
        serving.stop()
    old = [*devices[:4], devices[4], devices[5]]
    rejected = run("raid", "assemble", *old)
    assert rejected.returncode == 2 and "missed what the others" in rejected.stderr, rejected.stderr
    devices[4] = fresh
    with Serving(tmp_path, reversed(devices)) as serving:
        serving.holds(2, 10 * MIB, 10 * MIB)
        assert serving.status()["tasks"] == []


@needs_qemu
def test_an_array_is_resynced_after_its_server_is_killed(tmp_path, dice):
    devices = create(tmp_path, 5, 4)
    for round in range(1, 4):
        with Serving(tmp_path, devices) as serving:
            serving.fill(round, 0, 4 * MIB)
            uri = f"nbd+unix:///array?socket={serving.socket}"
            writer = subprocess.Popen(
                ["qemu-io", "-f", "raw", *["-c", f"aio_write -P {round} 4M 12M", "-c", "aio_flush"] * 50, uri],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(dice.uniform(0.05, 0.5))
            serving.kill()
            writer.kill()
            writer.wait()
        reported = run("raid", "status", *devices)
        assert "running, or not stopped" in reported.stdout, reported.stdout
        with Serving(tmp_path, devices) as serving:
            serving.holds(round, 0, 4 * MIB)
            serving.order("scrub", "--wait")
            status = serving.status()
            assert any(task["task"] == "resync" for task in status["tasks"]), status
            assert status["counters"]["repaired_blocks"] == 0
            serving.stop()


@needs_qemu
def test_a_signal_stops_the_server_and_a_spare_stays_recorded(tmp_path):
    devices = create(tmp_path, 1, 2)
    spare = tmp_path / "spare"
    spare.write_bytes(bytes(17 * MIB))
    with Serving(tmp_path, devices) as serving:
        serving.fill(7, 0, MIB)
        serving.order("spare", spare)
        serving.process.send_signal(signal.SIGTERM)
        assert serving.process.wait(30) == 0
    assert "a spare" in run("raid", "status", spare).stdout
    missing = run("raid", "assemble", devices[1], spare)
    assert missing.returncode == 2 and "--degraded" in missing.stderr
    done = run("raid", "assemble", "--degraded", devices[1], spare)
    assert done.returncode == 0 and "state    whole" in done.stdout, done.stderr
    with Serving(tmp_path, [spare, devices[1]]) as serving:
        serving.holds(7, 0, MIB)


def test_invalid_arrays_are_rejected_and_files_stay_unchanged(tmp_path):
    names = [tmp_path / f"new{number}" for number in range(4)]
    for flags, reason in (
        (["--level", 6, "--strip", "12KiB", "--size", "8MiB"], "power of two"),
        (["--level", 6, "--size", "1MiB"], "choose larger members"),
        (["--level", 6], "give --size"),
        (["--level", 4, "--size", "8MiB"], "possible values: 0, 1, 5, 6"),
    ):
        rejected = run("raid", "create", *flags, *names)
        assert rejected.returncode == 2 and reason in rejected.stderr, rejected.stderr
        assert not any(name.exists() for name in names), flags
    few = run("raid", "create", "--level", 5, "--size", "8MiB", *names[:2])
    assert few.returncode == 2 and "3 to 255 members" in few.stderr

    names[0].write_bytes(bytes(8 * MIB))
    for name in names[1:]:
        name.write_bytes(bytes(9 * MIB))
    different = run("raid", "create", "--level", 6, *names)
    assert different.returncode == 2 and "--smallest" in different.stderr
    subprocess.run(["mke2fs", "-q", "-F", names[2]], check=True)
    before = names[2].read_bytes()
    for flags in ([], ["--overwrite"]):
        held = run("raid", "create", "--level", 6, "--smallest", *flags, *names)
        assert held.returncode == 2 and "ext2, ext3 or ext4" in held.stderr, held.stderr
    assert names[2].read_bytes() == before
    assert names[1].read_bytes() == bytes(9 * MIB)
    done = run("raid", "create", "--level", 6, "--smallest", "--overwrite", "--yes", *names)
    assert done.returncode == 0, done.stderr

    other = create(tmp_path, 5, 3)
    mixed = run("raid", "assemble", *names, other[0])
    assert mixed.returncode == 2 and "belongs to array" in mixed.stderr
    nothing = tmp_path / "nothing"
    nothing.write_bytes(bytes(8 * MIB))
    unknown = run("raid", "assemble", *names, nothing)
    assert unknown.returncode == 2 and "has no superblock" in unknown.stderr
    few = run("raid", "assemble", "--degraded", names[0])
    assert few.returncode == 2 and "needs 2" in few.stderr
    reported = run("raid", "status", nothing)
    assert reported.returncode == 1 and "has no superblock" in reported.stdout


def test_two_processes_do_not_share_an_array_nor_a_control_socket(tmp_path):
    devices = create(tmp_path, 5, 3)
    with Serving(tmp_path, devices):
        second = run("raid", "serve", "--control", tmp_path / "other", *devices)
        assert second.returncode == 1 and "is in use" in second.stderr, second.stderr
        same = run("raid", "serve", "--control", tmp_path / "control", *devices)
        assert same.returncode == 1 and "another process listens" in same.stderr
        assert run("raid", "status", *devices).returncode == 0, "the status of a used array can be read"
    nobody = run("raid", "fail", tmp_path / "control", 0)
    assert nobody.returncode == 1 and "was not reached" in nobody.stderr


def test_a_corrupt_member_is_repaired_and_named(tmp_path):
    devices = create(tmp_path, 5, 3, "--checksums", size="8MiB")
    with Serving(tmp_path, devices) as serving, Client(serving.socket) as client:
        data = bytes(range(256)) * (MIB // 256)
        client.ask(WRITE, 0, MIB, data)
        client.flush()
        serving.stop()
    # After the superblock and the records, one bit is flipped.
    with open(devices[1], "r+b") as file:
        file.seek(MIB + 12345)
        byte = file.read(1)[0]
        file.seek(MIB + 12345)
        file.write(bytes([byte ^ 4]))
    with Serving(tmp_path, devices) as serving, Client(serving.socket) as client:
        serving.order("scrub", "--wait")
        reported = serving.status()
        assert [member["corrupt_blocks"] for member in reported["members"]] == [0, 1, 0]
        assert reported["counters"]["repaired_blocks"] == 1
        assert "1 blocks did not match their checksums" in serving.order("status").stdout
        assert client.ask(READ, 0, MIB) == data
        serving.stop()
    plain = run("raid", "create", "--level", 0, "--size", "8MiB", "--checksums", tmp_path / "x", tmp_path / "y")
    assert plain.returncode == 2 and "no redundancy to repair" in plain.stderr and not (tmp_path / "x").exists()


def test_trimmed_stripes_free_their_space(tmp_path):
    devices = create(tmp_path, 6, 5)
    allocated = lambda: sum(device.stat().st_blocks * 512 for device in devices)
    with Serving(tmp_path, devices) as serving, Client(serving.socket) as client:
        assert client.flags & 1 << 5, "the export does not offer trim"
        stripe = serving.status()["stripe_bytes"]
        client.ask(WRITE, 0, 8 * MIB, bytes([7]) * 8 * MIB)
        before = allocated()
        client.ask(TRIM, 100, 8 * MIB)
        serving.order("scrub", "--wait")
        after, reported = allocated(), serving.status()
        assert reported["counters"]["trimmed_bytes"] == 8 * MIB // stripe * stripe - stripe
        assert before - after > 12 * MIB, (before, after)
        assert client.ask(READ, 0, stripe) == bytes([7]) * stripe, "a part of a stripe stays"
        assert client.ask(READ, stripe, MIB) == bytes(MIB)
        assert reported["counters"]["repaired_blocks"] == 0
        serving.stop()


def test_the_page_shows_where_writes_are_held_and_prometheus_has_figures(tmp_path):
    devices = create(tmp_path)
    outside = run("raid", "serve", "--control", tmp_path / "control", "--http", "0.0.0.0:0", *devices)
    assert outside.returncode == 1 and "can be reached from other hosts" in outside.stderr
    with Serving(tmp_path, devices, "--http", "127.0.0.1:0") as serving, Client(serving.socket) as client:
        address = re.search(r"http://[0-9.:]+/", (tmp_path / "serve.log").read_text()).group()
        for block in range(200):
            client.ask(WRITE, block * 4096, 4096, bytes(4096))
        page = urllib.request.urlopen(address).read().decode()
        assert "<title>Array</title>" in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
        reported = json.loads(urllib.request.urlopen(address + "status").read())
        assert reported["counters"]["user_writes"] == 200 and reported["latencies"]["writes"]["count"] == 200
        assert reported["areas"] and reported["areas"][0]["why"] and reported["merging_why"][0]
        figures = urllib.request.urlopen(address + "metrics").read().decode()
        for line in [
            "seiner_array_writes_total 200",
            "seiner_array_members_up 6.0",
            "seiner_array_write_seconds_count 200",
            'seiner_array_member_filled_ratio{member="5"} 1.0',
        ]:
            assert line in figures.splitlines(), figures
        text = serving.order("status").stdout
        assert "area     from" in text and "member operations each" in text
        serving.stop()


def test_small_writes_are_measured_modelled_in_memory_and_on_files(tmp_path):
    quick = ["--depth", "1,8", "--time-ms", 30]
    done = run("raid", "bench", "--csv", "--picture", tmp_path / "p.html", *quick)
    assert done.returncode == 0, done.stderr
    lines = [line.split(",") for line in done.stdout.splitlines()]
    assert len(lines) == 1 + 2 * 2 * 6 and lines[0][:4] == ["pattern", "block_bytes", "depth", "merging"]
    alone = dict(zip(lines[0], lines[1]))
    assert float(alone["member_operations_per_write"]) == 6.0, "a lone block on RAID 6"
    assert "<svg" in (tmp_path / "p.html").read_text()
    assert done.stderr == "", "a progress bar without a terminal"
    again = run("raid", "bench", "--csv", *quick)
    assert again.stdout == done.stdout, "modelled figures differ between runs"
    memory = run("raid", "bench", "--json", "--memory", "--size", "8MiB", "--merging", "batch,default", *quick)
    assert memory.returncode == 0, memory.stderr
    assert all(line["writes"] > 10 for line in json.loads(memory.stdout)["results"])
    files = [tmp_path / f"m{number}" for number in range(4)]
    files[0].write_bytes(b"something" + bytes(8 * MIB))
    rejected = run("raid", "bench", "--size", "8MiB", *quick, *files)
    assert rejected.returncode == 2 and "holds data" in rejected.stderr
    assert not files[1].exists() and files[0].read_bytes().startswith(b"something")
    once = run("raid", "bench", "--size", "8MiB", "--overwrite", *quick, *files)
    assert once.returncode == 2 and "--yes" in once.stderr
    done = run("raid", "bench", "--overwrite", "--yes", "--size", "8MiB", "--merging", "batch", *quick, *files)
    assert done.returncode == 0, done.stderr
    assert not files[1].exists(), "the benchmark left its files behind"
    assert run("raid", "status", files[0]).returncode == 1, "the file is still a member of an array"


def test_a_closed_output_pipe_is_no_failure(tmp_path):
    devices = [tmp_path / str(number) for number in range(3)]
    run("raid", "create", "--level", "5", "--size", "4MiB", *devices)
    command = [PROGRAM, "raid", "status", *map(str, devices)]
    asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True)
    asked.stdout.close()
    reported = asked.stderr.read()
    assert (asked.wait(30), reported) == (0, "")


def test_a_suspended_server_loses_no_member(tmp_path):
    devices = [tmp_path / str(number) for number in range(4)]
    run("raid", "create", "--level", "5", "--size", "16MiB", *devices)
    with Serving(tmp_path, devices, "--patience", "1", "--io", "threads") as serving:
        stop = threading.Event()

        def load():
            with Client(serving.socket) as client:
                while not stop.is_set():
                    client.ask(WRITE, 0, MIB, bytes([7]) * MIB)

        loading = threading.Thread(target=load)
        loading.start()
        for _ in range(4):
            time.sleep(0.1)
            serving.process.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            serving.process.send_signal(signal.SIGCONT)
        stop.set()
        loading.join(30)
        assert serving.status()["condition"] == "whole"
