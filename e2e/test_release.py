"""Files of a release, installed and used in clean systems: `make dist-test`.

SEINER_RELEASE is the folder with the files, which `make dist` wrote. Without it, these tests are skipped: a release
takes an hour to build.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from pathlib import Path

import pytest
import requests

from clean_root import System, copy
from program import ROOT, environment

FOLDER = os.environ.get("SEINER_RELEASE", "")
RELEASE = (ROOT / FOLDER).resolve()
ARCH = platform.machine()
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
LARGEST = 34_000_000
GLIBC = (2, 28)

pytestmark = pytest.mark.skipif(not FOLDER, reason="SEINER_RELEASE names no release; run `make dist-test`")
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("systemd-nspawn") or not shutil.which("debootstrap"),
    reason="clean systems need root, debootstrap and systemd-nspawn",
)
LINE = "weather,station=north temperature=21.5"


def files(pattern):
    """Returns the files of the release. A release may contain one architecture only."""
    found = sorted(path for path in RELEASE.glob(pattern) if "debug" not in path.name or "debug" in pattern)
    if not found:
        pytest.skip(f"the release has no {pattern}")
    return found


def file(pattern):
    [found] = files(pattern)
    return found


def unpacked(pattern, folder):
    with tarfile.open(file(pattern)) as archive:
        archive.extractall(folder, filter="data")
    [top] = folder.iterdir()
    return top


def blocks(section, language="sh", page="docs/install.md"):
    """Returns the commands of a section of a page. The section "" is the text before the first one."""
    sections = re.split(r"^## (.+)$", "\n".join(["## ", (ROOT / page).read_text()]), flags=re.MULTILINE)
    if not section:
        text = sections[0]
    else:
        text = sections[sections.index(section) + 1]
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_checksums_are_those_of_all_files():
    lines = (RELEASE / "SHA256SUMS").read_text().splitlines()
    listed = dict(reversed(line.split("  ")) for line in lines)
    present = {path.name for path in RELEASE.iterdir()} - {"SHA256SUMS"}
    assert set(listed) == present
    for name, digest in listed.items():
        assert hashlib.sha256((RELEASE / name).read_bytes()).hexdigest() == digest, name


def sections(program):
    """Returns the names of the sections of a program."""
    listed = subprocess.run(["readelf", "--sections", "--wide", program], check=True, capture_output=True, text=True)
    return set(re.findall(r"^\s*\[ *\d+\] (\.\S+)", listed.stdout, re.MULTILINE))


def versions_of_glibc(code):
    """Returns the versions whose symbols a program or a library needs."""
    return {(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", code)}


@pytest.mark.parametrize("arch", DEBIAN)
def test_programs_are_small_and_run_on_an_old_glibc(arch, tmp_path):
    top = unpacked(f"seiner-*-{arch}-linux.tar.gz", tmp_path)
    programs = sorted((top / "bin").iterdir())
    assert [program.name for program in programs] == ["seiner", "seiner-sql"]
    assert programs[0].stat().st_size <= LARGEST
    for program in programs:
        assert not {".debug_line", ".symtab"} & sections(program), "the program is stripped"
        needed = versions_of_glibc(program.read_bytes())
        assert max(needed) <= GLIBC, f"{program.name} needs glibc {max(needed)}"


@pytest.mark.parametrize("arch", DEBIAN)
def test_the_debug_information_belongs_to_the_program(arch, tmp_path):
    program = unpacked(f"seiner-*-{arch}-linux.tar.gz", tmp_path / "program") / "bin/seiner"
    info = unpacked(f"seiner-*-{arch}-linux-debug.tar.gz", tmp_path / "debug") / "seiner.debug"
    # The section .gnu_debuglink: the name, zeros up to a multiple of four bytes, and a checksum.
    link = re.search(rb"seiner\.debug\0{4}(.{4})", program.read_bytes(), re.DOTALL)
    assert int.from_bytes(link.group(1), "little") == zlib.crc32(info.read_bytes())
    assert ".debug_line" in sections(info)


@pytest.mark.parametrize("name", ["seiner", "seiner-sql", "seiner-python"])
def test_components_are_listed_with_licences(name):
    [path] = [path for path in files(f"{name}-*.cdx.json") if re.fullmatch(rf"{name}-[\d.]+\.cdx\.json", path.name)]
    bom = json.loads(path.read_text())
    assert bom["bomFormat"] == "CycloneDX" and bom["metadata"]["component"]["name"] == name
    listed = {component["name"] for component in bom["components"]}
    expected = {
        "seiner": {"seiner-engine", "seiner-server", "axum", "ring", "zstd-sys", "uplot"},
        "seiner-sql": {"datafusion", "arrow", "tokio", "pgwire"},
        "seiner-python": {"seiner-engine", "pyo3", "zstd-sys"},
    }
    assert expected[name] <= listed
    assert not {"proptest", "pytest", "vite"} & listed, "tools of tests and builds are not in the programs"
    for component in bom["components"]:
        assert component["licenses"] and component["version"] and component["purl"], component
    references = {component["bom-ref"] for component in [*bom["components"], bom["metadata"]["component"]]}
    assert {dependency["ref"] for dependency in bom["dependencies"]} == references


class Command:
    """Server of one architecture, on this machine or under QEMU."""

    def __init__(self, arch, program):
        qemu = [shutil.which(f"qemu-{arch}-static"), "-L", f"/usr/{arch}-linux-gnu"]
        if arch != ARCH and not qemu[0]:
            pytest.skip(f"programs for {arch} need QEMU; run `scripts/need.sh qemu-{arch}`")
        self.command = [*(qemu if arch != ARCH else []), program]

    def serve(self, folder):
        log = open(folder / "log", "ab")
        flags = ["--data", folder / "data", "--listen", "127.0.0.1:0", "--host-sensors", "100ms"]
        process = subprocess.Popen([*self.command, "serve", *flags], stderr=log, env=environment())
        started = time.monotonic()
        while time.monotonic() - started < 60 and process.poll() is None:
            found = re.findall(r"The page is at (http://[^/]+)/", (folder / "log").read_text())
            if found and requests_work(found[-1]):
                return process, found[-1]
            time.sleep(0.1)
        raise AssertionError((folder / "log").read_text())


def requests_work(url):
    try:
        return requests.get(f"{url}/ready", timeout=20).ok
    except requests.ConnectionError:
        return False


@pytest.mark.parametrize("arch", DEBIAN)
def test_programs_store_and_answer(arch, tmp_path):
    program = unpacked(f"seiner-*-{arch}-linux.tar.gz", tmp_path / "tar") / "bin/seiner"
    command = Command(arch, program)
    process, url = command.serve(tmp_path)
    try:
        assert requests.post(f"{url}/write", data=LINE, timeout=60).ok
        assert "<html" in requests.get(url, timeout=60).text
        # The program for SQL is beside the server.
        if program.with_name("seiner-sql").is_file():
            query = {"q": "SELECT avg(temperature) AS mean FROM weather"}
            answer = requests.get(f"{url}/api/v1/sql", params=query, timeout=120)
            assert answer.ok and "21.5" in answer.text, answer.text
    finally:
        process.terminate()
    assert process.wait(60) == 0
    process, url = command.serve(tmp_path)
    try:
        answer = requests.get(f"{url}/api/v1/query", params={"select": 'weather{station="north"}'}, timeout=60)
        assert "21.5" in answer.text
        sensors = requests.get(f"{url}/api/v1/query", params={"select": "host_cpu"}, timeout=60)
        assert sensors.json()["series"], "the sensors of the host were recorded"
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def system(tmp_path):
    """Booted system with the release in /root/release."""
    with System(copy(tmp_path / "system")) as booted:
        into = booted.folder / "root/release"
        into.mkdir()
        for path in RELEASE.glob(f"*{DEBIAN[ARCH]}.deb"):
            shutil.copy(path, into)
        for path in RELEASE.glob(f"*-{ARCH}-linux.tar.gz"):
            shutil.copy(path, into)
        shutil.copy(RELEASE / "SHA256SUMS", into)
        yield booted


def later(package, folder):
    """Returns the name of a package with the same files and a higher version."""
    raw = folder / "raw"
    subprocess.run(["dpkg-deb", "--raw-extract", package, raw], check=True)
    control = (raw / "DEBIAN/control").read_text()
    (raw / "DEBIAN/control").write_text(re.sub(r"^Version: .*", "Version: 99.0.0", control, flags=re.MULTILINE))
    path = folder / "later.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", raw, path], check=True)
    return path


QUERY = "curl -sSfG http://127.0.0.1:7670/api/v1/query --data-urlencode 'select=weather{station=\"north\"}'"


@needs_root
def test_the_package_is_installed_used_upgraded_and_removed(system, tmp_path):
    package = file(f"seiner_*_{DEBIAN[ARCH]}.deb")
    run = lambda script: system.check(script, "/root/release")  # noqa: E731
    show = lambda name: run(f"systemctl show seiner --property={name} --value").strip()  # noqa: E731
    install, check, token, backup = blocks("Debian package")
    [compare] = blocks("")
    run(compare)
    assert "21.5" in run(install)
    assert show("ActiveState") == "active" and "Serving HTTP" in show("StatusText")
    assert run(f"stat -c %U /proc/{show('MainPID')}").strip() == "seiner"
    assert run("stat -c '%U %a' /var/lib/seiner").strip() == "seiner 750"
    run(check)
    assert run("zcat /usr/share/man/man1/seiner.1.gz").startswith(".")
    sql = "curl -sSfG http://127.0.0.1:7670/api/v1/sql --data-urlencode 'q=SELECT temperature FROM weather'"
    assert "21.5" in run(sql), "the program for SQL works inside the confined service"

    # A server that hangs is killed and started again.
    run("mkdir /run/systemd/system/seiner.service.d")
    run("printf '[Service]\\nWatchdogSec=3s\\n' > /run/systemd/system/seiner.service.d/quick.conf")
    run("systemctl daemon-reload && systemctl restart seiner")
    first = show("MainPID")
    time.sleep(5)
    assert show("MainPID") == first, "a server that works is not killed"
    run(f"kill -STOP {first}")
    until = time.monotonic() + 60
    while show("NRestarts") != "1" or show("ActiveState") != "active":
        assert time.monotonic() < until, run("journalctl -u seiner --no-pager")
        time.sleep(0.5)
    assert "21.5" in run(QUERY)
    assert "host_cpu" in run("curl -sSf http://127.0.0.1:7670/api/v1/summary"), "sensors work inside the service"

    run(backup)
    run("systemctl start seiner-backup.service")
    assert run("ls /var/backups/seiner").strip()

    # An upgrade keeps changed settings, and restarts the service.
    run("echo 'memory = \"200 MiB\"' >> /etc/seiner/seiner.toml")
    shutil.copy(later(package, tmp_path), system.folder / "root/release/later.deb")
    before = show("MainPID")
    run("DEBIAN_FRONTEND=noninteractive apt-get install -y ./later.deb")
    assert show("ActiveState") == "active" and show("MainPID") != before
    assert "200 MiB" in run("cat /etc/seiner/seiner.toml")
    assert "21.5" in run(QUERY)

    secret = re.search(r"seiner_\S+", run(token)).group(0)
    # The server reads the tokens every second.
    time.sleep(3)
    assert system.run(QUERY).returncode != 0, "requests need the token"
    assert "21.5" in run(f"{QUERY} -H 'Authorization: Bearer {secret}'")

    run("apt-get remove -y seiner")
    assert system.run("systemctl is-active seiner").stdout.strip() != "active"
    assert run("ls /var/lib/seiner/data /etc/seiner/seiner.toml")
    purged = run("apt-get purge -y seiner 2>&1")
    assert "/var/lib/seiner" in purged and run("ls /var/lib/seiner/data")
    assert system.run("ls /etc/seiner/seiner.toml").returncode != 0


@needs_root
def test_the_archive_is_installed_as_the_page_says(system):
    programs, service = blocks("Archive")
    file(f"seiner-*-{ARCH}-linux.tar.gz")
    assert re.match(r"seiner \d", system.check(programs, "/root/release").splitlines()[-1])
    assert '"ready"' in system.check(service, "/root/release")
    system.check("systemctl restart seiner")
    system.check(f"curl -sSf http://127.0.0.1:7670/write --data-binary '{LINE}'")
    system.check("systemctl stop seiner")


@needs_root
def test_the_steps_of_the_container_make_a_server(tmp_path):
    """Applies the steps of the Containerfile to a minimal system, because there is no engine of containers."""
    top = unpacked(f"seiner-*-{ARCH}-linux.tar.gz", tmp_path / "tar")
    image = copy(tmp_path / "image")
    lines = re.sub(r"\\\n", " ", (top / "Containerfile").read_text()).splitlines()
    steps = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    settings = {}
    for step, given in steps:
        match step:
            case "RUN":
                subprocess.run(["chroot", image, "sh", "-ec", given], check=True)
            case "COPY":
                *sources, into = given.split()
                for source in sources:
                    shutil.copy(top / source, image / into.lstrip("/"))
            case "USER" | "ENTRYPOINT" | "CMD" | "ENV":
                settings[step] = given
            case _:
                assert step in ("FROM", "VOLUME", "EXPOSE", "STOPSIGNAL"), step
    assert ["FROM", "docker.io/library/debian:bookworm-slim"] in steps, "the system of the test is the same release"
    entry, arguments = json.loads(settings["ENTRYPOINT"]), json.loads(settings["CMD"])
    variables = [settings["ENV"].split("=", 1)]
    inside = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "-D", image]
    inside += ["--as-pid2", f"--user={settings['USER']}", "--setenv", settings["ENV"], *entry]
    made = subprocess.run([*inside, "token", "create", "test", "--scope", "read,write"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    secret = re.search(r"seiner_\S+", made.stdout).group(0)
    with System(image, [*entry, *arguments], settings["USER"], variables) as running:
        until = time.monotonic() + 30
        while running.run("curl -sSf http://127.0.0.1:7670/ready").returncode != 0:
            assert time.monotonic() < until, running.console()
            time.sleep(0.2)
        assert running.run(QUERY).returncode != 0, "requests need the token"
        with_token = f"-H 'Authorization: Bearer {secret}'"
        running.check(f"curl -sSf http://127.0.0.1:7670/write {with_token} --data-binary '{LINE}'")
        assert "21.5" in running.check(f"{QUERY} {with_token}")


@pytest.mark.parametrize("arch", DEBIAN)
def test_wheels_are_for_all_later_versions_of_python(arch):
    wheel = file(f"seiner-*-abi3-manylinux*_{arch}.whl")
    assert "-cp311-abi3-manylinux_2_28_" in wheel.name
    with zipfile.ZipFile(wheel) as packed:
        [engine] = [name for name in packed.namelist() if name.endswith(".so")]
        assert max(versions_of_glibc(packed.read(engine))) <= GLIBC


def test_the_wheel_runs_the_example_of_the_readme(tmp_path):
    wheel = file(f"seiner-*-abi3-manylinux*_{ARCH}.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run([tmp_path / "venv/bin/pip", "install", "--quiet", wheel, "pandas"], check=True)
    [example] = [block for block in blocks_of_readme() if "seiner.open" in block]
    program = f"{example}\nassert len(frame) == 12, frame\n"
    subprocess.run([tmp_path / "venv/bin/python", "-c", program], check=True, cwd=tmp_path)


def blocks_of_readme():
    return re.findall(r"^```python\n(.*?)^```", Path(ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
