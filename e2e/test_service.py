"""The server as a service of systemd, and the Debian package with the program under test."""

import platform
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from program import PROGRAM, ROOT, run

sys.path.insert(0, str(ROOT / "scripts/release"))

WATCHDOG_S = 2


class Manager:
    """Socket of a service manager: receives the messages of one server."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))

    def next(self, timeout):
        """Returns the fields of the next message, or None."""
        self.socket.settimeout(timeout)
        try:
            message = self.socket.recv(4096).decode()
        except (TimeoutError, BlockingIOError):
            return None
        return dict(line.split("=", 1) for line in message.splitlines())


@pytest.fixture
def manager(tmp_path, monkeypatch):
    path = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    monkeypatch.setenv("WATCHDOG_USEC", str(WATCHDOG_S * 1_000_000))
    return Manager(path)


def test_the_service_manager_learns_of_the_start_of_work_and_of_the_stop(manager, serve):
    server = serve()
    messages = [manager.next(5) for _ in range(4)]
    [ready] = [message for message in messages if "READY" in message]
    assert server.address in ready["STATUS"]
    assert sum(message == {"WATCHDOG": "1"} for message in messages) == 3
    # A server that does not run sends nothing: the service manager kills it.
    server.process.send_signal(signal.SIGSTOP)
    while manager.next(0):
        pass
    assert manager.next(WATCHDOG_S) is None
    server.process.send_signal(signal.SIGCONT)
    assert manager.next(5) == {"WATCHDOG": "1"}
    server.stop()
    assert any(message.get("STOPPING") == "1" for message in iter(lambda: manager.next(0), None))


def test_a_server_with_tls_proves_that_it_works(manager, tmp_path, serve):
    made = run("tls", "self-signed", tmp_path / "tls", "--host", "localhost")
    assert made.returncode == 0, made.stderr
    serve(tls_certificate=tmp_path / "tls/certificate.pem", tls_key=tmp_path / "tls/key.pem")
    assert any(manager.next(5) == {"WATCHDOG": "1"} for _ in range(3))


def test_a_server_without_a_watchdog_sends_only_its_state(manager, monkeypatch, serve):
    # The time is meant for another process.
    monkeypatch.setenv("WATCHDOG_PID", "1")
    serve()
    assert manager.next(5)["READY"] == "1"
    assert manager.next(WATCHDOG_S) is None


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Debian package with the program under test, unpacked. Returns its path and the folder."""
    for tool in ("dpkg-deb", "xz"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is missing")
    if not (ROOT / "target/tools/bin/cargo-deb").is_file():
        pytest.skip("cargo-deb is missing; run `scripts/need.sh cargo-deb`")
    import debian
    import programs

    folder = tmp_path_factory.mktemp("package")
    arch = platform.machine()
    path = debian.write(arch, programs.copy(arch, PROGRAM.parent), into=folder, fast=True)
    subprocess.run(["dpkg-deb", "--raw-extract", path, folder / "root"], check=True)
    return path, folder / "root"


def test_the_package_contains_programs_unit_settings_and_manual(package):
    path, root = package
    listed = subprocess.run(["dpkg-deb", "--contents", path], check=True, capture_output=True, text=True).stdout
    entries = {line.split()[5].removeprefix("."): line.split()[:2] for line in listed.splitlines()}
    for file, mode in {
        "/usr/bin/seiner": "-rwxr-xr-x",
        "/etc/seiner/seiner.toml": "-rw-r--r--",
        "/usr/lib/systemd/system/seiner.service": "-rw-r--r--",
        "/usr/lib/systemd/system/seiner-backup.timer": "-rw-r--r--",
        "/usr/share/man/man1/seiner-serve.1.gz": "-rw-r--r--",
        "/usr/share/bash-completion/completions/seiner": "-rw-r--r--",
        "/usr/share/doc/seiner/README.md": "-rw-r--r--",
        "/usr/share/doc/seiner/copyright": "-rw-r--r--",
    }.items():
        assert entries.get(file) in ([mode, "root/root"], [mode, "0/0"]), f"{file}: {entries.get(file)}"
    beside = PROGRAM.with_name("seiner-sql").is_file()
    assert ("/usr/bin/seiner-sql" in entries) == beside
    control = (root / "DEBIAN/control").read_text()
    assert "Depends: adduser, libc6 (>= 2.28)\n" in control
    assert (root / "DEBIAN/conffiles").read_text() == "/etc/seiner/seiner.toml\n"
    printed = subprocess.run([root / "usr/bin/seiner", "--version"], capture_output=True, text=True)
    assert printed.stdout.split()[1] in control


def test_the_settings_of_the_package_are_known(package):
    _, root = package
    known = run("config", "--config", root / "etc/seiner/seiner.toml")
    assert known.returncode == 0, known.stderr
    assert "/var/lib/seiner/data" in known.stdout


def test_the_unit_of_the_package_is_valid_and_confined(package, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is missing")
    _, root = package
    text = (root / "usr/lib/systemd/system/seiner.service").read_text()
    assert "ExecStart=/usr/bin/seiner serve --config /etc/seiner/seiner.toml\n" in text
    for setting in ("Type=notify", "WatchdogSec=", "User=seiner", "ProtectSystem=strict", "StateDirectory=seiner"):
        assert setting in text
    unit = tmp_path / "seiner.service"
    unit.write_text(text.replace("/usr/bin/seiner", str(PROGRAM)))
    found = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    # Exposure, from 0.0 to 10.0; the threshold is its tenfold.
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit],
        capture_output=True,
        text=True,
    )
    assert rated.returncode == 0, rated.stdout[-2000:] + rated.stderr


def test_the_scripts_of_the_package_keep_the_data(package, tmp_path):
    _, root = package
    scripts = {name: root / "DEBIAN" / name for name in ("postinst", "prerm", "postrm")}
    for script in scripts.values():
        subprocess.run(["sh", "-n", script], check=True)
        assert "#DEBHELPER#" not in script.read_text()
    assert "deb-systemd-invoke" in scripts["postinst"].read_text()
    # The timer of backups needs a folder first, so it is not enabled.
    enabled = re.findall(r"deb-systemd-helper enable (\S+)", scripts["postinst"].read_text())
    assert enabled == ["seiner.service"]
    # The test in a clean system, e2e/test_release.py, runs the scripts. Here, only one command may delete.
    deleting = [line.strip() for line in scripts["postrm"].read_text().splitlines() if re.search(r"\brm\b", line)]
    assert all(line.startswith("echo") for line in deleting), deleting
