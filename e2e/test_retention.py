"""Kept and expired data, its disk space, and the reports about it."""

import json
import random
import re
import time

import requests
from program import run

MIB = 1 << 20
SECOND = 1_000_000_000


def noise(measurement, first, count, sources=4):
    """Returns lines with values that do not compress, one second apart."""
    dice = random.Random(first)
    return "".join(
        f"{measurement},n={n % sources} v={dice.random()!r} {(first + n // sources) * SECOND}\n" for n in range(count)
    )


def taken(directory):
    """Returns the disk space of the directory, as `du` counts."""
    taken = 0
    for file in directory.rglob("*"):
        try:
            taken += file.stat().st_blocks * 512
        except FileNotFoundError:  # a file that was recycled during the scan
            pass
    return taken


def rows(server, select):
    return sum(len(series["times"]) for series in server.query(select).values())


def restart(server):
    server.stop()
    server.start()


def test_a_delete_lasts(serve):
    server = serve()
    assert server.write(noise("a", 0, 4000) + noise("b", 0, 4000)).status_code == 204
    part = {"select": 'a{n="1"}', "from": 100 * SECOND, "to": 199 * SECOND}
    deleted = requests.delete(server.url + "/api/v1/delete", params=part, timeout=60)
    assert deleted.status_code == 200, deleted.text
    assert deleted.json() == {"sources": 1, "from": str(100 * SECOND), "to": str(199 * SECOND)}
    assert (rows(server, "a"), rows(server, "b")) == (3900, 4000)
    influx = {"start": "1970-01-01T00:00:00Z", "stop": "1970-01-01T00:00:09Z", "predicate": '_measurement="b" AND n="0"'}
    assert requests.post(server.url + "/api/v2/delete", json=influx, timeout=60).status_code == 204
    assert rows(server, "b") == 3990
    assert server.write(f'a,n=1 v=5 {150 * SECOND}').status_code == 204
    restart(server)
    assert (rows(server, "a"), rows(server, "b")) == (3901, 3990)
    assert requests.post(server.url + "/api/v1/delete", params={"select": "{}"}, timeout=60).json()["sources"] == 8
    server.kill()
    server.start()
    assert server.query("{}") == {}


def test_invalid_deletes_are_rejected(serve):
    server = serve()
    assert server.write("a v=1 1").status_code == 204
    for parameters, reason in (
        ({}, "select={}"),
        ({"select": "a{"}, "character"),
        ({"select": "a", "from": "soon"}, "soon"),
        ({"select": "a", "from": 5, "to": 4}, "swap"),
    ):
        rejected = requests.delete(server.url + "/api/v1/delete", params=parameters, timeout=60)
        assert rejected.status_code == 400 and reason in rejected.json()["error"], rejected.text
    for body, reason in (
        ("{}", "start"),
        (json.dumps({"start": "now", "stop": "now", "predicate": '_field="v"'}), "all fields"),
        (json.dumps({"start": "now", "stop": "now", "predicate": 'a="b" OR a="c"'}), "AND"),
    ):
        rejected = requests.post(server.url + "/api/v2/delete", data=body, timeout=60)
        assert rejected.status_code == 400 and reason in rejected.json()["error"], rejected.text
    assert rows(server, "a") == 1


def test_the_command_asks_before_it_deletes(serve):
    server = serve()
    assert server.write("a,n=1 v=1 1\na,n=2 v=1 1\nb v=1 1").status_code == 204
    asked = run("delete", "a", "--server", server.url, stdin="y\n")
    assert asked.returncode == 2 and "2 sources" in asked.stderr and "--yes" in asked.stderr
    assert rows(server, "a") == 2
    done = run("delete", "a", "--server", server.url, "--yes")
    assert (done.returncode, done.stdout) == (0, "deleted samples of 2 sources\n"), done.stderr
    assert {source for source, _ in server.query("{}")} == {"b"}
    assert "no source" in run("delete", "none", "--server", server.url).stdout


def classes(tmp_path, text):
    path = tmp_path / "seiner.toml"
    path.write_text(text)
    return {"config": path}


def test_classes_of_the_file_apply_their_limits(serve, tmp_path):
    now = int(time.time())
    server = serve(
        **classes(
            tmp_path,
            'block_bytes = 512\n[[class]]\nname = "ring"\nsources = "ring"\nrows = 500\n'
            '[[class]]\nname = "young"\nsources = "young"\nage = "10m"\n'
            '[[class]]\nname = "later"\nsources = "later"\nrows = 5\n',
        )
    )
    for measurement in ("ring", "kept"):
        assert server.write(noise(measurement, now - 3000, 12_000)).status_code == 204
    # After the clock was persisted, rows that are too old on arrival are rejected. The rest is kept.
    young = server.write(noise("young", now - 3000, 12_000))
    assert young.status_code == 204 or (young.status_code == 400 and "older than the retention class" in young.text), young.text
    assert 4 * 500 <= rows(server, "ring") < 4 * 700
    assert 4 * 590 <= rows(server, "young") <= 4 * 601
    assert rows(server, "kept") == 12_000
    restart(server)
    assert 4 * 500 <= rows(server, "ring") < 4 * 700
    assert rows(server, "kept") == 12_000
    log = server.ask("log").json()
    assert {one["name"]: one["sources"] for one in log["classes"]} == {"ring": 4, "young": 4, "later": 0, "default": 4}
    assert any('"later"' in warning for warning in log["warnings"])
    assert 'retention class "later"' in server.log.read_text()
    # Removed rules do not restore data.
    server.stop()
    (tmp_path / "seiner.toml").write_text("block_bytes = 512\n")
    server.start()
    assert rows(server, "ring") < 4 * 700
    assert rows(server, "kept") == 12_000


def fill(server, mib, until=lambda answer: False, watch=lambda: None):
    """Writes about this many MiB of blocks. Returns the last response."""
    for tick in range(mib * 2):
        answer = server.write(noise("m", tick * 20_000, 80_000))
        watch()
        if until(answer):
            break
    return answer


def test_a_full_store_rejects_within_its_budget_and_continues_when_space_returns(serve):
    server = serve(disk="24 MiB", memory="32 MiB", durability="100ms")
    full = fill(server, 60, until=lambda answer: answer.status_code != 204)
    assert full.status_code == 507, full.text
    reported = full.json()
    assert reported["code"] == "full" and "raise `disk`" in reported["error"]
    assert taken(server.data) <= 24 * MIB
    status = server.status()["engine"]
    assert status["disk_budget_bytes"] == 24 * MIB and status["disk_used_bytes"] <= 24 * MIB
    # The store is full and reports it. Existing data are served, and a delete frees space.
    health = requests.get(server.url + "/health", timeout=60)
    assert health.status_code == 503 and "ready for queries" in health.text
    assert rows(server, 'm{n="0"}') > 1000
    assert requests.delete(server.url + "/api/v1/delete", params={"select": "m"}, timeout=60).status_code == 200
    deadline = time.monotonic() + 30
    while (answer := server.write("after v=1 1")).status_code != 204:
        assert answer.status_code == 507 and time.monotonic() < deadline, answer.text
        time.sleep(0.2)
    restart(server)
    assert {source for source, _ in server.query("{}")} == {"after"}


def test_a_class_that_sheds_keeps_accepting(serve):
    highest = 0

    def watch():
        nonlocal highest
        highest = max(highest, taken(server.data))

    server = serve(disk="24 MiB", memory="32 MiB", **{"class": "name=default,when_full=shed"})
    answer = fill(server, 36, until=lambda answer: answer.status_code != 204, watch=watch)
    assert answer.status_code == 204, answer.text
    assert highest <= 24 * MIB
    status = server.status()["engine"]
    assert status["shed_bytes"] > 0 and status["segments_dropped"] > 0
    times = server.query('m{n="0"}')["m,n=0", "v"]["times"]
    assert times[-1] == (36 * 2 * 20_000 - 1) * SECOND and times[0] > 0

    reported = run("log", "status", "--server", server.url)
    assert reported.returncode == 0, reported.stderr
    for part in ("of 24.0 MiB", "U 0.", "Um ", "planing", "per byte stored", "lane ", "default", "shed 100"):
        assert part in reported.stdout, reported.stdout
    listed = run("log", "status", "--segments", "--server", server.url).stdout
    report = json.loads(run("log", "status", "--json", "--server", server.url).stdout)
    assert report["space"]["budget"] == 24 * MIB and report["segment_bytes"] == 256 << 10
    assert sum("█" in line for line in listed.splitlines()) > len(report["segments"]) / 2
    # Fully live segments are not merged repeatedly before blocks are shed.
    assert 1 <= report["written"]["start"]["per_byte"] < 1.2
    why = run("log", "why", "--server", server.url).stdout
    decisions = json.loads(run("log", "why", "--json", "--server", server.url).stdout)
    assert any(decision["drop"] for decision in decisions)
    assert (" unread: all " in why or "written again" in why) and "U 0." in why
    assert "class default keeps all, for ever, less if the disk is full" in why, why
    metrics = requests.get(server.url + "/metrics", timeout=60).text
    assert 'seiner_class_live_bytes{class="default"}' in metrics
    assert "seiner_disk_budget_bytes 25165824" in metrics and "seiner_log_planing" in metrics


def test_invalid_retention_settings_are_rejected(tmp_path):
    for flags, reason in (
        (["--disk", "1 MiB"], "a store needs"),
        (["--class", "name=a,rows=0"], "1 or more"),
        (["--class", "name=a", "--class", "name=b,sources=x"], "put \"b\" first"),
        (["--class", "name=a,sources=x{"], "flag --class"),
        (["--merge-from", "2"], "0.1 to 0.99"),
        (["--policy", "hungry"], "fisherman"),
    ):
        done = run("config", *flags, cwd=tmp_path)
        assert done.returncode == 2 and reason in done.stderr, (flags, done.stderr)
    done = run("config", "--disk", "100 MiB", "--class", 'name=a,sources=b{c="d"},age=30d', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "comes to 256 KiB" in done.stdout and "comes to 2 MiB" in done.stdout
    (tmp_path / "again.toml").write_text(done.stdout)
    again = run("config", "--config", "again.toml", cwd=tmp_path)
    assert again.returncode == 0 and 'sources = "b{c=\\"d\\"}"' in again.stdout, again.stderr


def test_samples_are_rolled_up_and_stay_so_after_restarts(serve):
    server = serve(**{"class": "name=raw,age=2s,rollup=1s for 1h then 2s for ever"})
    now = time.time_ns()
    lines = "".join(f'm,n={n % 3} v={n},ok={"tf"[n % 2]},s="a{n}" {now - n * 1_000_000}\n' for n in range(300))
    assert server.write(lines).status_code == 204
    question = {"select": "m", "from_": now - 10 * SECOND, "step": "1h", "aggregate": "count,sum,min,max,first,last"}

    def aged():
        engine = requests.get(server.url + "/status", timeout=60).json()["engine"]
        return engine["rolled_up_samples"] >= 900 and "levels" in server.ask("query", **question).json()

    before = server.ask("query", **question).json()["series"]
    deadline = time.monotonic() + 60
    while not aged():
        assert time.monotonic() < deadline, requests.get(server.url + "/status", timeout=60).text
        time.sleep(0.1)
    for leave in (server.stop, server.kill):
        leave()
        server.start()
        after = server.ask("query", **question)
        assert after.json()["series"] == before
        assert after.json()["levels"][0]["step_ns"] == SECOND
        assert re.match(r"\d+-\d+/1000000000\b", after.headers["Seiner-Levels"]), after.headers
    listed = run("log", "status", "--server", server.url).stdout
    assert "raw/1s" in listed and "raw/2s" in listed and "a row every" in listed, listed
    for source in (["--server", server.url], ["--data", server.data]):
        if source[0] == "--data":
            server.stop()
        reported = run("query", "m", "--from", str(now - 10 * SECOND), *source)
        assert reported.returncode == 0 and "rows of 1s replace expired samples" in reported.stderr, reported.stderr
    assert run("check", server.data).returncode == 0


def test_invalid_levels_are_rejected_with_valid_ones():
    for levels, reason in (
        ("3s for ever", "say steps of 2s or shorter"),
        ("1s", "write 1m for 365d"),
        ("1s for 1s", "say more than 2s"),
    ):
        rejected = run("config", "--class", f"name=raw,age=2s,rollup={levels}")
        assert rejected.returncode == 2 and reason in rejected.stderr, rejected.stderr
