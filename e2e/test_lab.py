"""The lab and the planner as people run them, at toy size."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from program import PROGRAM, environment, run

FILES = {"job.toml", "cells.jsonl", "results.json", "results.csv", "lines.csv", "report.html"}
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def lab(tmp_path):
    """Runs `seiner lab` with a state directory of its own, in a directory of its own."""
    (tmp_path / "disk").mkdir()

    def lab(*arguments, timeout=120):
        return run("lab", *arguments, cwd=tmp_path, env={"SEINER_LAB_STATE": str(tmp_path / "state")}, timeout=timeout)

    return lab


def leftovers(directory):
    return [path for path in Path(directory).rglob("seiner-lab-*")]


def check_report(directory):
    """Everything is there, and the page needs nothing from elsewhere."""
    assert {path.name for path in Path(directory).iterdir()} == FILES
    page = (Path(directory) / "report.html").read_text()
    assert "<svg" in page or "<table" in page
    assert not re.search(r"(src|href)\s*=|@import|url\(|https?://", page), "a page without anything from elsewhere"
    return json.loads((Path(directory) / "results.json").read_text())


def test_check_needs_no_rights_and_writes_nothing(lab, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    done = lab("check", "disk")
    assert done.returncode == 0, done.stderr
    assert "/" in done.stdout
    report = json.loads(lab("check", "disk", "--json").stdout)
    assert report["findings"] and report["place"]["mount"]["kind"]
    assert sorted(tmp_path.rglob("*")) == before
    assert lab("check", "nowhere").returncode == 2


def test_disk_is_measured_continued_and_compared(lab, tmp_path):
    done = lab("disk", "disk", "--profile", "toy", "--out", "a")
    assert done.returncode == 0, done.stderr
    results = check_report(tmp_path / "a")
    assert results["backend"] == "native" and results["machine"]["kernel"]
    assert all(cell["figures"]["MB/s"] > 0 for cell in results["cells"])
    assert not leftovers(tmp_path)

    # The same run into the same directory has nothing left to measure.
    cells = (tmp_path / "a/cells.jsonl").read_text()
    assert lab("run", "a").returncode == 0
    assert (tmp_path / "a/cells.jsonl").read_text() == cells
    # A torn last line is measured again.
    (tmp_path / "a/cells.jsonl").write_text(cells[:-40])
    assert lab("run", "a").returncode == 0
    assert len((tmp_path / "a/cells.jsonl").read_text().splitlines()) >= len(cells.splitlines())
    # Another run does not go there.
    done = lab("disk", "disk", "--profile", "toy", "--out", "a", "--seed", "2")
    assert done.returncode == 2 and "other settings" in done.stderr

    shutil.copytree(tmp_path / "a", tmp_path / "b")
    done = lab("report", "a", "b", "--to", "ab.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "ab.html").read_text()
    assert "B ÷ A" in page and "(same)" in page


def test_every_store_is_written(lab, tmp_path):
    done = lab("write", "disk", "--profile", "toy", "--out", "w")
    assert done.returncode == 0, done.stderr
    results = check_report(tmp_path / "w")
    stores = {cell["settings"]["store"] for cell in results["cells"]}
    assert stores == {"files", "in-place", "akumuli", "yawndb", "log", "log-only"}
    assert all(cell["figures"]["MB/s"] > 0 for cell in results["cells"])
    assert "paper: files B=4K, HDD ext4" in (tmp_path / "w/report.html").read_text()
    assert not leftovers(tmp_path)


def test_the_highest_rate_is_searched(lab, tmp_path):
    done = lab("write", "disk", "--profile", "toy", "--paced", "--store", "files", "--sensors", "10", "--out", "w")
    assert done.returncode == 0, done.stderr
    (cell,) = check_report(tmp_path / "w")["cells"]
    assert cell["figures"]["sustained MB/s"] >= 0
    (trials,) = [line for line in cell["lines"] if line["name"] == "passed at MB/s"]
    assert len(trials["points"]) == 6


def test_files_are_copied_and_the_papers_table_stands_beside(lab, tmp_path):
    done = lab("files", "disk", "--profile", "toy", "--system", "as mounted", "--system", "ufs", "--out", "f")
    assert done.returncode == 0, done.stderr
    assert "not available here: ufs" in done.stdout
    results = check_report(tmp_path / "f")
    assert results["missing"][0]["name"] == "ufs"
    assert "paper: ReiserFS" in (tmp_path / "f/report.html").read_text()
    assert not leftovers(tmp_path)


def test_a_command_is_traced(lab, tmp_path):
    command = ["dd", "if=/dev/zero", f"of={tmp_path}/disk/zeros", "bs=1M", "count=8", "conv=fsync", "status=none"]
    done = lab("trace", "--on", "disk", "--written", "8MiB", "--out", "t", "--", *command)
    if "lies on no block device" in done.stderr:
        pytest.skip("the directory of tests lies on no block device")
    assert done.returncode == 0, done.stderr
    (cell,) = check_report(tmp_path / "t")["cells"]
    assert cell["figures"]["written MB"] >= 8
    assert cell["figures"]["K_wa"] >= 1


@pytest.mark.parametrize(
    ("arguments", "tells"),
    [
        (["disk", "disk", "--size", "900TiB"], ["free", "--size"]),
        (["disk", "nowhere"], ["nowhere"]),
        (["write", "disk", "--fresh", "zfs"], ["zfs", "ext4"]),
        (["write", "disk", "--sensors", "0"], ["--sensors"]),
        (["write", "disk", "--room", "900TiB"], ["--room"]),
        (["files", "disk", "--system", "fat"], ["fat", "known are"]),
        (["trace"], ["--blktrace"]),
        (["trace", "--blktrace", "job.toml"], ["job.toml"]),
        (["run", "nowhere.toml"], ["nowhere.toml"]),
        (["report", "disk"], ["results.json"]),
    ],
)
def test_refusals_come_before_anything_is_made(lab, tmp_path, arguments, tells):
    done = lab(*arguments)
    assert done.returncode in (1, 2), done.stdout
    for part in tells:
        assert part in done.stderr, done.stderr
    assert not leftovers(tmp_path)
    assert not (tmp_path / "disk").exists() or not list((tmp_path / "disk").iterdir())


def start(tmp_path, *arguments):
    """A run that takes long, once it has made its directory on the disk."""
    env = {**environment(), "SEINER_LAB_STATE": str(tmp_path / "state")}
    process = subprocess.Popen([PROGRAM, "lab", *arguments], cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
    for _ in range(200):
        if leftovers(tmp_path / "disk") and (tmp_path / "a/cells.jsonl").exists():
            return process
        time.sleep(0.05)
    process.kill()
    raise AssertionError("the run did not start")


def test_an_interrupted_run_leaves_nothing_and_continues(lab, tmp_path):
    arguments = ["disk", "disk", "--profile", "toy", "--sustained", "0.2", "--seconds", "2", "--out", "a"]
    process = start(tmp_path, *arguments)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 1, told
    assert "lab run a" in told
    assert not leftovers(tmp_path)
    assert not list((tmp_path / "state").iterdir())
    kept = len((tmp_path / "a/cells.jsonl").read_text().splitlines())
    assert 1 <= kept < 12


def test_what_a_killed_run_left_goes(lab, tmp_path):
    process = start(tmp_path, "disk", "disk", "--profile", "toy", "--seconds", "5", "--out", "a")
    process.kill()
    process.wait()
    assert leftovers(tmp_path / "disk")
    done = lab("tidy")
    assert done.returncode == 0, done.stderr
    assert "gone: the directory" in done.stdout
    assert not leftovers(tmp_path)
    assert "nothing was left" in lab("tidy").stdout


@pytest.mark.skipif(not IS_ROOT, reason="making file systems takes root")
def test_a_fresh_file_system_is_made_and_goes(lab, tmp_path):
    done = lab("write", "disk", "--profile", "toy", "--fresh", "ext4", "--store", "files", "--out", "w")
    if "cannot be had" in done.stderr or "losetup failed" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    for cell in check_report(tmp_path / "w")["cells"]:
        assert cell["figures"]["K_wa"] > 0.5
    assert not leftovers(tmp_path)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert str(tmp_path) not in run_losetup()


def run_losetup():
    return subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=False).stdout


@pytest.mark.skipif(not IS_ROOT, reason="file systems at chosen sectors take root")
def test_unaligned_partitions_cost_reading(lab, tmp_path):
    done = lab("align", "disk", "--profile", "toy", "--system", "ext4", "--out", "l")
    if done.returncode != 0:
        pytest.skip(done.stderr)
    results = check_report(tmp_path / "l")
    assert results["backend"] == "model"
    (cell,) = results["cells"]
    figures = cell["figures"]
    assert figures["extract rmw, aligned"] == 0
    assert figures["extract rmw, unaligned"] > 0


def plan(*arguments, **settings):
    return run("plan", *arguments, **settings)


def test_a_plan_is_a_configuration_that_the_server_takes(tmp_path):
    demand = ["--sensors", "1e5", "--every", "10s", "--fields", "4", "--keep", "30d", "--ram", "8GiB", "--room", "500GB"]
    done = plan(*demand, "--tbw", "290TB", "--raid", "6:6:16KiB")
    assert done.returncode == 0, done.stderr
    for part in ("It fits one machine", "planing", "life of the SSD", "K_wa", "a power cut loses", "(paper)"):
        assert part in done.stdout
    done = plan(*demand, "--toml")
    settings = tmp_path / "seiner.toml"
    settings.write_text(done.stdout)
    assert run("config", "--config", settings).returncode == 0


def test_a_plan_that_does_not_fit_says_what_would():
    done = plan("--sensors", "1e6", "--every", "1s", "--fields", "10", "--keep", "5y", "--ram", "4GiB", "--room", "1TB")
    assert done.returncode == 0, done.stderr
    assert "It does not fit one machine" in done.stdout
    assert "What would fit" in done.stdout and "machines like this" in done.stdout


def test_a_plan_from_a_running_server(serve):
    server = serve()
    for second in range(6):
        lines = "".join(f"planned,sensor={sensor} a=1.5,b=2.5 {second + 1}\n" for sensor in range(50))
        assert server.write(lines).status_code == 204
        time.sleep(0.3)
    done = plan("--from", server.url, "--keep", "30d", "--room", "100GB")
    assert done.returncode == 0, done.stderr
    assert "samples a second" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "tells"),
    [
        (["--every", "10s"], "--sensors"),
        (["--sensors", "many"], "1e6"),
        (["--sensors", "10", "--raid", "6:2:16KiB"], "4 members"),
        (["--sensors", "10", "--disk", "/nowhere"], "/nowhere"),
        (["--sensors", "10", "--measured", "/nowhere"], "/nowhere"),
        (["--sensors", "10", "--keep", "soon"], "--keep"),
    ],
)
def test_a_demand_without_sense_is_refused(arguments, tells):
    done = plan(*arguments)
    assert done.returncode == 2
    assert tells in done.stderr
