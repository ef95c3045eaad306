"""Paths, architectures and tools of a release."""

import gzip
import os
import platform
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "target"
OUTPUT = TARGET / "dist"
# Files between the steps.
WORK = TARGET / "dist-work"
TOOLS = TARGET / "tools"
PYTHON_TOOLS = TOOLS / "dist"

# Oldest version of glibc on which the programs and wheels run: Debian 10, Ubuntu 20.04, RHEL 8. The memory limits of the
# store set parameters of glibc's allocator, so musl is no choice.
GLIBC = "2.28"

# Debian's names of the architectures.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Failure(Exception):
    """Reason for which a step fails, with the remedy."""


def version():
    """Returns the version of the workspace."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    return found.group(1)


def target(arch):
    """Returns Rust's name of a target."""
    return f"{arch}-unknown-linux-gnu"


def run(*command, **options):
    """Runs a command. Its output is shown, unless the options capture it."""
    command = [str(part) for part in command]
    done = subprocess.run(command, cwd=options.pop("cwd", ROOT), text=True, **options)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} failed with status {done.returncode}\n{done.stderr or ''}")
    return done.stdout


def environment(**more):
    """Returns the environment of the builds, with the tools of pip and cargo on the path."""
    path = f"{PYTHON_TOOLS / 'bin'}:{TOOLS / 'bin'}:{os.environ['PATH']}"
    # Archives of one commit have equal times.
    stamp = os.environ.get("SOURCE_DATE_EPOCH") or commit_time()
    return {**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": stamp, **more}


def commit_time():
    """Returns the time of the commit in seconds, or that of CHANGELOG.md outside a repository."""
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() or str(int((ROOT / "CHANGELOG.md").stat().st_mtime))


def need_python_tools():
    run(ROOT / "scripts/venv.sh", PYTHON_TOOLS, ROOT / "scripts/release/requirements.txt")


def need_target(arch):
    """Requires Rust's standard library for an architecture."""
    rustup = shutil.which("rustup")
    if rustup and target(arch) not in run(rustup, "target", "list", "--installed", stdout=subprocess.PIPE).split():
        run(rustup, "target", "add", target(arch))


def runner(arch):
    """Returns the command before a program of this architecture: nothing, or QEMU."""
    if arch == platform.machine():
        return []
    for name in (f"qemu-{arch}-static", f"qemu-{arch}"):
        if shutil.which(name):
            return [name, "-L", f"/usr/{arch}-linux-gnu"]
    raise Failure(f"programs for {arch} cannot run here; run `scripts/need.sh qemu-{arch}`")


def programs_folder(arch):
    """Returns the folder of the stripped programs."""
    return WORK / arch / "programs"



def fresh(folder):
    """Returns the folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def pack(folder, name):
    """Writes the archive NAME.tar.gz of a folder. Its bytes depend only on the contents and on the commit."""
    time = int(environment()["SOURCE_DATE_EPOCH"])

    def as_root(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = time
        return member

    with gzip.GzipFile(OUTPUT / f"{name}.tar.gz", "wb", compresslevel=9, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(folder, name, filter=as_root)
