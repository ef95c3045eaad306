#!/bin/sh
# Builds the Python package into target/venv and runs its tests. Arguments go to pytest;
# PYTHON chooses the interpreter, PROFILE=release optimises.
set -eu
cd "$(dirname "$0")"
root=$(cd .. && pwd)
venv="$root/target/venv"
# Most dependencies are those of the workspace, already compiled.
export CARGO_TARGET_DIR="$root/target"
export HYPOTHESIS_STORAGE_DIRECTORY="$root/target/hypothesis"

test -x "$venv/bin/python" || "${PYTHON:-python3}" -m venv "$venv"
. "$venv/bin/activate"
python -m pip install --quiet "maturin>=1.16,<2" pytest hypothesis numpy pandas polars pyarrow
maturin develop --quiet --profile "${PROFILE:-dev}"
exec python -m pytest -o cache_dir="$root/target/pytest" "$@"
