"""StatsD: the client `statsd` over UDP and TCP, a stop and a kill."""

import socket
import time

import pytest
import statsd

from program import free_port

PATIENCE_S = 30


def values(server, select, field="value"):
    """Returns the values of the only source of a selector, in order."""
    found = [series["values"] for (_, name), series in server.query(select).items() if name == field]
    assert len(found) <= 1, found
    return found[0] if found else []


def await_sum(server, select, expected, field="value"):
    deadline = time.monotonic() + PATIENCE_S
    while sum(values(server, select, field)) != expected:
        assert time.monotonic() < deadline, f"{select}: {values(server, select, field)} instead of {expected}"
        time.sleep(0.05)


@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_the_client_of_python_sends_every_type(serve, protocol):
    port = free_port()
    server = serve(statsd_listen=f"127.0.0.1:{port}", statsd_interval="200ms")
    make = statsd.StatsClient if protocol == "udp" else statsd.TCPStatsClient
    client = make("127.0.0.1", port, prefix="app")
    for _ in range(100):
        client.incr("requests")
    client.decr("requests", 10)
    client.incr("sampled", rate=0.999999)
    with client.pipeline() as pipeline:
        # Several lines in one datagram. Negative gauges are sent as 0 and a change.
        pipeline.gauge("level", 7)
        pipeline.gauge("level", 3, delta=True)
        pipeline.gauge("cold", -5)
        for user in ["ann", "bob", "ann"]:
            pipeline.set("users", user)
    for ms in range(1, 11):
        client.timing("latency", ms)
    await_sum(server, "app.requests", 90)
    await_sum(server, "app.latency", 10, "count")
    await_sum(server, "app.latency", 55, "sum")
    assert max(values(server, "app.latency", "upper")) == 10
    assert min(values(server, "app.latency", "lower")) == 1
    assert values(server, "app.level")[-1] == 10
    assert values(server, "app.cold")[-1] == -5
    assert values(server, "app.users") == [2]
    assert values(server, "app.sampled")[0] == pytest.approx(1, abs=1e-3)
    (source,) = {source for source, _ in server.query("app.latency")}
    assert source == "app.latency,metric_type=timing"
    if protocol == "tcp":
        client.close()


def test_values_with_a_time_keep_it(serve):
    port = free_port()
    server = serve(statsd_listen=f"127.0.0.1:{port}", statsd_interval="200ms")
    lines = ["sold:2:3|c|#shop:a|T1700000000", "sold:4|c|T1700000000|#shop:a", "sold:7|c|#shop:a|T1700000060"]
    lines += ["level:5:6|g|T1700000000", "level:1|g|T1700000000000"]
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.sendto("\n".join(lines).encode(), ("127.0.0.1", port))
    await_sum(server, "sold", 16)
    (series,) = server.query("sold").values()
    assert series["times"] == [1_700_000_000_000_000_000, 1_700_000_060_000_000_000]
    assert series["values"] == [9, 7]
    assert values(server, "level") == [6]
    assert server.status()["ingest"]["rejected_lines"] == 1


def test_a_stop_stores_the_last_interval(serve):
    port = free_port()
    server = serve(statsd_listen=f"127.0.0.1:{port}", statsd_interval="1h")
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.sendto(b"doors:1:1|c|#room:hall,new\nbroken\ndoors:3|c|@0.5|#new,room:hall", ("127.0.0.1", port))
        deadline = time.monotonic() + PATIENCE_S
        while server.status()["statsd"]["values"] < 3:
            assert time.monotonic() < deadline, "the datagram did not arrive"
            time.sleep(0.02)
        assert server.query("doors") == {}
        assert server.status()["ingest"]["rejected_lines"] == 1
        # Arrives during the stop or shortly before it.
        sender.sendto(b"doors:1|c|#room:hall,new", ("127.0.0.1", port))
        server.stop()
    server.start()
    series = server.query("doors")
    assert series["doors,metric_type=counter,new=true,room=hall", "value"]["values"] == [9]


def test_memory_is_limited(serve):
    port = free_port()
    server = serve(statsd_listen=f"127.0.0.1:{port}", statsd_interval="1s", statsd_memory="64 KiB")
    with socket.create_connection(("127.0.0.1", port)) as sender:
        sender.sendall(b"".join(b"metric-%d:1|c\n" % n for n in range(1000)))
        deadline = time.monotonic() + PATIENCE_S
        while (ingest := server.status()["ingest"])["rows"] + ingest["rejected_lines"] < 1000:
            assert time.monotonic() < deadline, "the interval does not end"
            time.sleep(0.05)
        # The lines may arrive in two intervals.
        assert 100 < ingest["rows"] < 500
