"""Client of a server over HTTP, or of the ports of a cluster."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import time
import urllib.parse
import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from . import _seiner
from ._arguments import is_wide, name_list
from ._columns import record_batches
from ._moments import Duration, Moment, duration, moment
from ._range import Range
from ._table import Table
from .errors import Closed, Invalid, SeinerError

__all__ = ["Client", "Unreachable", "Untrusted", "Written"]

ATTEMPTS = 60
"""Attempts of a write, at all ports together."""
LATEST = 0.3
"""Weight of the latest request in the rate."""
CHANGE = 0.1
"""Seconds before a request goes to another port."""
MAX_KNOWN = 64
"""Ports to remember."""
PAUSES = (1.0, 60.0)
"""Shortest and longest pause, in seconds, that a server may request."""
MAX_REJECTED = 100
"""Rejected rows to list."""
PRECISIONS = ("ns", "us", "ms", "s")
READS = 5
"""Attempts of a read, at all ports together."""
LINES = "text/plain; charset=utf-8"
"""Type of a body of line protocol."""
ARROW = "application/vnd.apache.arrow.stream"
"""Type of a body of Arrow."""


class Unreachable(SeinerError, OSError):
    """No server answered, or all stayed too busy. Whether the rows are stored is not known; write them again."""


class Untrusted(SeinerError):
    """The certificate of a server is not valid for its address, or not signed by a trusted authority."""


class Written(NamedTuple):
    """Outcome of a write over the network. All lines or rows that are not rejected are stored."""

    rejected: list[tuple[int, str]]
    """The first rejected lines or rows: number of the line, from 1, or index of the row, and reason."""
    rejected_total: int
    """Number of lines or rows rejected in total."""


class Client:
    """Client of a server, or of a cluster.

    A port of a cluster may name better ports, and the client follows. If a port is overloaded or does not answer, the
    same rows go to another port. Rows that a port has stored already count once.

        with seiner.Client("10.0.0.1:7670", "10.0.0.2:7670") as client:
            client.write_lines("cpu,host=a usage=12.5 1795248000000000000")
            frame = client.query("cpu", shape="wide").pandas()

    With `https://`, connections are encrypted, and the certificate of the server is checked.

    A client may not be used by several threads at a time.
    """

    def __init__(
        self,
        *addresses: str,
        timeout: float = 60.0,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    ) -> None:
        """Creates a client. Nothing is sent yet.

        Args:
            addresses: `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT` of one or more servers. One port of a
                cluster is enough.
            timeout: seconds to wait for one answer. A port waits up to 30 s for its replicas.
            token: token for the servers, if they need one.
            ca: file (PEM) with the certificate of the authority that signed those of the servers, or of a server that
                signed its own. Without it, the authorities of the system are trusted.
            certificate: files (PEM) with a certificate of this client and its key, for servers that demand one.

        Raises:
            Invalid: if there is no address, or one has another form, only some begin with `https://`, a file cannot be
                used, or the token has spaces.
        """
        if not addresses:
            raise Invalid("a client needs the address of a server, as in Client(\"127.0.0.1:7670\")")
        self._current, *self._others = [_host(address) for address in addresses]
        self._tls = _tls(addresses, ca, certificate)
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise Invalid("a token has no spaces and no control characters")
        self._token = token
        self._timeout = timeout
        self._rate: float | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._is_closed = False

    @property
    def address(self) -> str:
        """Address of the server that receives the next rows."""
        return self._current

    def write_lines(self, lines: str | bytes, *, precision: str = "ns") -> Written:
        """Writes line protocol. All lines that can be parsed are stored, and the answer lists the others.

        Args:
            lines: lines of Influx line protocol, separated by newlines.
            precision: unit of the times: `ns`, `us`, `ms` or `s`.

        Raises:
            Invalid: if the server rejects the request as a whole.
            Unreachable: if no server answers, or all stay too busy.
        """
        self._check_open()
        if precision not in PRECISIONS:
            raise Invalid(f'precision "{precision}" is none of {", ".join(PRECISIONS)}')
        body = lines.encode() if isinstance(lines, str) else bytes(lines)
        rows = sum(1 for line in body.splitlines() if line.strip() and not line.lstrip().startswith(b"#"))
        return self._write(f"/write?precision={precision}", body, rows, LINES)

    def append_table(
        self,
        measurement: str | None,
        data: Any,
        *,
        time: str = "time",
        tags: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
    ) -> Written:
        """Writes rows of many sources. The arguments are those of `Store.append_table`.

        The rows are sent in bodies of at most 32,768 rows and about 8 MiB. A row whose type does not fit a field is
        rejected, and all others are stored. The outcome lists the first rejected rows by their indices in `data`.

        Raises:
            Invalid: if the columns are not valid, or the server rejects a body as a whole. Earlier bodies are stored.
            Unreachable: if no server answers, or all stay too busy. Earlier bodies are stored.
        """
        self._check_open()
        bodies = _seiner.Bodies(record_batches(data, time), measurement, time, name_list(tags), name_list(fields))
        path = "/write" if measurement is None else f"/write?{urllib.parse.urlencode({'measurement': measurement})}"
        rejected, total = [], 0
        for body, places in bodies:
            written = self._write(path, body, len(places), ARROW)
            total += written.rejected_total
            rejected += [(places[row - 1], reason) for row, reason in written.rejected if 0 < row <= len(places)]
        return Written(rejected[:MAX_REJECTED], total)

    def query(
        self,
        select: str,
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        fields: str | Sequence[str] | None = None,
        step: Duration | None = None,
        aggregates: str | Sequence[str] | None = None,
        shape: Literal["long", "wide"] = "long",
    ) -> Table:
        """Returns samples, aggregates of steps, or with ``shape="wide"`` the rows as they were written.

        Args:
            select: A selector, as for `Store.query`.
            start: First time, included; unbounded by default.
            end: Last time, included; unbounded by default.
            fields: Names of the fields; all by default.
            step: Length of the steps for which aggregates are returned.
            aggregates: Any of count, sum, mean, min, max, first, last; by default mean. They need a step.
            shape: ``"long"`` has one row per sample, whose values must have one type. ``"wide"`` has one row for each
                row that was written, and one column for each tag and field.

        Warns if the server has lost data of the interval.

        Raises:
            Invalid: if the server rejects the query.
            Unreachable: if no server answers, or all stay too busy.
        """
        parameters = _interval(start, end) | {"select": select, "format": "arrow", "shape": shape}
        if is_wide(shape, step, aggregates):
            step = aggregates = None
        if aggregates is not None and step is None:
            raise Invalid("aggregates over HTTP need a step, as in step='1h'")
        if fields is not None:
            parameters["fields"] = _joined(fields)
        if step is not None:
            given = duration(step)
            parameters["step"] = given if isinstance(given, str) else f"{given}ns"
            parameters["aggregate"] = _joined(("mean",) if aggregates is None else aggregates)
        headers, body = self._read("/api/v1/query", parameters)
        losses = headers.get("Seiner-Losses")
        if losses:
            warnings.warn(f"the server reports {losses} losses of data in this interval", stacklevel=2)
        return Table(_seiner.Table.read(body))

    def range(
        self,
        select: str = "{}",
        start: Moment | None = None,
        end: Moment | None = None,
        *,
        fields: str | Sequence[str] | None = None,
    ) -> Range | None:
        """Returns the first and the last time of the selected samples, or None if there are none.

        The arguments are those of `Store.range`.

        Raises:
            Invalid: if the server rejects the query.
            Unreachable: if no server answers, or all stay too busy.
        """
        parameters = _interval(start, end) | {"select": select}
        if fields is not None:
            parameters["fields"] = _joined(fields)
        _, body = self._read("/api/v1/range", parameters)
        found = json.loads(body)
        return None if found["first"] is None else Range(int(found["first"]), int(found["last"]))

    def close(self) -> None:
        """Closes the connection."""
        self._is_closed = True
        self._disconnect()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the client was closed")

    def _read(self, path: str, parameters: dict[str, str]) -> tuple[Any, bytes]:
        """Reads from one port after the other until one answers. Returns headers and body."""
        self._check_open()
        reason = "no answer"
        for _ in range(READS):
            try:
                status, headers, text = self._request("GET", f"{path}?{urllib.parse.urlencode(parameters)}")
            except (OSError, http.client.HTTPException) as error:
                reason = f"{self._current}: {error!r}"
                self._leave()
                time.sleep(CHANGE)
                continue
            if status == 503:
                reason = f"{self._current} is too busy: {_error(text)}"
                time.sleep(_pause(headers.get("Retry-After")))
                continue
            if status != 200:
                raise (Invalid if status < 500 else SeinerError)(f"the server answered {status}: {_error(text)}")
            return headers, text
        raise Unreachable(f"no server answered within {READS} attempts; the last one: {reason}")

    def _write(self, path: str, body: bytes, rows: int, content_type: str) -> Written:
        """Sends a body to one port after the other until one accepts it."""
        if self._rate is None:
            self._learn(self._ports())
        reason = "no answer"
        for _ in range(ATTEMPTS):
            began = time.monotonic()
            try:
                status, headers, text = self._request("POST", path, body, content_type)
            except (OSError, http.client.HTTPException) as error:
                reason = f"{self._current}: {error!r}"
                time.sleep(CHANGE if self._leave() else PAUSES[0])
                continue
            advice = headers.get("X-Seiner-Ports", "")
            if status == 503:
                reason = f"{self._current} is too busy: {_error(text)}"
                time.sleep(CHANGE if self._follow(advice) else _pause(headers.get("Retry-After")))
                continue
            self._note(rows, time.monotonic() - began)
            if status in (200, 204):
                self._follow(advice)
                return Written([], 0)
            return _rejection(status, text)
        raise Unreachable(f"the rows were not accepted within {ATTEMPTS} attempts; the last one: {reason}")

    def _request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = LINES
    ) -> tuple[int, Any, bytes]:
        """Sends a request to the present server. Returns status, headers and body of the answer."""
        if self._connection is None:
            self._connection = self._connect()
        headers = {} if body is None else {"Content-Type": content_type}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._rate is not None:
            # A client that states its rate follows advice.
            headers["X-Seiner-Rate"] = f"{self._rate:.0f}"
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except ssl.SSLCertVerificationError as error:
            self._disconnect()
            text = f"the certificate of {self._current} is not trusted: {error.verify_message}"
            raise Untrusted(f"{text}; give the file of its authority as ca, and the name in the certificate") from error
        except BaseException:
            # The rest of an answer must not be taken for the next one.
            self._disconnect()
            raise

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._current, timeout=self._timeout)
        return http.client.HTTPSConnection(self._current, timeout=self._timeout, context=self._tls)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ports(self) -> list[str]:
        """Returns the ports that accept rows, if the server is a port of a cluster."""
        try:
            status, _, text = self._request("GET", "/ports")
            ports = json.loads(text)["ports"] if status == 200 else []
            return [_named(port["address"]) for port in ports if port["weight"] > 0]
        except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            return []

    def _note(self, rows: int, seconds: float) -> None:
        rate = rows / max(seconds, 1e-6)
        before = rate if self._rate is None else self._rate
        self._rate = before + LATEST * (rate - before)

    def _follow(self, advice: str) -> bool:
        """Goes to the first of the named ports. Returns false if none is named."""
        named = [_named(port) for port in advice.split(",")]
        named = [port for port in named if port and port != self._current]
        if not named:
            return False
        left = self._current
        self._go(named[0])
        self._learn([*named[1:], left])
        return True

    def _leave(self) -> bool:
        """Goes to the next known port. Returns false if there is none."""
        if not self._others:
            return False
        left = self._current
        self._go(self._others.pop(0))
        self._others.append(left)
        return True

    def _go(self, port: str) -> None:
        self._disconnect()
        self._current = port

    def _learn(self, ports: list[str]) -> None:
        """Remembers other ports. The latest come first."""
        known = dict.fromkeys([*ports, *self._others])
        known.pop(self._current, None)
        self._others = list(known)[:MAX_KNOWN]


def _host(address: str) -> str:
    host = address.removeprefix("http://").removeprefix("https://").rstrip("/")
    name, colon, port = host.rpartition(":")
    if "/" in host or not name or not colon or not port.isdecimal():
        raise Invalid(f'"{address}" is not an address; write HOST:PORT, as in 127.0.0.1:7670')
    return host


def _named(port: str) -> str:
    """Returns the address of a port that a cluster names. A client keeps to encrypted or to plain connections."""
    return port.strip().removeprefix("https://")


def _tls(
    addresses: Sequence[str],
    ca: str | os.PathLike[str] | None,
    certificate: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None,
) -> ssl.SSLContext | None:
    """Returns the settings of encrypted connections; `None` if connections are plain."""
    encrypted = [address for address in addresses if address.startswith("https://")]
    if encrypted and len(encrypted) < len(addresses):
        raise Invalid("only some of the addresses begin with https://; encrypt the connections to all servers or to none")
    if not encrypted:
        if ca is not None or certificate is not None:
            raise Invalid("ca and certificate need addresses that begin with https://")
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
        if certificate is not None:
            context.load_cert_chain(*certificate)
    except (OSError, ValueError) as error:
        files = ", ".join(str(path) for path in (ca, *(certificate or ())) if path is not None)
        raise Invalid(f"a certificate cannot be used ({files}): {error}; give files in the format PEM") from error
    return context


def _pause(retry_after: str | None) -> float:
    try:
        seconds = float(retry_after or 1)
    except ValueError:
        seconds = 1.0
    return min(max(seconds, PAUSES[0]), PAUSES[1])


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _error(text: bytes) -> str:
    return str(_parsed(text).get("error") or text.decode(errors="replace").strip() or "no reason given")


def _interval(start: Moment | None, end: Moment | None) -> dict[str, str]:
    """Returns the parameters of an interval. A limit that is not given is the first or last time that exists."""
    return {"from": _time(start, -(2**63)), "to": _time(end, 2**63 - 1)}


def _time(given: Moment | None, unbounded: int) -> str:
    found = moment(given)
    if isinstance(found, str):
        return found
    ns = unbounded if found is None else found
    # A number without a unit may be read as seconds or a year, but not a negative one. With a unit, that is an offset.
    return f"{ns}ns" if ns >= 0 else str(ns)


def _joined(names: str | Sequence[str]) -> str:
    listed = name_list(names) or []
    for name in listed:
        if "," in name:
            raise Invalid(f"a query over HTTP cannot name {name!r}, because commas separate names; omit fields")
    return ",".join(listed)


def _rejection(status: int, text: bytes) -> Written:
    """Returns the rejected lines or rows of a body.

    Raises:
        Invalid: if the server rejected the body as a whole.
        SeinerError: if the server failed.
    """
    answer = _parsed(text)
    for listed, number in (("lines", "line"), ("rows", "row")):
        total, places = answer.get("rejected"), answer.get(listed)
        if isinstance(total, int) and isinstance(places, list):
            places = [place for place in places if isinstance(place, dict)]
            return Written([(int(place.get(number, 0)), str(place.get("reason", ""))) for place in places], total)
    raise (Invalid if status < 500 else SeinerError)(f"the server answered {status}: {_error(text)}")
