"""What tests are given."""

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
    """Randomness that can be had again."""
    seed = int(os.environ.get("SEINER_SEED", random.SystemRandom().randrange(2**32)))
    print(f"SEINER_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def serve(tmp_path):
    """Makes servers; what still runs at the end is killed."""
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
