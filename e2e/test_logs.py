"""The log of the server: one line per event, as text and as JSON, without secrets."""

import json
import socket
import time

import requests

from program import free_port, run

# Text that would like to begin a line of its own, or to colour the terminal.
HOSTILE = "a\u2028WARN\u0085b\x1b[31m"
SECRET = "seiner_not_for_the_log"


def lines_until(server, text, patience=20):
    """Returns the lines of the log once one of them contains a text."""
    deadline = time.monotonic() + patience
    while True:
        written = server.log.read_bytes().decode()
        if text in written:
            # Other characters than \\n end no line.
            return written.removesuffix("\n").split("\n")
        assert time.monotonic() < deadline, written
        time.sleep(0.05)


def provoke(server, line_port):
    """Makes the server log lines with texts of a client. Returns the id that the server chose."""
    server.write("m x=1 1")
    chosen = server.write("nonsense", headers={"X-Request-Id": "bad id"}).headers["X-Request-Id"]
    kept = requests.post(
        f"{server.url}/write%0aWARN%20x?u=ann&p={SECRET}&token={SECRET}",
        data=b"",
        headers={"X-Request-Id": "kept-1", "Authorization": f"Token {SECRET}"},
        timeout=60,
    )
    assert kept.headers["X-Request-Id"] == "kept-1"
    deleted = requests.post(f"{server.url}/api/v1/delete?select=m", headers={"X-Request-Id": "deleted-1"}, timeout=60)
    assert deleted.status_code == 200
    with socket.create_connection(("127.0.0.1", line_port)) as sender:
        sender.sendall(f"m x={HOSTILE} 1\n".encode())
    return chosen


def test_every_line_of_a_log_in_json_is_an_object(serve):
    port = free_port()
    server = serve(log_format="json", log="debug", line_tcp=f"127.0.0.1:{port}")
    chosen = provoke(server, port)
    lines_until(server, "1 line was rejected in all")
    server.stop()
    events = [json.loads(line) for line in lines_until(server, "everything accepted is on disk")]
    assert len(events) > 8
    for event in events:
        assert {"time", "level", "target", "message"} <= event.keys(), event
        assert all(not isinstance(value, (dict, list)) for value in event.values()), event
        assert event["time"].endswith("Z") and event["level"] in ("error", "warn", "info", "debug")
    requests_ = {event["request_id"]: event for event in events if event["target"] == "seiner_server::requests"}
    rejected = requests_[chosen]
    assert (rejected["message"], rejected["level"], rejected["status"]) == ("a write was rejected", "warn", 400)
    assert (rejected["method"], rejected["path"], rejected["bytes_in"]) == ("POST", "/write", 8)
    assert rejected["ms"] > 0 and rejected["client"].startswith("127.0.0.1:")
    assert requests_["kept-1"]["path"] == "/write%0AWARN%20x"
    # Lines of other parts have the id too.
    of_delete = {event["target"] for event in events if event.get("request_id") == "deleted-1"}
    assert of_delete == {"seiner_server::requests", "seiner_server::delete", "audit"}
    of_sender = [event for event in events if event["message"].startswith("line protocol from")]
    assert HOSTILE in of_sender[0]["message"]
    assert len(of_sender) == 2 and len({event["connection_id"] for event in of_sender}) == 1
    assert SECRET not in server.log.read_text()


def test_a_line_of_text_is_one_event(serve):
    port = free_port()
    server = serve(line_tcp=f"127.0.0.1:{port}", log="info,seiner_server::requests=debug")
    provoke(server, port)
    lines = lines_until(server, "1 line was rejected in all")
    events = [line for line in lines if line[:1] == "2"]
    # The others are the two addresses, for people.
    assert len(lines) == len(events) + 2
    assert any(" seiner_server::requests: " in line and line.endswith(" request_id=kept-1") for line in events)
    assert any(" audit: " in line and line.endswith(" request_id=deleted-1") for line in events)
    written = server.log.read_bytes().decode()
    assert SECRET not in written
    assert not any(character in written for character in "\r\x1b\u0085\u2028")


def test_lines_in_the_journal_have_priorities_and_no_times(serve, tmp_path, monkeypatch):
    log = tmp_path / "log-0"
    log.touch()
    # The journal of systemd is the standard error with this device and inode.
    monkeypatch.setenv("JOURNAL_STREAM", f"{log.stat().st_dev}:{log.stat().st_ino}")
    server = serve()
    server.write("nonsense")
    lines = lines_until(server, "a write was rejected")
    assert lines[0].startswith("<6> INFO seiner_server::server: ")
    assert lines[-1].startswith("<4> WARN seiner_server::requests: a write was rejected method=POST path=/write ")


def test_a_server_that_fails_writes_its_last_line_in_json(tmp_path):
    (tmp_path / "file").write_text("no directory")
    arguments = ["--listen", "127.0.0.1:0", "--access", "open", "--log-format", "json"]
    failed = run("serve", *arguments, "--data", tmp_path / "file")
    assert failed.returncode == 1
    [*_, last] = [json.loads(line) for line in failed.stderr.splitlines()]
    assert last["level"] == "error" and "file" in last["message"]
