#!/usr/bin/env bash
# need.sh WHAT...: makes sure that each is there. Debian packages are installed if they are missing
# and we may; toolchains never are: then this says what to install, and fails.
set -euo pipefail

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# debian COMMAND PACKAGE: a command, or the package that has it.
debian() {
    command -v "$1" >/dev/null && return
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
        fail "$1 is missing. On Debian, as root: apt-get install $2"
    echo "Installing the Debian package $2" >&2
    # RUNLEVEL=1 keeps packages from starting their services.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    apt-get install -y -qq --no-install-recommends "$2" >/dev/null 2>&1 || {
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends "$2" >/dev/null
    }
}

node() {
    command -v node >/dev/null && command -v npm >/dev/null ||
        fail "Node.js and npm are missing. Install Node.js 20.19 or later, with npm: https://nodejs.org/"
    command node -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' ||
        fail "Node.js $(command node --version) is too old. Install 20.19 or later: https://nodejs.org/"
}

python() {
    command -v python3 >/dev/null || fail "Python is missing. On Debian, as root: apt-get install python3 python3-venv"
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$(python3 --version) is too old. Install 3.11 or later."
    # Debian has the part of venv that brings pip in a package of its own.
    python3 -c 'import ensurepip' 2>/dev/null || {
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
            fail "Python's ensurepip is missing. On Debian, as root: apt-get install python3-venv"
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv; } >/dev/null
    }
}

for what in "$@"; do
    case "$what" in
        cargo) command -v cargo >/dev/null || fail "cargo is missing. Install Rust by rustup: https://rustup.rs/" ;;
        compiler)
            command -v cc >/dev/null && command -v c++ >/dev/null ||
                fail "A C and C++ compiler are missing. On Debian, as root: apt-get install gcc g++" ;;
        node) node ;;
        python) python ;;
        chromium) [ -n "${CHROMIUM:-}" ] || debian chromium chromium ;;
        curl) debian curl curl ;;
        victoria-metrics) debian victoria-metrics victoria-metrics ;;
        influxdb) debian influxd influxdb ;;
        fio) debian fio fio ;;
        nbdkit) debian nbdkit nbdkit ;;
        libnbd) debian nbdfuse libnbd-bin ;;
        qemu-img) debian qemu-img qemu-utils ;;
        mkfs.ext4) debian mkfs.ext4 e2fsprogs ;;
        mkfs.xfs) debian mkfs.xfs xfsprogs ;;
        *) fail "need.sh: $what is not known" ;;
    esac
done
