"""The program under test: one run of a server, and of a subcommand."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pyarrow
import requests

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("SEINER_BIN", ROOT / "target/debug/seiner")).resolve()
SLOW = os.environ.get("SEINER_SLOW", "") not in ("", "0")

START_S = 30
STOP_S = 30


def environment():
    """Environment without the settings of another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SEINER_")}


def run(*arguments, stdin=None, cwd=None, env=None, timeout=300):
    """Runs a subcommand. The caller checks its status and output."""
    return subprocess.run(
        [PROGRAM, *map(str, arguments)],
        input=stdin,
        cwd=cwd,
        env={**environment(), **(env or {})},
        capture_output=True,
        text=not isinstance(stdin, bytes),
        timeout=timeout,
    )


def free_port():
    """Returns a port that is free for TCP and UDP."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            port = stream.getsockname()[1]
            try:
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def until(condition, what, pause_s=0.05, patience_s=60):
    """Waits for a condition, and returns its value. `what` is the error if it does not hold in time."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(pause_s)
    return found


class Daemon:
    """Subcommand that runs until a signal ends it, with its output."""

    def __init__(self, log):
        self.log = Path(log)
        self.process = None

    def kill(self):
        """Sends SIGKILL (kill -9)."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        """Sends SIGTERM. The exit status must be 0."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(STOP_S)
        self.process = None
        assert status == 0, f"status {status} after SIGTERM:\n{self.log.read_text()}"


class Server(Daemon):
    """`seiner serve` on a port that the system chooses, without the host's sensors."""

    def __init__(self, data, log, /, **settings):
        super().__init__(log)
        self.data = Path(data)
        # The times of tests begin in 1970, in steps of a second or less.
        fixed = {"listen": "127.0.0.1:0", "host_sensors": "off", "allow_1970": "true", "data": self.data}
        flags = {**fixed, **settings}
        self.arguments = [text for name, value in flags.items() for text in (f"--{name.replace('_', '-')}", str(value))]
        self.url = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        """Starts the server. Returns the seconds until it printed its address."""
        started = time.monotonic()
        seen = self.start_without_waiting()
        while time.monotonic() - started < START_S:
            reported = self.log.read_bytes()[seen:].decode()
            address = re.search(r"The page is at (https?://[^/]+)/", reported)
            if address:
                self.url = address.group(1)
                return time.monotonic() - started
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        self.process.kill()
        status = self.process.wait()
        self.process = None
        raise AssertionError(f"the server did not start (status {status}):\n{reported}")

    def start_without_waiting(self):
        """Starts the server. Returns the previous length of its log."""
        with open(self.log, "ab") as log:
            seen = log.tell()
            self.process = subprocess.Popen(
                [PROGRAM, "serve", *self.arguments], stderr=log, stdout=log, env=environment()
            )
        return seen

    @property
    def address(self):
        return self.url.removeprefix("http://")

    def write(self, lines, path="/write", headers=None, **parameters):
        body = lines.encode() if isinstance(lines, str) else lines
        return requests.post(self.url + path, params=parameters, data=body, headers=headers, timeout=60)

    def ask(self, path, **parameters):
        """Queries the server. Parameters have the names of the HTTP API, except `from_` for `from`."""
        named = {name.rstrip("_"): value for name, value in parameters.items()}
        return requests.get(f"{self.url}/api/v1/{path}", params=named, timeout=300)

    def query(self, select, from_=-(2**63), to=2**63 - 1, **parameters):
        """Returns the series of a JSON answer, by (source as text, field)."""
        answer = self.ask("query", select=select, from_=from_, to=to, **parameters)
        assert answer.status_code == 200, answer.text
        return {(source(series), series["field"]): series for series in json.loads(answer.content)["series"]}

    def arrow(self, select, from_=-(2**63), to=2**63 - 1, **parameters):
        """Returns the answer as an Arrow table."""
        answer = self.ask("query", select=select, from_=from_, to=to, format="arrow", **parameters)
        assert answer.status_code == 200, answer.text
        return pyarrow.ipc.open_stream(answer.content).read_all()

    def status(self):
        return requests.get(self.url + "/status", timeout=60).json()

    def flush(self):
        assert requests.post(self.url + "/api/v1/flush", timeout=300).status_code == 204

    def peak_rss_bytes(self):
        """Returns the peak of the resident memory, by the kernel's count."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the kernel does not report VmHWM")


def source(series):
    """Returns a source in the notation of line protocol: `cpu,host=a`."""
    return ",".join([series["measurement"], *(f"{tag}={value}" for tag, value in sorted(series["tags"].items()))])
