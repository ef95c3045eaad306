#!/usr/bin/env python3
"""Builds the files of a release in target/dist: `make dist`.

    python3 scripts/release [--arch x86_64,aarch64] [--only programs,tar,deb,wheel,sbom] [--prebuilt FOLDER]

Parts that are not named are left as they are. SHA256SUMS is always written, for all files in the folder.
"""

import argparse
import hashlib
import sys
import time

import archive
import debian
import programs
import wheel
from common import ARCHITECTURES, OUTPUT, Failure, programs_folder

# In the order of the builds. A part uses the results of the parts before it.
PARTS = ["programs", "tar", "deb", "wheel", "sbom"]
SUMS = "SHA256SUMS"


def names(known):
    """Returns a parser of a list of known names."""

    def parse(text):
        given = text.split(",")
        unknown = [name for name in given if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is unknown; known are {', '.join(known)}")
        return given

    return parse


def arguments():
    parser = argparse.ArgumentParser(prog="make dist", description="Builds the files of a release in target/dist.")
    parser.add_argument("--arch", type=names(ARCHITECTURES), default=list(ARCHITECTURES), help="x86_64, aarch64 or both")
    parser.add_argument("--only", type=names(PARTS), default=PARTS, help="parts, such as deb,sbom")
    parser.add_argument("--prebuilt", help="packages the programs of this folder, such as target/debug, without a build")
    return parser.parse_args()


def step(name, work, *given):
    """Runs a step. Prints its name, and its time at the end."""
    print(f"==> {name}", flush=True)
    started = time.monotonic()
    work(*given)
    print(f"    {name}: {time.monotonic() - started:.0f} s", flush=True)


def sums():
    files = sorted(path for path in OUTPUT.iterdir() if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (OUTPUT / SUMS).write_text("".join(lines))
    for path in files:
        print(f"    {path.stat().st_size / 1e6:8.1f} MB  {path.name}")


def main():
    given = arguments()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for arch in given.arch:
        folder = programs_folder(arch)
        if given.prebuilt:
            folder = programs.copy(arch, given.prebuilt)
        elif "programs" in given.only:
            step(f"programs for {arch}", programs.build, arch)
        if "tar" in given.only:
            step(f"archive for {arch}", archive.write, arch, folder)
        if "deb" in given.only:
            step(f"Debian package for {arch}", debian.write, arch, folder)
        if "wheel" in given.only:
            step(f"wheel for {arch}", wheel.build, arch)
    if "sbom" in given.only:
        # Its library is one of the tools that pip installs.
        import sbom

        step("lists of components", sbom.write)
    step("checksums", sums)


try:
    main()
except Failure as failure:
    sys.exit(f"make dist: {failure}")
