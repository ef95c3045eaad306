"""Tests of the client with a server: what is written and read over HTTP is what an embedded store stores and returns.

The server is the program of SEINER_BIN, or the debug build of this repository. Without a program, they are skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import seiner
from test_pandas import frame_of
from test_wide import TIMES, mixed, rows_of, same

PROGRAM = Path(os.environ.get("SEINER_BIN", Path(__file__).parents[2] / "target/debug/seiner"))

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is missing; run `cargo build -p seiner`")


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[str]:
    """Runs a server. Returns its address, without the scheme."""
    settings = ["--listen=127.0.0.1:0", "--host-sensors=off", "--allow-1970=true", f"--data={folder / 'data'}", *more]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SEINER_")}
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([PROGRAM, "serve", *settings], stdout=log, stderr=log, env=environment)
    try:
        deadline = time.monotonic() + 30
        while not (found := re.search(r"The page is at https?://([^/]+)/", (folder / "log").read_text())):
            assert server.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.02)
        yield found.group(1)
    finally:
        server.kill()
        server.wait()


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Makes a certificate for 127.0.0.1. Returns its file and that of its key."""
    made = [PROGRAM, "tls", "self-signed", folder, "--host", "127.0.0.1"]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    return folder / "certificate.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[seiner.Client]:
    with seiner.Client(address) as client:
        yield client


@pytest.mark.parametrize("form", ["table", "arrow", "polars", "pandas"])
def test_rows_over_http_are_those_of_an_embedded_store(store: seiner.Store, client: seiner.Client, form: str) -> None:
    mixed(store)
    table = store.query("m", shape="wide")
    given = table if form == "table" else getattr(table, form)()
    name = f"rows_{form}"
    if form == "pandas":
        given["measurement"] = pd.Categorical([name] * len(given))
    elif form == "polars":
        given = given.with_columns(measurement=pl.lit(name))
    else:
        arrow = pa.table(given)
        at = arrow.schema.get_field_index("measurement")
        given = arrow.set_column(at, arrow.schema.field(at).with_type(pa.string()), pa.array([name] * len(arrow)))
    assert client.append_table(None, given) == ([], 0)
    back = client.query(name, shape="wide")
    assert back.columns == table.columns
    for row, wanted in zip(rows_of(back.arrow()), rows_of(table.arrow()), strict=True):
        row["measurement"] = "m"
        assert row.keys() == wanted.keys() and all(same(row[name], wanted[name]) for name in wanted), (row, wanted)
    expected = table.pandas()
    found = back.pandas()
    assert found.dtypes.drop("measurement").astype(str).tolist() == expected.dtypes.drop("measurement").astype(str).tolist()
    assert found["u"].tolist() == expected["u"].tolist() and found["i"].tolist() == expected["i"].tolist()


def test_long_frames_come_in_bodies(store: seiner.Store, client: seiner.Client) -> None:
    rows = 70_000
    frame = pd.concat([frame_of(seed, 0.1) for seed in range(rows // 2000)], ignore_index=True)
    frame["time"] = pd.date_range("2026-11-21", periods=rows, freq="s", tz="UTC")
    frame.loc[frame.index % 7 == 0, "text"] = None
    assert client.append_table("long", frame, tags=["tag"]).rejected_total == 0
    store.append_table("long", frame, tags=["tag"])
    assert rows_of(client.query("long", shape="wide").arrow()) == rows_of(store.query("long", shape="wide").arrow())
    assert client.range("long") == store.range("long")
    interval = ("2026-11-21T01:00:00Z", np.datetime64("2026-11-21T02:00:00", "s"))
    assert client.range("long", *interval) == store.range("long", *interval)
    step = client.query("long", fields="v", step="1h", aggregates=["count", "max"]).pandas()
    wanted = store.query("long", fields="v", step="1h", aggregates=["count", "max"]).pandas()
    labels = dict.fromkeys(("measurement", "tags", "field"), str)
    pd.testing.assert_frame_equal(step.astype(labels), wanted.astype(labels), check_dtype=False)
    long = client.query("long", *interval, fields=["v"]).polars()
    assert long.to_dicts() == store.query("long", *interval, fields=["v"]).polars().to_dicts()


def test_rejected_rows_have_their_index_in_the_frame(client: seiner.Client) -> None:
    times = np.arange(40_000) * 1_000_000_000 + TIMES[0]
    client.append_table("types", {"time": times[:1], "v": [1.5]}, tags=[])
    column = pa.array([None, 2, 3] + [None] * 39_996 + [4])
    written = client.append_table("types", {"time": times, "v": column, "w": pa.array([None] * 40_000, pa.int64())}, tags=[])
    assert [row for row, _ in written.rejected] == [1, 2, 39_999] and written.rejected_total == 3
    assert "f64" in written.rejected[0][1]
    assert client.query("types", shape="wide").pandas()["v"].tolist() == [1.5]


def test_ranges_are_open_by_default(client: seiner.Client) -> None:
    assert client.range("span") is None
    client.append_table("span", {"time": np.array([-5, 2**62]), "v": [1, 2]}, tags=[])
    client.append_table("span", {"time": np.array([7]), "w": [1.5]}, tags=[])
    assert client.range("span") == (-5, 2**62)
    assert client.range("span", fields=["w"]) == (7, 7)
    assert client.range("span", 8) == (2**62, 2**62) and client.range("span", end=-6) is None
    assert client.query("span", -5, 7, shape="wide").pandas()["time"].astype("int64").tolist() == [-5, 7]


def test_errors_of_the_server_are_raised(client: seiner.Client) -> None:
    with pytest.raises(seiner.Invalid, match="the server answered 400"):
        client.query("span{")
    with pytest.raises(seiner.Invalid, match="need the long shape"):
        client.query("m", shape="wide", step="1h")
    with pytest.raises(seiner.Invalid, match="need a step"):
        client.query("m", aggregates="mean")
    with pytest.raises(seiner.Invalid, match="commas separate names"):
        client.query("m", fields=["a,b"])
    with pytest.raises(seiner.Invalid, match="no column is left to be a field"):
        client.append_table("m", {"time": TIMES}, tags=[])
    client.close()
    for call in (lambda: client.query("m"), client.range, lambda: client.append_table("m", {"time": TIMES, "v": TIMES})):
        with pytest.raises(seiner.Closed):
            call()


def test_an_encrypted_server_is_trusted_by_its_authority(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path / "tls")
    files = [f"--tls-certificate={certificate}", f"--tls-key={key}"]
    with serving(tmp_path, *files) as address:
        with seiner.Client(f"https://{address}", ca=certificate) as client:
            assert client.write_lines("boiler flow=61.5 1795248000000000000") == ([], 0)
            found = client.range("boiler")
            assert found is not None and found.first == 1795248000000000000
        with seiner.Client(f"https://{address}") as unknown, pytest.raises(seiner.Untrusted, match="as ca"):
            unknown.query("boiler")
        # The certificate has another name.
        other = address.replace("127.0.0.1", "localhost")
        with seiner.Client(f"https://{other}", ca=certificate) as client, pytest.raises(seiner.Untrusted):
            client.write_lines("boiler flow=61.5 1795248000000000001")


def test_a_server_may_demand_a_certificate(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path / "tls")
    files = [f"--tls-certificate={certificate}", f"--tls-key={key}", f"--tls-client-ca={certificate}"]
    with serving(tmp_path, *files) as address:
        with seiner.Client(f"https://{address}", ca=certificate, certificate=(certificate, key)) as client:
            assert client.write_lines("boiler flow=61.5 1795248000000000000") == ([], 0)
        with seiner.Client(f"https://{address}", ca=certificate) as stranger, pytest.raises(seiner.Unreachable):
            stranger.query("boiler")
