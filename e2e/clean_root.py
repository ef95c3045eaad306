"""Minimal Debian systems in folders, booted with systemd in a container. Needs root."""

import shutil
import subprocess
import time
from pathlib import Path

from program import ROOT

BASE = ROOT / "target/clean-root/bookworm"
PACKAGES = "systemd,systemd-sysv,dbus,adduser,curl"
MIRROR = "http://deb.debian.org/debian"
BOOT_S = 60


def base():
    """Returns the folder of the system that is copied. Makes it at the first call."""
    if not (BASE / "etc/complete").is_file():
        shutil.rmtree(BASE, ignore_errors=True)
        BASE.mkdir(parents=True)
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", BASE, MIRROR]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (BASE / "etc/complete").touch()
    return BASE


def copy(folder):
    """Copies the system into a new folder."""
    subprocess.run(["cp", "-a", "--reflink=auto", base(), folder], check=True)
    return Path(folder)


class System:
    """Container with a network of its own. It is booted, or runs one program as a user."""

    def __init__(self, folder, program=(), user=None, environment=()):
        self.folder = Path(folder)
        self.command = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "-D", folder]
        if program:
            settings = [f"--setenv={name}={value}" for name, value in environment]
            self.command += ["--as-pid2", f"--user={user}", *settings, *program]
        else:
            self.command.append("--boot")
        self.is_booted = not program
        self.process = None
        self.leader = None

    def __enter__(self):
        log = open(f"{self.folder}.log", "wb")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + BOOT_S
        while not self.is_up():
            assert self.process.poll() is None and time.monotonic() < until, self.console()
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None and self.leader:
            subprocess.run(["kill", "-KILL", self.leader])
        self.process.wait(30)

    def is_up(self):
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.leader = children[0] if children else None
        if not self.leader:
            return False
        if not self.is_booted:
            return True
        return self.run("systemctl is-system-running --wait").stdout.strip() in ("running", "degraded")

    def run(self, script, folder="/root"):
        """Runs a script of bash as root in the container. The caller checks its status."""
        inside = ["nsenter", "--target", self.leader, "--all", "bash", "-euc", f"cd {folder}\n{script}"]
        return subprocess.run(inside, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)

    def check(self, script, folder="/root"):
        """Runs a script that must succeed. Returns its output."""
        done = self.run(script, folder)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def console(self):
        return Path(f"{self.folder}.log").read_text(errors="replace")[-4000:]
