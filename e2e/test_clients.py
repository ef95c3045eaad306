"""Writes by clients of other projects, read back in every format."""

import csv
import datetime
import gzip
import io
import json
import math
import socket
import struct
import subprocess
import time

import influxdb_client_3
import numpy
import pytest
import questdb
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS, WriteOptions
from influxdb_client.rest import ApiException

from program import SLOW, free_port

I64 = (-(2**63), 2**63 - 1)


def curl(*arguments, stdin=None):
    """Returns status and body of a response to curl."""
    done = subprocess.run(
        ["curl", "-sS", "-w", "\n%{http_code}", *arguments], input=stdin, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr.decode()
    body, status = done.stdout.rsplit(b"\n", 1)
    return int(status), body


@pytest.fixture
def server(serve):
    return serve()


@pytest.fixture
def influx(server):
    with InfluxDBClient(server.url, token="any", org="any", enable_gzip=False) as client:
        yield client


# influxdb-client


def test_influxdb_client_writes_every_type(server, influx):
    point = (
        Point("weather, bay=1")
        .tag("station name", "a,b c=d")
        .tag("empty", "")
        .field("temperature", -21.125)
        .field("count", I64[1])
        .field("least", I64[0])
        .field("ok", True)
        .field("note", 'say "hi", back\\slash = ü')
        .time(1_700_000_000_123_456_789, WritePrecision.NS)
    )
    influx.write_api(write_options=SYNCHRONOUS).write("any", "any", point)
    series = server.query("{}")
    found = {field: (answer["type"], answer["times"], answer["values"]) for (_, field), answer in series.items()}
    time_ns = [1_700_000_000_123_456_789]
    assert found == {
        "temperature": ("f64", time_ns, [-21.125]),
        "count": ("i64", time_ns, [I64[1]]),
        "least": ("i64", time_ns, [I64[0]]),
        "ok": ("bool", time_ns, [True]),
        "note": ("string", time_ns, ['say "hi", back\\slash = ü']),
    }
    (answer, *_) = series.values()
    assert answer["measurement"] == "weather, bay=1"
    assert answer["tags"] == {"station name": "a,b c=d"}


@pytest.mark.parametrize(
    ("precision", "unit_ns"),
    [(WritePrecision.S, 10**9), (WritePrecision.MS, 10**6), (WritePrecision.US, 10**3), (WritePrecision.NS, 1)],
)
def test_influxdb_client_precisions(server, influx, precision, unit_ns):
    moment = datetime.datetime(2024, 2, 29, 23, 59, 59, 123_456, datetime.timezone.utc)
    point = Point("clock").tag("unit", precision).field("x", 1.5).time(moment, precision)
    influx.write_api(write_options=SYNCHRONOUS).write("any", "any", point, write_precision=precision)
    (answer,) = server.query("clock").values()
    exact = 1_709_251_199_123_456_000
    assert answer["times"] == [exact // unit_ns * unit_ns]


def test_influxdb_client_batches(server, influx):
    rows = 5_000
    failures = []
    options = WriteOptions(batch_size=700, flush_interval=200, jitter_interval=0)
    with influx.write_api(write_options=options, error_callback=lambda *what: failures.append(what)) as writer:
        for n in range(rows):
            writer.write("any", "any", Point("batch").tag("sensor", n % 13).field("n", n).time(n, WritePrecision.MS))
    assert not failures
    series = server.query("batch")
    assert len(series) == 13
    for (_, _), answer in series.items():
        sensor = int(answer["tags"]["sensor"])
        expected = list(range(sensor, rows, 13))
        assert answer["values"] == expected
        assert answer["times"] == [n * 1_000_000 for n in expected]


def test_influxdb_client_with_gzip_and_dictionaries(server):
    with InfluxDBClient(server.url, token="any", org="any", enable_gzip=True) as client:
        records = [
            {"measurement": "packed", "tags": {"n": str(n % 3)}, "fields": {"v": n / 4, "w": n}, "time": n}
            for n in range(1_000)
        ]
        client.write_api(write_options=SYNCHRONOUS).write("any", "any", records, WritePrecision.S)
    series = server.query("packed")
    assert sum(len(answer["values"]) for answer in series.values()) == 2_000
    assert series["packed,n=2", "v"]["values"] == [n / 4 for n in range(2, 1_000, 3)]


def test_influxdb_client_receives_the_rejected_lines(server, influx):
    lines = ["good v=1 1", "bad v= 2", "good v=3 3"]
    with pytest.raises(ApiException) as rejection:
        influx.write_api(write_options=SYNCHRONOUS).write("any", "any", lines)
    assert rejection.value.status == 400
    reported = json.loads(rejection.value.body)
    assert reported["code"] == "invalid"
    assert "line 2" in reported["message"]
    assert server.query("good")["good", "v"]["times"] == [1, 3]


def test_influxdb_client_reports_a_healthy_server(server, influx):
    assert influx.ping()
    assert influx.ready().status == "ready"


# questdb


def test_questdb_sender(server):
    moment = questdb.TimestampNanos(1_650_000_000_000_000_001)
    with questdb.Sender.from_conf(f"http::addr={server.address};protocol_version=1;") as sender:
        sender.row(
            "trades",
            symbols={"pair": "ETH-USD", "side": "sell, now"},
            columns={"price": 2615.54, "lots": -3, "live": False, "note": 'a "b" \\ c', "tiny": 5e-324},
            at=moment,
        )
        sender.row("trades", symbols={"pair": "BTC-USD"}, columns={"price": 39269.98}, at=moment)
        sender.flush()
    series = server.query("trades")
    eth = "trades,pair=ETH-USD,side=sell, now"
    assert series["trades,pair=BTC-USD", "price"]["values"] == [39269.98]
    assert series[eth, "price"]["values"] == [2615.54]
    assert series[eth, "lots"]["values"] == [-3]
    assert series[eth, "lots"]["type"] == "i64"
    assert series[eth, "live"]["values"] == [False]
    assert series[eth, "note"]["values"] == ['a "b" \\ c']
    assert series[eth, "tiny"]["values"] == [5e-324]
    assert {tuple(answer["times"]) for answer in series.values()} == {(1_650_000_000_000_000_001,)}


def test_questdb_sender_by_default_and_with_auto_flush(server):
    """No protocol version is given, so the sender first requests the server's settings."""
    rows = 3_000
    with questdb.Sender.from_conf(f"http::addr={server.address};auto_flush_rows=250;") as sender:
        for n in range(rows):
            at = questdb.TimestampNanos(1 + n)
            sender.row("auto", symbols={"s": str(n % 5)}, columns={"n": n, "half": n / 2}, at=at)
    series = server.query("auto")
    assert len(series) == 10
    assert sum(len(answer["values"]) for answer in series.values()) == 2 * rows
    assert series["auto,s=3", "half"]["values"] == [n / 2 for n in range(3, rows, 5)]


def test_questdb_sender_receives_the_reason_of_a_rejection(server):
    assert server.write("typed v=1i 1").status_code == 204
    with questdb.Sender.from_conf(f"http::addr={server.address};protocol_version=1;auto_flush=off;") as sender:
        sender.row("typed", columns={"v": "text"}, at=questdb.TimestampNanos(2))
        with pytest.raises(questdb.QuestDBError, match='"v" is i64'):
            sender.flush()
    assert server.query("typed")["typed", "v"]["times"] == [1]


# curl


@pytest.mark.parametrize("path", ["/write?db=x", "/api/v2/write?bucket=x&org=y"])
@pytest.mark.parametrize(
    ("precision", "unit_ns"),
    [
        ("", 1),
        ("ns", 1),
        ("n", 1),
        ("us", 10**3),
        ("u", 10**3),
        ("%C2%B5", 10**3),
        ("ms", 10**6),
        ("s", 10**9),
        ("m", 60 * 10**9),
        ("h", 3600 * 10**9),
    ],
)
def test_curl_in_every_precision(server, path, precision, unit_ns):
    url = f"{server.url}{path}" + (f"&precision={precision}" if precision else "")
    status, body = curl(url, "--data-binary", "cpu,host=a v=0.5 -17\ncpu,host=a v=1.5 480000")
    assert (status, body) == (204, b"")
    assert server.query("cpu")["cpu,host=a", "v"]["times"] == [-17 * unit_ns, 480_000 * unit_ns]


def test_curl_with_gzip(server, tmp_path):
    lines = "".join(f"z,host=h{n % 10} v={n}i {n}\n" for n in range(20_000))
    packed = tmp_path / "lines.gz"
    # Two members one after the other also form one stream: cat a.gz b.gz.
    half = len(lines) // 2
    packed.write_bytes(gzip.compress(lines[:half].encode()) + gzip.compress(lines[half:].encode()))
    status, body = curl(f"{server.url}/write", "-H", "Content-Encoding: gzip", "--data-binary", f"@{packed}")
    assert (status, body) == (204, b"")
    series = server.query("z")
    assert series["z,host=h7", "v"]["values"] == list(range(7, 20_000, 10))
    # A body that is cut off causes an error.
    cut = packed.read_bytes()[:-2000]
    status, body = curl(f"{server.url}/write", "-H", "Content-Encoding: gzip", "--data-binary", "@-", stdin=cut)
    assert status == 400
    assert "gzip" in json.loads(body)["error"]
    # A body that is not compressed.
    status, body = curl(f"{server.url}/write", "-H", "Content-Encoding: gzip", "--data-binary", "z v=1 1")
    assert status == 400
    assert "gzip" in json.loads(body)["error"]


def test_curl_receives_the_list_of_rejected_lines(server):
    lines = b'a v=1 1\n# a comment\n\nb v=\nc,=x v=1\nd v=1 x\ne v=1 99999999999999999999\nf "v"\na v=2 2\n'
    status, body = curl(f"{server.url}/write", "--data-binary", "@-", stdin=lines)
    reported = json.loads(body)
    assert status == 400
    assert (reported["accepted"], reported["rejected"]) == (2, 5)
    assert [line["line"] for line in reported["lines"]] == [4, 5, 6, 7, 8]
    assert all(len(line["reason"]) > 10 for line in reported["lines"])
    assert reported["error"] == reported["message"]
    assert server.query("{}")["a", "v"]["values"] == [1, 2]


def test_values_are_returned_bit_for_bit(server):
    """Values pass through sockets, journal, segment and a restart."""
    floats = [0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, 0.1, 2 / 3, -123456.789e-30, 1e22]
    integers = [0, 1, -1, *I64, 2**53 + 1]
    naturals = [0, 2**63, 2**64 - 1]
    texts = ["", "x", "ünï😀", 'quote " back\\slash', "two\nlines", "a,b=c d", "tab\t"]

    def escaped(text):
        return text.replace("\\", "\\\\").replace('"', '\\"')

    lines = [f"exact f={number!r} {n}" for n, number in enumerate(floats)]
    lines += [f"exact i={number}i {n}" for n, number in enumerate(integers)]
    lines += [f"exact u={number}u {n}" for n, number in enumerate(naturals)]
    lines += [f'exact s="{escaped(text)}" {n}' for n, text in enumerate(texts)]
    lines += [f"exact b={number} {n}" for n, number in enumerate(["t", "F", "true", "False", "TRUE"])]
    lines += [f"edge v=1 {I64[1]}", "edge v=2 0", "edge v=3 -1", f"edge v=4 {-(2**63) + 1}"]
    answer = server.write("\n".join(lines))
    assert answer.status_code == 204, answer.text

    def check():
        series = {field: answer for (_, field), answer in server.query("exact").items()}
        # Python's JSON reader returns the nearest double, so -0.0 and all digits survive.
        assert [struct.pack("d", number) for number in series["f"]["values"]] == [struct.pack("d", x) for x in floats]
        assert series["i"]["values"] == integers
        assert series["u"]["values"] == naturals
        assert series["s"]["values"] == texts
        assert series["b"]["values"] == [True, False, True, False, True]
        edge = server.query("edge")["edge", "v"]
        assert edge["times"] == [-(2**63) + 1, -1, 0, I64[1]]
        assert edge["values"] == [4, 3, 2, 1]

    check()
    server.flush()
    check()
    server.stop()
    server.start()
    check()


@pytest.mark.parametrize("options", [{}, {"no_sync": True}, {"accept_partial": False}])
@pytest.mark.parametrize("precision, time", [("ns", 1_700_000_000 * 10**9), ("s", 1_700_000_000)])
def test_a_client_of_influxdb_3_writes(server, options, precision, time):
    write = influxdb_client_3.WriteOptions(
        write_type=influxdb_client_3.WriteType.synchronous, use_v2_api=False, write_precision=precision, **options
    )
    settings = influxdb_client_3.write_client_options(write_options=write)
    with influxdb_client_3.InfluxDBClient3(
        host=server.url, token="none", database="home", write_client_options=settings, enable_gzip=True
    ) as client:
        client.write([f"three,room=a v={n} {time + n}" for n in range(100)])
        with pytest.raises(influxdb_client_3.InfluxDBError, match="write_lp|partial write"):
            client.write(["three,room=a v=1 1", "bad"])
    series = server.query("three", from_=10**18)["three,room=a", "v"]
    assert series["values"] == list(range(100))
    unit = 10**9 if precision == "s" else 1
    assert series["times"] == [(time + n) * unit for n in range(100)]


def test_buckets_and_organizations_are_found(server):
    with InfluxDBClient(server.url, token="none", org="home") as client:
        assert client.buckets_api().find_bucket_by_name("sensors").name == "sensors"
        assert client.buckets_api().create_bucket(bucket_name="new", org="home").name == "new"
        assert client.organizations_api().find_organizations(org="home")[0].name == "home"


def test_line_protocol_over_tcp(serve):
    port = free_port()
    server = serve(line_tcp=f"127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for n in range(1_000):
            connection.sendall(f"tcp,host=a v={n}i {n}\n".encode())
        connection.sendall(b"nonsense\ntcp,host=a v=1000i 1000\n")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        values = server.query("tcp").get(("tcp,host=a", "v"), {"values": []})["values"]
        if len(values) == 1_001:
            break
        time.sleep(0.05)
    assert values == list(range(1_001))
    assert server.status()["ingest"]["rejected_lines"] == 1


# Answers


def test_the_three_notations_agree(server):
    rows = 20_000 if SLOW else 4_000
    clock = numpy.arange(rows) * 1_000_000_007 - 5_000
    lines = "".join(f"n,host=h{n % 4} v={math.sin(n)!r} {t}\n" for n, t in enumerate(clock))
    assert server.write(lines).status_code == 204
    as_json = {key[0]: list(zip(a["times"], a["values"])) for key, a in server.query("n", fields="v").items()}
    text = server.ask("query", select="n", from_=-(2**63), to=2**63 - 1, format="csv", fields="v")
    as_csv = {}
    for row in csv.DictReader(io.StringIO(text.text)):
        key = f"{row['measurement']},{row['tags']}"
        as_csv.setdefault(key, []).append((int(row["time"]), float(row["value"])))
    as_arrow = {}
    for row in rows_of(server.arrow("n", fields="v")):
        as_arrow.setdefault(f"{row['measurement']},{row['tags']}", []).append((row["time"], row["value"]))
    assert len(as_json) == 4
    assert as_json == as_csv == as_arrow
    expected = [(int(t), math.sin(n)) for n, t in enumerate(clock) if n % 4 == 1]
    assert as_json["n,host=h1"] == expected


def rows_of(table):
    """Returns the rows of an Arrow answer. Times are integers, because Python's times have no nanoseconds."""
    assert str(table.schema.field("time").type) == "timestamp[ns, tz=UTC]"
    place = table.schema.get_field_index("time")
    return table.set_column(place, "time", table["time"].cast("int64")).to_pylist()


def test_arrow_keeps_types_and_rejects_a_mix(server):
    assert server.write('t f=0.5,i=-7i,u=7u,b=t,s="x" 1').status_code == 204
    for field, kind, value in [
        ("f", "double", 0.5),
        ("i", "int64", -7),
        ("u", "uint64", 7),
        ("b", "bool", True),
        ("s", "string", "x"),
    ]:
        table = server.arrow("t", fields=field)
        assert kind in str(table.schema.field("value").type)
        assert table["value"].to_pylist() == [value]
    rejection = server.ask("query", select="t", from_=0, format="arrow")
    assert rejection.status_code == 400
    assert "fields" in rejection.json()["error"]


def test_steps_agree_with_samples(server):
    rows = 3_000
    values = [(n * 7919) % 1_000 / 4 for n in range(rows)]
    lines = "".join(f"s v={value} {n * 100_000_000}\n" for n, value in enumerate(values))
    assert server.write(lines).status_code == 204
    for flush in (False, True):
        if flush:
            server.flush()
        answer = server.query("s", from_=0, step="10s", aggregate="count,sum,min,max,first,last,mean")["s", "v"]
        buckets = [values[start : start + 100] for start in range(0, rows, 100)]
        assert answer["times"] == [n * 10_000_000_000 for n in range(len(buckets))]
        assert answer["count"] == [100] * len(buckets)
        assert answer["sum"] == [sum(bucket) for bucket in buckets]
        assert answer["min"] == [min(bucket) for bucket in buckets]
        assert answer["max"] == [max(bucket) for bucket in buckets]
        assert answer["first"] == [bucket[0] for bucket in buckets]
        assert answer["last"] == [bucket[-1] for bucket in buckets]
        assert answer["mean"] == [sum(bucket) / 100 for bucket in buckets]
    few = server.ask("query", select="s", from_=0, to=299_900_000_000, points=30).json()
    assert few["step_ns"] == 10_000_000_000


def test_introductory_requests_of_other_clients_are_answered(server):
    status, body = curl("-XPOST", f"{server.url}/query", "--data-urlencode", "q=CREATE DATABASE telegraf")
    assert status == 200 and "results" in json.loads(body)
    status, _ = curl("-I", f"{server.url}/ping")
    assert status == 204
    status, body = curl(f"{server.url}/metrics")
    assert status == 200 and body.rstrip().endswith(b"# EOF")
