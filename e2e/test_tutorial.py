"""Commands of the tutorial, run in the order of the page, print what the page shows."""

import re
import signal
import subprocess
import time
import urllib.request

from program import PROGRAM, ROOT, START_S, STOP_S, environment, free_port

PAGE = ROOT / "docs/tutorial.md"
ADDRESS = "127.0.0.1:7670"
# Parts of outputs that differ from run to run, each with a word that stands for it.
VARIABLE = (
    (r"\b20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\b1[789]\d{8}(\.\d+)?\b", "EPOCH"),
    (r"\b\d+(\.\d+)? ([KMG]i)?B\b", "SIZE"),
)


def test_commands_of_the_tutorial_print_what_the_page_shows(tmp_path):
    shown = re.findall(r"^```(sh|text)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(shown) > 15, "the test found too few blocks"
    with Terminals(tmp_path) as terminals:
        printed = None
        for kind, text in shown:
            if kind == "text":
                assert constant(printed) == constant(text), f"the page shows\n{text}\nbut it was\n{printed}"
            elif text.startswith("seiner serve"):
                terminals.serve(text.strip())
            else:
                # The reader stops the server before its directory is removed.
                if text.startswith("rm "):
                    terminals.stop()
                printed = terminals.run(text)
        assert (tmp_path / "serve.log").is_file() and not (tmp_path / "seiner-data").exists()


def constant(text):
    """Returns an output without the parts that differ from run to run, and with single spaces."""
    for pattern, word in VARIABLE:
        text = re.sub(pattern, word, text)
    return [line.split() for line in text.splitlines()]


class Terminals:
    """Two terminals in one folder: the server runs in the first, commands in the second."""

    def __init__(self, folder):
        self.folder = folder
        self.server = None
        (folder / "bin").mkdir()
        (folder / "bin/seiner").symlink_to(PROGRAM)
        self.address = f"127.0.0.1:{free_port()}"
        path = f"{folder}/bin:{environment()['PATH']}"
        self.variables = {**environment(), "PATH": path, "SEINER_SERVER": f"http://{self.address}"}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def run(self, commands):
        """Runs a block of commands. Returns their output."""
        commands = "set -euo pipefail\n" + commands.replace(ADDRESS, self.address)
        done = subprocess.run(
            ["bash", "-c", commands], capture_output=True, text=True, cwd=self.folder, env=self.variables, timeout=60
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}\n{(self.folder / 'serve.log').read_text()}"
        return done.stdout

    def serve(self, command):
        """Stops the server as by Ctrl+C, and starts it by a command of the page."""
        self.stop()
        with open(self.folder / "serve.log", "ab") as log:
            variables = {**self.variables, "SEINER_LISTEN": self.address}
            self.server = subprocess.Popen(command.split(), cwd=self.folder, env=variables, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.server.poll() is None:
            try:
                return urllib.request.urlopen(f"http://{self.address}/ready", timeout=5).close()
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"the server did not start:\n{(self.folder / 'serve.log').read_text()}")

    def stop(self):
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            assert self.server.wait(STOP_S) == 0
            self.server = None
