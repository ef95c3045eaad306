"""Wheel of the Python package, with the native engine: one for all versions of Python from 3.11 (abi3)."""

from common import GLIBC, OUTPUT, TARGET, environment, need_python_tools, need_target, run, target


def build(arch):
    need_python_tools()
    need_target(arch)
    # maturin rejects a library that needs more of glibc than the name of the wheel promises.
    policy = f"manylinux_{GLIBC.replace('.', '_')}"
    options = ["--release", "--locked", "--zig", "--target", target(arch), "--compatibility", policy]
    folder = {"CARGO_TARGET_DIR": str(TARGET / "python")}
    run("maturin", "build", *options, "--manifest-path", "python/Cargo.toml", "--out", OUTPUT, env=environment(**folder))
