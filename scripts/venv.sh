#!/usr/bin/env bash
# venv.sh FOLDER REQUIREMENTS: creates a Python environment with the packages that the file REQUIREMENTS lists. Keeps an
# existing environment with the same list.
set -euo pipefail
folder=$1 requirements=$2

"$(dirname "$0")/need.sh" python
if ! cmp -s "$requirements" "$folder/installed.txt"; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$folder/installed.txt"
fi
