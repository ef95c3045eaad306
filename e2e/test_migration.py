"""Imports of the exports of other databases, compared with what those databases answer."""

import bisect
import gzip
import json
import re
import shutil
import struct
import subprocess
import time

import numpy
import pyarrow.parquet
import pytest
import requests

from program import free_port, run
from protobuf import literal, series

STALE = 0x7FF0000000000002

needs_victoria = pytest.mark.skipif(
    not shutil.which("victoria-metrics"),
    reason="victoria-metrics is not installed: run scripts/need.sh victoria-metrics",
)


@pytest.fixture
def victoria(tmp_path):
    """Returns the address of a VictoriaMetrics that keeps all samples."""
    address = f"127.0.0.1:{free_port()}"
    flags = {"storageDataPath": tmp_path / "victoria", "httpListenAddr": address, "retentionPeriod": "100y"}
    with open(tmp_path / "victoria.log", "w") as log:
        command = ["victoria-metrics", *(f"-{name}={value}" for name, value in flags.items())]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for _ in range(200):
                try:
                    requests.get(f"http://{address}/health", timeout=2).raise_for_status()
                    break
                except requests.RequestException:
                    time.sleep(0.1)
            else:
                pytest.fail((tmp_path / "victoria.log").read_text())
            yield f"http://{address}"
        finally:
            process.kill()
            process.wait()


def bits(value):
    """Returns the bits of a value of an export."""
    if value is None or value != value:
        return STALE
    return int(numpy.float64(value).view(numpy.uint64))


def exported(folder, *origin):
    """Returns the bits of all values of a store, by labels and time in ms."""
    done = run("export", folder, *origin)
    assert done.returncode == 0, done.stderr
    found = {}
    for path in folder.rglob("*.parquet"):
        table = pyarrow.parquet.read_table(path, partitioning=None)
        values = table["value"].combine_chunks().to_numpy(zero_copy_only=False).view(numpy.uint64)
        times = table["time"].cast(pyarrow.int64()).to_pylist()
        kinds = {field.name: (field.metadata or {}).get(b"kind") for field in table.schema}
        labels = {}
        for at, field in enumerate(table.schema):
            kind = (field.metadata or {}).get(b"kind")
            if kind in (b"tag", b"measurement"):
                name = "__name__" if kind == b"measurement" else field.metadata[b"name"].decode()
                labels[name] = table.column(at).to_pylist()
        if "__name__" not in labels:
            labels["__name__"] = [table.schema.metadata[b"measurement"].decode()] * len(times)
        assert kinds
        for at, (ns, value) in enumerate(zip(times, values)):
            key = tuple(sorted((name, texts[at]) for name, texts in labels.items() if texts[at]))
            found.setdefault(key, {})[ns // 10**6] = int(value)
    return found


@needs_victoria
def test_victoria_metrics_is_imported_bit_by_bit(victoria, serve, tmp_path, dice):
    """The samples of an export, stale markers included, are those in the directory and at the server."""
    lines, texts, base = [], [], 1_795_238_428_000
    for host in ("a", 'b, "c"', "d=e f ü"):
        for name in ("temperature", "node:cpu_seconds:rate"):
            metric = {"__name__": name, "host": host, "unit": "x" if host == "a" else ""}
            values = [dice.choice([dice.gauss(0, 9), dice.randrange(10**6), 0.1]) for _ in range(500)]
            times = [base + 1000 * n for n in range(500)]
            lines.append(json.dumps({"metric": metric, "values": values, "timestamps": times}))
    requests.post(f"{victoria}/api/v1/import", data="\n".join(lines).encode(), timeout=60).raise_for_status()
    texts = [f'temperature{{host="a",unit="x"}} {value} {base + 600_000 + n}\n' for n, value in enumerate(["+Inf", "-Inf"])]
    requests.post(f"{victoria}/api/v1/import/prometheus", data="".join(texts), timeout=60).raise_for_status()
    # A stale marker is the only NaN that VictoriaMetrics stores.
    marker = struct.unpack("d", struct.pack("Q", STALE))[0]
    request = series({"__name__": "temperature", "host": "a", "unit": "x"}, [(base + 700_000, marker)])
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
    body = literal(request)
    requests.post(f"{victoria}/api/v1/write", data=body, headers=headers, timeout=60).raise_for_status()
    requests.get(f"{victoria}/internal/force_flush", timeout=60).raise_for_status()
    wanted_all = {"match[]": '{__name__!=""}', "max_rows_per_line": 100, "start": 0}
    export = requests.get(f"{victoria}/api/v1/export", params=wanted_all, timeout=60)
    export.raise_for_status()
    wanted = {}
    # Old versions write NaN and infinities as words that are not JSON.
    valid = re.sub(r"([\[,])[+]?Inf(?=[,\]])", r"\1Infinity", export.text).replace("-Inf,", "-Infinity,").replace("-Inf]", "-Infinity]")
    for line in map(json.loads, valid.splitlines()):
        samples = wanted.setdefault(tuple(sorted(line["metric"].items())), {})
        samples.update(zip(line["timestamps"], map(bits, line["values"])))
    count = sum(map(len, wanted.values()))
    assert len(wanted) == len(lines) and count == 500 * len(lines) + 3
    assert any(STALE in samples.values() for samples in wanted.values())

    path = tmp_path / "export.jsonl.gz"
    path.write_bytes(gzip.compress(export.content + b'{"metric":{"__name__":"m"},"values":[1],"timestamps":[]}\n'))
    rejects = tmp_path / "rejects.csv"
    done = run("import", "victoria", "--data", tmp_path / "archive", "--rejects", rejects, path)
    assert done.returncode == 1, done.stderr
    assert f"{count} rows imported, 1 rejected" in done.stderr
    assert "1 values and 0 times" in rejects.read_text()
    assert exported(tmp_path / "a", "--data", tmp_path / "archive") == wanted
    server = serve()
    done = run("import", "victoria", "--server", server.url, "-", stdin=export.content)
    assert done.returncode == 0, done.stderr
    assert exported(tmp_path / "b", "--server", server.url) == wanted


def test_a_null_is_a_stale_marker(tmp_path):
    path = tmp_path / "export.jsonl"
    path.write_text('{"metric":{"__name__":"up","job":"a"},"values":[1,null],"timestamps":[1000,2000]}\n')
    done = run("import", "victoria", "--data", tmp_path / "data", "--tag", "site=x", path)
    assert done.returncode == 0, done.stderr
    key = (("__name__", "up"), ("job", "a"), ("site", "x"))
    assert exported(tmp_path / "out", "--data", tmp_path / "data") == {key: {1000: bits(1.0), 2000: STALE}}


def test_whisper_files_are_imported_as_graphite_reads_them(serve, tmp_path, dice):
    """For each time, the stored sample is the one that Whisper returns from the finest archive that covers the time."""
    whisper = pytest.importorskip("whisper", reason="whisper is missing: install e2e/requirements.txt")
    root, now = tmp_path / "whisper", 1_700_000_000 // 3600 * 3600
    archives = [(10, 60), (60, 60), (600, 100)]
    paths = {"house.temp": "house/temp.wsp", "disk.used;host=a.b": "_tagged/b6c/34f/disk_DOT_used;host=a_DOT_b.wsp"}
    wanted = {}
    for name, relative in paths.items():
        path = root / relative
        path.parent.mkdir(parents=True)
        whisper.create(str(path), archives, xFilesFactor=0.0, aggregationMethod="average")
        # Points of several rounds of each ring, with gaps.
        for at in range(now - 30_000, now, 10):
            if at // 900 % 4 and dice.random() < 0.8:
                whisper.update_many(str(path), [(at, dice.gauss(20, 5))], now=at)
        metric, *tags = name.split(";")
        key = tuple(sorted({"__name__": metric, **dict(tag.split("=") for tag in tags)}.items()))
        wanted[key] = fetched(whisper, path)
    (root / "bad.wsp").write_bytes(b"\0" * 100)
    rejects = tmp_path / "rejects.csv"
    done = run("import", "whisper", "--data", tmp_path / "data", "--rejects", rejects, root)
    assert done.returncode == 1, done.stderr
    assert f"{sum(map(len, wanted.values()))} rows imported, 0 rejected; 1 of 3 files failed" in done.stderr
    assert "bad.wsp" in rejects.read_text()
    assert exported(tmp_path / "a", "--data", tmp_path / "data") == wanted
    server = serve()
    assert run("import", "whisper", "--server", server.url, root).returncode == 1
    assert exported(tmp_path / "b", "--server", server.url) == wanted


def fetched(whisper, path):
    """Returns what Whisper reads from a file: from each archive, the points that no finer archive has."""
    points, covered = {}, 2**32
    for archive in whisper.info(str(path))["archives"]:
        step, slots = archive["secondsPerPoint"], archive["points"]
        with open(path, "rb") as file:
            file.seek(archive["offset"])
            newest = max(ts for ts, _ in struct.iter_unpack("!Ld", file.read(archive["size"])))
        first = newest - step * (slots - 1)
        (start, _, found), values = whisper.fetch(str(path), first - step, newest, now=newest, archiveToSelect=step)
        assert (start, found) == (first, step)
        finer = sorted(points)
        for n, value in enumerate(values):
            ts = start + step * n
            at = bisect.bisect_left(finer, ts)
            if value is not None and (ts < covered or at == len(finer) or finer[at] >= ts + step):
                points[ts] = value
        covered = min(covered, first)
    return {ts * 1000: bits(value) for ts, value in points.items()}
