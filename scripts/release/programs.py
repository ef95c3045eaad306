"""Programs of a release: built for an old glibc, stripped, with their debug information in files of their own."""

import os
import shutil
import subprocess
from pathlib import Path

from common import (
    GLIBC,
    ROOT,
    TARGET,
    WORK,
    Failure,
    environment,
    fresh,
    need_python_tools,
    need_target,
    pack,
    programs_folder,
    run,
    target,
    version,
)

NAMES = ["seiner", "seiner-sql"]
# Maximum size of the server in bytes. The goal is 30 MB; the present one has 32.2 MB on x86-64.
LARGEST = 34_000_000


def build(arch):
    """Builds both programs, and writes the archive of the debug information."""
    run("make", "page")
    run(ROOT / "scripts/need.sh", "cargo")
    need_python_tools()
    need_target(arch)
    triple = f"{target(arch)}.{GLIBC}"
    run("cargo", "zigbuild", "--profile", "small", "--locked", "-p", "seiner", "--target", triple, env=environment())
    sql = ["--profile", "sql", "--manifest-path", "sql/Cargo.toml"]
    folder = {"CARGO_TARGET_DIR": str(TARGET / "sql")}
    run("cargo", "zigbuild", "--locked", *sql, "--target", triple, env=environment(**folder))
    into = fresh(programs_folder(arch))
    debug = fresh(WORK / arch / "debug")
    split(TARGET / target(arch) / "small/seiner", into, debug)
    # The program that answers SQL is built without debug information, which would be larger than all the rest.
    shutil.copy(TARGET / "sql" / target(arch) / "sql/seiner-sql", into)
    size = (into / "seiner").stat().st_size
    if size > LARGEST:
        raise Failure(f"seiner has {size} bytes, more than {LARGEST}; find new dependencies with `cargo tree`")
    pack(debug, f"seiner-{version()}-{arch}-linux-debug")


def copy(arch, folder):
    """Copies the programs of a folder, such as target/debug, and strips them. A missing program for SQL is left out.
    Returns the folder of the copies, which is apart from that of the programs of a release."""
    into = fresh(WORK / arch / "prebuilt")
    for name in NAMES:
        source = (ROOT / folder / name).resolve()
        if source.is_file():
            objcopy("--strip-all", source, into / name)
        elif name == "seiner":
            raise Failure(f"{source} is missing; run `cargo build -p seiner`")
    return into


def split(program, into, debug):
    """Writes the stripped program and its debug information. The program names the file with this information."""
    info = debug / f"{program.name}.debug"
    stripped = into / program.name
    objcopy("--only-keep-debug", "--compress-debug-sections=zlib", program, info)
    objcopy("--strip-all", f"--add-gnu-debuglink={info}", program, stripped)


def objcopy(*arguments):
    """Runs the objcopy of the Rust toolchain, which knows all architectures."""
    sysroot = Path(run("rustc", "--print", "sysroot", stdout=subprocess.PIPE).strip())
    [program] = sysroot.glob("lib/rustlib/*/bin/rust-objcopy")
    libraries = {"LD_LIBRARY_PATH": str(sysroot / "lib")}
    run(program, *arguments, env={**os.environ, **libraries})
