#!/usr/bin/env bash
# test.sh: runs all tests of the project, step by step. After a failed step, the later steps still run. A list at the
# end shows the result and the time of each step. SLOW=1 adds thousands of simulated runs, more kills of the server, tests
# of the Debian package, a check of each optional feature alone, and fuzzing. With SEINER_TEST_LIMIT=1, steps whose time
# has come too late are left out, with a message: a slow machine then finishes the tests of behaviour before CI stops it
# after 5,400 s.
set -uo pipefail
cd "$(dirname "$0")/.."
slow=${SLOW:-}
[ "$slow" = 0 ] && slow=
[ -z "$slow" ] || export SEINER_SLOW=1
simulations=${SEINER_SIM_RUNS:-${slow:+20000}}

limit=${SEINER_TEST_LIMIT:-}

report=()
failed=0
left_out=0

# step NAME COMMAND...: runs a step and records its result.
step() {
    local name=$1 started=$SECONDS verdict=passed
    shift
    printf '\n==> %s: %s\n' "$name" "$*"
    "$@" || { verdict=FAILED; failed=1; }
    report+=("$(printf '%-22s %-7s %5d s' "$name" "$verdict" $((SECONDS - started)))")
    [ "$verdict" = passed ]
}

# step_by SECONDS NAME COMMAND...: runs a step, unless there is a limit and the run has taken longer than that.
step_by() {
    local latest=$1 name=$2
    shift
    if [ -n "$limit" ] && [ "$SECONDS" -gt "$latest" ]; then
        printf '\n==> %s is LEFT OUT: %d s have passed, and it begins within %d s. Run it: %s\n' \
            "$name" "$SECONDS" "$latest" "${*:2}"
        report+=("$(printf '%-22s LEFT OUT' "$name")")
        left_out=$((left_out + 1))
        return
    fi
    step "$@"
}

finish() {
    printf '\n==> What ran\n'
    printf '    %s\n' "${report[@]}"
    [ "$left_out" = 0 ] || echo "This machine is slow: $left_out steps were LEFT OUT. They have neither passed nor failed."
    [ "$failed" = 0 ] && echo "All tests passed in $SECONDS s." || echo "Some tests FAILED."
    exit "$failed"
}

# examples: runs the examples of the engine that check their results or that the documents mention.
examples() {
    local folder name
    folder=$(mktemp -d)
    for name in crash many_sensors retention; do
        "target/debug/examples/$name" "$folder/$name" || { rm -rf "$folder"; return 1; }
    done
    rm -rf "$folder"
}

# sql: builds, lints and tests the program that answers SQL, and puts it beside the server. Its profile keeps the build
# short. The driver of clippy compiles the tests: `cargo clippy` would compile all dependencies once more.
sql() {
    RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS='-Dwarnings__CLIPPY_HACKERY__' CARGO_TARGET_DIR=$PWD/target/sql \
        cargo test --locked --profile sql --manifest-path sql/Cargo.toml &&
        CARGO_TARGET_DIR=$PWD/target/sql cargo build --locked --profile sql --manifest-path sql/Cargo.toml &&
        cp target/sql/sql/seiner-sql target/debug/
}
# room: checks the free space: 16 GB for the first builds, 4 GB later. A full disk would fail tests of all kinds, an hour
# after the start.
room() {
    local free needed=4
    [ -d target/sql ] || needed=16
    free=$(df --output=avail -BG . | tail -n 1 | tr -dc 0-9)
    echo "    $free GB are free, $needed GB are needed"
    [ "$free" -ge "$needed" ]
}
web() { (cd web && npm run --silent "$1"); }
# deny FOLDER: checks the dependencies of a workspace with its rules.
deny() {
    PATH=$PWD/target/tools/bin:$PATH \
        cargo deny --locked --manifest-path "$1/Cargo.toml" --config "$1/deny.toml" check bans licenses sources
}
# e2e: the tests wait for half of their time, so two files at a time take little more than half of it.
e2e() {
    target/e2e-venv/bin/python -m pytest e2e -q --tb=short --durations=5 -p no:cacheprovider --maxfail=40 \
        -n 2 --dist loadfile
}

# The workspace with the feature that the released program lacks: it is tested as well.
workspace=(--locked --workspace --features seiner/object-storage)
step room-for-builds room || finish
step tools scripts/need.sh cargo compiler node python chromium curl cargo-deny || finish
step page make page || finish
step format cargo fmt --all --check -- -l
step format-sql cargo fmt --check --manifest-path sql/Cargo.toml -- -l
step dependencies deny .
step dependencies-sql deny sql
# One set of crates for programs, examples and tests: the programs alone would get other features of their dependencies,
# with which two dozen crates are compiled once more.
step programs cargo test "${workspace[@]}" --no-run || finish
# Tests that need a missing tool are skipped, with a message.
scripts/need.sh java maven || echo "Tests on real Cassandra are skipped"
step rust cargo test "${workspace[@]}" --no-fail-fast
step examples examples
# The step rust runs the first 250 seeds.
step simulation env SEINER_SIM_FIRST=250 target/debug/simulate "${simulations:-750}"
step page-units web test:unit
step page-browser web test:browser
step_by 2200 sql sql
# Tests that need a missing tool are skipped, with a message.
scripts/need.sh fio libnbd qemu-img || echo "Tests of the block device are skipped"
scripts/need.sh psql || echo "Tests with psql are skipped"
scripts/need.sh prometheus || echo "Tests with Prometheus as sender and reader are skipped"
scripts/need.sh node-exporter || echo "Tests with node-exporter are skipped"
scripts/need.sh alertmanager || echo "Tests with Alertmanager are skipped"
scripts/need.sh influxdb || echo "Comparisons with InfluxDB are skipped"
scripts/need.sh collectd || echo "Tests with collectd are skipped"
scripts/need.sh rrdtool || echo "Tests with rrdtool are skipped"
[ -z "$slow" ] || scripts/need.sh cargo-deb || echo "Tests of the Debian package are skipped"
scripts/need.sh mosquitto || echo "Tests with Mosquitto as broker are skipped"
[ -z "$slow" ] || scripts/need.sh jdk maven || echo "Tests with JDBC are skipped"
[ -z "$slow" ] || scripts/need.sh debootstrap systemd-nspawn || echo "The first hour in a clean system is skipped"
[ -z "$slow" ] || scripts/need.sh mkfs.ext4 mkfs.xfs || echo "Tests of file systems are skipped"
step room-for-tests room
step e2e-environment scripts/venv.sh target/e2e-venv e2e/requirements.txt && step e2e e2e
step_by 4700 python python/run-tests.sh
step_by 4600 lint cargo clippy "${workspace[@]}" --all-targets -- -D warnings
array_runs=50000
[ -z "$slow" ] || array_runs=250000
step_by 4700 array-faults env SEINER_SIM_RUNS="${SEINER_SIM_RUNS:-$array_runs}" cargo test "${workspace[@]}" --test faults
step_by 4700 page-live scripts/page-live.sh
step_by 4700 features scripts/features.py ${slow:+--each}
step_by 4700 documentation env RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
# Proves that every crate compiles from its published files alone. It does not run the tests of the packed crates.
step_by 4700 packages scripts/packages.py
[ -z "$slow" ] || step fuzz scripts/fuzz.sh "${FUZZ_SECONDS:-60}"
finish
