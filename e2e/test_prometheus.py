"""PromQL over the interface of Prometheus, with the requests that Grafana sends, and with Prometheus as a client."""

import json
import math
import shutil
import socket
import struct
import subprocess
import time

import pytest
import requests

SECOND = 1_000_000_000
# The samples begin at this time, in seconds.
BEGIN = 1_700_000_000
MINUTES = 60


@pytest.fixture
def server(serve):
    server = serve()
    lines = []
    for minute in range(MINUTES):
        at = (BEGIN + 60 * minute) * SECOND
        for host in "abc":
            count = minute * 60 * (1 + ord(host) - ord("a"))
            lines.append(f"requests_total,host={host} value={count} {at}")
            lines.append(f'cpu,host={host},core=0 usage={minute}.5,up=true,note="x" {at}')
    assert server.write("\n".join(lines)).status_code == 204
    return server


def ask(server, path, method="GET", **parameters):
    """Returns the data of a successful answer."""
    named = [("match[]" if name == "match" else name, value) for name, value in parameters.items()]
    place = {"params": named} if method == "GET" else {"data": named}
    answer = requests.request(method, f"{server.url}/prometheus/api/v1/{path}", timeout=60, **place)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert body["status"] == "success"
    return body["data"]


def test_range_queries_of_grafana(server):
    """Grafana sends a form with seconds, also for the step."""
    data = ask(
        server,
        "query_range",
        "POST",
        query="sum by (host) (rate(requests_total[5m]))",
        start=BEGIN + 600,
        end=BEGIN + 900.5,
        step=60,
    )
    assert data["resultType"] == "matrix"
    found = {series["metric"]["host"]: series["values"] for series in data["result"]}
    assert set(found) == {"a", "b", "c"}
    for host, rate in zip("abc", (1, 2, 3)):
        assert [time for time, _ in found[host]] == [BEGIN + 600 + 60 * step for step in range(6)]
        assert all(math.isclose(float(value), rate) for _, value in found[host])


def test_instant_queries(server):
    at = BEGIN + 60 * (MINUTES - 1)
    data = ask(server, "query", query='cpu_usage{host=~"a|b"}', time=at)
    assert data["resultType"] == "vector"
    assert [series["metric"] for series in data["result"]] == [
        {"__name__": "cpu_usage", "core": "0", "host": "a"},
        {"__name__": "cpu_usage", "core": "0", "host": "b"},
    ]
    assert [series["value"] for series in data["result"]] == [[at, "59.5"]] * 2
    assert ask(server, "query", query="count(cpu_up)", time=at)["result"][0]["value"][1] == "3"
    # Fields of text are not visible.
    assert ask(server, "query", query="cpu_note", time=at)["result"] == []
    assert ask(server, "query", query="1 + 1", time="2023-11-14T22:13:20Z") == {
        "resultType": "scalar",
        "result": [BEGIN, "2"],
    }
    samples = ask(server, "query", query='requests_total{host="a"}[2m]', time=BEGIN + 120)
    assert [value for _, value in samples["result"][0]["values"]] == ["60", "120"]
    # The address of the server's own queries answers PromQL as well.
    answer = requests.get(f"{server.url}/api/v1/query", params={"query": "vector(7)"}, timeout=60)
    assert answer.json()["data"]["result"][0]["value"][1] == "7"


def test_names_for_the_metric_browser(server):
    assert ask(server, "label/__name__/values") == ["cpu_up", "cpu_usage", "requests_total"]
    assert ask(server, "label/__name__/values", match='{__name__=~"cpu.*"}') == ["cpu_up", "cpu_usage"]
    assert ask(server, "labels", "POST", match="cpu_usage") == ["__name__", "core", "host"]
    assert ask(server, "label/host/values", match="cpu_usage", limit=2) == ["a", "b"]
    series = ask(server, "series", "POST", match='{host="a"}', start=BEGIN, end=BEGIN + 60)
    assert {"__name__": "cpu_usage", "core": "0", "host": "a"} in series and len(series) == 3
    assert ask(server, "series", match='{host="a"}', start=0, end=60) == []
    assert set(ask(server, "metadata")) == {"cpu_up", "cpu_usage", "requests_total"}
    assert ask(server, "status/buildinfo")["version"].startswith("3.")
    assert ask(server, "query_exemplars", query="up", start=0, end=1) == []
    assert ask(server, "rules") == {"groups": []}
    assert ask(server, "alerts") == {"alerts": []}


@pytest.mark.parametrize(
    ("path", "parameters", "status", "kind", "text"),
    [
        ("query", {"query": "rate(x)"}, 400, "bad_data", "expected type"),
        ("query", {"query": "sum("}, 400, "bad_data", "parse error"),
        ("query", {}, 400, "bad_data", "query"),
        ("query", {"query": "x", "time": "yesterday"}, 400, "bad_data", "timestamp"),
        ("query_range", {"query": "x", "start": 0, "end": 10, "step": 0}, 400, "bad_data", "zero or negative"),
        ("query_range", {"query": "x", "start": 0, "end": 99999, "step": 1}, 400, "bad_data", "11,000 points"),
        ("query_range", {"query": "x", "start": 9, "end": 1, "step": 1}, 400, "bad_data", "before start"),
        ("query", {"query": "(" * 200 + "1" + ")" * 200}, 422, "execution", "parentheses"),
        ("query", {"query": "cpu_usage * on (core) cpu_up", "time": BEGIN}, 422, "execution", "duplicate series"),
        ("series", {}, 400, "bad_data", "no match[]"),
        ("no_such_address", {}, 404, "not_found", "docs/promql.md"),
    ],
)
def test_errors_have_the_form_of_prometheus(server, path, parameters, status, kind, text):
    answer = requests.get(f"{server.url}/prometheus/api/v1/{path}", params=parameters, timeout=60)
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert (body["status"], body["errorType"]) == ("error", kind)
    assert text in body["error"], body["error"]


# Remote read


def varint(number):
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def message(tag, content):
    return varint(tag << 3 | 2) + varint(len(content)) + content


def literal(content):
    """Snappy without compression."""
    return varint(len(content)) + bytes([61 << 2]) + struct.pack("<H", len(content) - 1) + content


def test_remote_read(server):
    matcher = message(2, b"__name__") + message(3, b"requests_total")
    query = b"\x08" + varint(BEGIN * 1000) + b"\x10" + varint((BEGIN + 120) * 1000) + message(3, matcher)
    url = f"{server.url}/prometheus/api/v1/read"
    answer = requests.post(url, data=literal(message(1, query)), timeout=60)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert answer.headers["content-encoding"] == "snappy"
    assert requests.post(url, data=b"garbage", timeout=60).status_code == 400


@pytest.mark.skipif(not shutil.which("prometheus"), reason="prometheus is not installed")
def test_prometheus_reads_remotely(server, tmp_path):
    """Prometheus evaluates a query on samples that it reads from the server."""
    config = tmp_path / "prometheus.yml"
    read = [{"url": f"{server.url}/prometheus/api/v1/read", "read_recent": True}]
    config.write_text(json.dumps({"remote_read": read}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}", f"--web.listen-address={address}"]
    with open(tmp_path / "prometheus.log", "wb") as log:
        process = subprocess.Popen(["prometheus", *flags], stdout=log, stderr=log)
    try:
        query = {"query": "sum(increase(requests_total[10m]))", "time": BEGIN + 3000}
        assert math.isclose(float(value_of(address, query)), 3600)
    finally:
        process.kill()
        process.wait()


def value_of(address, query):
    """Returns the value of a query, as soon as Prometheus answers."""
    for _ in range(100):
        try:
            answer = requests.get(f"http://{address}/api/v1/query", params=query, timeout=10)
            if answer.status_code == 200:
                return answer.json()["data"]["result"][0]["value"][1]
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise AssertionError("Prometheus does not answer")
