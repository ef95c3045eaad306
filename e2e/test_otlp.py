"""OTLP metrics from the SDK of OpenTelemetry, read back by PromQL."""


import pytest
import requests

pytest.importorskip("opentelemetry.sdk.metrics", reason="opentelemetry-sdk is not installed: pip install -r requirements.txt")

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

from program import free_port

DELTA = {Counter: AggregationTemporality.DELTA, Histogram: AggregationTemporality.DELTA}


def ask(server, query):
    """Returns the value of each series, by its labels."""
    answer = requests.get(f"{server.url}/prometheus/api/v1/query", params={"query": query}, timeout=60)
    assert answer.status_code == 200, answer.text
    result = answer.json()["data"]["result"]
    return {tuple(sorted(series["metric"].items())): float(series["value"][1]) for series in result}


def only(server, query):
    values = ask(server, query)
    assert len(values) == 1, (query, values)
    return next(iter(values.values()))


def send(exporter):
    """Records values of each type, and exports them once."""
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=1e9)
    views = [View(instrument_name="size", aggregation=ExponentialBucketHistogramAggregation(max_size=40))]
    resource = Resource({"service.name": "shop", "service.instance.id": "1", "host.name": "a"})
    provider = MeterProvider(metric_readers=[reader], views=views, resource=resource)
    meter = provider.get_meter("e2e")
    meter.create_gauge("room.temp", unit="Cel").set(21.5, {"room": "north"})
    counter = meter.create_counter("requests", unit="{request}")
    counter.add(3, {"http.route": "/a"})
    counter.add(4, {"http.route": "/a"})
    delay = meter.create_histogram("delay", unit="s", explicit_bucket_boundaries_advisory=[0.1, 1, 10])
    size = meter.create_histogram("size", unit="By")
    for value in [0.05, 0.5, 0.6, 5, 50]:
        delay.record(value)
        size.record(value)
    assert provider.force_flush(30_000)
    counter.add(5, {"http.route": "/a"})
    assert provider.force_flush(30_000)
    provider.shutdown()


def check(server, is_delta):
    """Checks the values that `send` recorded."""
    labels = {"job": "shop", "instance": "1"}
    temp = {**labels, "__name__": "room_temp_celsius", "room": "north"}
    assert ask(server, "room_temp_celsius") == {tuple(sorted(temp.items())): 21.5}
    mark = {"temporality": "delta"} if is_delta else {}
    counter = {**labels, "__name__": "requests_total", "http_route": "/a", **mark}
    # A delta is not accumulated.
    assert ask(server, "requests_total") == {tuple(sorted(counter.items())): 5 if is_delta else 12}
    buckets = {}
    for name, value in ask(server, "last_over_time(delay_seconds_bucket[1h])").items():
        buckets[dict(name)["le"]] = value
    if is_delta:
        assert only(server, "sum_over_time(requests_total[1h])") == 12
        assert set(buckets) == {"0.1", "1", "10", "+Inf"}
    else:
        assert buckets == {"0.1": 1, "1": 3, "10": 4, "+Inf": 5}
        assert only(server, "delay_seconds_count") == 5
        assert only(server, "delay_seconds_sum") == pytest.approx(56.15)
        assert only(server, "size_bytes_count") == 5
        assert 0.4 < only(server, "histogram_quantile(0.5, size_bytes_bucket)") < 0.8
        assert 4 < only(server, "histogram_quantile(0.8, size_bytes_bucket)") < 7
    info = next(iter(ask(server, "target_info")))
    assert dict(info)["host_name"] == "a"


@pytest.mark.parametrize("is_delta", [False, True])
@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_http(serve, compression, is_delta):
    server = serve()
    send(
        HttpExporter(
            endpoint=f"{server.url}/v1/metrics",
            compression=compression,
            preferred_temporality=DELTA if is_delta else None,
        )
    )
    check(server, is_delta)


@pytest.mark.parametrize("is_delta", [False, True])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_grpc(serve, compression, is_delta):
    grpc = pytest.importorskip("opentelemetry.exporter.otlp.proto.grpc.metric_exporter")
    address = f"127.0.0.1:{free_port()}"
    server = serve(otlp_grpc=address)
    send(
        grpc.OTLPMetricExporter(
            endpoint=f"http://{address}",
            insecure=True,
            compression=grpc.Compression.Gzip if compression else grpc.Compression.NoCompression,
            preferred_temporality=DELTA if is_delta else None,
        )
    )
    check(server, is_delta)


def test_a_part_may_be_rejected(serve):
    server = serve()
    body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [
        {"name": "good", "gauge": {"dataPoints": [{"asInt": "3"}]}},
        {"name": "bad", "sum": {"dataPoints": [{"asInt": "3"}]}},
    ]}]}]}
    answer = requests.post(f"{server.url}/v1/metrics", json=body, timeout=60)
    assert answer.status_code == 200
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedDataPoints"] == "1"
    assert "temporality" in partial["errorMessage"]
    assert list(ask(server, "good").values()) == [3]
