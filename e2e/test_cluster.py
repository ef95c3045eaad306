"""A cluster on one machine: real Cassandra, ports that are killed, and a record of every acknowledgement."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
import requests

from program import PROGRAM, Daemon, environment, run

START_S = 240
# Times of the rows: consecutive seconds from here on.
FIRST = 1_700_000_000


def serves(url, **shown):
    try:
        return requests.get(url + "/health", timeout=2, **shown).status_code == 200
    except requests.RequestException:
        return False


class Trial(Daemon):
    """`seiner cluster try` with three nodes and ports."""

    def __init__(self, folder):
        super().__init__(folder / "log")
        self.data = folder / "cluster"
        self.returned = None
        self.urls = [f"http://127.0.0.1:{port}" for port in (7670, 7671, 7672)]

    def start(self):
        with open(self.log, "ab") as log:
            command = [PROGRAM, "cluster", "try", "--data", self.data, "--host-sensors", "off"]
            self.process = subprocess.Popen(command, stderr=log, stdout=log, env=environment())

        def is_ready():
            return "The page is at" in self.log.read_text().rsplit("The cluster is", 1)[-1] and self.serves()

        self.wait(self.process, is_ready, START_S)

    def wait(self, process, is_ready, patience_s=120):
        """Waits until a process is ready, which must not end."""
        began = time.monotonic()
        while not is_ready():
            assert process.poll() is None and time.monotonic() - began < patience_s, self.log.read_text()
            time.sleep(0.2)

    def address(self):
        """Returns the address of the distributed store."""
        return re.search(r"The cluster is (\S+)", self.log.read_text()).group(1)

    def serves(self):
        return all(serves(url) for url in self.urls)

    def children(self, word):
        """Returns the numbers of the processes below this one whose command line contains a word."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().decode().rstrip("\0").split("\0")
            except OSError:
                continue
            text = " ".join(command) + " "
            if word in text and str(self.data) in text and int(folder.name) != self.process.pid:
                found.append((int(folder.name), command))
        return found

    def kill_port(self, number):
        """Kills a port. Returns the command that starts it again."""
        ((process, command),) = self.children(f"--port-name port{number} ")
        os.kill(process, signal.SIGKILL)
        return command

    def start_port(self, command):
        with open(self.log, "ab") as log:
            self.returned = subprocess.Popen(command, stderr=log, stdout=log, env=environment())
        return self.returned

    def kill_node(self, number):
        for process, command in self.children("CassandraDaemon"):
            if f"node{number}/" in " ".join(command):
                os.kill(process, signal.SIGKILL)
                return
        raise AssertionError(f"node {number} does not run")


class Writer(threading.Thread):
    """Writes numbered rows of one source, to any port that answers, and keeps what was acknowledged."""

    def __init__(self, urls, source):
        super().__init__(daemon=True)
        self.urls = urls
        self.source = source
        self.acknowledged = 0
        self.ends = False

    def run(self):
        port = 0
        while not self.ends:
            first = self.acknowledged
            lines = "\n".join(f"{self.source} v={number}i {FIRST + number}" for number in range(first, first + 100))
            try:
                answer = requests.post(
                    self.urls[port % 3] + "/write", params={"precision": "s"}, data=lines.encode(), timeout=20
                )
                if answer.status_code == 204:
                    self.acknowledged += 100
                    continue
            except requests.RequestException:
                pass
            # The rows are sent again, to another port: they must count once.
            port += 1
            time.sleep(0.05)


def values(url, source, **settings):
    measurement, tag, value = re.fullmatch(r"(\w+),(\w+)=(\w+)", source).groups()
    query = {"select": f'{measurement}{{{tag}="{value}"}}', "from": FIRST * 10**9, "to": (FIRST + 10**7) * 10**9}
    answer = requests.get(url + "/api/v1/query", params=query, timeout=120, **settings)
    assert answer.status_code == 200, answer.text
    (series,) = answer.json()["series"]
    return [int(value) for value in series["values"]]


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    if run("cluster", "--help").returncode != 0:
        pytest.skip("the program was built without clusters")
    obstacle = run("cluster", "try", "--nodes", "3", "--check")
    if obstacle.returncode != 0:
        print("=" * 100 + f"\nNO CLUSTER CAN RUN ON THIS MACHINE: {obstacle.stderr}\n" + "=" * 100)
        pytest.skip(f"no cluster can run on this machine: {obstacle.stderr}")
    for port in (7670, 7671, 7672):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"port {port} is in use")
    trial = Trial(tmp_path_factory.mktemp("cluster"))
    try:
        trial.start()
        yield trial
    finally:
        if trial.returned is not None:
            trial.returned.kill()
        trial.process.send_signal(signal.SIGTERM)
        trial.process.wait(120)


def test_every_acknowledged_row_survives_kills_of_ports_and_nodes(trial):
    writers = [Writer(trial.urls[at:] + trial.urls[:at], f"m,writer=w{at}") for at in range(3)]
    for writer in writers:
        writer.start()
    time.sleep(3)
    restart = trial.kill_port(2)
    time.sleep(3)
    trial.kill_node(3)
    time.sleep(5)
    # The port returns with its directory.
    returned = trial.start_port(restart)
    # Conditional writes fail for some seconds after the loss of a node, and the port repeats them.
    trial.wait(returned, trial.serves)
    time.sleep(3)
    for writer in writers:
        writer.ends = True
        writer.join()
    counts = [writer.acknowledged for writer in writers]
    print("acknowledged", counts)
    assert all(count > 1000 for count in counts)
    for at, writer in enumerate(writers):
        for url in trial.urls:
            found = values(url, writer.source)
            # A batch without an answer may be stored as well.
            assert found[: writer.acknowledged] == list(range(writer.acknowledged)), (at, url)
            assert found == list(range(len(found)))
    ports = requests.get(trial.urls[0] + "/ports", timeout=10).json()["ports"]
    assert [port["name"] for port in ports] == ["port1", "port2", "port3"]
    assert all(port["weight"] >= 0 for port in ports)
    shown = requests.get(trial.urls[0] + "/status", timeout=10).json()["cluster"]
    assert shown["port"] == "port1" and len(shown["nodes"]) == 3
    forbidden = requests.post(trial.urls[0] + "/cluster/unflushed", data=b"{}", timeout=10)
    assert forbidden.status_code == 403
    returned.send_signal(signal.SIGTERM)
    assert returned.wait(120) == 0, trial.log.read_text()[-4000:]
    check = run("cluster", "check", trial.address())
    assert check.returncode == 0, check.stdout + check.stderr
    # After a clean stop of that port, its rows are in bundles.
    for writer in writers:
        found = values(trial.urls[0], writer.source)
        assert found[: writer.acknowledged] == list(range(writer.acknowledged))


def lines(count, offset):
    """Rows of three sources, an hour apart, over some days."""
    sources = ((host, row) for host in ("a", "b", "c") for row in range(count))
    return "".join(
        f'imported,host={host} v={row + offset}i,state="s{row % 3}" {FIRST + row * 3600}\n' for host, row in sources
    )


def table(*arguments):
    """Returns the lines of a query of all imported samples, sorted."""
    found = run("query", "imported{}", "--from", str(FIRST - 1), "--to", str(FIRST + 10**7), "--format", "csv", *arguments)
    assert found.returncode == 0, found.stderr
    return sorted(found.stdout.splitlines())


def test_a_directory_moves_into_the_cluster_and_back(trial, tmp_path):
    alone, back = tmp_path / "alone", tmp_path / "back"
    written = run("write", "--data", alone, "--precision", "s", stdin=lines(200, 0))
    assert written.returncode == 0, written.stderr
    expected = table("--data", alone)
    assert len(expected) > 600
    began = time.monotonic()
    moved = run("cluster", "import", alone, trial.address())
    assert moved.returncode == 0, moved.stderr
    print(moved.stdout, f"imported in {time.monotonic() - began:.1f} s")
    assert "1200 samples" in moved.stdout, moved.stdout
    assert table("--server", trial.urls[0]) == expected
    again = run("cluster", "import", alone, trial.address())
    assert again.returncode == 0 and "imported before" in again.stdout, again.stdout + again.stderr
    began = time.monotonic()
    moved = run("cluster", "export", trial.address(), back)
    assert moved.returncode == 0, moved.stderr
    print(moved.stdout, f"exported in {time.monotonic() - began:.1f} s")
    assert table("--data", back) == expected
    text = requests.get(trial.urls[0] + "/metrics", timeout=10).text
    assert 'seiner_cluster_nodes{state="up"}' in text and "seiner_cluster_trouble 0.0" in text
    rejected = run("cluster", "check", trial.address().replace("://", "://ann:secret@"))
    assert rejected.returncode == 2 and "secret" not in rejected.stderr, rejected.stderr


def test_a_plan_changes_the_shelves_while_ports_run(trial):
    writer = Writer(trial.urls, "m,writer=plan")
    writer.start()
    plan = run("cluster", "plan", trial.address(), "--from", trial.urls[0], "--for", "3s", "--json")
    assert plan.returncode == 0, plan.stderr
    print(json.loads(plan.stdout))
    applied = run("cluster", "plan", trial.address(), "--sensors", "1e6", "--shelves", "7", "--period", "6h", "--apply")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    time.sleep(2)
    writer.ends = True
    writer.join()
    # An earlier test has stopped the second port.
    serving = [trial.urls[0], trial.urls[2]]
    for url in serving:
        handed = requests.post(url + "/api/v1/flush", timeout=120)
        assert handed.status_code < 300, handed.text
    for url in serving:
        found = values(url, writer.source)
        assert found[: writer.acknowledged] == list(range(writer.acknowledged)), url
        assert found == list(range(len(found)))
    check = run("cluster", "check", trial.address())
    assert check.returncode == 0, check.stdout + check.stderr


def test_a_misspelt_keyspace_is_not_created(trial):
    address = trial.address()
    wrong = re.sub(r"/\w+(?=\?|$)", "/misspelt", address)
    assert wrong != address
    for arguments in (("check", wrong), ("plan", wrong, "--sensors", "10"), ("check", wrong)):
        found = run("cluster", *arguments)
        assert found.returncode != 0 and "no keyspace misspelt" in found.stderr, found.stdout + found.stderr


def test_ports_with_tls_read_each_others_rows(trial, tmp_path):
    """The rows are on the disk of one port alone, so that the other one must ask for them. The last test: it kills a port."""
    made = run("tls", "self-signed", tmp_path / "tls", "--host", "127.0.0.1")
    assert made.returncode == 0, made.stderr
    certificate, key = made.stdout.split()
    third = trial.kill_port(3)
    second = [word.replace("port3", "port2").replace(":7672", ":7671") for word in third]
    secure = ["--tls-certificate", certificate, "--tls-key", key]
    alone = run(*third[1:], *secure)
    assert alone.returncode == 2 and "ports_ca_file" in alone.stderr, alone.stderr
    secure += ["--ports-ca-file", certificate, "--tls-client-ca", certificate, "--acknowledge", "local"]
    shown = {"verify": certificate, "cert": (certificate, key)}
    urls = [url.replace("http:", "https:") for url in trial.urls[1:]]
    with open(trial.log, "ab") as log:
        ports = [
            subprocess.Popen([*command, *secure], stderr=log, stdout=log, env=environment()) for command in (second, third)
        ]
    try:
        for url, port in zip(urls, ports, strict=True):
            trial.wait(port, lambda url=url: serves(url, **shown))
        for number, url in enumerate(urls):
            line = f"m,writer=tls{number} v={number}i {FIRST}"
            written = requests.post(url + "/write", params={"precision": "s"}, data=line, timeout=60, **shown)
            assert written.status_code == 204, written.text
        for url in urls:
            for number in range(2):
                assert values(url, f"m,writer=tls{number}", **shown) == [number]
        # The first port has no authority, and says what it cannot read.
        query = {"select": 'm{writer="tls0"}', "from": FIRST * 10**9, "to": (FIRST + 1) * 10**9}
        answer = requests.get(trial.urls[0] + "/api/v1/query", params=query, timeout=120)
        assert "port2" in answer.text, answer.text
    finally:
        for port in ports:
            port.send_signal(signal.SIGTERM)
        for port in ports:
            assert port.wait(120) == 0, trial.log.read_text()[-4000:]
