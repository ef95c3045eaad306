#!/usr/bin/env bash
# page-live.sh: tests the page in a browser. A real server delivers the page and records the sensors of this host.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${SEINER_BIN:-target/debug/seiner}

folder=$(mktemp -d)
"$program" serve --data "$folder/data" --listen 127.0.0.1:0 2>"$folder/log" &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT

for _ in $(seq 100); do
    url=$(sed -n 's|.*The page is at \(http://[^/]*\)/.*|\1|p' "$folder/log")
    [ -z "$url" ] || break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
[ -n "$url" ] || { echo "The server did not start:" >&2; cat "$folder/log" >&2; exit 1; }
cd web
SEINER_URL=$url npm run --silent test:live
