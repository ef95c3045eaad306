"""The first hour of a user on a clean Debian system, with the commands and settings of the documents.

The package is that of the release in SEINER_RELEASE, or one with the program under test. The system has a network of its
own. Telegraf, a device and a browser are programs of this machine that run in that network.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from clean_root import System, copy
from program import ROOT, until
from test_documents import blocks
from test_page import CHROMIUM, browse
from test_release import ARCH, DEBIAN, FOLDER, RELEASE, blocks as blocks_of, later, needs_root
from test_senders import output, settings_of
from test_service import package  # noqa: F401

URL = "http://127.0.0.1:7670"
MQTT = ROOT / "docs/mqtt.md"
BACKUP = ROOT / "docs/backup.md"
PAGE = ROOT / "crates/server/dist"

pytestmark = [
    needs_root,
    pytest.mark.skipif(
        not FOLDER and not os.environ.get("SEINER_SLOW"),
        reason="a clean system takes minutes to make; run `make test SLOW=1` or `make dist-test`",
    ),
    pytest.mark.skipif(not shutil.which("mosquitto_pub"), reason="run `scripts/need.sh mosquitto`"),
]


@pytest.fixture
def system(tmp_path, request):
    """Booted system with the package in /root/release. Its attribute `package` is the path of the package."""
    path = next(RELEASE.glob(f"*{DEBIAN[ARCH]}.deb")) if FOLDER else request.getfixturevalue("package")[0]
    with System(copy(tmp_path / "system")) as booted:
        (booted.folder / "root/release").mkdir()
        shutil.copy(path, booted.folder / "root/release")
        if not FOLDER:
            # A development build reads the page from the folder in which it was built, also in a home directory.
            shutil.copytree(PAGE, booted.folder / PAGE.relative_to("/"))
            booted.check("mkdir -p /run/systemd/system/seiner.service.d")
            booted.check("printf '[Service]\\nProtectHome=no\\n' > /run/systemd/system/seiner.service.d/page.conf")
        booted.package = path
        yield booted


def inside(system):
    """Returns the command that runs a program of this machine in the network of the system."""
    return ["nsenter", "--target", system.leader, "--net"]


def beside(system, *command):
    """Runs a program of this machine in the network of the system."""
    subprocess.run([*inside(system), *command], check=True, capture_output=True, timeout=120)


def get(system, path, *parameters):
    """Sends a GET request from inside the system. Returns the text of the answer."""
    fields = " ".join(f"--data-urlencode '{parameter}'" for parameter in parameters)
    return system.check(f"curl -sSfG {URL}{path} {fields}")


def send_from_telegraf(system, tmp_path):
    """Sends the memory of this machine by the output of the page, or what Telegraf sends if it is not on the path."""
    if shutil.which("telegraf"):
        config = tmp_path / "telegraf.conf"
        config.write_text(f'[agent]\n  hostname = "host"\n[[inputs.mem]]\n{output("influxdb_v2")}')
        beside(system, "telegraf", "--config", config, "--once")
        return
    settings = settings_of("influxdb_v2")
    (system.folder / "root/lines.gz").write_bytes(gzip.compress(b"mem,host=host used_percent=12.5\n"))
    system.check(
        f"curl -sSf '{settings['urls'][0]}/api/v2/write?bucket={settings['bucket']}&org={settings['organization']}' "
        f"-H 'Authorization: Token {settings['token']}' -H 'Content-Encoding: gzip' --data-binary @/root/lines.gz"
    )


def stored(system):
    """Returns the series of Telegraf, of the device and of the first example."""
    answers = [
        get(system, "/api/v1/query", f"select={selector}", f"fields={field}")
        for selector, field in (
            ('mem{host="host"}', "used_percent"),
            ('climate{room="kitchen"}', "temperature"),
            ('weather{station="north"}', "temperature"),
        )
    ]
    return [json.loads(answer)["series"] for answer in answers]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; CHROMIUM names one")
def test_a_new_user_gets_from_the_package_to_a_restored_backup(system, tmp_path):
    install, _, _, prepare_backup = blocks_of("Debian package")
    assert "21.5" in system.check(install.replace("amd64", DEBIAN[ARCH]), "/root/release")

    # Live curves of the host.
    until(lambda: "host_cpu" in get(system, "/api/v1/summary"), "the sensors of the machine are recorded")
    time.sleep(3)
    assert browse(URL + "/", tmp_path, inside(system)).count("<canvas") >= 4

    # Data of Telegraf and of a device that speaks MQTT.
    send_from_telegraf(system, tmp_path)
    (settings,) = [block for block in blocks(MQTT, "toml") if "mqtt_listen" in block]
    with open(system.folder / "etc/seiner/seiner.toml", "a") as file:
        file.write("\n" + settings)
    system.check("systemctl restart seiner")
    (example,) = [block for block in blocks(MQTT, "sh") if "mosquitto_pub" in block]
    (publish,) = [line for line in example.splitlines() if line.startswith("mosquitto_pub")]
    beside(system, *publish.split())
    until(lambda: '"climate"' in get(system, "/api/v1/summary"), "the message of the device is stored")

    # Both in the requests of Grafana's data source, and on the page.
    end = time.time() + 60
    for query, value in (("mem_used_percent", r"[\d.]+"), ('climate_temperature{room="kitchen"}', "21.5")):
        asked = (f"query={query}", f"start={end - 3600}", f"end={end}", "step=15")
        answer = get(system, "/prometheus/api/v1/query_range", *asked)
        assert re.search(rf'"values":\[\[[\d.]+,"{value}"', answer), answer
    for measurement, field, value in (("mem", "used_percent", r"[\d.]+"), ("climate", "temperature", "21.5")):
        shown = browse(f"{URL}/#/explorer?select={measurement}&field={field}", tmp_path, inside(system))
        words = " ".join(re.sub(r"<[^>]*>", " ", shown).split())
        assert "<canvas" in shown and re.search(f"samples {field} {value} ", words), words

    # A backup, a loss, and what the backup restores.
    system.check(prepare_backup)
    before = stored(system)
    assert [len(series) for series in before] == [1, 1, 1], before
    system.check("systemctl start seiner-backup.service")
    system.check(f"curl -sSf '{URL}/write' --data-binary 'weather,station=north temperature=-99'")
    assert stored(system) != before
    (restore,) = [block for block in blocks(BACKUP, "sh") if "data.before" in block]
    system.check(restore)
    until(lambda: system.run(f"curl -sSf {URL}/ready").returncode == 0, "the restored store is served")
    assert stored(system) == before

    # An upgrade keeps settings and data.
    shutil.copy(later(system.package, tmp_path), system.folder / "root/release/later.deb")
    system.check("DEBIAN_FRONTEND=noninteractive apt-get install -y ./later.deb", "/root/release")
    until(lambda: system.run(f"curl -sSf {URL}/ready").returncode == 0, "the later version serves")
    assert stored(system) == before
    assert "99.0.0" in system.check("dpkg-query --show seiner")
    beside(system, *publish.split())
