"""PromQL over the interface of Prometheus, with the requests that Grafana sends, and with Prometheus as a client."""

import http.server
import json
import math
import shutil
import subprocess
import threading
import time

import pytest
import requests
import yaml

from program import ROOT, free_port
from protobuf import literal, message, series, varint
from test_documents import PORT, blocks

SECOND = 1_000_000_000
# The samples begin at this time, in seconds.
BEGIN = 1_700_000_000
MINUTES = 60


needs_prometheus = pytest.mark.skipif(
    not shutil.which("prometheus"), reason="prometheus is not installed: run scripts/need.sh prometheus"
)


@pytest.fixture
def prometheus(tmp_path):
    """Starts Prometheus with a configuration, and returns its address."""
    running = []

    def start(**config):
        folder = tmp_path / f"prometheus-{len(running)}"
        folder.mkdir()
        # A keyword of Python ends in an underscore.
        named = {name.rstrip("_"): value for name, value in config.items()}
        (folder / "prometheus.yml").write_text(json.dumps(named))
        address = f"127.0.0.1:{free_port()}"
        flags = [
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={address}",
        ]
        with open(folder / "log", "wb") as log:
            running.append(subprocess.Popen(["prometheus", *flags], stdout=log, stderr=log))
        return address

    yield start
    for process in running:
        process.kill()
        process.wait()


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
    # Series without samples in the interval are omitted.
    assert ask(server, "label/__name__/values", start=BEGIN, end=BEGIN + 60) == ["cpu_up", "cpu_usage", "requests_total"]
    assert ask(server, "label/host/values", match="cpu_usage", start=BEGIN - 60, end=BEGIN - 1) == []
    assert ask(server, "labels", start=BEGIN - 60, end=BEGIN - 1) == []
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


def test_remote_read(server):
    matcher = message(2, b"__name__") + message(3, b"requests_total")
    query = b"\x08" + varint(BEGIN * 1000) + b"\x10" + varint((BEGIN + 120) * 1000) + message(3, matcher)
    url = f"{server.url}/prometheus/api/v1/read"
    answer = requests.post(url, data=literal(message(1, query)), timeout=60)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert answer.headers["content-encoding"] == "snappy"
    assert requests.post(url, data=b"garbage", timeout=60).status_code == 400


@needs_prometheus
def test_prometheus_reads_remotely(server, prometheus):
    """Prometheus evaluates a query on samples that it reads from the server."""
    reader = prometheus(remote_read=[read_from(server)])
    query = {"query": "sum(increase(requests_total[10m]))", "time": BEGIN + 3000}
    result = soon(lambda: asked(reader, **query))
    assert math.isclose(float(result[0]["value"][1]), 3600)


# Remote write


def test_remote_write(server):
    """Answers to a complete write, a partial one, and one that is no remote write."""
    url = f"{server.url}/prometheus/api/v1/write"
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
    good = series({"__name__": "up", "job": "a"}, [(BEGIN * 1000, 1.0)])
    answer = requests.post(url, data=literal(good), headers=headers, timeout=60)
    assert (answer.status_code, answer.content) == (204, b"")
    bad = series({"job": "a", "__name__": "up"}, [(BEGIN * 1000, 1.0)])
    answer = requests.post(url, data=literal(bad + good), headers=headers, timeout=60)
    assert answer.status_code == 400
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (1, 1)
    assert "sort the labels" in answer.text
    answer = requests.post(url, data=literal(good), headers={**headers, "Content-Encoding": "gzip"}, timeout=60)
    assert answer.status_code == 415
    assert ask(server, "query", query="up", time=BEGIN)["result"][0]["metric"] == {"__name__": "up", "job": "a"}


class Target(threading.Thread):
    """Target of scrapes: counters, values that are hard to print, and a series that disappears."""

    def __init__(self):
        super().__init__(daemon=True)
        target = self
        self.scrapes = 0
        self.is_complete = True

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                target.scrapes += 1
                self.send_response(200)
                self.end_headers()
                self.wfile.write(target.text().encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def run(self):
        self.server.serve_forever()

    def text(self):
        lines = ["# HELP scrapes_total Scrapes of this target.", "# TYPE scrapes_total counter"]
        lines.append(f"scrapes_total {self.scrapes}")
        for nth, value in enumerate([0.1, 1e300, 5e-324, "NaN", "+Inf", "-Inf", 123456789012345680]):
            lines.append(f'special{{nth="{nth}",text="a,b=\\"c\\" ü\\\\"}} {value}')
        for bucket in ["0.1", "1", "+Inf"]:
            lines.append(f'delay_bucket{{le="{bucket}"}} {self.scrapes}')
        if self.is_complete:
            lines.append(f"short_lived {self.scrapes}")
        return "\n".join(lines) + "\n"


@needs_prometheus
def test_prometheus_writes_remotely(serve, prometheus):
    """Samples that Prometheus scraped return unchanged, with stale markers: from the API, and by remote read."""
    server, target = serve(), Target()
    target.start()
    writer = prometheus(
        global_={"scrape_interval": "250ms", "scrape_timeout": "250ms"},
        scrape_configs=[{"job_name": "test", "static_configs": [{"targets": [target.address]}]}],
        remote_write=[
            {
                "url": f"{server.url}/prometheus/api/v1/write",
                "queue_config": {"batch_send_deadline": "100ms"},
                "metadata_config": {"send_interval": "500ms"},
            }
        ],
    )
    soon(lambda: target.scrapes >= 10)
    target.is_complete = False
    seen = target.scrapes
    soon(lambda: target.scrapes >= seen + 6)
    # The end of the comparison: samples of later scrapes may still be on their way.
    end = time.time() - 0.5
    everything = {"query": '{__name__=~".+"}[1h]', "time": end}
    scraped = by_labels(asked(writer, **everything))
    assert len(scraped) > 15 and len(scraped[labels_of("scrapes_total", target)]) >= 10
    ours = f"{server.address}/prometheus"
    soon(lambda: by_labels(asked(ours, **everything)) == scraped)
    # The series has ended at once, not after the lookback of five minutes.
    for source in (writer, ours):
        assert asked(source, query="short_lived", time=end) == []
        assert len(asked(source, query="scrapes_total", time=end)) == 1
    # By remote read, in another Prometheus.
    reader = prometheus(remote_read=[read_from(server)])
    soon(lambda: by_labels(asked(reader, **everything)) == scraped)
    assert asked(reader, query="short_lived", time=end) == []
    metadata = soon(lambda: ask(server, "metadata", metric="scrapes_total"))
    assert metadata == {"scrapes_total": [{"type": "counter", "help": "Scrapes of this target.", "unit": ""}]}
    metrics = requests.get(f"{server.url}/metrics", timeout=60).text
    assert 'seiner_ingest_rejected_rows_total{protocol="remote_write"} 0\n' in metrics
    target.server.shutdown()


@needs_prometheus
def test_configurations_of_the_page(serve, prometheus):
    server, target = serve(), Target()
    target.start()
    writing, reading = (
        yaml.safe_load(block.replace("127.0.0.1:9100", target.address).replace(PORT, server.address).replace("15s", "1s"))
        for block in blocks(ROOT / "docs/prometheus.md", "yaml")
    )
    prometheus(**writing)
    up = {"query": 'up{job="node"}'}
    assert soon(lambda: asked(f"{server.address}/prometheus", **up))[0]["value"][1] == "1"
    reader = prometheus(**reading)
    assert soon(lambda: asked(reader, **up))[0]["metric"]["instance"] == target.address
    target.server.shutdown()


def labels_of(metric, target):
    return frozenset({"__name__": metric, "instance": target.address, "job": "test"}.items())


def by_labels(result):
    """Returns the samples of a result by the labels of their series. Returns nothing without a result."""
    return {frozenset(found["metric"].items()): found["values"] for found in result or []}


def read_from(server):
    return {"url": f"{server.url}/prometheus/api/v1/read", "read_recent": True}


def asked(address, **parameters):
    """Returns the result of an instant query; `None` while the server does not answer."""
    try:
        answer = requests.get(f"http://{address}/api/v1/query", params=parameters, timeout=60)
    except requests.ConnectionError:
        return None
    return answer.json()["data"]["result"] if answer.status_code == 200 else None


def soon(look, seconds=30):
    """Returns the first result of `look` that is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s")
