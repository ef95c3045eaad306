"""First view of a new user, some seconds after the first command: curves of the host itself."""

import os
import re
import shutil
import subprocess
import time

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
LOOKS_S = 6


def browse(url, folder, inside=()):
    """Returns what a browser shows of an address after some seconds. `inside` is a command that runs the browser."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    command += [f"--user-data-dir={folder}/browser", f"--virtual-time-budget={LOOKS_S * 1000}", "--dump-dom", url]
    return subprocess.run([*inside, *command], check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; CHROMIUM names one")
def test_the_page_shows_curves_of_the_host(serve, tmp_path):
    server = serve(host_sensors="1s")
    time.sleep(3)
    shown = browse(server.url + "/", tmp_path)
    assert shown.count("<canvas") >= 4, "CPU, memory, network and load are drawn"
    words = [word for word in (part.strip() for part in re.split(r"<[^>]*>", shown)) if word]
    for label, figure in (("usage", r"[\d.]+\s?%"), ("used", r"[\d.]+ [KMG]iB"), ("load1", r"[\d.]+")):
        found = words[words.index(label) + 1]
        assert re.fullmatch(figure, found), f"{label} is shown as {found!r}"
