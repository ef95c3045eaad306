"""Rows as Arrow in both directions, with pyarrow as the other side."""

import random

import pyarrow as pa
import pytest
import requests

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


@pytest.fixture
def server(serve):
    return serve()


def send(server, table, rows_per_batch=None, **parameters):
    body = pa.BufferOutputStream()
    with pa.ipc.new_stream(body, table.schema) as stream:
        stream.write_table(table, rows_per_batch)
    headers = {"Content-Type": MEDIA_TYPE}
    return requests.post(f"{server.url}/write", params=parameters, data=body.getvalue().to_pybytes(), headers=headers)


def table_of(rows):
    """Rows of 50 hosts with fields of all types, some of them missing, in random order of the hosts."""
    dice = random.Random(7)

    def maybe(value):
        return value if dice.random() < 0.8 else None

    return pa.table(
        {
            "time": pa.array([START + row * SECOND for row in range(rows)], pa.timestamp("ns", "UTC")),
            "host": pa.array([f"h{dice.randrange(50)}" for _ in range(rows)]).dictionary_encode(),
            "rack": pa.array([maybe("r1") for _ in range(rows)]).dictionary_encode(),
            "always": pa.array(range(rows), pa.int64()),
            "usage": pa.array([maybe(dice.gauss(0, 1)) for _ in range(rows)], pa.float64()),
            "bytes": pa.array([maybe(dice.getrandbits(64)) for _ in range(rows)], pa.uint64()),
            "up": pa.array([maybe(dice.random() < 0.5) for _ in range(rows)], pa.bool_()),
            "state": pa.array([maybe(dice.choice(["", "idle", "b\"\u00fc"])) for _ in range(rows)], pa.string()),
        }
    )


def test_rows_come_back_as_they_were_sent(server):
    sent = table_of(5000)
    assert send(server, sent, rows_per_batch=700, measurement="m").status_code == 204
    read = server.arrow("m", shape="wide").sort_by("time")
    assert set(read.column("measurement").to_pylist()) == {"m"}
    for name in sent.column_names:
        assert read.column(name).to_pylist() == sent.column(name).to_pylist(), name
        if name not in ("time", "host", "rack"):
            assert read.schema.field(name).type == sent.schema.field(name).type
    for tag in ("host", "rack"):
        assert pa.types.is_dictionary(read.schema.field(tag).type)


def test_a_wide_answer_moves_a_store(server, serve):
    lines = [f"cpu,host=h{n % 3} usage={n}.5,n={n}i {START + n}" for n in range(30)]
    lines += [f'cpu,host=text usage="{n}" {START + n}' for n in range(3)] + [f"mem used={n}u {START + n}" for n in range(9)]
    assert server.write("\n".join(lines)).status_code == 204
    whole = server.arrow("{}", shape="wide")
    other = serve("other")
    assert send(other, whole).status_code == 204
    moved = other.arrow("{}", shape="wide")
    order = [("measurement", "ascending"), ("host", "ascending"), ("time", "ascending")]
    assert moved.column_names == whole.column_names

    def plain(table):
        types = [pa.string() if pa.types.is_dictionary(field.type) else field.type for field in table.schema]
        return pa.table([column.cast(type) for column, type in zip(table.columns, types)], table.column_names).sort_by(order)

    assert plain(moved).equals(plain(whole))


def test_rejected_rows_are_named_and_the_rest_is_stored(server):
    assert server.write(f'm,host=a usage="text" {START}').status_code == 204
    table = pa.table(
        {
            "time": pa.array([START + SECOND, START + SECOND, None], pa.timestamp("ns")),
            "host": ["a", "b", "b"],
            "usage": [1.5, 2.5, 3.5],
        }
    )
    answer = send(server, table, measurement="m", tags="host")
    assert answer.status_code == 400
    assert (answer.json()["accepted"], answer.json()["rejected"]) == (1, 2)
    assert [row["row"] for row in answer.json()["rows"]] == [1, 3]
    (series,) = server.query("m{host=\"b\"}").values()
    assert series["values"] == [2.5]
    untyped = send(server, table.set_column(0, "time", pa.array([1, 2, 3])), measurement="m")
    assert untyped.status_code == 400 and "precision" in untyped.json()["error"]
