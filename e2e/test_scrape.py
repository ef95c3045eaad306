"""Scraping: node-exporter, and targets that fail, vanish, answer slowly or with too much."""

import contextlib
import http.server
import json
import shutil
import ssl
import subprocess
import threading
import time

import pytest
import requests

from authority import certificates
from program import free_port, until

needs_exporter = pytest.mark.skipif(
    not shutil.which("prometheus-node-exporter"),
    reason="prometheus-node-exporter is not installed: run scripts/need.sh node-exporter",
)


def api(server, path, **parameters):
    answer = requests.get(f"{server.url}/prometheus/api/v1/{path}", params=parameters, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def value(server, query):
    """Returns the value of the only series of a query now; None without one."""
    result = api(server, "query", query=query)["result"]
    assert len(result) <= 1, result
    return float(result[0]["value"][1]) if result else None


@needs_exporter
def test_node_exporter_needs_no_agent(serve, tmp_path):
    address = f"127.0.0.1:{free_port()}"
    with open(tmp_path / "exporter", "wb") as log:
        exporter = subprocess.Popen(
            ["prometheus-node-exporter", f"--web.listen-address={address}"], stdout=log, stderr=log
        )
    try:
        server = serve(scrape=f"name=node,targets={address},interval=500ms,labels=site=north")
        labels = f'{{job="node",instance="{address}",site="north"}}'
        until(lambda: value(server, "up" + labels) == 1, "the target is not up")
        until(lambda: value(server, f"count_over_time(up{labels}[1m])") >= 3, "there are no further scrapes")
        assert value(server, "scrape_samples_scraped" + labels) > 100
        assert 0 < value(server, "scrape_duration_seconds" + labels) < 10
        # The same figure from node-exporter itself, whose text the client of the test divides.
        memory = requests.get(f"http://{address}/metrics", timeout=60).text
        total = next(line.split()[1] for line in memory.splitlines() if line.startswith("node_memory_MemTotal_bytes "))
        assert value(server, "node_memory_MemTotal_bytes") == float(total)
        assert value(server, 'count(node_cpu_seconds_total{mode="idle"})') >= 1
        metadata = api(server, "metadata", metric="node_cpu_seconds_total")["node_cpu_seconds_total"]
        assert metadata == [{"type": "counter", "help": "Seconds the CPUs spent in each mode.", "unit": ""}]
        (target,) = api(server, "targets")["activeTargets"]
        assert (target["health"], target["lastError"], target["scrapePool"]) == ("up", "", "node")
        assert target["labels"] == {"instance": address, "job": "node", "site": "north"}
        assert (target["scrapeUrl"], target["scrapeInterval"]) == (f"http://{address}/metrics", "500ms")
    finally:
        exporter.kill()
        exporter.wait()
    until(lambda: value(server, "up" + labels) == 0, "the target is still up")
    assert value(server, "node_memory_MemTotal_bytes") is None
    (target,) = api(server, "targets")["activeTargets"]
    assert target["health"] == "down" and "cannot be reached" in target["lastError"]


@pytest.fixture
def target():
    """Target that answers with `text`, after `delay` seconds."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.seen = self.headers
            time.sleep(self.server.delay)
            body = self.server.text.encode()
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            # The server may have given up.
            with contextlib.suppress(BrokenPipeError):
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.text, server.delay, server.seen = "", 0, None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_targets_of_files_fail_and_vanish(serve, target, tmp_path):
    address = f"127.0.0.1:{target.server_port}"
    file = tmp_path / "targets.json"
    file.write_text(json.dumps([{"targets": [address], "labels": {"floor": "2"}}]))
    target.text = 'a{job="x",instance=""} 1\nb 2\n'
    job = f"name=faults,files={tmp_path}/*.json,interval=200ms,timeout=150ms,body_limit=64 KiB"
    server = serve(scrape=job)
    until(lambda: value(server, f'a{{job="faults",instance="{address}",floor="2",exported_job="x"}}') == 1, "no sample")
    assert "text/plain" in target.seen["accept"]
    assert float(target.seen["x-prometheus-scrape-timeout-seconds"]) == 0.15

    # A series that the target has no more ends, and the others go on.
    target.text = "b 3\n"
    until(lambda: value(server, "b") == 3, "no further scrape")
    assert value(server, "a") is None

    def fails(reason):
        until(lambda: value(server, "up") == 0, "the scrape does not fail")
        assert value(server, "b") is None
        (found,) = api(server, "targets")["activeTargets"]
        assert found["health"] == "down" and reason in found["lastError"], found

    def recovers():
        target.text, target.delay = "b 4\n", 0
        until(lambda: value(server, "up") == 1 and value(server, "b") == 4, "the target does not recover")

    target.text = "b 5\n" + "# a comment\n" * 6_000
    fails("raise body_limit")
    recovers()
    target.delay = 0.4
    fails("raise timeout")
    recovers()
    target.text = "b 5\nb{\n"
    fails("line 2")
    recovers()

    # A target that is gone from its file ends with all its series.
    file.write_text("[]")
    until(lambda: value(server, "up") is None, "the target is still scraped")
    assert value(server, "b") is None
    assert api(server, "targets")["activeTargets"] == []
    (state,) = server.status()["scrape"]
    assert (state["job"], state["targets"]) == ("faults", 0)
    assert state["failures"] >= 3 and state["scrapes"] > state["failures"]
    metrics = requests.get(server.url + "/metrics", timeout=60).text
    assert 'seiner_scrape_targets{job="faults"} 0' in metrics
    # The markers are those of Prometheus.
    stored = server.query("b")
    (series,) = stored.values()
    assert {2, 3, "NaN"} <= set(series["values"])


def test_targets_with_encryption_and_logins(serve, target, tmp_path):
    authority, certificate, key = certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    target.socket = context.wrap_socket(target.socket, server_side=True)
    target.text = "a 1\n"
    address = f"127.0.0.1:{target.server_port}"
    password, token = tmp_path / "password", tmp_path / "token"
    password.write_text("secret-word\n")
    token.write_text("a.token\n")
    common = f"targets=https://{address},interval=200ms,ca_file={authority}"
    server = serve(scrape=f"name=a,{common},user=ann,password_file={password}")
    until(lambda: value(server, "up") == 1, "the target is not up")
    # The base64 of ann:secret-word.
    assert target.seen["authorization"] == "Basic YW5uOnNlY3JldC13b3Jk"
    (found,) = api(server, "targets")["activeTargets"]
    assert found["scrapeUrl"] == f"https://{address}/metrics"
    assert "secret-word" not in str(found) + str(server.status()) + server.log.read_text()
    server.stop()
    server = serve("b", scrape=f"name=b,{common},token_file={token}")
    until(lambda: value(server, "up") == 1, "the target is not up")
    assert target.seen["authorization"] == "Bearer a.token"
    token.unlink()
    until(lambda: value(server, "up") == 0, "the scrape does not fail without its token")
    (found,) = api(server, "targets")["activeTargets"]
    assert "token_file" in found["lastError"]
    server.stop()
    # The system does not have the authority of the test.
    server = serve("c", scrape=f"name=c,targets=https://{address},interval=200ms")
    until(lambda: value(server, "up") == 0, "the certificate is not rejected")
    (found,) = api(server, "targets")["activeTargets"]
    assert "certificate" in found["lastError"]
