"""Import of blocks of Prometheus, compared with what promtool reads from the same folder."""

import ast
import math
import re
import shutil
import struct
import subprocess
import time

import pytest
import requests

from program import free_port, run
from protobuf import literal, message, series, varint
from test_migration import bits, exported

STALE = 0x7FF0000000000002
SAMPLE = re.compile(r"\{(.*)\} (\S+) (-?\d+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)=("(?:[^"\\]|\\.)*")(?:, |$)')

pytestmark = pytest.mark.skipif(
    not shutil.which("promtool") or not shutil.which("prometheus"),
    reason="prometheus is not installed: run scripts/need.sh prometheus",
)


def dumped(folder):
    """Returns what promtool reads from a folder: bits of values by labels and time in ms. Every NaN is a stale marker."""
    # promtool requires the folder.
    (folder / "wal").mkdir(exist_ok=True)
    done = subprocess.run(["promtool", "tsdb", "dump", folder], capture_output=True, check=True, timeout=300)
    found = {}
    for line in done.stdout.decode().splitlines():
        labels, value, ms = SAMPLE.fullmatch(line).groups()
        pairs = [(name, ast.literal_eval(text)) for name, text in LABEL.findall(labels)]
        found.setdefault(tuple(sorted(pairs)), {})[int(ms)] = bits(float(value))
    return found


def stored(folder, *origin):
    """Returns the stored samples in the same form. promtool prints all NaN alike."""
    found = exported(folder, *origin)
    return {key: {ms: unify(value) for ms, value in samples.items()} for key, samples in found.items()}


def unify(value):
    return STALE if math.isnan(struct.unpack("d", struct.pack("Q", value))[0]) else value


def count(samples):
    return sum(map(len, samples.values()))


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def create_blocks(lines, folder):
    """Writes blocks of the lines of OpenMetrics."""
    text = folder.parent / f"{folder.name}.txt"
    text.write_text("".join(f"{line}\n" for line in [*lines, "# EOF"]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text, folder]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def random_lines(dice, begin, rooms):
    """Returns lines of gauges and counters, with gaps, jitter and special values, from a time in s."""
    lines = []
    for room in rooms:
        for name in ("temperature", "heating:power:mean"):
            at, labels = begin + dice.random(), f'{{room={quoted(room)},empty=""}}'
            for _ in range(dice.randrange(1, 900)):
                at += dice.choice([15, 15, 15, 15.001, 0.25, 700, 20000 if dice.random() < 0.1 else 15])
                special = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7e308]
                value = dice.choice([dice.gauss(0, 9), dice.randrange(10**6), round(dice.random(), 2), *special[: dice.randrange(8)]])
                lines.append(f"{name}{labels} {value!r} {at:.3f}".replace("inf", "Inf").replace("nan", "NaN"))
        total = 0
        for n in range(700):
            total += dice.randrange(100)
            lines.append(f"requests_total{{room={quoted(room)}}} {total} {begin + 15 * n}")
    return lines


def test_blocks_are_imported_as_promtool_reads_them(serve, tmp_path, dice):
    """Random samples return bit by bit: in a directory, at a server, and a second time."""
    folder = tmp_path / "tsdb"
    rooms = ["hall", 'k"ü, "x"', "日本\\語", "a=b\nc", *(f"room-{n}" for n in range(150))]
    create_blocks(random_lines(dice, 1_699_999_000, rooms), folder)
    wanted = dumped(folder)
    assert len(wanted) == 3 * len(rooms) and count(wanted) > 100_000
    # More than 120 samples of a series in a block of 2 h are several chunks.
    blocks = [path.parent for path in folder.glob("*/meta.json")]
    assert len(blocks) > 2
    done = run("import", "prometheus", "--dry-run", folder)
    assert done.returncode == 0 and all(block.name in done.stdout for block in blocks), done.stderr

    done = run("import", "prometheus", "--data", tmp_path / "data", folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"{count(wanted)} rows imported, 0 rejected"
    assert stored(tmp_path / "a", "--data", tmp_path / "data") == wanted
    # NaN of OpenMetrics is no stale marker.
    raw = exported(tmp_path / "b", "--data", tmp_path / "data")
    assert STALE not in {value for samples in raw.values() for value in samples.values()}
    done = run("import", "prometheus", "--data", tmp_path / "data", folder)
    assert done.returncode == 0, done.stderr
    assert stored(tmp_path / "c", "--data", tmp_path / "data") == wanted

    server = serve("server")
    single = max(blocks, key=lambda block: (block / "index").stat().st_size)
    done = run("import", "prometheus", "--server", server.url, "--tag", "site=x", single)
    assert done.returncode == 0, done.stderr
    part = tmp_path / "single"
    shutil.copytree(single, part / single.name)
    tagged = {tuple(sorted((*key, ("site", "x")))): samples for key, samples in dumped(part).items()}
    assert stored(tmp_path / "d", "--server", server.url) == tagged


def test_overlapping_blocks_are_stored_once(tmp_path, dice):
    lines = random_lines(dice, 1_699_999_000, ["a", "b", "c"])
    folder = tmp_path / "tsdb"
    folder.mkdir()
    for n in range(3):
        some = tmp_path / f"part-{n}"
        chosen = [line for line in lines if dice.random() < 0.6]
        create_blocks(chosen, some)
        for block in some.glob("*/meta.json"):
            shutil.move(block.parent, folder)
    wanted = dumped(folder)
    blocks = [path.parent for path in folder.glob("*/meta.json")]
    parts = sum(count(dumped(lone(block, tmp_path))) for block in blocks)
    assert parts > count(wanted)
    done = run("import", "prometheus", "--data", tmp_path / "data", folder)
    assert done.returncode == 0, done.stderr
    left_out = parts - count(wanted)
    summary = f"{count(wanted)} rows imported, 0 rejected; samples left out that another block has too: {left_out}"
    assert done.stderr.splitlines()[-1] == summary
    assert stored(tmp_path / "a", "--data", tmp_path / "data") == wanted


def lone(block, tmp_path):
    """Copies a block into a folder of its own."""
    folder = tmp_path / f"lone-{block.name}"
    shutil.copytree(block, folder / block.name)
    return folder


class Prometheus:
    """A Prometheus that stores what remote write sends, in chunk files of 1 MiB at most."""

    def __init__(self, folder):
        self.folder = folder
        (folder.parent / "prometheus.yml").write_text("{}")
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}/api/v1"
        flags = [
            f"--config.file={folder.parent / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder}",
            f"--web.listen-address={address}",
            # Prometheus then does not compact blocks, which would apply the deletes.
            "--storage.tsdb.min-block-duration=2h",
            "--storage.tsdb.max-block-duration=2h",
            "--storage.tsdb.max-block-chunk-segment-size=1MB",
            "--storage.tsdb.retention.time=100y",
            "--web.enable-admin-api",
            "--web.enable-remote-write-receiver",
            "--enable-feature=native-histograms",
        ]
        self.log = folder.parent / "prometheus.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["prometheus", *flags], stdout=log, stderr=log)

    def __enter__(self):
        for _ in range(300):
            try:
                requests.get(self.url.replace("/api/v1", "/-/ready"), timeout=5).raise_for_status()
                return self
            except requests.RequestException:
                time.sleep(0.1)
        raise AssertionError(self.log.read_text())

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def write(self, request):
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
        requests.post(f"{self.url}/write", data=literal(request), headers=headers, timeout=60).raise_for_status()

    def delete(self, match, start, end):
        parameters = {"match[]": match, "start": start, "end": end}
        path = f"{self.url}/admin/tsdb/delete_series"
        requests.post(path, params=parameters, timeout=60).raise_for_status()

    def snapshot(self):
        answer = requests.post(f"{self.url}/admin/tsdb/snapshot", timeout=60)
        answer.raise_for_status()
        return self.folder / "snapshots" / answer.json()["data"]["name"]


def histograms(labels, times):
    """Returns a series of native histograms with one bucket."""
    encoded = b"".join(message(1, message(1, name.encode()) + message(2, value.encode())) for name, value in labels.items())
    for n, ms in enumerate(times):
        span = message(11, b"\x08\x00\x10\x01")
        histogram = b"\x08" + varint(n + 1) + b"\x19" + struct.pack("<d", 1.5 * n) + b"\x20\x00\x29" + struct.pack("<d", 0.001)
        histogram += b"\x30\x00" + span + message(12, varint(2 * (n + 1))) + b"\x78" + varint(ms)
        encoded += message(4, histogram)
    return message(1, encoded)


def test_a_snapshot_of_a_running_prometheus(tmp_path, dice):
    """Stale markers, deletes, several files of chunks, native histograms, and samples that are in no block yet."""
    folder = tmp_path / "tsdb"
    now = int(time.time() * 1000)
    old = 1_699_999_000
    create_blocks(random_lines(dice, old, ["a", "b"]), folder)
    # Two NaN: a stale marker, and another one.
    stale, other = (struct.unpack("d", struct.pack("Q", number))[0] for number in (STALE, 0x7FF8000000000123))
    with Prometheus(folder) as prometheus:
        for host in range(110):
            samples = [(now - 3_000_000 + 1000 * n, dice.gauss(0, 1)) for n in range(2500)]
            prometheus.write(series({"__name__": "load", "host": str(host)}, samples))
        marks = [(now - 60_000, 1.0), (now - 50_000, stale), (now - 40_000, other)]
        prometheus.write(series({"__name__": "up", "job": "a"}, marks))
        prometheus.write(histograms({"__name__": "delay", "job": "a"}, [now - 9000, now - 8000, now - 7000]))
        prometheus.delete('temperature{room="a"}', old + 1000, old + 5000)
        prometheus.delete('requests_total{room="b"}', old, old + 2000)
        prometheus.delete('load{host="7"}', (now - 2_000_000) / 1000, (now - 1_000_000) / 1000)
        snapshot = prometheus.snapshot()
    # promtool prints no native histograms.
    wanted = dumped(snapshot)
    assert max(len(list(path.iterdir())) for path in snapshot.glob("*/chunks")) > 2
    assert any((path.stat().st_size > 9) for path in snapshot.glob("*/tombstones"))
    done = run("import", "prometheus", "--data", tmp_path / "data", "--rejects", tmp_path / "rejects.csv", snapshot)
    assert done.returncode == 1, done.stderr
    assert f"{count(wanted)} rows imported, 3 rejected; samples of native histograms or unknown encodings: 3" in done.stderr
    assert "deleted samples left out: " in done.stderr
    assert 'delay{job=""a""}: 3 samples are native histograms, which are not supported' in (tmp_path / "rejects.csv").read_text()
    found = exported(tmp_path / "a", "--data", tmp_path / "data")
    assert {key: {ms: unify(value) for ms, value in samples.items()} for key, samples in found.items()} == wanted
    up = found[("__name__", "up"), ("job", "a")]
    assert up == {now - 60_000: bits(1.0), now - 50_000: STALE, now - 40_000: 0x7FF8000000000123}

    # Without a snapshot, the samples of the head are missing, and a note says so.
    done = run("import", "prometheus", "--data", tmp_path / "blocks", folder)
    assert done.returncode == 0, done.stderr
    assert "/wal are not imported" in done.stderr and "admin/tsdb/snapshot" in done.stderr
    names = {dict(key)["__name__"] for key in exported(tmp_path / "b", "--data", tmp_path / "blocks")}
    assert names == {"temperature", "heating:power:mean", "requests_total"}


def test_damage_costs_only_the_damaged_samples(tmp_path, dice):
    folder = tmp_path / "tsdb"
    lines = [f'load{{host="{host}"}} {dice.random()!r} {1_700_000_000 + 10 * n}' for host in range(5) for n in range(400)]
    create_blocks(lines, folder)
    wanted = dumped(folder)
    block = next(folder.glob("*/meta.json")).parent
    path = block / "chunks" / "000001"
    chunks = bytearray(path.read_bytes())
    chunks[60] ^= 1
    path.write_bytes(chunks)
    (folder / "01AAAAAAAAAAAAAAAAAAAAAAAA").mkdir()
    (folder / "01AAAAAAAAAAAAAAAAAAAAAAAA" / "meta.json").write_text("{}")
    done = run("import", "prometheus", "--data", tmp_path / "data", folder)
    assert done.returncode == 1, done.stderr
    assert f"{path}: the chunk at byte 8 of load{{host=\"0\"}} is damaged: the checksum is " in done.stderr
    assert "meta.json is damaged" in done.stderr
    assert "; damaged parts: 1; lost chunks: 1" in done.stderr.splitlines()[-1]
    found = stored(tmp_path / "a", "--data", tmp_path / "data")
    # The 400 samples of a series are several chunks.
    assert 0 < count(wanted) - count(found) < 200
    key = ("__name__", "load"), ("host", "0")
    rest = {ms: value for ms, value in wanted[key].items() if ms in found[key]}
    assert found == {**wanted, key: rest}
    done = run("import", "prometheus", "--data", tmp_path / "data", tmp_path)
    assert done.returncode == 2 and "has no blocks" in done.stderr
