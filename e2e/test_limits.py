"""Overload is refused with a word about when to come again, and memory stays where it was promised."""

import gzip
import http.client
import json
import socket
import time

from program import SLOW

MIB = 1 << 20


def slow_write(server):
    """A write that has begun and keeps its place until the rest of its body is sent."""
    host, port = server.address.rsplit(":", 1)
    held = socket.create_connection((host, int(port)))
    held.sendall(b"POST /write HTTP/1.1\r\nHost: x\r\nContent-Length: 14\r\n\r\nheld ")
    return held


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass within 10 s"
        time.sleep(0.01)


def test_too_many_writes_are_sent_away_with_a_time_to_return(serve):
    server = serve(max_requests=1)
    held = slow_write(server)
    wait_for(lambda: server.status()["ingest"]["requests_in_flight"] == 1)
    refused = server.write("away v=1 1")
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1
    told = refused.json()
    assert told["code"] == "unavailable" and "max_requests" in told["error"]
    # Questions are still answered.
    assert server.ask("measurements").status_code == 200
    held.sendall(b"v=1 12345")
    assert held.recv(64).startswith(b"HTTP/1.1 204")
    held.close()
    assert server.write("back v=1 1").status_code == 204
    series = {source for source, _ in server.query("{}")}
    assert series == {"held", "back"}
    assert server.status()["ingest"]["turned_away"] == 1


def test_a_sender_that_vanishes_gives_its_place_back(serve):
    server = serve(max_requests=1)
    for _ in range(5):
        held = slow_write(server)
        wait_for(lambda: server.status()["ingest"]["requests_in_flight"] == 1)
        held.close()
        wait_for(lambda: server.status()["ingest"]["requests_in_flight"] == 0)
    assert server.write("fine v=1 1").status_code == 204


def test_a_body_over_the_limit(serve):
    server = serve(max_body="1 MiB")
    lines = "".join(f"big,s={n % 9} v={n} {n}\n" for n in range(100_000)).encode()
    assert len(lines) > MIB
    for headers, body in (({}, lines), ({"Content-Encoding": "gzip"}, gzip.compress(lines))):
        refused = server.write(body, headers=headers)
        assert refused.status_code == 413
        assert "max_body" in refused.json()["error"]
    assert server.write("small v=1 1").status_code == 204


def test_a_bomb_of_gzip_is_cut_short(serve):
    server = serve(max_body="8 MiB", memory="32 MiB")
    bomb = gzip.compress(b"x" * (256 * MIB))
    before = server.peak_rss_bytes()
    assert server.write(bomb, headers={"Content-Encoding": "gzip"}).status_code in (400, 413)
    assert server.peak_rss_bytes() < before + 24 * MIB


def test_bytes_that_are_no_request(serve):
    server = serve()
    host, port = server.address.rsplit(":", 1)
    for noise in (b"\x00\xff" * 100, b"GET / HTTP/9.9\r\n\r\n", b"POST /write HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(noise)
            assert connection.recv(16).startswith(b"HTTP/1.1 4")
    for body in (b"\xff\xfe v=1", b'a v="\xc3\x28" 1', b"a,\x00=b v=1", b"a" * 100_000 + b" v=1"):
        answer = server.write(body)
        assert answer.status_code in (204, 400), answer.text
    assert server.write("fine v=1 1").status_code == 204


def load_sources(server, count, ticks, failures_allowed=False):
    """A gauge of each source at each tick, ten thousand lines a request; answers lines refused."""
    host, port = server.address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=300)
    refused = 0
    for tick in range(ticks):
        for first in range(0, count, 10_000):
            body = "".join(
                f"gauge,host=h{n // 100},sensor=s{n % 100},rack=r{n % 7} value={(n * 7919 + tick * 13) % 1000 / 10} "
                f"{1_700_000_000_000_000_000 + tick * 10_000_000_000}\n"
                for n in range(first, min(first + 10_000, count))
            ).encode()
            connection.request("POST", "/write", body)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 204:
                assert failures_allowed, text[:500]
                refused += json.loads(text).get("rejected", 0)
    connection.close()
    return refused


def test_memory_stays_near_its_budget(serve):
    """64 MiB for 200,000 sources that all have data in buffers: a promise, not a wish."""
    budget = 64 * MIB
    sources = 200_000
    ticks = 12 if SLOW else 4
    server = serve(memory="64 MiB")
    load_sources(server, sources, ticks)
    peak = server.peak_rss_bytes()
    status = server.status()["engine"]
    assert status["sources"] == sources
    print(f"peak RSS {peak / MIB:.0f} MiB, {status['dictionary_bytes'] / sources:.0f} bytes of names a source")
    assert peak < budget + 60 * MIB
    assert status["memory_used"] <= status["memory_budget"]
    count = server.query('gauge{host="h7"}', step="365d", aggregate="count")
    assert len(count) == 100


def test_names_that_do_not_fit_are_refused_and_the_rest_goes_on(serve):
    server = serve(memory="8 MiB")
    refused = load_sources(server, 100_000, 1, failures_allowed=True)
    assert refused > 0
    assert server.peak_rss_bytes() < (8 + 60) * MIB
    status = server.status()["engine"]
    assert status["sources"] == 100_000 - refused
    # Sources that were known before are still served.
    assert server.write("gauge,host=h0,sensor=s0,rack=r0 value=5 1800000000000000000").status_code == 204
    assert server.query('gauge{host="h0",sensor="s0"}')["gauge,host=h0,rack=r0,sensor=s0", "value"]["values"][-1] == 5
