"""Graphite: graphyte over TCP and UDP, and pickles of Python in every protocol."""

import pickle
import socket
import struct

import graphyte

from program import free_port, until


def rows(server):
    return server.status()["ingest"]["rows"]


def test_graphyte_sends_lines_over_tcp_and_udp(serve):
    port = free_port()
    server = serve(graphite_listen=f"127.0.0.1:{port}")
    for number, protocol in enumerate(["tcp", "udp"]):
        sender = graphyte.Sender("127.0.0.1", port=port, prefix="house", protocol=protocol, tags={"by": protocol})
        for n in range(100):
            sender.send("temp", 20 + n / 8, timestamp=1_000 + n)
        sender.stop()
        until(lambda: rows(server) == 100 * (number + 1), f"the rows of {protocol} did not arrive")
        series = server.query("house.temp")[f"house.temp,by={protocol}", "value"]
        assert series["values"] == [20 + n / 8 for n in range(100)]
        assert series["times"] == [(1_000 + n) * 10**9 for n in range(100)]


def test_pickles_of_every_protocol_are_stored_and_calls_are_not(serve, tmp_path):
    port = free_port()
    server = serve(graphite_pickle_listen=f"127.0.0.1:{port}")
    touched = tmp_path / "touched"

    class Call:
        def __reduce__(self):
            return (open, (str(touched), "w"))

    with socket.create_connection(("127.0.0.1", port)) as connection:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            samples = [(f"p{protocol};n=x", (1_000 + n, n * 0.5 if n % 2 else n)) for n in range(3_000)]
            for sent in [samples, Call(), [Call()]]:
                body = pickle.dumps(sent, protocol)
                connection.sendall(struct.pack("!L", len(body)) + body)
        expected = 3_000 * (pickle.HIGHEST_PROTOCOL + 1)
        until(lambda: rows(server) == expected, "the rows of the pickles did not arrive")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        values = server.query(f"p{protocol}")[f"p{protocol},n=x", "value"]["values"]
        assert values == [n / 2 if n % 2 else n for n in range(3_000)]
    assert not touched.exists()
