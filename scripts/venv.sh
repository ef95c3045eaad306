#!/usr/bin/env bash
# venv.sh FOLDER REQUIREMENTS: a Python environment with these packages; nothing is done if it is
# there already with just these.
set -euo pipefail
folder=$1 requirements=$2

"$(dirname "$0")/need.sh" python
if ! cmp -s "$requirements" "$folder/installed.txt"; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$folder/installed.txt"
fi
