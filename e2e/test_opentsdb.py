"""OpenTSDB: opentsdb-py over HTTP, with and without gzip, and over TCP."""

import time

import pytest
from opentsdb import TSDBClient
from opentsdb.protocols import TSDBConnectProtocols

from program import free_port

PATIENCE_S = 30
POINTS = 200


def send(client, metric):
    for n in range(POINTS):
        client.send(metric, 20 + n / 8, timestamp=1_700_000_000 + n, room="a")
    client.close()
    client.wait()


def check(server, metric):
    deadline = time.monotonic() + PATIENCE_S
    while not (series := server.query(metric)) or len(series[f"{metric},room=a", "value"]["values"]) < POINTS:
        assert time.monotonic() < deadline, "the points did not arrive"
        time.sleep(0.05)
    series = series[f"{metric},room=a", "value"]
    assert series["values"] == [20 + n / 8 for n in range(POINTS)]
    assert series["times"] == [(1_700_000_000 + n) * 10**9 for n in range(POINTS)]


@pytest.mark.parametrize("compression", ["gzip", None])
def test_points_over_http_are_acknowledged(serve, compression):
    server = serve()
    client = TSDBClient(uri=server.url, http_compression=compression, host_tag=False)
    assert client.is_alive()
    send(client, "house.temp")
    assert (client.statuses["success"], client.statuses["failed"]) == (POINTS, 0)
    check(server, "house.temp")


def test_lines_over_tcp_are_stored(serve):
    port = free_port()
    server = serve(opentsdb_listen=f"127.0.0.1:{port}")
    client = TSDBClient(
        "127.0.0.1", port, protocol=TSDBConnectProtocols.TELNET, host_tag=False, send_metrics_limit=100_000
    )
    send(client, "house.temp")
    check(server, "house.temp")
