"""Tokens and TLS of the ports for clients of PostgreSQL and Flight SQL."""

import base64
import contextlib
import shutil
import socket
import struct
import subprocess
import threading

import psycopg
import pyarrow.flight as flight
import pytest
import requests

from authority import certificates
from program import PROGRAM, free_port, run, until
from test_access import bearer, create
from test_sql import flight_command

BEGIN = 1_700_000_000
QUERY = "SELECT host, x FROM cpu"

pytestmark = pytest.mark.skipif(not PROGRAM.with_name("seiner-sql").is_file(), reason="seiner-sql is missing: run `make sql`")


@pytest.fixture
def sql(serve, tmp_path):
    """Starts a server with both ports and a token for reading. Returns a function with more settings."""

    def start(**settings):
        data = tmp_path / "data"
        tokens = {name: create(data, name, name) for name in ("admin", "read", "write")}
        tokens["limited"] = create(data, "limited", "read", "--where", "cpu")
        ports = [free_port(), free_port()]
        server = serve(postgres_listen=f"127.0.0.1:{ports[0]}", flight_sql_listen=f"127.0.0.1:{ports[1]}", **settings)
        trusted = {"verify": str(settings["tls_certificate"].with_name("ca.pem"))} if settings else {}
        written = requests.post(f"{server.url}/write?precision=s", data=f"cpu,host=a x=1 {BEGIN}", headers=bearer(tokens["admin"]), timeout=60, **trusted)
        assert written.status_code == 204, written.text
        server.postgres, server.flight, server.tokens = ports[0], ports[1], tokens
        return server

    return start


def connect(server, password, **options):
    return psycopg.connect(host="127.0.0.1", port=server.postgres, user="any", dbname="seiner", password=password, autocommit=True, connect_timeout=30, **options)


def bearer_options(token):
    return flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())], timeout=60)


def rows(client, options):
    """Asks with the calls of a Flight SQL client. Returns the rows."""
    info = client.get_flight_info(flight_command("CommandStatementQuery", QUERY), options)
    return client.do_get(info.endpoints[0].ticket, options).read_all().to_pylist()


def test_postgres_clients_present_a_token_as_password(sql):
    server = sql()
    for name in ("admin", "read"):
        with connect(server, server.tokens[name]) as connection:
            assert connection.execute(QUERY).fetchall() == [("a", 1.0)]
    for password, error in (
        ("wrong", "any user and the token as password"),
        ("", "any user and the token as password|no password"),
        (server.tokens["write"], "scope"),
        (server.tokens["limited"], "limited to some sources"),
    ):
        with pytest.raises(psycopg.OperationalError, match=error):
            connect(server, password)
    metrics = requests.get(f"{server.url}/metrics", headers=bearer(server.tokens["admin"]), timeout=60).text
    assert 'denied_requests_total{reason="forbidden"} 2' in metrics
    log = server.log.read_text()
    assert not any(token in log for token in server.tokens.values())


def test_a_revoked_token_ends_the_connection(sql, tmp_path):
    server = sql()
    with connect(server, server.tokens["read"]) as connection:
        connection.execute(QUERY)
        assert run("token", "revoke", "read", "--data", tmp_path / "data").returncode == 0

        def is_closed():
            try:
                connection.execute("SELECT 1")
            except psycopg.OperationalError:
                return True
            return False

        until(is_closed, "the connection outlives its token")


def test_a_query_is_cancelled_without_a_password(sql):
    server = sql()
    with connect(server, server.tokens["read"]) as connection:
        ended = threading.Event()

        def cancel():
            # A request that comes before the query has no effect.
            while not ended.wait(0.5):
                connection.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute("SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value < 0")
        finally:
            ended.set()
            thread.join()


def test_nothing_after_a_request_to_cancel_is_passed_on(serve, tmp_path):
    create(tmp_path / "data", "read", "read")
    port, program = free_port(), tmp_path / "program"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        lines = f"http 127.0.0.1:1\\npostgres 127.0.0.1:{listener.getsockname()[1]}\\nflight 127.0.0.1:1\\n"
        program.write_text(f"#!/bin/sh\nprintf '{lines}'\nexec cat\n")
        program.chmod(0o700)
        serve(postgres_listen=f"127.0.0.1:{port}", sql_program=program)
        cancel = struct.pack(">IIII", 16, 80877102, 1, 1)
        start = struct.pack(">II", 18, 196608) + b"user\0any\0\0"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
            stranger.sendall(cancel + start)
            received, _ = listener.accept()
            with received:
                received.settimeout(60)
                passed = b""
                while piece := received.recv(4096):
                    passed += piece
                assert passed == cancel
                received.sendall(b"answer")
            # The answer is not passed back, and the connection is closed.
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(4096) == b""


def test_flight_clients_present_a_token(sql):
    adbc = pytest.importorskip("adbc_driver_flightsql.dbapi")
    server = sql()
    client = flight.connect(f"grpc://127.0.0.1:{server.flight}")
    assert rows(client, bearer_options(server.tokens["read"])) == [{"host": "a", "x": 1.0}]
    header, value = client.authenticate_basic_token("any", server.tokens["read"])
    assert (header, value) == (b"authorization", f"Bearer {server.tokens['read']}".encode())
    assert rows(client, flight.FlightCallOptions(headers=[(header, value)]))
    basic = base64.b64encode(f"any:{server.tokens['read']}".encode()).decode()
    assert rows(client, flight.FlightCallOptions(headers=[(b"authorization", f"Basic {basic}".encode())]))
    for options, error in (
        (flight.FlightCallOptions(timeout=60), flight.FlightUnauthenticatedError),
        (bearer_options("wrong"), flight.FlightUnauthenticatedError),
        (bearer_options(server.tokens["write"]), flight.FlightUnauthorizedError),
        (bearer_options(server.tokens["limited"]), flight.FlightUnauthorizedError),
    ):
        with pytest.raises(error):
            rows(client, options)
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.authenticate_basic_token("any", "wrong")
    login = {"username": "any", "password": server.tokens["read"]}
    with adbc.connect(f"grpc://127.0.0.1:{server.flight}", login, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(QUERY)
        assert cursor.fetch_arrow_table().to_pylist() == [{"host": "a", "x": 1.0}]


def test_both_ports_are_encrypted(sql, tmp_path):
    authority, certificate, key = certificates(tmp_path)
    server = sql(tls_certificate=certificate, tls_key=key)
    password = server.tokens["read"]
    trusted = {"sslmode": "verify-full", "sslrootcert": authority}
    for more in ({}, {"sslnegotiation": "direct"}) if psycopg.pq.version() >= 170_000 else ({},):
        with connect(server, password, **trusted, **more) as connection:
            assert connection.execute(QUERY).fetchall() == [("a", 1.0)]
    with pytest.raises(psycopg.OperationalError, match="sslmode=require"):
        connect(server, password, sslmode="disable")
    if shutil.which("psql"):
        address = f"host=127.0.0.1 port={server.postgres} user=any dbname=seiner sslmode=require"
        asked = subprocess.run(["psql", address, "-Atc", QUERY], capture_output=True, text=True, timeout=60, env={"PGPASSWORD": password})
        assert asked.stdout == "a|1.0\n", asked.stderr
    client = flight.connect(f"grpc+tls://127.0.0.1:{server.flight}", tls_root_certs=authority.read_bytes())
    assert rows(client, bearer_options(password)) == [{"host": "a", "x": 1.0}]
    with pytest.raises(flight.FlightUnavailableError):
        rows(flight.connect(f"grpc://127.0.0.1:{server.flight}"), bearer_options(password))


def test_a_missing_program_is_reported_to_the_client(serve, tmp_path):
    ports = [free_port(), free_port()]
    serve(postgres_listen=f"127.0.0.1:{ports[0]}", flight_sql_listen=f"127.0.0.1:{ports[1]}", sql_program=tmp_path / "none")
    with pytest.raises(psycopg.OperationalError, match="make sql"):
        psycopg.connect(host="127.0.0.1", port=ports[0], user="any", connect_timeout=30)
    with pytest.raises(flight.FlightUnavailableError, match="make sql"):
        rows(flight.connect(f"grpc://127.0.0.1:{ports[1]}"), flight.FlightCallOptions(timeout=60))


def test_other_protocols_are_closed(sql):
    server = sql()
    for port in (server.postgres, server.flight):
        for sent in (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x00\x00\x00\x04", b"\xff" * 100, b"\x16\x03\x01\x02\x00"):
            # A connection with bytes that were not read is reset.
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=60) as wrong:
                wrong.sendall(sent)
                wrong.shutdown(socket.SHUT_WR)
                while wrong.recv(4096):
                    pass
    with connect(server, server.tokens["read"]) as connection:
        assert connection.execute(QUERY).fetchall()
