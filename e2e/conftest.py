"""Fixtures of the tests."""

import os
import random

import pytest

from program import PROGRAM, Server


@pytest.fixture(scope="session", autouse=True)
def program():
    if not PROGRAM.is_file():
        pytest.exit(f"{PROGRAM} is missing; run `cargo build -p seiner`, or name a program by SEINER_BIN", 2)


@pytest.fixture
def dice():
    """Random numbers from a printed seed."""
    seed = int(os.environ.get("SEINER_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SEINER_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def serve(tmp_path):
    """Creates servers. Servers that still run at the end are killed."""
    servers = []

    def make(data="data", **settings):
        server = Server(tmp_path / data, tmp_path / f"log-{len(servers)}", **settings)
        servers.append(server)
        server.start()
        return server

    yield make
    for server in servers:
        if server.process is not None:
            server.kill()
