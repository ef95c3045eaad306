"""Array of files behind a network block device, with a file system on it."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from program import PROGRAM, START_S, Daemon, environment, run

STRATEGIES = ["never", "batch", "always", "paper", "paper-batch", "default"]


def need(*programs):
    """Skips the test if it cannot run here."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing; scripts/need.sh fio libnbd qemu-img mkfs.ext4 mkfs.xfs")


def do(*arguments, timeout=300):
    """Runs a program, which must succeed. Returns its output."""
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{arguments}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Volume(Daemon):
    """`seiner raid serve` on a RAID 6 of six files."""

    def __init__(self, folder, member="8MiB", merging="default"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        super().__init__(self.folder / "log")
        self.socket = self.folder / "nbd"
        self.control = self.folder / "control"
        self.devices = [self.folder / f"member-{number}" for number in range(6)]
        self.merging = merging
        self.lost = set()
        made = run("raid", "create", "--level", 6, "--strip", "16KiB", "--size", member, *self.devices)
        assert made.returncode == 0, made.stderr

    @property
    def uri(self):
        return f"nbd+unix:///array?socket={self.socket}"

    def start(self, *more):
        with open(self.log, "ab") as out:
            seen = out.tell()
            arguments = ["--nbd", self.socket, "--control", self.control, "--merging", self.merging]
            self.process = subprocess.Popen(
                [PROGRAM, "raid", "serve", *arguments, *more, *self.used()],
                stdout=out,
                stderr=out,
                env=environment(),
            )
        started = time.monotonic()
        while time.monotonic() - started < START_S:
            if b"The control socket is" in self.log.read_bytes()[seen:]:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise AssertionError(f"the array is not served:\n{self.log.read_text()}")

    def used(self):
        return [device for member, device in enumerate(self.devices) if member not in self.lost]

    def fail(self, member):
        self.lost.add(member)
        failed = run("raid", "fail", self.control, member)
        assert failed.returncode == 0, failed.stderr


class Disk:
    """Volume as a block device of the kernel: nbdfuse presents the volume as a file for a loop device."""

    def __init__(self, volume, folder):
        self.volume = volume
        self.fuse = folder / "fuse"
        self.place = folder / "mounted"
        self.client = None
        self.loop = None
        self.mounted = False
        for path in [self.fuse, self.place]:
            path.mkdir(exist_ok=True)

    def attach(self):
        file = self.fuse / "disk"
        self.client = subprocess.Popen(
            ["nbdfuse", file, self.volume.uri], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started = time.monotonic()
        while not file.exists():
            if self.client.poll() is not None or time.monotonic() - started > START_S:
                said = self.client.stdout.read() if self.client.poll() is not None else "nothing"
                self.detach()
                pytest.skip(f"nbdfuse does not work here: {said}")
            time.sleep(0.02)
        made = subprocess.run(["losetup", "--find", "--show", str(file)], capture_output=True, text=True)
        if made.returncode != 0:
            self.detach()
            pytest.skip(f"there are no loop devices here: {made.stderr}")
        self.loop = made.stdout.strip()

    def mount(self, kind):
        do("mount", "-t", kind, self.loop, self.place)
        self.mounted = True

    def unmount(self):
        do("umount", self.place)
        self.mounted = False

    def detach(self):
        """Removes everything, in any state."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", self.place], capture_output=True)
            self.mounted = False
        if self.loop is not None:
            subprocess.run(["losetup", "--detach", self.loop], capture_output=True)
            wait_until(lambda: not is_attached(self.loop))
            self.loop = None
        if self.client is not None:
            subprocess.run(["umount", "--lazy", self.fuse], capture_output=True)
            try:
                self.client.wait(5)
            except subprocess.TimeoutExpired:
                self.client.kill()
                self.client.wait()
            self.client = None


def is_attached(loop):
    return Path(f"/sys/block/{Path(loop).name}/loop/backing_file").exists()


def wait_until(holds, patience=10):
    started = time.monotonic()
    while not holds() and time.monotonic() - started < patience:
        time.sleep(0.02)


def random_file(path, size, dice):
    path.write_bytes(dice.randbytes(size))
    return path


def make_tree(folder, dice, files=200):
    """Creates files of all sizes in folders. Returns their contents."""
    contents = {}
    for number in range(files):
        path = folder / f"d{number % 7}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        contents[path.relative_to(folder)] = dice.randbytes(int(2 ** dice.uniform(0, 17)))
        path.write_bytes(contents[path.relative_to(folder)])
    return contents


def differences(folder, contents):
    """Returns the files with wrong contents."""
    return [name for name, expected in contents.items() if not is_same(folder / name, expected)]


def is_same(path, expected):
    return path.exists() and path.read_bytes() == expected
