"""Backups in an object store, by the protocol of S3."""

import json
import os
import random
import time

import boto3
import pytest
from moto.server import ThreadedMotoServer

from load import STEP_NS, Load, survivors
from program import run
from test_crash import whole

REGION = "eu-central-1"
# A part of an upload has 8 MiB.
PART = 8 << 20


@pytest.fixture(scope="module")
def storage():
    """A server of S3's protocol, as a client of another maker and as process variables of the program."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address, keys = f"http://{host}:{port}", ("tester", "secret-of-the-tester")
    client = boto3.client(
        "s3",
        endpoint_url=address,
        region_name=REGION,
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
    )
    client.create_bucket(Bucket="backups", CreateBucketConfiguration={"LocationConstraint": REGION})
    variables = {
        "AWS_ACCESS_KEY_ID": keys[0],
        "AWS_SECRET_ACCESS_KEY": keys[1],
        "AWS_REGION": REGION,
        "AWS_ENDPOINT": address,
        "AWS_ALLOW_HTTP": "true",
    }
    if "built without object storage" in run("restore", "s3://backups/none", env=variables).stderr:
        pytest.skip("the program has no object storage; build it with --features object-storage")
    yield client, variables
    server.stop()


def backup(storage, url, data, *flags, status=0):
    done = run("backup", url, "--data", data, "--json", *flags, env=storage[1])
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def objects(storage, prefix):
    """Returns the lengths of all objects below a prefix, by key."""
    pages = storage[0].get_paginator("list_objects_v2").paginate(Bucket="backups", Prefix=prefix)
    return {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}


def test_a_backup_under_load_restores_all_rows_acknowledged_before(storage, serve, tmp_path):
    server = serve(durability="sync")
    with Load(server, [0] * 4) as load:
        for _ in range(2):
            time.sleep(1)
            before = [writer.rows for writer in load.writers]
            made = backup(storage, "s3://backups/load/", server.data)
            assert made["sound"] and made["directory"].startswith("s3://backups/load/20"), made
        server.kill()
    assert all(rows > 0 for rows in before), "no row was acknowledged, so nothing was tested"
    restored = tmp_path / "restored"
    done = run("restore", "s3://backups/load", "--data", restored, env=storage[1])
    assert done.returncode == 0, done.stderr
    reader = serve("restored", durability="sync")
    for writer, acknowledged in zip(load.writers, before):
        rows = survivors(reader, writer.number, STEP_NS)
        whole(rows, f"writer {writer.number}")
        assert len(rows) >= acknowledged


def test_segments_are_shared_sent_in_parts_and_removed(storage, serve, tmp_path):
    dice = random.Random(7)
    server = serve()
    names = []
    for part in range(3):
        rows = range(part * 1_300_000, (part + 1) * 1_300_000 if part == 0 else part * 1_300_000 + 1000)
        server.write("\n".join(f"m v={dice.random()} {1_700_000_000_000_000_000 + row}" for row in rows))
        server.flush()
        made = backup(storage, "s3://backups/shared", server.data, "--keep", "2")
        assert made["sound"] and (made["segments"]["linked"] > 0 or part == 0), made
        names.append(os.path.basename(made["directory"]))
        assert made["removed"] == names[-3:-2]
    server.stop()
    left = objects(storage, "shared/")
    assert max(left.values()) > PART, "no object was sent in parts"
    assert {key for key in left if key.endswith(".json")} == {f"shared/{name}.json" for name in names[-2:]}
    assert not [key for key in left if names[0] in key]

    segment = max(left, key=left.get)
    body = bytearray(storage[0].get_object(Bucket="backups", Key=segment)["Body"].read())
    body[len(body) // 2] ^= 1
    storage[0].put_object(Bucket="backups", Key=segment, Body=bytes(body))
    done = run("restore", "s3://backups/shared", "--data", tmp_path / "damaged", env=storage[1])
    assert done.returncode == 1 and "damaged" in done.stderr, done.stderr
    made = backup(storage, "s3://backups/shared", server.data, "--check-all")
    assert made["sound"] and made["segments"]["copied"] >= 1
    done = run("restore", f"s3://backups/shared/{names[-1]}", "--data", tmp_path / "mended", env=storage[1])
    assert done.returncode == 0, done.stderr
    done = run("check", tmp_path / "mended")
    assert done.returncode == 0, done.stdout


def test_mistakes_are_named_without_secrets(storage, tmp_path):
    (tmp_path / "rows.lp").write_text("m v=1 1700000000000000000\n")
    data = tmp_path / "data"
    assert run("write", "--data", data, tmp_path / "rows.lp").returncode == 0
    cases = [
        (("backup", "s3://no-such-bucket/a", "--data", data), "no-such-bucket"),
        (("backup", "ftp://host/a", "--data", data), "s3://BUCKET/PREFIX"),
        (("backup", "s3://me:hidden@backups/a", "--data", data), "AWS_ACCESS_KEY_ID"),
        (("restore", "s3://backups/empty", "--data", tmp_path / "new"), "no complete backup"),
        (("restore", "s3://backups/empty/2026-01-01T00-00-00Z", "--data", tmp_path / "new"), "has no backup"),
    ]
    for arguments, text in cases:
        done = run(*arguments, env=storage[1])
        assert done.returncode in (1, 2) and text in done.stderr, (arguments, done.stderr)
        assert "secret-of-the-tester" not in done.stderr and "hidden" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["data", "rows.lp"]
    assert not objects(storage, "empty/")


def test_missing_credentials_are_named(storage, tmp_path):
    (tmp_path / "rows.lp").write_text("m v=1 1700000000000000000\n")
    assert run("write", "--data", tmp_path / "data", tmp_path / "rows.lp").returncode == 0
    # Nobody listens at the address that gives a virtual machine its credentials.
    without = {"AWS_ENDPOINT": storage[1]["AWS_ENDPOINT"], "AWS_METADATA_ENDPOINT": "http://127.0.0.1:1"}
    done = run("backup", "s3://backups/a", "--data", tmp_path / "data", env=without | {"AWS_ALLOW_HTTP": "true"})
    assert done.returncode == 1 and "AWS_ACCESS_KEY_ID" in done.stderr and "is not set" in done.stderr, done.stderr
