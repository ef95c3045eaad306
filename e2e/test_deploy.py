"""Files in deploy/: units of systemd, compose file, settings."""

import re
import shutil
import subprocess

import pytest
import yaml

from program import PROGRAM, ROOT, run
from test_documents import blocks

DEPLOY = ROOT / "deploy"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
@pytest.mark.parametrize("unit", ["seiner.service", "cassandra.service", "seiner-backup.service", "seiner-backup.timer"])
def test_units_are_valid(unit, tmp_path):
    text = (DEPLOY / unit).read_text()
    # The programs need not be installed here.
    for installed in ("/usr/local/bin/seiner", "/opt/cassandra/bin/cassandra"):
        text = text.replace(installed, str(PROGRAM))
    (tmp_path / unit).write_text(text)
    found = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / unit], capture_output=True, text=True)
    problems = [line for line in found.stderr.splitlines() if unit in line]
    assert found.returncode == 0 and not problems, found.stderr


def test_the_compose_file_has_as_many_ports_as_nodes():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    kinds = [name.rstrip("0123456789") for name in services]
    assert kinds.count("port") == kinds.count("cassandra") == 3
    for name, service in services.items():
        volumes = [volume.split(":")[0] for volume in service["volumes"]]
        assert volumes == [name], "each service has a volume of its own"
        if name.startswith("port"):
            known = run("config", env={key: str(value) for key, value in service["environment"].items()})
            assert known.returncode == 0, known.stderr
            assert f"{name}:7670" in known.stdout


def test_the_settings_of_a_port_are_known():
    known = run("config", "--config", DEPLOY / "port.toml")
    assert known.returncode == 0, known.stderr
    assert "10.0.0.1:7670" in known.stdout


ADDITIONS = [block for block in blocks(ROOT / "docs/systemd.md", "ini") if block.startswith("[Service]")]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda text: text.split("\n")[1].partition("=")[0])
def test_additions_of_the_page_about_systemd_are_valid(addition, tmp_path):
    unit = tmp_path / "seiner.service"
    unit.write_text((DEPLOY / unit.name).read_text().replace("/usr/local/bin/seiner", str(PROGRAM)))
    (tmp_path / "seiner.service.d").mkdir()
    (tmp_path / "seiner.service.d/override.conf").write_text(addition)
    found = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    problems = [line for line in found.stderr.splitlines() if "seiner.service" in line]
    assert found.returncode == 0 and not problems, found.stderr


def test_the_page_about_systemd_shows_lines_of_the_unit():
    unit = (DEPLOY / "seiner.service").read_text().splitlines()
    rows = re.findall(r"^\| (`.+?) \|", (ROOT / "docs/systemd.md").read_text(), re.MULTILINE)
    lines = [line for row in rows for line in re.findall(r"`([^`]+)`", row)]
    assert len(lines) > 8
    for line in lines:
        assert line in unit or line.endswith("=") and any(f"#{line}" in present for present in unit), line
