"""collectd itself: plain, signed and encrypted packets, with the right and with wrong passwords."""

import shutil
import subprocess
import time

import pytest
import requests

from program import free_port, until


pytestmark = pytest.mark.skipif(
    not shutil.which("collectd"), reason="collectd is not installed: run scripts/need.sh collectd"
)


@pytest.fixture
def collectd(tmp_path):
    """Starts collectd with the options of a server, which receives values each 100 ms."""
    running = []

    def start(port, options=""):
        folder = tmp_path / f"collectd-{len(running)}"
        folder.mkdir()
        config = folder / "collectd.conf"
        config.write_text(f"""
Hostname "nas"
FQDNLookup false
BaseDir "{folder}"
PIDFile "{folder}/pid"
Interval 0.1
TypesDB "/usr/share/collectd/types.db"
LoadPlugin load
LoadPlugin interface
LoadPlugin network
<Plugin network>
    <Server "127.0.0.1" "{port}">
        {options}
    </Server>
</Plugin>
""")
        with open(folder / "log", "wb") as log:
            running.append(subprocess.Popen(["collectd", "-f", "-C", config], stdout=log, stderr=log))

    yield start
    for process in running:
        process.kill()
        process.wait()


def counter(server, name):
    lines = requests.get(server.url + "/metrics", timeout=60).text.splitlines()
    found = [line for line in lines if line.startswith(f'seiner_ingest_{name}_total{{protocol="collectd"}}')]
    return int(found[0].split()[-1]) if found else 0


SIGN = 'SecurityLevel Sign\nUsername "ann"\nPassword "secret"'
ENCRYPT = SIGN.replace("Sign", "Encrypt", 1)


@pytest.mark.parametrize(
    "security, options",
    [("none", ""), ("none", SIGN), ("sign", SIGN), ("sign", ENCRYPT), ("encrypt", ENCRYPT)],
    ids=["plain", "any-signed", "signed", "sign-encrypted", "encrypted"],
)
def test_packets_of_collectd_become_rows(serve, collectd, tmp_path, security, options):
    (tmp_path / "users").write_text("ann: secret\n")
    port = free_port()
    server = serve(
        collectd_listen=f"127.0.0.1:{port}", collectd_security=security, collectd_auth_file=tmp_path / "users"
    )
    collectd(port, options)
    source = "load,host=nas,type=load"
    load = until(lambda: server.query("load"), "no packet was stored")
    assert set(load) == {(source, "shortterm"), (source, "midterm"), (source, "longterm")}
    series = load[source, "shortterm"]
    assert abs(series["times"][0] / 1e9 - time.time()) < 60
    assert all(0 <= value < 1000 for value in series["values"])
    octets = until(lambda: server.query('interface{instance="lo",type="if_octets"}'), "no octets")
    assert {field for _, field in octets} == {"rx", "tx"}
    assert counter(server, "rejected_rows") == 0


@pytest.mark.parametrize(
    "security, options, reason",
    [
        ("sign", "", "is not signed"),
        ("encrypt", SIGN, "is not encrypted"),
        ("sign", SIGN.replace("secret", "wrong"), "signature is wrong"),
        ("encrypt", ENCRYPT.replace("secret", "wrong"), "checksum of an encrypted part is wrong"),
        ("encrypt", ENCRYPT.replace("ann", "eve"), "is unknown"),
    ],
    ids=["plain", "signed", "wrong-signature", "wrong-key", "unknown-user"],
)
def test_packets_without_the_required_protection_are_rejected(serve, collectd, tmp_path, security, options, reason):
    (tmp_path / "users").write_text("ann: secret\n")
    port = free_port()
    server = serve(
        collectd_listen=f"127.0.0.1:{port}", collectd_security=security, collectd_auth_file=tmp_path / "users"
    )
    collectd(port, options)
    until(lambda: counter(server, "rejected_rows") > 0, "no packet was rejected")
    assert counter(server, "rows") == 0 and server.query("load") == {}
    until(lambda: reason in server.log.read_text(), "the log has no reason")
