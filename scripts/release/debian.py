"""Debian package: seiner_VERSION_ARCH.deb. `[package.metadata.deb]` in crates/cli/Cargo.toml describes it."""

import stage
from common import ARCHITECTURES, OUTPUT, ROOT, WORK, environment, fresh, run, target, version


def write(arch, programs, into=OUTPUT, fast=False):
    """Writes the package of a folder of programs. `fast` compresses less. Returns the path."""
    run(ROOT / "scripts/need.sh", "cargo-deb")
    # The manifest names this folder, so there is one for all architectures.
    tree = fresh(WORK / "deb")
    stage.install(arch, programs, tree / "usr", "/usr")
    stage.documents(tree / "usr/share/doc/seiner")
    stage.put(tree / "etc/seiner", ROOT / "deploy/seiner.toml")
    path = into / f"seiner_{version()}_{ARCHITECTURES[arch]}.deb"
    options = ["--no-build", "--no-strip", "--quiet", "--target", target(arch)]
    options += ["--deb-version", version(), "--output", path]
    options += ["--fast"] if fast else []
    run("cargo", "deb", "-p", "seiner", *options, env=environment())
    return path
