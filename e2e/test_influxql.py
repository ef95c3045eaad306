"""InfluxQL: the same statements to this server and to InfluxDB, on the same data; influxdb-python; Grafana's requests."""

import itertools
import json
import math
import random
import shutil
import subprocess
import time

import pytest
import requests
from influxdb import InfluxDBClient

from program import free_port

BASE_S = 1_700_000_000
PATIENCE_S = 30
needs_influxdb = pytest.mark.skipif(
    not shutil.which("influxd"), reason="influxd is not installed: run scripts/need.sh influxdb"
)


def lines():
    """Two measurements with gaps, equal times, missing fields and missing tags."""
    dice = random.Random(20)
    for host, n in itertools.product("abc", range(120)):
        if dice.random() < 0.2 or 40 < n < 55:
            continue
        time_s = BASE_S + 7 * n + (dice.randrange(3) if host == "c" else 0)
        fields = [f"load={dice.randrange(-40, 400) / 8}"]
        if host != "b" or n % 3:
            fields.append(f"jobs={dice.randrange(-3, 9)}i")
        if n % 5 == 0:
            fields.append(f"up={'true' if dice.random() < 0.5 else 'false'}")
        if n % 4 == 0:
            fields.append(f'state="{dice.choice(["on", "off", "idle"])}"')
        region = {"a": ",region=east", "b": ",region=west", "c": ""}[host]
        yield f"cpu,host={host}{region} {','.join(fields)} {time_s}000000000"
    for n in range(60):
        yield f"disk,host=a,path=/p{n % 2} used={n * n}i,free={500 - n / 4} {BASE_S + 13 * n}000000000"


@pytest.fixture
def influxdb(tmp_path):
    """Starts InfluxDB."""
    folder = tmp_path / "influxdb"
    folder.mkdir()
    http, rpc = free_port(), free_port()
    (folder / "influxdb.conf").write_text(f"""
reporting-disabled = true
bind-address = "127.0.0.1:{rpc}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  query-log-enabled = false
[http]
  bind-address = "127.0.0.1:{http}"
  log-enabled = false
[monitor]
  store-enabled = false
""")
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(["influxd", "-config", folder / "influxdb.conf"], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{http}"
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if requests.get(f"{url}/ping", timeout=5).status_code == 204:
                break
        except requests.ConnectionError:
            pass
        assert time.monotonic() < deadline and process.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)
    requests.post(f"{url}/query", params={"q": "CREATE DATABASE d"}, timeout=30).raise_for_status()
    yield url
    process.kill()
    process.wait()


def ask(url, statement, **parameters):
    answer = requests.get(
        f"{url}/query", params={"db": "d", "epoch": "ns", "q": statement, **parameters}, timeout=60
    )
    return answer.json()


def result(url, statement):
    """The series of a statement, or "error"."""
    answer = ask(url, statement)
    results = answer.get("results", [{}])
    if "error" in answer or "error" in results[0]:
        return "error"
    return sorted(results[0].get("series", []), key=lambda one: (one.get("name", ""), sorted(one.get("tags", {}).items())))


def same(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


FIXED = [
    "SELECT load FROM cpu GROUP BY host LIMIT 5",
    "SELECT * FROM disk ORDER BY time DESC LIMIT 3",
    "SELECT load, host FROM cpu WHERE host = 'a' LIMIT 4",
    "SELECT load, jobs, load + jobs, load / jobs, jobs % 2 FROM cpu WHERE host = 'b' LIMIT 9",
    "SELECT *::field FROM cpu WHERE state = 'on' AND load > 10",
    "SELECT host FROM cpu",
    "SELECT nothing FROM cpu",
    "SELECT mean(nothing) FROM cpu",
    "SELECT load FROM nothing",
    "SELECT load FROM cpu WHERE unknown = 'x'",
    "SELECT load FROM cpu WHERE region = ''",
    "SELECT load FROM cpu WHERE region != 'east' AND host !~ /b/ LIMIT 7",
    "SELECT load AS l, jobs AS l FROM cpu WHERE (host = 'a' OR host = 'c') AND jobs >= 3 GROUP BY host LIMIT 3 OFFSET 1",
    "SELECT load FROM cpu GROUP BY * LIMIT 2",
    "SELECT load FROM cpu GROUP BY /reg/ LIMIT 2",
    "SELECT /load|jobs/ FROM cpu WHERE host = 'a' LIMIT 3",
    "SELECT mean(*) FROM cpu",
    "SELECT count(*) FROM cpu GROUP BY host",
    "SELECT max(load), host FROM cpu",
    "SELECT last(state) FROM cpu GROUP BY host",
    "SELECT first(up), last(up) FROM cpu",
    "SELECT max(load), min(load) FROM cpu",
    "SELECT mean(load), load FROM cpu",
    "SELECT top(load, 3) FROM cpu",
    "SELECT top(load, host, 2) FROM cpu",
    "SELECT bottom(jobs, 3), load FROM cpu",
    "SELECT distinct(state) FROM cpu",
    "SELECT count(distinct(jobs)) FROM cpu",
    "SELECT mode(state) FROM cpu",
    "SELECT integral(load) FROM cpu WHERE host = 'a'",
    "SELECT integral(load, 1m) FROM cpu WHERE host = 'a' GROUP BY time(1m)",
    "SELECT derivative(used) FROM disk WHERE path = '/p0' LIMIT 5",
    "SELECT non_negative_difference(jobs) FROM cpu WHERE host = 'a' LIMIT 8",
    "SELECT cumulative_sum(jobs) FROM cpu WHERE host = 'a' LIMIT 8",
    "SELECT moving_average(load, 4) FROM cpu WHERE host = 'a' LIMIT 8",
    "SELECT elapsed(load, 1s) FROM cpu WHERE host = 'a' LIMIT 8",
    "SELECT mean(load) FROM cpu WHERE time < {to} GROUP BY time(1m)",
    "SELECT difference(mean(load)), mean(load) FROM cpu WHERE time >= 1700000011s AND time < {to} GROUP BY time(1m)",
    "SELECT mean(load) * 2 + 1 FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(1m), host",
    "SELECT derivative(mean(load), 1s) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(1m)",
    "SELECT moving_average(mean(load), 2) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(30s) fill(0)",
    "SELECT cumulative_sum(count(load)) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(2m)",
    "SELECT max(mean) FROM (SELECT mean(load) FROM cpu GROUP BY host)",
    "SELECT sum(m) FROM (SELECT mean(load) AS m FROM cpu GROUP BY time(1m), host) "
    "WHERE time >= {from} AND time < {to} GROUP BY time(2m)",
    "SELECT mean(twice) FROM (SELECT load * 2 AS twice FROM cpu) GROUP BY host",
    "SELECT count(load) FROM (SELECT load FROM cpu WHERE load > 20) WHERE host = 'a'",
    "SELECT used FROM cpu, disk LIMIT 2",
    "SELECT mean(load), mean(used) FROM /cpu|disk/",
    "SELECT load FROM cpu WHERE time > '2023-11-14T22:14:00Z' AND time <= '2023-11-14 22:15:00' GROUP BY host",
    "SELECT spread(load), stddev(load), median(load), percentile(load, 90) FROM cpu GROUP BY region",
    "SELECT mean(state) FROM cpu",
    "SELECT foo(load) FROM cpu",
    "SELECT load FROM cpu GROUP BY time(1m)",
    "SELECT mean(load) FROM cpu WHERE time >= {from} AND time < {to} GROUP BY time(1m, 20s) fill(linear)",
    "SHOW TAG KEYS",
    "SHOW TAG KEYS FROM cpu",
    "SHOW TAG VALUES FROM cpu WITH KEY = host",
    "SHOW TAG VALUES WITH KEY IN (host, path) WHERE host = 'a'",
    "SHOW TAG VALUES FROM cpu WITH KEY =~ /re/ LIMIT 1",
    "SHOW FIELD KEYS",
    "SHOW FIELD KEYS FROM disk",
    "SHOW MEASUREMENTS",
    "SHOW MEASUREMENTS WITH MEASUREMENT =~ /c.*/ LIMIT 1",
    "SHOW MEASUREMENTS WHERE path = '/p1'",
    "SHOW SERIES",
    "SHOW SERIES FROM cpu WHERE host = 'a'",
    "SHOW RETENTION POLICIES ON d",
]


def random_statement(dice):
    """A statement with one to three functions, a time range, and the usual clauses."""
    simple = ["count", "mean", "sum", "min", "max", "first", "last", "spread", "median", "stddev"]
    calls = [f"{dice.choice(simple)}({dice.choice(['load', 'jobs'])})" for _ in range(dice.randrange(1, 4))]
    begin = BASE_S + dice.randrange(-100, 500)
    end = begin + dice.randrange(1, 900)
    conditions = [f"time >= {begin}s", f"time {dice.choice(['<', '<='])} {end}000000000"]
    conditions += dice.choice([[], ["host = 'a'"], ["host != 'b'"], ["host =~ /a|c/"], ["load > 5"], ["jobs < 4", "host = 'b'"]])
    groups = dice.choice([[], ["host"], ["region"], ["host", "region"], ["*"]])
    fill = ""
    if dice.random() < 0.7:
        if dice.random() < 0.2:
            # Without buckets, the time of one of several equal values is returned.
            calls = [f"percentile(load, {dice.choice([50, 99.5, 100])})"]
        groups = [f"time({dice.choice(['10s', '1m', '90s', '5m', '1m, 7s'])})", *groups]
        fill = dice.choice(["", " fill(none)", " fill(null)", " fill(previous)", " fill(3)", " fill(linear)"])
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    # InfluxDB applies limits to each function before it joins their rows.
    tail = dice.choice(["", "", " LIMIT 3", " LIMIT 2 OFFSET 1"]) if len(calls) == 1 or "none" not in fill else ""
    return f"SELECT {', '.join(calls)} FROM cpu WHERE {' AND '.join(conditions)}{by}{fill}{tail}"


@needs_influxdb
def test_answers_are_those_of_influxdb(serve, influxdb):
    server = serve()
    body = "\n".join(lines())
    server.write(body)
    requests.post(f"{influxdb}/write", params={"db": "d"}, data=body, timeout=60).raise_for_status()
    dice = random.Random(7)
    bounds = {"from": f"{BASE_S}s", "to": f"{BASE_S + 840}s"}
    statements = [statement.format(**bounds) for statement in FIXED] + [random_statement(dice) for _ in range(300)]
    differences = []
    for flush in [False, True]:
        if flush:
            server.flush()
        for statement in statements:
            theirs, ours = result(influxdb, statement), result(server.url, statement)
            if not same(theirs, ours):
                differences.append(f"{statement}\n  InfluxDB {json.dumps(theirs)[:700]}\n  ours     {json.dumps(ours)[:700]}")
    assert not differences, f"{len(differences)} of {2 * len(statements)}:\n" + "\n".join(differences[:40])


def test_influxdb_python_reads_what_it_wrote(serve):
    server = serve()
    host, port = server.url.removeprefix("http://").split(":")
    client = InfluxDBClient(host, int(port), database="d")
    client.create_database("d")
    points = [
        {"measurement": "room", "tags": {"room": "a"}, "time": (BASE_S + n) * 10**9, "fields": {"t": n / 2, "on": n > 3}}
        for n in range(8)
    ]
    assert client.write_points(points)
    assert {"name": "room"} in client.get_list_measurements()
    found = list(client.query("SELECT t, \"on\" FROM room WHERE room = $r", bind_params={"r": "a"}).get_points("room"))
    assert [(row["t"], row["on"]) for row in found] == [(n / 2, n > 3) for n in range(8)]
    assert found[0]["time"] == "2023-11-14T22:13:20Z"
    chunked = client.query("SELECT t FROM room", chunked=True, chunk_size=3, epoch="s")
    assert [row["time"] for part in chunked for row in part.get_points()] == [BASE_S + n for n in range(8)]
    means = client.query(f"SELECT mean(t) FROM room WHERE time >= {BASE_S}s AND time < {BASE_S + 8}s GROUP BY time(4s), room")
    assert [row["mean"] for row in means.get_points(tags={"room": "a"})] == [0.75, 2.75]
    with pytest.raises(Exception, match="undefined function"):
        client.query("SELECT nonsense(t) FROM room")


GRAFANA = [
    ("SHOW RETENTION POLICIES on \"seiner\"", 1),
    ("SHOW MEASUREMENTS WITH MEASUREMENT =~ /(?i)cp/ LIMIT 100", 1),
    ("SHOW FIELD KEYS FROM \"cpu\"", 4),
    ("SHOW TAG KEYS FROM \"cpu\"", 2),
    ("SHOW TAG VALUES FROM \"cpu\" WITH KEY = \"host\"", 3),
    ("SHOW TAG VALUES WITH KEY = \"host\" WHERE \"region\" =~ /^(east|west)$/", 2),
    (
        f"SELECT mean(\"load\") FROM \"cpu\" WHERE (\"host\"::tag = 'a') AND time >= {BASE_S}000ms and "
        f"time <= {BASE_S + 599}000ms GROUP BY time(1m), \"host\"::tag fill(null)",
        11,
    ),
    (
        f"SELECT non_negative_derivative(mean(\"used\"), 1s) AS \"rate\" FROM \"disk\" WHERE time >= {BASE_S}000ms and "
        f"time <= {BASE_S + 300}000ms GROUP BY time(30s), \"path\" fill(none) ORDER BY time ASC",
        19,
    ),
    (f"SELECT last(\"state\") FROM \"cpu\" WHERE time >= {BASE_S}000ms GROUP BY \"host\"", 3),
]


def test_requests_of_grafana_are_answered(serve):
    server = serve()
    server.write("\n".join(lines()))
    for statement, rows in GRAFANA:
        answer = requests.post(f"{server.url}/query", params={"db": "seiner", "epoch": "ms"}, data={"q": statement}, timeout=60)
        assert answer.status_code == 200, (statement, answer.text)
        series = answer.json()["results"][0]["series"]
        assert sum(len(one["values"]) for one in series) == rows, (statement, answer.text)
    together = ";".join(statement for statement, _ in GRAFANA)
    answer = ask(server.url, together)
    assert [one["statement_id"] for one in answer["results"]] == list(range(len(GRAFANA)))


@needs_influxdb
def test_csv_is_that_of_influxdb(serve, influxdb):
    server = serve()
    text = r'text,tag=a\ b\,c line="x, \"y\""'
    body = "\n".join([*lines(), f"{text} {BASE_S}000000000"])
    server.write(body)
    requests.post(f"{influxdb}/write", params={"db": "d"}, data=body, timeout=60).raise_for_status()
    for statement in [
        "SELECT * FROM cpu LIMIT 20",
        "SELECT load FROM cpu GROUP BY host LIMIT 3",
        "SELECT * FROM text GROUP BY *",
        "SELECT mean(load) FROM cpu; SELECT nothing FROM cpu; SELECT max(used) FROM disk; SELECT load, up FROM cpu LIMIT 2",
        f"SELECT mean(load), count(up) FROM cpu WHERE time >= {BASE_S}s AND time < {BASE_S + 400}s GROUP BY time(1m), host",
        "SHOW TAG VALUES WITH KEY IN (host, path)",
        "SELECT load FROM cpu, disk WHERE host = 'a' LIMIT 2",
    ]:
        for more in [{}, {"epoch": "s"}, {"epoch": "ms", "chunked": "true", "chunk_size": "2"}]:
            parameters = {"db": "d", "q": statement, **more}
            answers = [
                requests.get(f"{url}/query", params=parameters, headers={"Accept": "application/csv"}, timeout=60)
                for url in [influxdb, server.url]
            ]
            theirs, ours = [answer.text for answer in answers]
            assert ours == theirs, (statement, more)
            assert answers[1].headers["content-type"] == answers[0].headers["content-type"]


def test_databases_are_apart(serve):
    server = serve(database_tag="db")
    host, port = server.url.removeprefix("http://").split(":")
    clients = {name: InfluxDBClient(host, int(port), database=name) for name in ["a", "b"]}
    for value, client in enumerate(clients.values()):
        fields = {"v": float(value)}
        assert client.write_points([{"measurement": "m", "time": BASE_S * 10**9, "fields": fields}])
    server.write(f"m v=7 {BASE_S}000000000")
    for value, client in enumerate(clients.values()):
        assert [row["v"] for row in client.query("SELECT v FROM m").get_points()] == [value]
        assert [row["v"] for row in client.query("SELECT v FROM m", database="b").get_points()] == [1]
        assert client.get_list_series() == [f"m,db={'ab'[value]}"]
    assert client.get_list_database() == [{"name": "a"}, {"name": "b"}]
    assert [row["v"] for row in client.query("SELECT v FROM a..m").get_points()] == [0]
    assert clients["a"].query("SELECT v FROM m", database="c").raw.get("series", []) == []
    whole = InfluxDBClient(host, int(port))
    assert [row["sum"] for row in whole.query("SELECT sum(v) FROM m").get_points()] == [8]


@needs_influxdb
def test_time_zones_are_those_of_influxdb(serve, influxdb):
    server = serve()
    # The clocks in Berlin change on 29 March and on 25 October 2026.
    begin_s = {"march": 1_774_656_000, "october": 1_792_800_000}
    body = "\n".join(
        f"{name} v={n % 17} {begin + 1800 * n}000000000" for name, begin in begin_s.items() for n in range(150) if n % 29
    )
    server.write(body)
    requests.post(f"{influxdb}/write", params={"db": "d"}, data=body, timeout=60).raise_for_status()
    for name, every, fill, zone in itertools.product(
        begin_s, ["30m", "1h", "6h", "12h", "1d"], ["none", "0", "previous"], ["Europe/Berlin", "Asia/Kolkata", "UTC"]
    ):
        times = f"time >= {begin_s[name]}s AND time < {begin_s[name] + 1800 * 150}s"
        statement = f"SELECT count(v), sum(v) FROM {name} WHERE {times} GROUP BY time({every}) fill({fill}) tz('{zone}')"
        theirs, ours = [ask(url, statement, epoch="") for url in [influxdb, server.url]]
        assert same(theirs, ours), statement
    for condition in ["time >= '2026-03-29' AND time < '2026-03-30 00:00:00'", "time >= '2026-03-29T00:00:00Z'"]:
        statement = f"SELECT count(v) FROM march WHERE {condition} AND time < {begin_s['march'] + 1800 * 150}s tz('Europe/Berlin')"
        theirs, ours = [ask(url, statement) for url in [influxdb, server.url]]
        assert same(theirs, ours), statement
