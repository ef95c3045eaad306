"""Writers that record which of their rows were acknowledged.

Each writer sends rows with a sequence number, request after request. Row `n` of writer `w` belongs to
sensor `n mod SENSORS`, has the time START + n steps, and the value `value(w, n)`. So the later answers of a
server show which rows survived, and if their values are correct.
"""

import http.client
import threading
import time

import numpy

import protobuf

SENSORS = 7
ROWS = 150
START = 1_700_000_000_000_000_000
STEP_NS = 1_000
# Step of remote write, whose times are milliseconds.
REMOTE_STEP_NS = 1_000_000


def value(writer, n):
    """Returns the value of a row, or of an array of rows. Values hardly compress, so journals and segments fill."""
    n = n + writer * 7919
    return (n * n % 1_000_003 * 31 + n) % 100_003 / 8


class Writer(threading.Thread):
    """Sends rows as line protocol, beginning with `first`, until the connection breaks or `stopping` is set."""

    path = "/write"
    headers = {}

    def __init__(self, server, number, first, stopping):
        super().__init__(daemon=True)
        host, port = server.address.rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=60)
        self.number = number
        self.first = first
        self.stopping = stopping
        # (time of an acknowledgement by the monotonic clock; rows acknowledged so far)
        self.acknowledged = [(0.0, first)]
        self.rejection = None

    @property
    def rows(self):
        """Number of acknowledged rows, including those of earlier runs."""
        return self.acknowledged[-1][1]

    def rows_until(self, moment):
        """Number of rows that had been acknowledged at that time."""
        return max(rows for when, rows in self.acknowledged if when <= moment)

    def run(self):
        n = self.first
        while not self.stopping.is_set():
            try:
                self.connection.request("POST", self.path, self.body(n), self.headers)
                answer = self.connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):
                return
            if answer.status == 503:
                # The server is busy, or about to stop. The rows are sent again.
                time.sleep(0.01)
                continue
            if answer.status != 204:
                self.rejection = (answer.status, text)
                return
            n += ROWS
            self.acknowledged.append((time.monotonic(), n))

    def body(self, first):
        return "".join(
            f"load,writer={self.number},sensor={n % SENSORS} value={value(self.number, n)} {START + n * STEP_NS}\n"
            for n in range(first, first + ROWS)
        ).encode()


class RemoteWriter(Writer):
    """Sends rows by Prometheus remote write."""

    path = "/prometheus/api/v1/write"
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}

    def body(self, first):
        start_ms, step_ms = START // 1_000_000, REMOTE_STEP_NS // 1_000_000
        request = b"".join(
            protobuf.series(
                {"__name__": "load", "sensor": str(n % SENSORS), "writer": str(self.number)},
                [(start_ms + n * step_ms, value(self.number, n))],
            )
            for n in range(first, first + ROWS)
        )
        return protobuf.literal(request)


class Load:
    """Several concurrent writers."""

    def __init__(self, server, firsts, kind=Writer):
        self.stopping = threading.Event()
        self.writers = [kind(server, number, first, self.stopping) for number, first in enumerate(firsts)]

    def __enter__(self):
        for writer in self.writers:
            writer.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for writer in self.writers:
            writer.join(120)
            assert not writer.is_alive(), "a writer hangs"
        for writer in self.writers:
            assert writer.rejection is None, f"rows were rejected: {writer.rejection}"


def survivors(server, number, step_ns=STEP_NS):
    """Returns the sequence numbers of a writer that a server has, in order. Checks their values."""
    answer = server.arrow(f'load{{writer="{number}"}}', fields="value")
    if answer.num_rows == 0:
        return numpy.array([], dtype=numpy.int64)
    times = answer["time"].cast("int64").to_numpy()
    values = answer["value"].to_numpy()
    rows, rest = numpy.divmod(times - START, step_ns)
    assert not rest.any(), "a time that was never sent"
    assert len(numpy.unique(rows)) == len(rows), "a row is there twice"
    assert (values == value(number, rows)).all(), "a value that was never sent for this time"
    return numpy.sort(rows)
