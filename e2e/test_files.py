"""Export into files of Parquet and Arrow, and import of files, with DuckDB, pyarrow and pandas as the other side."""

import math
import signal
import struct
import subprocess
import time

import duckdb
import numpy
import pandas
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from program import PROGRAM, environment, run

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
START = 1_700_000_000 * SECOND
PARQUET = ("import", "parquet")


@pytest.fixture
def data(tmp_path):
    """A directory with three days of rows, fields of all types, and a field of two types."""
    lines = [
        f'cpu,host=h{row % 3} usage={row}.5,n={row}i,u={row}u,ok={"tf"[row % 2]},s="x{row}" {START + row * DAY // 100}'
        for row in range(300)
    ]
    lines += [f'cpu,host=text usage="{row}" {START + row}' for row in range(3)]
    lines += [f"room\\ 1/a,day=mon t=20.25 {START}"]
    (tmp_path / "rows.lp").write_text("\n".join(lines))
    assert run("write", "--data", tmp_path / "data", tmp_path / "rows.lp").returncode == 0
    return tmp_path / "data"


def export(folder, *flags, status=0):
    done = run("export", folder, *flags)
    assert done.returncode == status, done.stderr
    return done.stderr


def rows(data, selector="{}"):
    """Returns the rows of a directory as CSV, sorted."""
    wide = ("--from", "1970-01-02", "--to", "2100-01-01", "--shape", "wide", "--format", "csv", "--data", data)
    done = run("query", selector, *wide)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def ask(sql):
    """Returns the rows of an answer of DuckDB."""
    return duckdb.sql(sql).fetchall()


def test_duckdb_reads_an_export(data, tmp_path):
    export(tmp_path / "out", "--data", data)
    assert (tmp_path / "out/measurement=room%201%2Fa/day=2023-11-14/rows.parquet").is_file()
    files = f"read_parquet('{tmp_path}/out/**/*.parquet', hive_partitioning = true, union_by_name = true)"
    count = f"select measurement, day::varchar, count(*) from {files} group by all order by all"
    found = ask(count)
    assert sum(rows for _, _, rows in found) == 304
    assert [day for measurement, day, _ in found if measurement == "cpu"] == [
        "2023-11-14", "2023-11-15", "2023-11-16", "2023-11-17",
    ]
    assert found[-1] == ("room 1/a", "2023-11-14", 1)
    cpu = f"read_parquet('{tmp_path}/out/measurement=cpu/**/*.parquet')"
    sums = ask(f'select sum(n), sum(u), sum("usage::f64"), count("usage::string"), count_if(ok) from {cpu}')
    assert sums == [(44850, 44850, 45000.0, 3, 150)]
    hosts = ask(f"select distinct host from {cpu} where day = '2023-11-15' order by host")
    assert hosts == [("h0",), ("h1",), ("h2",)]
    assert ask(f"select epoch_ns(min(time)) from {cpu}") == [(START,)]
    # A tag with the name of a folder has another title.
    assert ask(f"select \"day::tag\" from {files} where measurement = 'room 1/a'") == [("mon",)]


def test_pandas_and_pyarrow_read_an_export(data, tmp_path):
    export(tmp_path / "out", "--data", data, "--select", "cpu")
    frame = pandas.read_parquet(tmp_path / "out/measurement=cpu")
    assert len(frame) == 303 and str(frame["time"].dtype) == "datetime64[ns, UTC]"
    assert isinstance(frame["host"].dtype, pandas.CategoricalDtype)
    dataset = pyarrow.dataset.dataset(tmp_path / "out", partitioning="hive")
    table = dataset.to_table(filter=pyarrow.dataset.field("measurement") == "cpu")
    assert table.num_rows == 303
    assert [str(table.schema.field(name).type) for name in ("n", "u", "ok", "s")] == ["int64", "uint64", "bool", "string"]
    export(tmp_path / "arrow", "--data", data, "--select", "cpu", "--format", "arrow")
    streams = sorted(tmp_path.glob("arrow/*/*/rows.arrows"))
    tables = [pa.ipc.open_stream(path.read_bytes()).read_all() for path in streams]
    assert sum(table.num_rows for table in tables) == 303


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_rows_come_back_through_files(data, tmp_path, serve, form):
    export(tmp_path / "one", "--data", data, "--format", form)
    imported = run("import", form, "--data", tmp_path / "moved", tmp_path / "one")
    assert (imported.returncode, imported.stderr) == (0, "304 rows imported, 0 rejected\n")
    assert rows(tmp_path / "moved") == rows(data)
    server = serve("served")
    assert run("import", form, "--to", server.url, tmp_path / "one").returncode == 0
    export(tmp_path / "two", "--server", server.url, "--format", form)
    assert run("import", form, "--data", tmp_path / "again", tmp_path / "two").returncode == 0
    assert rows(tmp_path / "again") == rows(data)


def test_values_keep_their_bits(tmp_path, serve):
    nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_BEEF))[0]
    doubles = numpy.array([nan, -0.0, 0.0, math.inf, 5e-324], numpy.float64)
    singles = numpy.array([0x7FC0_1234, 0x8000_0000, 1, 0, 0x7F80_0000], numpy.uint32).view(numpy.float32)
    table = pa.table({"time": pa.array([DAY * n for n in range(5)], pa.timestamp("ns")), "d": doubles, "f": singles})
    pq.write_table(table, tmp_path / "m.parquet")
    server = serve()
    assert run(*PARQUET, "--to", server.url, tmp_path / "m.parquet").returncode == 0
    export(tmp_path / "out", "--server", server.url)
    read = pq.read_table(tmp_path / "out").sort_by("time")
    for name, values in (("d", doubles), ("f", singles)):
        assert read.column(name).to_numpy().tobytes() == values.tobytes()


def test_a_foreign_file_is_imported_by_flags(tmp_path):
    table = pa.table(
        {
            "when": pa.array([1_700_000_000_000, 1_700_000_060_000, None], pa.int64()),
            "turbine": pa.array([4, 5, 5], pa.int16()),
            "site": pa.array(["north"] * 3).dictionary_encode(),
            "power": pa.array([1.5, None, 2.5], pa.float32()),
            "state": ["run", None, "stop"],
            "parts": pa.array([[1], [2], []], pa.list_(pa.int32())),
        }
    )
    pq.write_table(table, tmp_path / "scada.2023.parquet", compression="snappy")
    plain = ("--data", tmp_path / "d", tmp_path / "scada.2023.parquet")
    for flags, words in (
        ((), "no column is called ts, timestamp"),
        (("--time-column", "when"), 'column "when" has integers without a unit; add --time-unit'),
        (("--time-column", "when", "--time-unit", "ms"), 'column "parts" has the type List('),
    ):
        rejected = run(*PARQUET, *flags, *plain)
        assert rejected.returncode == 2 and words in rejected.stderr, rejected.stderr
    assert not (tmp_path / "d").exists()
    flags = ("--time-column", "when", "--time-unit", "ms", "--tag-columns", "turbine,site")
    flags += ("--field-columns", "power,state")
    shown = run(*PARQUET, "--dry-run", *flags, *plain).stdout
    assert "measurement  scada" in shown and "tag          turbine" in shown, shown
    done = run(*PARQUET, *flags, *plain)
    assert done.returncode == 1
    # The second row has no value, and the third has no time.
    assert ": row 2: the row has no field\n" in done.stderr, done.stderr
    assert ": row 3: the time is missing, or outside the years 1677 to 2262\n" in done.stderr, done.stderr
    assert done.stderr.endswith("\n1 rows imported, 2 rejected\n"), done.stderr
    assert rows(tmp_path / "d")[0] == f"{START},scada,north,4,1.5,run"


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_feather_of_pandas_is_imported(tmp_path, compression):
    # Regression: compressed Arrow was rejected, and pandas compresses by LZ4 by default.
    numbers = range(100_000)
    frame = pandas.DataFrame(
        {
            "time": pandas.to_datetime([START + n * SECOND for n in numbers]),
            "turbine": pandas.Categorical([f"t{n % 7}" for n in numbers]),
            "power": [None if n % 11 == 3 else n / 8 for n in numbers],
            "noise": numpy.random.default_rng(7).integers(-(2**63), 2**63 - 1, len(numbers)),
            "state": [f"state {n % 5}" for n in numbers],
        }
    )
    flags = {} if compression == "lz4" else {"compression": compression, "chunksize": 999}
    frame.to_feather(tmp_path / "scada.feather", **flags)
    done = run("import", "arrow", "--data", tmp_path / "d", tmp_path / "scada.feather")
    assert done.returncode == 0 and "100000 rows imported" in done.stderr.replace(",", ""), done.stderr
    export(tmp_path / "out", "--data", tmp_path / "d")
    columns = list(frame.columns)
    found = pandas.read_parquet(tmp_path / "out").sort_values("time", ignore_index=True)[columns]
    frame["time"] = frame["time"].dt.tz_localize("UTC")

    def plain(column):
        return column.astype(object).where(column.notna(), None).tolist()

    for name in columns:
        assert plain(found[name]) == plain(frame[name]), name


def test_rejected_rows_are_reported_with_their_numbers(tmp_path, serve):
    server = serve()
    assert server.write(f'm,host=b v="text" {START}').status_code == 204
    count = 200_000
    table = pa.table(
        {
            "time": pa.array([START + row for row in range(count)], pa.timestamp("ns")),
            "host": pa.array(["a"] * (count - 2) + ["b"] * 2).dictionary_encode(),
            "v": numpy.arange(count, dtype=numpy.float64),
        }
    )
    pq.write_table(table, tmp_path / "m.parquet")
    done = run(*PARQUET, "--to", server.url, tmp_path / "m.parquet")
    assert done.returncode == 1 and f"{count - 2} rows imported, 2 rejected" in done.stderr, done.stderr
    assert f"m.parquet: row {count - 1}: " in done.stderr, done.stderr


def test_folders_of_a_foreign_data_set_may_be_tags(tmp_path):
    table = pa.table({"ts": pa.array([START // 1000] * 2, pa.timestamp("us")), "host": ["a b", "c"], "v": [1, 2]})
    pq.write_to_dataset(table, tmp_path / "set", partition_cols=["host"])
    noted = run(*PARQUET, "--data", tmp_path / "d", "--measurement", "m", tmp_path / "set")
    assert "--tag-columns host makes it a tag" in noted.stderr, noted.stderr
    flags = ("--measurement", "m", "--tag-columns", "host")
    assert run(*PARQUET, "--data", tmp_path / "e", *flags, tmp_path / "set").returncode == 0
    assert rows(tmp_path / "e")[:2] == [f"{START},m,a b,1", f"{START},m,c,2"]


def test_a_killed_export_continues(tmp_path, serve):
    server = serve()
    lines = [f"m,host=h{host} v={row} {START + day * DAY + row}" for day in range(40) for host in range(5) for row in range(100)]
    assert server.write("\n".join(lines)).status_code == 204
    out = tmp_path / "out"
    command = [PROGRAM, "export", out, "--server", server.url]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while len(list(out.glob("*/*/rows.parquet"))) < 3 and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_ino for path in out.glob("*/*/rows.parquet")}
    assert 3 <= len(finished) < 40
    assert f"{len(finished)} files finished before" in export(out, "--server", server.url)
    assert {path: path.stat().st_ino for path in finished} == finished
    assert ask(f"select count(*) from read_parquet('{out}/**/*.parquet')") == [(20_000,)]
    assert not list(out.rglob("*.part"))
    # Another selection does not mix with the first.
    rejected = export(out, "--server", server.url, "--select", "m{host='h1'}".replace("'", '"'), status=2)
    assert "name a new folder" in rejected


def test_a_day_that_may_change_is_written_again(data, tmp_path):
    now = time.time_ns()
    (tmp_path / "now.lp").write_text(f"m v=1 {now}")
    assert run("write", "--data", data, tmp_path / "now.lp").returncode == 0
    assert "1 of the files are of days that may still change" in export(tmp_path / "out", "--data", data)
    (tmp_path / "now.lp").write_text(f"m v=2 {now + 1}")
    assert run("write", "--data", data, tmp_path / "now.lp").returncode == 0
    # The day may end during the test.
    assert "files finished before" in export(tmp_path / "out", "--data", data)
    values = pq.read_table(tmp_path / "out/measurement=m").column("v").to_pylist()
    assert sorted(values) == [1.0, 2.0]


def test_hostile_files_are_errors(tmp_path):
    table = pa.table({"time": pa.array([START, START + 1], pa.timestamp("ns")), "v": [1.5, 2.5]})
    pq.write_table(table, tmp_path / "good.parquet")
    good = (tmp_path / "good.parquet").read_bytes()
    footer = len(good) - 8
    huge = good[:footer] + struct.pack("<I", 0x7FFF_FFF0) + b"PAR1"
    with pa.ipc.new_file(tmp_path / "good.arrow", table.schema) as file:
        file.write_table(table)
    stream = (tmp_path / "good.arrow").read_bytes()
    files = {
        "parquet": {"empty": b"", "magic": b"PAR1PAR1", "cut": good[:-30], "huge": huge, "text": b"time,v\n1,2\n" * 99},
        "arrow": {
            "empty": b"",
            "cut": stream[:-30],
            "huge": struct.pack("<iI", -1, 0x7FFF_FFF0) + b"x" * 99,
            "text": b"time,v\n1,2\n" * 99,
        },
    }
    for form, contents in files.items():
        for name, content in contents.items():
            path = tmp_path / f"{name}.{form}"
            path.write_bytes(content)
            done = run("import", form, "--data", tmp_path / "d", path)
            assert done.returncode == 1, (form, name, done.stderr)
            assert f"{name}.{form}: " in done.stderr and "panicked" not in done.stderr, (form, name, done.stderr)
    # A damaged file does not stop the others.
    middle = good[:4] + bytes(60) + good[64:]
    (tmp_path / "damaged.parquet").write_bytes(middle)
    done = run(*PARQUET, "--data", tmp_path / "e", tmp_path / "damaged.parquet", tmp_path / "good.parquet")
    assert done.returncode == 1 and "2 rows imported" in done.stderr, done.stderr
    assert "1 of 2 files failed" in done.stderr, done.stderr


def test_damaged_days_are_reported_and_others_exported(serve, tmp_path):
    server = serve()
    for measurement in ("one", "two"):
        before = set(server.data.glob("segment-*.log"))
        lines = [f"{measurement},s={row % 5} v={row * row % 1009 / 8} {START + row * 5 * SECOND}" for row in range(5000)]
        assert server.write("\n".join(lines)).status_code == 204
        server.flush()
        if measurement == "one":
            (segment,) = set(server.data.glob("segment-*.log")) - before
    server.stop()
    content = bytearray(segment.read_bytes())
    content[5000:5064] = bytes(byte ^ 0x55 for byte in content[5000:5064])
    segment.write_bytes(content)
    server.start()
    for name, source in (("remote", ("--server", server.url)), ("local", ("--data", server.data))):
        reported = export(tmp_path / name, *source, status=1)
        assert "\none 20" in "\n" + reported and "days were not exported" in reported, reported
        assert pq.read_table(tmp_path / name / "measurement=two").num_rows == 5000


def test_a_file_of_duckdb_is_imported(tmp_path):
    select = "select timestamp '2023-11-14 22:13:20' + interval (i) second as ts, i % 2 as host, i * 1.5::double as v"
    duckdb.sql(f"copy ({select} from range(4) as r(i)) to '{tmp_path}/duck.parquet' (compression gzip)")
    assert run(*PARQUET, "--data", tmp_path / "d", "--tag-columns", "host", tmp_path / "duck.parquet").returncode == 0
    seconds = [START + row * SECOND for row in range(4)]
    expected = [f"{time},duck,{row % 2},{row * 1.5}" for row, time in enumerate(seconds)]
    assert rows(tmp_path / "d")[:4] == expected
