"""The lab in typical use, at toy size."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from program import PROGRAM, ROOT, SLOW, environment, run

FILES = {"job.toml", "cells.jsonl", "results.json", "results.csv", "lines.csv", "report.html"}
IS_ROOT = os.geteuid() == 0


@pytest.fixture
def lab(tmp_path):
    """Runs `seiner lab` in a separate directory, with a separate state directory."""
    (tmp_path / "disk").mkdir()

    def lab(*arguments, timeout=120):
        return run("lab", *arguments, cwd=tmp_path, env={"SEINER_LAB_STATE": str(tmp_path / "state")}, timeout=timeout)

    return lab


def leftovers(directory):
    return [path for path in Path(directory).rglob("seiner-lab-*")]


def check_report(directory):
    """Asserts that all files exist, and that the page loads no external resource."""
    assert {path.name for path in Path(directory).iterdir()} == FILES
    page = (Path(directory) / "report.html").read_text()
    assert "<svg" in page or "<table" in page
    assert not re.search(r"(src|href)\s*=|@import|url\(|https?://", page), "the page loads something from elsewhere"
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

    # The same run into the same directory has no cell left to measure.
    cells = (tmp_path / "a/cells.jsonl").read_text()
    assert lab("run", "a").returncode == 0
    assert (tmp_path / "a/cells.jsonl").read_text() == cells
    # A torn last line is measured again.
    (tmp_path / "a/cells.jsonl").write_text(cells[:-40])
    assert lab("run", "a").returncode == 0
    assert len((tmp_path / "a/cells.jsonl").read_text().splitlines()) >= len(cells.splitlines())
    # Another run is rejected in this directory.
    done = lab("disk", "disk", "--profile", "toy", "--out", "a", "--seed", "2")
    assert done.returncode == 2 and "other settings" in done.stderr

    shutil.copytree(tmp_path / "a", tmp_path / "b")
    done = lab("report", "a", "b", "--to", "ab.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "ab.html").read_text()
    assert "B ÷ A" in page and "(same)" in page


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
def test_fio_is_measured_beside(lab, tmp_path):
    done = lab("disk", "disk", "--profile", "toy", "--fio", "--out", "a")
    assert done.returncode == 0, done.stderr
    assert all(cell["figures"]["fio MB/s"] > 0 for cell in check_report(tmp_path / "a")["cells"])
    assert "Beside fio" in (tmp_path / "a/report.html").read_text()


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
    sequential, cell = check_report(tmp_path / "w")["cells"]
    assert sequential["name"] == "one file in sequence"
    assert cell["figures"]["sustained MB/s"] >= 0
    (trials,) = [line for line in cell["lines"] if line["name"] == "passed at MB/s"]
    assert len(trials["points"]) == 6


def test_files_are_copied_and_the_table_of_the_paper_is_shown(lab, tmp_path):
    done = lab("files", "disk", "--profile", "toy", "--system", "as mounted", "--system", "ufs", "--out", "f")
    assert done.returncode == 0, done.stderr
    assert "not measured: ufs" in done.stdout
    results = check_report(tmp_path / "f")
    assert results["missing"][0]["name"] == "ufs"
    assert "paper: ReiserFS" in (tmp_path / "f/report.html").read_text()
    assert not leftovers(tmp_path)


def test_a_command_is_traced(lab, tmp_path):
    command = ["dd", "if=/dev/zero", f"of={tmp_path}/disk/zeros", "bs=1M", "count=8", "conv=fsync", "status=none"]
    done = lab("trace", "--on", "disk", "--written", "8MiB", "--out", "t", "--", *command)
    if "is on no block device" in done.stderr:
        pytest.skip("the directory of tests is on no block device")
    assert done.returncode == 0, done.stderr
    (cell,) = check_report(tmp_path / "t")["cells"]
    assert cell["figures"]["written MB"] >= 8
    assert cell["figures"]["K_wa"] >= 1


def test_the_tour_ends_in_a_page_of_all(lab, tmp_path):
    done = lab("tour", "disk", "--profile", "toy", "--out", "t", timeout=300)
    assert done.returncode == 0, done.stderr
    walked = {path.name for path in (tmp_path / "t").iterdir() if path.is_dir()}
    assert walked >= {"disk", "write", "files"}
    for name in walked:
        check_report(tmp_path / "t" / name)
    page = (tmp_path / "t/report.html").read_text()
    assert not re.search(r"src\s*=|@import|url\(|https?://", page), "the page loads something from elsewhere"
    links = set(re.findall(r'href="([^"]*)"', page))
    assert links == {f"{name}/report.html" for name in walked}
    assert page.count("<svg") >= 2 * len(walked), "every experiment shows a picture"
    assert ("align" in walked) != ("<li>align: " in page), "align is neither in the tour nor left out with a reason"
    assert not leftovers(tmp_path)

    # Completed parts of the tour are not repeated.
    cells = (tmp_path / "t/disk/cells.jsonl").read_text()
    assert lab("tour", "disk", "--profile", "toy", "--out", "t").returncode == 0
    assert (tmp_path / "t/disk/cells.jsonl").read_text() == cells


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["tour", "nowhere"], ["nowhere"]),
        (["disk", "disk", "--size", "900TiB"], ["free", "--size"]),
        (["disk", "nowhere"], ["nowhere"]),
        (["write", "disk", "--fresh", "zfs"], ["zfs", "ext4"]),
        (["write", "disk", "--sensors", "0"], ["--sensors"]),
        (["write", "disk", "--space", "900TiB"], ["--space"]),
        (["files", "disk", "--system", "fat"], ["fat", "known are"]),
        (["trace"], ["--blktrace"]),
        (["trace", "--blktrace", "job.toml"], ["job.toml"]),
        (["run", "nowhere.toml"], ["nowhere.toml"]),
        (["report", "disk"], ["results.json"]),
    ],
)
def test_invalid_requests_are_rejected_before_anything_is_created(lab, tmp_path, arguments, parts):
    done = lab(*arguments)
    assert done.returncode in (1, 2), done.stdout
    for part in parts:
        assert part in done.stderr, done.stderr
    assert not leftovers(tmp_path)
    assert not (tmp_path / "disk").exists() or not list((tmp_path / "disk").iterdir())


def start(tmp_path, *arguments):
    """Starts a long run. Returns after the run created its directory on the disk."""
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
    # `timeout` and `make` pass a signal to the process and to its group: one request in two signals.
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, reported = process.communicate(timeout=30)
    assert process.returncode == 1, reported
    assert "lab run a" in reported
    assert not leftovers(tmp_path)
    assert not list((tmp_path / "state").iterdir())
    kept = len((tmp_path / "a/cells.jsonl").read_text().splitlines())
    assert 1 <= kept < 12


def test_remains_of_a_killed_run_are_removed(lab, tmp_path):
    process = start(tmp_path, "disk", "disk", "--profile", "toy", "--seconds", "5", "--out", "a")
    process.kill()
    process.wait()
    assert leftovers(tmp_path / "disk")
    done = lab("tidy")
    assert done.returncode == 0, done.stderr
    assert "removed: the directory" in done.stdout
    assert not leftovers(tmp_path)
    assert "nothing was left" in lab("tidy").stdout


@pytest.mark.skipif(not IS_ROOT, reason="making file systems takes root")
def test_a_fresh_file_system_is_created_and_removed(lab, tmp_path):
    done = lab("write", "disk", "--profile", "toy", "--fresh", "ext4", "--store", "files", "--out", "w")
    if "cannot be created" in done.stderr or "losetup failed" in done.stderr:
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


def test_merging_is_counted_with_repeatable_results(lab, tmp_path):
    for out in "mn":
        done = lab("merge", "disk", "--profile", "toy", "--out", out)
        assert done.returncode == 0, done.stderr
    first, second = (check_report(tmp_path / out) for out in "mn")
    assert {cell["settings"]["policy"] for cell in first["cells"]} == {"patient", "fifo"}
    done = lab("report", "m", "n", "--to", "mn.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "mn.html").read_text()
    count = len(first["cells"])
    assert f"<td>written per byte</td><td>1</td><td>1</td><td>1</td><td>{count} of {count}</td>" in page
    assert "A: patient" in page and "B: patient" in page
    for one, other in zip(first["cells"], second["cells"], strict=True):
        assert one["figures"]["written per byte"] == other["figures"]["written per byte"] >= 1
        assert one["figures"]["MB/s"] > 0
    assert not leftovers(tmp_path)


def test_processes_write_instead_of_threads(lab, tmp_path):
    tell = ["write", "disk", "--profile", "toy", "--sensors", "100", "--writers", "3", "--processes"]
    done = lab(*tell, "--store", "files", "--store", "log", "--out", "w")
    assert done.returncode == 0, done.stderr
    results = check_report(tmp_path / "w")
    _, cell = results["cells"]
    assert cell["settings"]["processes"] is True and cell["settings"]["M"] == 3
    assert cell["figures"]["MB/s"] > 0 and cell["figures"]["laps"] >= 1
    assert [one["name"] for one in results["missing"]] == ["log"]
    assert not leftovers(tmp_path)
    assert lab("writer").returncode == 2


@pytest.mark.parametrize("store", ["sqlite", "rocksdb"])
def test_an_external_store_is_tested_or_listed_as_missing(store, lab, tmp_path):
    done = lab("write", "disk", "--profile", "toy", "--store", store, "--store", "log", "--out", "w")
    assert done.returncode == 0, done.stderr
    results = check_report(tmp_path / "w")
    tested = {cell["settings"]["store"] for cell in results["cells"]}
    missing = {cell["name"] for cell in results["missing"]}
    assert "log" in tested
    assert (store in tested) != (store in missing)


@pytest.fixture(scope="session")
def guest(tmp_path_factory):
    """Guest for file systems that this kernel lacks. An existing guest is used; otherwise one is prepared."""
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("QEMU is not installed")
    # Kept for the next run like the Python environment, because the kernel is downloaded.
    directory = Path(os.environ.get("SEINER_LAB_GUEST") or ROOT / "target/e2e-guest").resolve()
    state = tmp_path_factory.mktemp("guest") / "state"
    env = {"SEINER_LAB_GUEST": str(directory), "SEINER_LAB_STATE": str(state)}
    if not (directory / "guest.json").exists():
        done = run("lab", "guest", "--download", env=env, timeout=900)
        if done.returncode != 0 and ("apt-get" in done.stderr or "is not installed" in done.stderr):
            pytest.skip(f"no guest can be prepared: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr
        assert "f2fs: can be had" in done.stdout
    return env


@pytest.mark.skipif(not SLOW, reason="boots two machines more: SLOW=1 runs it")
def test_file_systems_of_another_kernel(guest, tmp_path):
    """Works for every user, because the guest contains the programs."""
    (tmp_path / "disk").mkdir()
    env = {**guest, "SEINER_LAB_STATE": str(tmp_path / "state")}
    systems = [text for name in ("jfs", "ufs") for text in ("--system", name)]
    tell = ["lab", "files", "disk", "--backend", "guest", "--profile", "toy", *systems]
    for out in "fg":
        done = run(*tell, "--out", out, cwd=tmp_path, env=env, timeout=1200)
        assert done.returncode == 0, done.stderr
    first, second = (check_report(tmp_path / out) for out in "fg")
    assert first["backend"] == "guest"
    assert [cell["name"] for cell in first["missing"]] == ["ufs"]
    (one,), (other,) = first["cells"], second["cells"]
    assert one["settings"]["guest kernel"] != os.uname().release
    # The guest's clock counts instructions, so other work of this computer has no effect.
    times = [cell["figures"]["untar small s"] for cell in (one, other)]
    assert times[0] == pytest.approx(times[1], rel=0.05)
    assert not leftovers(tmp_path)


def test_unaligned_partitions_in_a_guest(guest, tmp_path):
    (tmp_path / "disk").mkdir()
    env = {**guest, "SEINER_LAB_STATE": str(tmp_path / "state")}
    tell = ["lab", "align", "disk", "--backend", "guest", "--profile", "toy", "--system", "f2fs", "--out", "l"]
    done = run(*tell, cwd=tmp_path, env=env, timeout=1200)
    assert done.returncode == 0, done.stderr
    (cell,) = check_report(tmp_path / "l")["cells"]
    assert cell["figures"]["extract rmw, aligned"] == 0
    assert cell["figures"]["extract rmw, unaligned"] > 0


def test_block_operations_of_a_store_in_a_guest(guest, tmp_path):
    """Outside a guest, a fresh file system and the types of block operations require root."""
    (tmp_path / "disk").mkdir()
    env = {**guest, "SEINER_LAB_STATE": str(tmp_path / "state")}
    tell = ["lab", "write", "disk", "--backend", "guest", "--profile", "toy", "--fresh", "ext4", "--store", "files"]
    done = run(*tell, "--sensors", "10", "--out", "w", cwd=tmp_path, env=env, timeout=1200)
    assert done.returncode == 0, done.stderr
    results = check_report(tmp_path / "w")
    assert results["backend"] == "guest"
    _, cell = results["cells"]
    assert cell["figures"]["K_wa"] > 0.5
    assert not [note for note in cell["notes"] if "Types of block operations" in note]
    assert sum(of["bytes"] for kind, of in cell["blocks"]["types"].items() if kind.startswith("W")) > 0
    done = run(*tell, "--memory", "64MiB", "--out", "x", cwd=tmp_path, env=env)
    assert done.returncode == 2 and "--memory" in done.stderr


def test_a_missing_guest_is_reported_with_the_remedy(lab, tmp_path):
    done = run(
        "lab", "files", "disk", "--backend", "guest", "--system", "jfs",
        cwd=tmp_path, env={"SEINER_LAB_GUEST": str(tmp_path / "none"), "SEINER_LAB_STATE": str(tmp_path / "state")},
    )  # fmt: skip
    assert done.returncode == 2
    assert "seiner lab guest" in done.stderr or "not installed" in done.stderr
    assert run("lab", "inside").returncode == 2
