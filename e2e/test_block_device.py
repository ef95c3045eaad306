"""Arrays behind the network block device: clients of other projects, failed members, kills of the server."""

import json
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from nbd import BLOCK, READ, WRITE, Client, Rejected
from program import PROGRAM, SLOW
from volume import STRATEGIES, Disk, Volume, differences, do, make_tree, need, random_file

MIB = 1 << 20


@pytest.fixture
def volumes(tmp_path):
    """Creates volumes. Servers that still run at the end are killed."""
    made = []

    def make(**settings):
        volume = Volume(tmp_path / f"v{len(made)}", **settings)
        made.append(volume)
        volume.start()
        return volume

    yield make
    for volume in made:
        volume.kill()


def test_clients_receive_the_properties_of_the_export(volumes):
    need("nbdinfo", "qemu-img")
    volume = volumes()
    reported = json.loads(do("nbdinfo", "--json", volume.uri))
    export = reported["exports"][0]
    size = export["export-size"]
    assert reported["structured"] and export["export-name"] == "array"
    # Four members of data, without the superblock and the records.
    assert 24 * MIB < size < 32 * MIB and size % (64 << 10) == 0
    for ability in ["can_flush", "can_fua", "can_trim", "can_zero", "can_multi_conn"]:
        assert export[ability], ability
    assert not export["is_read_only"]
    assert export["block_size_minimum"] == 1 and export["block_size_preferred"] == 64 << 10
    assert json.loads(do("qemu-img", "info", "--output", "json", volume.uri))["virtual-size"] == size
    assert int(do("nbdinfo", "--size", f"nbd+unix:///?socket={volume.socket}")) == size
    rejected = subprocess.run(
        ["nbdinfo", f"nbd+unix:///tape?socket={volume.socket}"], capture_output=True, text=True, timeout=30
    )
    assert rejected.returncode != 0
    volume.stop()


def test_images_are_read_back_from_whole_and_degraded_arrays(volumes, tmp_path, dice):
    need("nbdcopy", "qemu-img")
    volume = volumes()
    size = int(do("nbdinfo", "--size", volume.uri))
    image = random_file(tmp_path / "image", size, dice)
    do("nbdcopy", "--flush", image, volume.uri)
    for lost in range(3):
        if lost:
            volume.fail(lost)
        back = tmp_path / f"back-{lost}"
        do("nbdcopy", volume.uri, back)
        do("cmp", image, back)
        do("qemu-img", "compare", "-f", "raw", "-F", "raw", image, volume.uri)
    # Two members are missing. The client also writes zeroes and holes.
    sparse = tmp_path / "sparse"
    with open(sparse, "wb") as file:
        file.write(dice.randbytes(MIB + 512))
        file.seek(size - 700)
        file.write(dice.randbytes(700))
    packed = tmp_path / "sparse.qcow2"
    do("qemu-img", "convert", "-f", "raw", "-O", "qcow2", sparse, packed)
    do("qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", packed, volume.uri)
    do("qemu-img", "compare", "-f", "raw", "-F", "raw", sparse, volume.uri)
    volume.stop()
    volume.start()
    do("qemu-img", "compare", "-f", "raw", "-F", "raw", sparse, volume.uri)


def fio(volume, part, *more):
    """Returns concurrent jobs with checksums in a part of 6 MiB: random, sequential, and random of any size."""
    jobs = volume.folder / "jobs.fio"
    jobs.write_text(
        f"""[global]
ioengine=nbd
uri={volume.uri}
verify=crc32c
verify_fatal=1
verify_state_save=0
allrandrepeat=1
randseed={part}
size=2m
[random]
rw=randwrite
bs=4k
iodepth=32
offset={6 * part}m
[sequential]
rw=write
bs=4k
iodepth=32
offset={6 * part + 2}m
[any size]
rw=randwrite
bsrange=512-64k
blockalign=512
iodepth=16
offset={6 * part + 4}m
"""
    )
    return subprocess.run(["fio", jobs, *more], cwd=volume.folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("merging", STRATEGIES)
def test_fio_verifies_every_strategy_whole_and_degraded(volumes, merging):
    need("fio", "qemu-io")
    volume = volumes(merging=merging)
    for lost in range(3):
        if lost:
            volume.fail(lost)
        for part in range(lost):
            kept = fio(volume, part, "--verify_only")
            assert kept.returncode == 0, f"{lost} lost, part {part}: {kept.stdout}{kept.stderr}"
        done = fio(volume, lost)
        assert done.returncode == 0, f"{lost} lost: {done.stdout}{done.stderr}"
    # fio detects data that differ from the written data.
    do("qemu-io", "-f", "raw", "-c", "write -P 9 8192 512", volume.uri)
    assert fio(volume, 0, "--verify_only").returncode != 0
    volume.stop()


def test_flushed_data_survive_a_killed_server(volumes, tmp_path, dice):
    need("nbdcopy", "fio")
    volume = volumes()
    size = int(do("nbdinfo", "--size", volume.uri))
    image = random_file(tmp_path / "image", size, dice)
    do("nbdcopy", "--flush", image, volume.uri)
    # The server is killed while the first half is written again.
    writer = subprocess.Popen(
        ["fio", "--name=x", "--ioengine=nbd", f"--uri={volume.uri}", "--rw=randwrite", "--bs=4k", "--iodepth=32"]
        + [f"--size={size // 2}", "--time_based", "--runtime=60"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(1)
    volume.kill()
    writer.wait(60)
    volume.start()
    back = tmp_path / "back"
    do("nbdcopy", volume.uri, back)
    with open(image, "rb") as wanted, open(back, "rb") as found:
        wanted.seek(size // 2)
        found.seek(size // 2)
        assert wanted.read() == found.read()
    # After the kill, syndromes match again: without two members, the contents are the same as with them.
    for member in (0, 5):
        volume.fail(member)
    degraded = tmp_path / "degraded"
    do("nbdcopy", volume.uri, degraded)
    do("cmp", back, degraded)


def content(tag):
    """Returns a block that contains the number of its write."""
    return tag.to_bytes(8, "little") * (BLOCK // 8)


class Writer:
    """Writes random blocks, several at a time, until the server ends. Records the possible contents of each block."""

    def __init__(self, volume, blocks):
        self.possible = [[0] for _ in range(blocks)]
        self.tag = 0
        self.acknowledged = 0
        self.client = Client(volume.socket)
        self.dice = random.Random(7)

    def fill(self):
        """Writes all blocks and flushes."""
        for block in range(len(self.possible)):
            self.tag += 1
            self.client.ask(WRITE, block * BLOCK, BLOCK, content(self.tag))
            self.possible[block] = [self.tag]
        self.client.flush()

    def run(self):
        try:
            while True:
                self.batch()
        except (ConnectionError, TimeoutError):
            return

    def batch(self):
        chosen = self.dice.sample(range(len(self.possible)), 16)
        sent = {}
        for block in chosen:
            self.tag += 1
            # Recorded before the request is sent, because the progress of a killed server is unknown.
            self.possible[block].append(self.tag)
            sent[self.client.send(WRITE, block * BLOCK, BLOCK, content(self.tag))] = block
        for _ in chosen:
            number, error = self.client.reply()
            assert error == 0
            self.possible[sent[number]] = self.possible[sent[number]][-1:]
            self.acknowledged += 1
        if self.dice.random() < 0.1:
            self.client.flush()


def read_all(volume, possible):
    """Reads each block. It must be correct or rejected. Returns the rejected blocks."""
    rejected = []
    with Client(volume.socket) as client:
        for block, tags in enumerate(possible):
            try:
                found = client.ask(READ, block * BLOCK, BLOCK)
            except Rejected:
                rejected.append(block)
                continue
            tag = int.from_bytes(found[:8], "little")
            assert tag in tags and found == content(tag), f"block {block} holds {tag}, not one of {tags}"
            # Its contents must not change any more.
            possible[block] = [tag]
    return rejected


@pytest.mark.parametrize("lost", [1, 2])
def test_a_killed_degraded_server_returns_no_wrong_data_and_reports_doubtful_blocks(volumes, lost):
    volume = volumes(member="3MiB")
    with Client(volume.socket) as client:
        size = client.size
    writer = Writer(volume, size // BLOCK)
    writer.fill()
    for member in range(lost):
        volume.fail(member)
    thread = threading.Thread(target=writer.run)
    thread.start()
    time.sleep(1)
    volume.kill()
    thread.join()
    assert writer.acknowledged > 16
    for _ in range(2):
        volume.start()
        wait_for_tasks(volume)
        rejected = read_all(volume, writer.possible)
        reported = json.loads(do(PROGRAM, "raid", "status", "--json", volume.control))
        stripe = reported["stripe_bytes"] // BLOCK
        # Only stripes that were being written are uncertain. Other blocks are not rejected.
        assert reported["condition"] == "degraded"
        assert len({block // stripe for block in rejected}) <= reported["doubtful_stripes"]
        if lost == 1:
            # The second syndrome shows which rows match. At most the stripe of the current write does not match.
            assert reported["doubtful_stripes"] <= 1
        else:
            assert rejected and len(rejected) < len(writer.possible), "no write or every write was in progress"
            assert "lost data" in do(PROGRAM, "raid", "status", volume.control)
        volume.kill()
    # After all blocks are written, no stripe is uncertain.
    volume.start()
    wait_for_tasks(volume)
    with Client(volume.socket) as client:
        data = b"".join(content(1) for _ in range(size // BLOCK))
        for start in range(0, size, 1 << 20):
            piece = data[start : start + (1 << 20)]
            client.ask(WRITE, start, len(piece), piece)
        client.flush()
    assert read_all(volume, [[1]] * (size // BLOCK)) == []
    assert json.loads(do(PROGRAM, "raid", "status", "--json", volume.control))["doubtful_stripes"] == 0
    volume.stop()


def wait_for_tasks(volume):
    """Waits until all possible repairs are done."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        reported = json.loads(do(PROGRAM, "raid", "status", "--json", volume.control))
        if all(task["over"] for task in reported["tasks"]):
            return
        time.sleep(0.05)
    raise AssertionError(reported["tasks"])


@pytest.fixture
def disks(tmp_path):
    """Creates block devices of volumes, and removes them."""
    made = []

    def make(volume):
        if os.geteuid() != 0:
            pytest.skip("mounting needs root")
        disk = Disk(volume, tmp_path)
        made.append(disk)
        disk.attach()
        return disk

    yield make
    for disk in made:
        disk.detach()


CHECKS = {"ext4": ["e2fsck", "-f", "-n"], "xfs": ["xfs_repair", "-n"]}
# XFS requires 300 MiB.
MEMBERS = {"ext4": "32MiB", "xfs": "80MiB"}

# Copies a file repeatedly under new names. Prints the number of each copy that is on the disk.
WRITER = """
import os, sys
source = open(sys.argv[1], "rb").read()
number = 0
while True:
    with open(f"{sys.argv[2]}/w{number}", "wb") as file:
        file.write(source)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(sys.argv[2], os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)
    print(number, flush=True)
    number += 1
"""


@pytest.mark.skipif(not SLOW, reason="file systems on loop devices: SEINER_SLOW=1, as root")
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_a_file_system_survives_a_killed_server_and_lost_members(volumes, disks, tmp_path, dice, kind):
    need("nbdfuse", "losetup", f"mkfs.{kind}", CHECKS[kind][0])
    volume = volumes(member=MEMBERS[kind])
    disk = disks(volume)
    do(f"mkfs.{kind}", "-q", disk.loop)
    disk.mount(kind)
    contents = make_tree(disk.place, dice)
    os.sync()
    # The server is killed while files are written. Synced files must exist afterwards.
    source = random_file(tmp_path / "source", 30_000, dice)
    numbers = tmp_path / "numbers"
    with open(numbers, "wb") as out:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, source, disk.place], stdout=out, stderr=subprocess.DEVNULL
        )
    time.sleep(2)
    volume.kill()
    wait(writer)
    disk.detach()
    synced = numbers.read_text().split()
    assert synced, "nothing was written before the server was killed"
    contents |= {f"w{number}": source.read_bytes() for number in synced}
    volume.start()
    examine(disk, kind, contents)
    for member in (1, 4):
        volume.fail(member)
        examine(disk, kind, contents)
        disk.attach()
        disk.mount(kind)
        more = make_tree(disk.place / f"without-{member}", dice, 50)
        contents |= {f"without-{member}/{name}": expected for name, expected in more.items()}
        disk.unmount()
        disk.detach()
        examine(disk, kind, contents)
    volume.stop()
    volume.start()
    examine(disk, kind, contents)


def wait(writer):
    """Waits for the writer to end. A writer ends when its writes fail."""
    try:
        writer.wait(30)
    except subprocess.TimeoutExpired:
        writer.kill()
        writer.wait()


def examine(disk, kind, contents):
    """Mounts the file system, which replays its journal, compares the files, and checks the file system."""
    disk.attach()
    disk.mount(kind)
    assert differences(disk.place, contents) == []
    disk.unmount()
    do(*CHECKS[kind], disk.loop)
    disk.detach()
