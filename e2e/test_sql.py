"""SQL over HTTP and for clients of PostgreSQL and Flight SQL, by the program `seiner-sql`."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import numpy
import pyarrow
import pyarrow.compute
import pytest
import requests
from program import PROGRAM, SLOW, free_port

SQL = PROGRAM.with_name("seiner-sql")
SECOND = 10**9
# Rows without end, and a computation without rows.
ENDLESS = ["SELECT value FROM generate_series(1, 1000000000000)", "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value < 0"]

needs_sql = pytest.mark.skipif(not SQL.is_file(), reason=f"{SQL} is missing: run `make sql`, or scripts/test.sh up to its step sql")


def fill(server):
    """Writes a minute of two sources, of which one has a tag more, and a field with two types."""
    lines = []
    for second in range(60):
        at = second * SECOND
        lines.append(f"cpu,host=a,rack=r1 usage={second},n={second}i {at}")
        lines.append(f"cpu,host=b usage={2 * second} {at}")
    lines += ["mix,host=a v=1.5 0", "mix,host=b v=2i 0"]
    answer = requests.post(f"{server.url}/write", data="\n".join(lines), timeout=60)
    assert answer.status_code == 204, answer.text


def ask(server, query, **parameters):
    answer = requests.get(f"{server.url}/api/v1/sql", params={"q": query, **parameters}, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer


@contextlib.contextmanager
def sql_program(server, *arguments):
    """Runs `seiner-sql` without its server, with other limits. Returns the addresses by protocol, and the process."""
    ports = [argument for name in ("--listen", "--postgres", "--flight") for argument in (name, "127.0.0.1:0")]
    command = [SQL, "--server", server.url, *ports, "--end-with-stdin", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        # A query without end fails instead of the whole run.
        guard = threading.Timer(60, program.kill)
        guard.start()
        yield dict(program.stdout.readline().split() for _ in range(3)) | {"process": program.pid}
        guard.cancel()


def flight_command(name, query):
    """Returns a command of Flight SQL: the field 1 of a message in a message of type Any."""
    flight = pytest.importorskip("pyarrow.flight")

    def field(number, content):
        length, encoded = len(content), bytes([number << 3 | 2])
        while length >= 128:
            encoded, length = encoded + bytes([length & 127 | 128]), length >> 7
        return encoded + bytes([length]) + content

    address = b"type.googleapis.com/arrow.flight.protocol.sql." + name.encode()
    return flight.FlightDescriptor.for_command(field(1, address) + field(2, field(1, query.encode())))


def pid(server):
    """Returns the process of `seiner-sql` that the server started."""
    found = subprocess.run(["ps", "--ppid", str(server.process.pid), "-o", "pid="], capture_output=True, text=True)
    return int(found.stdout.split()[0])


def test_without_the_program_the_command_that_builds_it_is_named(serve):
    server = serve(sql_program="/nowhere/seiner-sql")
    answer = requests.get(f"{server.url}/api/v1/sql", params={"q": "SELECT 1"}, timeout=60)
    assert answer.status_code == 503
    assert "make sql" in answer.json()["error"]


@needs_sql
def test_queries_over_http(serve):
    server = serve()
    fill(server)
    query = "SELECT host, rack, count(*) AS rows, count(n) AS n, last(usage, time) AS last, rate(usage, time) AS rate FROM cpu "
    rows = ask(server, query + "GROUP BY 1, 2 ORDER BY 1").json()
    assert rows == [
        {"host": "a", "rack": "r1", "rows": 60, "n": 60, "last": 59.0, "rate": 1.0},
        {"host": "b", "rack": None, "rows": 60, "n": 0, "last": 118.0, "rate": 2.0},
    ]
    narrowed = "SELECT usage FROM cpu WHERE host LIKE 'b%' AND time > '1970-01-01T00:00:57Z' ORDER BY time"
    assert ask(server, narrowed, format="csv").text == "usage\n116.0\n118.0\n"
    table = pyarrow.ipc.open_stream(ask(server, "SELECT * FROM mix ORDER BY host", format="arrow").content).read_all()
    assert table.column_names == ["time", "host", "v::f64", "v::i64"]
    assert table["v::f64"].to_pylist() == [1.5, None]
    assert table["v::i64"].to_pylist() == [None, 2]
    steps = "SELECT sum(count) AS count, max(max) AS max FROM aggregates('cpu', '10s') WHERE field = 'usage'"
    assert ask(server, steps).json() == [{"count": 120, "max": 118.0}]
    posted = requests.post(f"{server.url}/api/v1/sql", data={"q": "SELECT 1 AS one"}, timeout=60)
    assert posted.json() == [{"one": 1}]
    for mistake, reason in [("INSERT INTO cpu VALUES (1)", "INSERT is rejected"), ("SELECT nope FROM cpu", "nope"), ("", "q is missing")]:
        answer = requests.get(f"{server.url}/api/v1/sql", params={"q": mistake}, timeout=60)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]
    server.stop()


@needs_sql
def test_interpolation_is_that_of_numpy(serve):
    server = serve()
    random = numpy.random.default_rng(7)
    sources = {}
    for host in ("a", "b"):
        times = numpy.unique(random.integers(0, 600 * SECOND, 200))
        sources[host] = times, random.normal(size=len(times)).round(6)
    lines = [f"temp,host={host} v={v} {t}" for host, (times, values) in sources.items() for t, v in zip(times, values)]
    assert requests.post(f"{server.url}/write", data="\n".join(lines), timeout=60).status_code == 204
    steps = "SELECT value AS step FROM generate_series(timestamp '1970-01-01', timestamp '1970-01-01 00:10:00', interval '7 seconds')"
    query = f"WITH steps AS ({steps}) SELECT host, step, interpolate(v, time, step) AS v FROM temp CROSS JOIN steps GROUP BY 1, 2 ORDER BY 1, 2"
    table = pyarrow.ipc.open_stream(ask(server, query, format="arrow").content).read_all()
    for host, (times, values) in sources.items():
        rows = table.filter(pyarrow.compute.equal(table["host"], host))
        at = rows["step"].cast(pyarrow.int64()).to_numpy()
        assert len(at) == 600 // 7 + 1
        expected = numpy.interp(at, times, values, left=numpy.nan, right=numpy.nan)
        assert 0 < numpy.isnan(expected).sum() < 10, "the steps before the first row have no value"
        numpy.testing.assert_allclose(rows["v"].to_numpy(), expected, rtol=1e-9, atol=1e-12)


@needs_sql
def test_postgres_clients_cancel_queries(serve):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -r requirements.txt")
    server = serve()
    with sql_program(server, "--timeout", "40") as addresses:
        host, port = addresses["postgres"].split(":")
        for query in ENDLESS:
            with psycopg.connect(host=host, port=port, user="any", dbname="seiner", autocommit=True) as connection:
                started = time.monotonic()
                threading.Timer(0.3, connection.cancel_safe).start()
                with pytest.raises(psycopg.errors.QueryCanceled), connection.cursor() as cursor:
                    for _ in cursor.stream(query):
                        pass
                assert time.monotonic() - started < 20
                connection.execute("SET statement_timeout = '200ms'")
                with pytest.raises(psycopg.errors.QueryCanceled, match="longer than 0.2 s"), connection.cursor() as cursor:
                    for _ in cursor.stream(query):
                        pass
                assert connection.execute("SELECT 1").fetchone() == (1,)


@needs_sql
@pytest.mark.skipif(not SLOW, reason="PostgreSQL's JDBC driver, which Maven fetches: SEINER_SLOW=1")
def test_jdbc(serve, tmp_path):
    for tool in ("mvn", "javac"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: scripts/need.sh jdk maven")
    fetch = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-DoutputDirectory={tmp_path}"]
    subprocess.run([*fetch, "-Dartifact=org.postgresql:postgresql:42.7.8"], check=True, timeout=300, cwd=tmp_path)
    port = free_port()
    server = serve(postgres_listen=f"127.0.0.1:{port}")
    fill(server)
    program = pathlib.Path(__file__).with_name("Jdbc.java")
    command = ["java", "-cp", tmp_path / "postgresql-42.7.8.jar", program, f"jdbc:postgresql://127.0.0.1:{port}/seiner"]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.splitlines() == [
        "valid: true",
        "tables: [cpu, mix]",
        "columns: [time, host, rack, n, usage]",
        "types: [timestamptz, text, text, int8, float8]",
        "prepared: [[1970-01-01T00:00:58Z, 58.0, 58], [1970-01-01T00:00:59Z, 59.0, 59]]",
        "parts: 120",
        "timeout: 57014",
        "after: 120",
        "write: 25006",
    ]


@needs_sql
def test_names_with_capital_letters_are_hinted_at(serve):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -r requirements.txt")
    port = free_port()
    server = serve(postgres_listen=f"127.0.0.1:{port}")
    assert requests.post(f"{server.url}/write", data="Boiler TempC=20.5 0", timeout=60).status_code == 204
    assert ask(server, 'SELECT "TempC" FROM "Boiler"').json() == [{"TempC": 20.5}]
    for query, known in [("SELECT * FROM Boiler", '"Boiler"'), ('SELECT TempC FROM "Boiler"', '"TempC"')]:
        answer = requests.get(f"{server.url}/api/v1/sql", params={"q": query}, timeout=60)
        assert f"but {known}; write double quotes" in answer.json()["error"]
        with psycopg.connect(host="127.0.0.1", port=port, user="any", dbname="seiner", autocommit=True) as connection:
            with pytest.raises(psycopg.Error, match="double quotes"):
                connection.execute(query)


@needs_sql
def test_the_program_is_started_again_and_ends_with_the_server(serve):
    server = serve()
    assert ask(server, "SELECT 1 AS one").json() == [{"one": 1}]
    os.kill(pid(server), signal.SIGKILL)
    # The query that notices the end of the program may fail.
    answers = [requests.get(f"{server.url}/api/v1/sql", params={"q": "SELECT 1"}, timeout=60).status_code for _ in range(2)]
    assert answers in ([200, 200], [503, 200])
    program = pid(server)
    # A server that is killed cannot end the program, which watches its input.
    server.kill()
    end = time.monotonic() + 10
    while os.path.exists(f"/proc/{program}"):
        assert time.monotonic() < end, "seiner-sql outlives its server"
        time.sleep(0.05)


@needs_sql
def test_a_query_without_end_ends_with_its_client(serve):
    server = serve()
    ask(server, "SELECT 1")
    query = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value < 0"
    for _ in range(6):
        # More than the program permits at one time, if the queries went on.
        with pytest.raises(requests.Timeout):
            requests.get(f"{server.url}/api/v1/sql", params={"q": query}, timeout=0.5)
        time.sleep(0.5)
    assert ask(server, "SELECT 1 AS one").json() == [{"one": 1}]


@needs_sql
def test_postgres_clients(serve):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -r requirements.txt")
    port = free_port()
    server = serve(postgres_listen=f"127.0.0.1:{port}")
    fill(server)
    with psycopg.connect(host="127.0.0.1", port=port, user="any", dbname="seiner", autocommit=True) as connection:
        found = connection.execute("SELECT host, avg(usage) FROM cpu WHERE host = %s GROUP BY 1", ("b",)).fetchall()
        assert found == [("b", 59.0)]
        first = connection.execute("SELECT * FROM cpu ORDER BY time, host LIMIT 1").fetchone()
        assert (first[0].timestamp(), *first[1:]) == (0, "a", "r1", 0, 0.0)
        for statement in ["INSERT INTO cpu VALUES (1)", "DROP TABLE cpu", "SET datafusion.execution.batch_size = 1"]:
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                connection.execute(statement)
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed: scripts/need.sh psql")
    address = ["psql", "-h", "127.0.0.1", "-p", str(port), "-U", "any", "-d", "seiner", "-A", "-t", "-c"]
    for command, expected in [("SELECT count(*) FROM cpu", "120"), (r"\dt", "cpu")]:
        printed = subprocess.run([*address, command], capture_output=True, text=True, timeout=60)
        assert printed.returncode == 0, printed.stderr
        assert expected in printed.stdout


@needs_sql
def test_flight_sql_with_adbc_and_pandas(serve):
    adbc = pytest.importorskip("adbc_driver_flightsql.dbapi", reason="adbc-driver-flightsql is not installed: pip install -r requirements.txt")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install -r requirements.txt")
    port = free_port()
    server = serve(flight_sql_listen=f"127.0.0.1:{port}")
    fill(server)
    with adbc.connect(f"grpc://127.0.0.1:{port}", autocommit=True) as connection, connection.cursor() as cursor:
        frame = pandas.read_sql("SELECT * FROM cpu ORDER BY time, host", connection)
        assert list(frame.columns) == ["time", "host", "rack", "n", "usage"]
        assert len(frame) == 120
        assert frame["usage"].sum() == 59 * 60 / 2 * 3
        assert frame["time"].iloc[-1] == pandas.Timestamp("1970-01-01T00:00:59Z")
        # The same prepared statement with two values of its parameters.
        narrowed = "SELECT usage FROM cpu WHERE host = $1 AND n > $2 ORDER BY time DESC"
        for n, expected in [(57, [(59,), (58,)]), (58, [(59,)])]:
            cursor.execute(narrowed, ("a", n))
            assert cursor.fetchall() == expected
        objects = connection.adbc_get_objects(depth="all", table_name_filter="c%").read_all().to_pylist()
        (schema,) = objects[0]["catalog_db_schemas"]
        (table,) = schema["db_schema_tables"]
        assert (objects[0]["catalog_name"], schema["db_schema_name"], table["table_name"]) == ("seiner", "public", "cpu")
        assert [column["column_name"] for column in table["table_columns"]] == list(frame.columns)
        assert connection.adbc_get_table_schema("mix").names == ["time", "host", "v::f64", "v::i64"]
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_info()["vendor_name"] == "Seiner"
        for mistake, kind, reason in [
            ("INSERT INTO cpu VALUES (1)", adbc.NotSupportedError, "INSERT is rejected: SQL only reads"),
            ("SELECT nope FROM cpu", adbc.ProgrammingError, "No field named nope"),
        ]:
            with pytest.raises(kind, match=reason):
                cursor.execute(mistake)
        with pytest.raises(adbc.NotSupportedError, match="bulk ingestion is rejected"):
            cursor.adbc_ingest("cpu", pyarrow.table({"a": [1]}))
    # Some clients send a user and a password, which nobody checks.
    with adbc.connect(f"grpc://127.0.0.1:{port}", {"username": "any", "password": "any"}, autocommit=True) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@needs_sql
def test_flight_sql_streams_and_ends_with_its_client(serve):
    flight = pytest.importorskip("pyarrow.flight")
    port = free_port()
    server = serve(flight_sql_listen=f"127.0.0.1:{port}")
    client = flight.connect(f"grpc://127.0.0.1:{port}")

    def rows(query):
        info = client.get_flight_info(flight_command("CommandStatementQuery", query))
        return info, client.do_get(info.endpoints[0].ticket)

    info, answer = rows("SELECT value AS n, 'x' AS text FROM generate_series(1, 3)")
    assert answer.read_all().to_pydict() == {"n": [1, 2, 3], "text": ["x"] * 3}
    assert info.schema == pyarrow.schema({"n": pyarrow.int64(), "text": pyarrow.string()})
    # Clients that draw tables ask for their keys. There are none.
    for name, columns in [("PrimaryKeys", 6), ("ImportedKeys", 13), ("ExportedKeys", 13), ("CrossReference", 13)]:
        info_of_keys = client.get_flight_info(flight_command(f"CommandGet{name}", "seiner"))
        keys = client.do_get(info_of_keys.endpoints[0].ticket).read_all()
        assert (keys.num_rows, keys.num_columns, keys.schema) == (0, columns, info_of_keys.schema)
    # An answer of 16 TB begins at once. As many as are permitted at one time run until they are cancelled.
    running = [rows("SELECT value, value + 1 FROM generate_series(1, 1000000000000)")[1] for _ in range(4)]
    assert all(answer.read_chunk().data.num_rows > 0 for answer in running)
    with pytest.raises(flight.FlightUnavailableError, match="too many SQL queries"):
        rows("SELECT 1")
    for answer in running:
        answer.cancel()
    end = time.monotonic() + 20
    while True:
        try:
            assert rows("SELECT 1 AS one")[1].read_all().to_pydict() == {"one": [1]}
            break
        except flight.FlightUnavailableError:
            assert time.monotonic() < end, "queries outlive their clients"
            time.sleep(0.1)
    damaged = flight.Ticket(info.endpoints[0].ticket.ticket[:-1])
    with pytest.raises(pyarrow.ArrowInvalid):
        client.do_get(damaged).read_all()
    client.close()


@needs_sql
def test_rows_of_long_answers_stay_in_memory_only_until_they_are_sent(serve):
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -r requirements.txt")
    with sql_program(serve(), "--timeout", "4") as addresses:
        host, port = addresses["postgres"].split(":")
        with psycopg.connect(host=host, port=port, user="any", dbname="seiner", autocommit=True) as connection:
            with pytest.raises(psycopg.errors.QueryCanceled, match="longer than 4 s"), connection.cursor() as cursor:
                for _ in cursor.stream(ENDLESS[0]):
                    pass
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with open(f"/proc/{addresses['process']}/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        # All rows of 4 s took 1 GB.
        assert peak < 400_000, f"{peak} KiB"


@needs_sql
def test_queries_have_a_time_limit(serve):
    flight = pytest.importorskip("pyarrow.flight")
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install -r requirements.txt")
    server = serve()
    with sql_program(server, "--timeout", "1") as addresses, flight.connect(f"grpc://{addresses['flight']}") as client:
        host, port = addresses["postgres"].split(":")
        for query in ENDLESS:
            info = client.get_flight_info(flight_command("CommandStatementQuery", query))
            with pytest.raises(flight.FlightTimedOutError, match="longer than 1 s"):
                for _ in client.do_get(info.endpoints[0].ticket):
                    pass
            with psycopg.connect(host=host, port=port, user="any", dbname="seiner", autocommit=True) as connection:
                with pytest.raises(psycopg.errors.QueryCanceled, match="longer than 1 s"), connection.cursor() as cursor:
                    for _ in cursor.stream(query):
                        pass
                assert connection.execute("SELECT 1").fetchone() == (1,)
        # A cursor of this kind sends the text of the query at once, without a prepared statement.
        with psycopg.connect(host=host, port=port, user="any", dbname="seiner", cursor_factory=psycopg.ClientCursor) as connection:
            with pytest.raises(psycopg.errors.QueryCanceled, match="longer than 1 s"):
                connection.execute(ENDLESS[1])
        answer = requests.get(f"http://{addresses['http']}/sql", params={"q": ENDLESS[1]}, timeout=60)
        assert (answer.status_code, answer.json()["error"]) == (400, "the query took longer than 1 s")
