"""Tests of the client over HTTP, with servers that answer as ports of a cluster do.

Tests with a real server are in test_server.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

import seiner
from seiner import _client

Answer = tuple[int, dict[str, str], bytes]
LINE = "cpu,host=a usage=1 1795248000000000000"


class Port:
    """Server with scripted answers to writes; the last one is repeated."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [(204, {}, b"")]
        self.ports: list[dict[str, Any]] | None = None
        self.bodies: list[bytes] = []
        self.rates: list[str | None] = []
        self.paths: list[str] = []
        self.tokens: list[str | None] = []
        self.reads: list[Answer] = []
        port = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path.startswith("/api/"):
                    port.paths.append(self.path)
                    port.tokens.append(self.headers["Authorization"])
                    return self.reply(port.reads.pop(0) if len(port.reads) > 1 else port.reads[0])
                if port.ports is None:
                    return self.reply((404, {}, b'{"error":"no port"}'))
                self.reply((200, {}, json.dumps({"ports": port.ports}).encode()))

            def do_POST(self) -> None:
                port.paths.append(self.path)
                port.tokens.append(self.headers["Authorization"])
                port.rates.append(self.headers["X-Seiner-Rate"])
                port.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.reply(port.answers.pop(0) if len(port.answers) > 1 else port.answers[0])

            def reply(self, answer: Answer) -> None:
                status, headers, body = answer
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                if status != 204:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def start() -> Iterator[Callable[[], Port]]:
    ports: list[Port] = []

    def start_one() -> Port:
        ports.append(Port())
        return ports[-1]

    yield start_one
    for port in ports:
        port.stop()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_client.time, "sleep", lambda _seconds: None)


def test_a_single_server_gets_all_rows(start: Callable[[], Port]) -> None:
    server = start()
    with seiner.Client(f"http://{server.address}/") as client:
        assert client.write_lines(LINE, precision="ms") == ([], 0)
        assert client.write_lines(LINE.encode()).rejected_total == 0
    assert server.bodies == [LINE.encode()] * 2
    assert server.paths[0] == "/write?precision=ms"
    assert server.rates[0] is None and float(server.rates[1] or 0) > 0


def test_a_token_is_sent_with_every_request(start: Callable[[], Port]) -> None:
    server = start()
    with seiner.Client(server.address, token="seiner_x") as client:
        client.write_lines(LINE)
    with seiner.Client(server.address) as client:
        client.write_lines(LINE)
    assert server.tokens == ["Bearer seiner_x", None]
    with pytest.raises(seiner.Invalid, match="spaces"):
        seiner.Client(server.address, token="a b")


def test_rows_of_an_overloaded_port_go_to_the_named_one(start: Callable[[], Port]) -> None:
    busy, free = start(), start()
    busy.answers = [(503, {"Retry-After": "9", "X-Seiner-Ports": f"{busy.address}, https://{free.address}"}, b"{}")]
    with seiner.Client(busy.address) as client:
        client.write_lines(LINE)
        assert client.address == free.address
        client.write_lines(LINE)
    assert (len(busy.bodies), len(free.bodies)) == (1, 2)


def test_advice_of_an_accepted_write_is_followed_by_the_next(start: Callable[[], Port]) -> None:
    first, second = start(), start()
    first.answers = [(204, {"X-Seiner-Ports": second.address}, b"")]
    with seiner.Client(first.address) as client:
        client.write_lines(LINE)
        client.write_lines(LINE)
    assert (len(first.bodies), len(second.bodies)) == (1, 1)


def test_a_port_that_does_not_answer_is_left_for_one_of_the_cluster(start: Callable[[], Port]) -> None:
    first, second, ill = start(), start(), start()
    first.ports = [
        {"address": port.address, "weight": weight} for port, weight in [(first, 1.0), (ill, 0.0), (second, 1.0)]
    ]
    with seiner.Client(first.address) as client:
        client.write_lines(LINE)
        client._disconnect()
        first.stop()
        client.write_lines(LINE)
    assert (len(first.bodies), len(second.bodies), len(ill.bodies)) == (1, 1, 0)


def test_rejected_lines_are_listed(start: Callable[[], Port]) -> None:
    server = start()
    answer = {"error": "1 line was rejected", "rejected": 1, "lines": [{"line": 2, "reason": "no fields"}]}
    server.answers = [(400, {}, json.dumps(answer).encode())]
    with seiner.Client(server.address) as client:
        assert client.write_lines(f"{LINE}\ncpu") == ([(2, "no fields")], 1)


@pytest.mark.parametrize(("status", "error"), [(413, seiner.Invalid), (500, seiner.SeinerError)])
def test_a_body_that_is_rejected_as_a_whole_raises(
    start: Callable[[], Port], status: int, error: type[Exception]
) -> None:
    server = start()
    server.answers = [(status, {}, b'{"error":"for a reason"}')]
    with seiner.Client(server.address) as client, pytest.raises(error, match=f"{status}: for a reason"):
        client.write_lines(LINE)
    assert len(server.bodies) == 1


def test_attempts_end(start: Callable[[], Port], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_client, "ATTEMPTS", 3)
    server = start()
    server.answers = [(503, {"Retry-After": "soon"}, b'{"error":"too few replicas"}')]
    with seiner.Client(server.address) as client, pytest.raises(seiner.Unreachable, match="too few replicas"):
        client.write_lines(LINE)
    assert len(server.bodies) == 3


def test_bad_arguments_name_the_remedy() -> None:
    for address in ["", "localhost", "http://a:1/write", "a:b", ":7670"]:
        with pytest.raises(seiner.Invalid, match="HOST:PORT"):
            seiner.Client(address)
    with pytest.raises(seiner.Invalid, match="address"):
        seiner.Client()
    with pytest.raises(seiner.Invalid, match="https"):
        seiner.Client("https://127.0.0.1:1", "127.0.0.1:2")
    with pytest.raises(seiner.Invalid, match="https"):
        seiner.Client("127.0.0.1:1", ca="ca.pem")
    with pytest.raises(seiner.Invalid, match="missing.pem.*PEM"):
        seiner.Client("https://127.0.0.1:1", ca="missing.pem")
    client = seiner.Client("127.0.0.1:1")
    with pytest.raises(seiner.Invalid, match="precision"):
        client.write_lines(LINE, precision="hour")
    client.close()
    with pytest.raises(seiner.Closed):
        client.write_lines(LINE)


RANGE = (200, {}, b'{"first":"-5","last":"9223372036854775807"}')


def test_a_read_sends_its_arguments_and_the_token(start: Callable[[], Port]) -> None:
    server = start()
    server.reads = [RANGE]
    with seiner.Client(server.address, token="seiner_x") as client:
        assert client.range('cpu{host="a&b"}', -1, "now-1h", fields=["a b", "c"]) == (-5, 2**63 - 1)
        assert client.range() == seiner.Range(-5, 2**63 - 1)
    first, second = (parse_qs(urlsplit(path).query) for path in server.paths)
    assert first == {
        "select": ['cpu{host="a&b"}'],
        "from": ["-1"],
        "to": ["now-1h"],
        "fields": ["a b,c"],
    }
    assert second == {"select": ["{}"], "from": [str(-(2**63))], "to": [f"{2**63 - 1}ns"]}
    assert server.tokens == ["Bearer seiner_x"] * 2


def test_a_read_goes_to_a_port_that_answers(start: Callable[[], Port]) -> None:
    dead, alive = start(), start()
    dead.stop()
    alive.reads = [(503, {"Retry-After": "1"}, b"{}"), RANGE]
    with seiner.Client(dead.address, alive.address) as client:
        assert client.range() == (-5, 2**63 - 1)
        assert client.address == alive.address
    alive.reads = [(503, {}, b'{"error":"too many queries"}')]
    with seiner.Client(alive.address) as client, pytest.raises(seiner.Unreachable, match="too many queries"):
        client.range()
    with seiner.Client(dead.address) as client, pytest.raises(seiner.Unreachable, match="within 5 attempts"):
        client.query("cpu")


def test_errors_and_losses_of_a_read_are_reported(start: Callable[[], Port]) -> None:
    server = start()
    body = pa.BufferOutputStream()
    table = pa.table({"time": pa.array([1], pa.timestamp("ns", "UTC")), "v": pa.array([None], pa.int64())})
    with pa.ipc.new_stream(body, table.schema) as stream:
        stream.write_table(table)
    whole = body.getvalue().to_pybytes()
    with seiner.Client(server.address) as client:
        for status, error in ((400, seiner.Invalid), (500, seiner.SeinerError)):
            server.reads = [(status, {}, b'{"error":"for a reason"}')]
            with pytest.raises(error, match=f"{status}: for a reason"):
                client.query("cpu")
        server.reads = [(200, {"Seiner-Losses": "2"}, whole)]
        with pytest.warns(UserWarning, match="2 losses of data"):
            assert client.query("cpu").arrow().to_pylist() == table.to_pylist()
        server.reads = [(200, {}, b"no stream")]
        with pytest.raises(seiner.Invalid, match="not a stream of Arrow"):
            client.query("cpu")
        server.reads = [(200, {}, whole[:-100])]
        with pytest.raises(seiner.Invalid, match="not a stream of Arrow"):
            client.query("cpu")


def test_bodies_of_rows_are_bounded(start: Callable[[], Port]) -> None:
    server = start()
    texts = pa.array(["x" * 1000 + str(row) for row in range(20_000)])
    with seiner.Client(server.address) as client:
        assert client.append_table("m", pa.table({"time": range(20_000), "s": texts}), tags=[]) == ([], 0)
        assert server.paths[0] == "/write?measurement=m"
        server.answers = [(400, {}, b'{"error":"no","rejected":3,"rows":[{"row":2,"rows":3,"reason":"late"}]}')]
        written = client.append_table("m", {"time": [1, 2, 3, 4], "v": [None, 1, None, 2]}, tags=[])
        assert written == ([(3, "late")], 3), "rows without values are not sent, but count in the index"
    assert max(map(len, server.bodies)) <= 9 << 20 and len(server.bodies) > 3
    tables = [pa.ipc.open_stream(body).read_all() for body in server.bodies[:-1]]
    assert sum(map(len, tables)) == 20_000
    kinds = [(field.metadata[b"kind"], field.metadata[b"name"]) for field in tables[0].schema]
    assert kinds == [(b"time", b"time"), (b"field", b"s")]
    assert pa.concat_tables(tables)["1"].to_pylist() == texts.to_pylist()
