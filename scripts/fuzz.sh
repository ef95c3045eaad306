#!/usr/bin/env bash
# fuzz.sh SECONDS [TARGET...]: fuzzes each target, or all targets, for SECONDS. Inputs that fail stay in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1
shift

scripts/need.sh cargo compiler
rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
tools=$PWD/target/tools
PATH=$tools/bin:$PATH
command -v cargo-fuzz >/dev/null || cargo install --quiet --locked --root "$tools" cargo-fuzz

targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cd fuzz/fuzz_targets && ls -- *.rs | sed 's/\.rs$//')
for target in "${targets[@]}"; do
    echo "Fuzzing $target for $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048 -print_final_stats=1
done
