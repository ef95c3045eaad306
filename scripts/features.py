#!/usr/bin/env python3
"""Lints every crate with optional features once without any feature, and with --each also with each feature alone.

Another step lints the workspace with the default features. Most errors appear without any feature; one feature alone
shows code that silently needs a second one. That takes minutes, because the server is linted for each feature.

The list of features is that of `cargo metadata`. The C++ sources of RocksDB take most of an hour to build, so they are
not compiled: only the Rust code of the feature `rocksdb` is checked.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The build script of RocksDB takes a library from here instead of compiling one. A check does not link, so none is
# needed.
ENVIRONMENT = os.environ | {"ROCKSDB_LIB_DIR": str(ROOT / "target" / "no-rocksdb")}


def builds(each):
    """Returns the pairs of a crate and None, and if each is true also those of a crate and a feature."""
    metadata = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    packages = json.loads(subprocess.run(metadata, cwd=ROOT, check=True, capture_output=True).stdout)["packages"]
    for package in packages:
        features = sorted(set(package["features"]) - {"default"})
        if features:
            yield package["name"], None
            yield from ((package["name"], feature) for feature in features if each)


def lint(crate, feature):
    """Runs clippy on a crate. Returns true if clippy passed."""
    command = ["cargo", "clippy", "--locked", "--quiet", "--no-deps", "-p", crate, "--no-default-features"]
    command += ["--features", feature] if feature else []
    started = time.monotonic()
    status = subprocess.run([*command, "--", "-D", "warnings"], cwd=ROOT, env=ENVIRONMENT).returncode
    name = f"{crate}, {feature or 'no feature'}"
    print(f"    {name:32} {'passed' if status == 0 else 'FAILED'} {time.monotonic() - started:5.0f} s", flush=True)
    return status == 0


def main():
    each = sys.argv[1:] == ["--each"]
    left_out = set()
    if each and subprocess.run([ROOT / "scripts" / "need.sh", "libclang"]).returncode != 0:
        print("    The feature rocksdb is left out: its bindings are generated with libclang")
        left_out.add("rocksdb")
    passed = [lint(crate, feature) for crate, feature in builds(each) if feature not in left_out]
    sys.exit(0 if passed and all(passed) else 1)


main()
