"""Import of databases of rrdtool, compared with what `rrdtool fetch` reads from each archive."""

import os
import re
import shutil
import subprocess

import pyarrow
import pyarrow.parquet
import pytest

from program import run

pytestmark = pytest.mark.skipif(
    not shutil.which("rrdtool"), reason="rrdtool is not installed: run scripts/need.sh rrdtool"
)

BEGIN = 1_700_000_000
STEP = 10


def rrdtool(*arguments):
    # Numbers have decimal points, in any language of the system.
    env = {**os.environ, "LC_ALL": "C"}
    command = ["rrdtool", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=env, timeout=120).stdout


def create(path, dice):
    """Creates a database with two data sources and five archives, with gaps."""
    sources = ["DS:temp:GAUGE:25:U:U", "DS:pk-ts:DERIVE:25:U:U"]
    archives = ["AVERAGE:0.5:1:60", "AVERAGE:0.5:6:50", "AVERAGE:0.5:60:80", "MAX:0.5:6:40", "MIN:0.5:6:30"]
    rrdtool("create", path, "--start", BEGIN, "--step", STEP, *sources, *(f"RRA:{archive}" for archive in archives))
    updates, total = [], 0
    for n in range(1, 2000):
        total += dice.randrange(-5, 1000)
        if (n // 70) % 4 and dice.random() < 0.95:
            temp = "U" if dice.random() < 0.1 else f"{dice.gauss(20, 5):.2f}"
            updates.append(f"{BEGIN + STEP * n}:{temp}:{total}")
    for start in range(0, len(updates), 500):
        rrdtool("update", path, *updates[start : start + 500])


def fetched(path, consolidation):
    """Returns, for each field, the values of the finest archive that has one, by time in s."""
    info = dict(line.split(" = ") for line in rrdtool("info", path).splitlines())
    last, found = int(info["last_update"]), {}
    archives = []
    for key, value in info.items():
        match = re.fullmatch(r"rra\[(\d+)\]\.cf", key)
        if match and value == f'"{consolidation}"':
            number = match[1]
            archives.append((int(info[f"rra[{number}].pdp_per_row"]) * STEP, int(info[f"rra[{number}].rows"])))
    for step, rows in sorted(archives):
        end = last - last % step
        start = end - step * rows
        lines = rrdtool("fetch", path, consolidation, "-r", step, "-s", start, "-e", end - step).splitlines()
        names = lines[0].split()
        new, count = [], 0
        for line in lines[2:]:
            time, values = line.split(":")
            count += 1
            for name, value in zip(names, map(float, values.split())):
                finer = found.setdefault(name, {})
                if value == value and not any(int(time) - step < at <= int(time) for at in finer):
                    new.append((name, int(time), value))
        assert count == rows, (step, count, rows)
        for name, time, value in new:
            found[name][time] = value
    return found


def exported(folder, *origin):
    """Returns the stored values by measurement, tag `site` and field."""
    assert run("export", folder, *origin).returncode == 0
    found = {}
    for path in folder.rglob("*.parquet"):
        table = pyarrow.parquet.read_table(path, partitioning=None)
        times = table["time"].cast(pyarrow.int64()).to_pylist()
        roles = [(field.metadata or {}) for field in table.schema]
        columns = {role[b"name"].decode(): table.column(at).to_pylist() for at, role in enumerate(roles) if role.get(b"kind") != b"time"}
        measurements = columns.pop("measurement", None)
        sites = columns.pop("site", None)
        for name, values in columns.items():
            for at, (ns, value) in enumerate(zip(times, values)):
                measurement = measurements[at] if measurements else table.schema.metadata[b"measurement"].decode()
                if value is not None:
                    key = (measurement, sites[at] if sites else None, name)
                    found.setdefault(key, {})[ns // 10**9] = value
    return found


def test_databases_are_imported_as_rrdtool_reads_them(serve, tmp_path, dice):
    paths = [tmp_path / "hall.rrd", tmp_path / "cellar.rrd"]
    for path in paths:
        create(path, dice)
    wanted = {(path.stem, None, name): values for path in paths for name, values in fetched(path, "AVERAGE").items()}
    assert {key[2] for key in wanted} == {"temp", "pk-ts"} and all(len(values) > 40 for values in wanted.values())
    done = run("import", "rrd", "--data", tmp_path / "data", *paths)
    assert done.returncode == 0, done.stderr
    assert exported(tmp_path / "a", "--data", tmp_path / "data") == wanted
    assert re.search(r" rows imported, 0 rejected; 0 of 2 files failed; [1-9]\d* values are of coarser archives", done.stderr)
    assert re.search(r"[1-9]\d* unknown values left out", done.stderr)

    # A dump, another consolidation, and a server.
    dump = tmp_path / "dump.xml"
    dump.write_text(rrdtool("dump", paths[0]))
    server = serve("server")
    flags = ["--consolidation", "max", "--measurement", "peak", "--tag", "site=x", "--server", server.url]
    done = run("import", "rrd", *flags, dump)
    assert done.returncode == 0, done.stderr
    wanted = {("peak", "x", name): values for name, values in fetched(paths[0], "MAX").items()}
    assert exported(tmp_path / "b", "--server", server.url) == wanted


def test_other_files_are_reported(tmp_path, dice):
    path, other, cut = tmp_path / "hall.rrd", tmp_path / "other.txt", tmp_path / "cut.rrd"
    create(path, dice)
    other.write_text("no dump\n<rrd>\n<step>x</step>")
    cut.write_bytes(path.read_bytes()[:300])
    done = run("import", "rrd", "--data", tmp_path / "data", other, cut, path)
    assert done.returncode == 1, done.stderr
    assert f"{other}: line 3 is not a dump of rrdtool: a number" in done.stderr
    assert f"{cut}: rrdtool dump failed: " in done.stderr and "2 of 3 files failed" in done.stderr
    assert exported(tmp_path / "a", "--data", tmp_path / "data")
    done = run("import", "rrd", "--data", tmp_path / "data", "--consolidation", "LAST", path)
    assert done.returncode == 1 and "the file has AVERAGE, MAX, MIN" in done.stderr
    done = run("import", "rrd", "--data", tmp_path / "data", path, env={"PATH": "/nowhere"})
    assert done.returncode == 1 and "install the package rrdtool" in done.stderr
