"""Subcommands in typical use, and the most common errors."""

import gzip
import json
import signal
import subprocess
import time

import pyarrow
import pytest

from program import PROGRAM, environment, run


def test_a_second_process_is_rejected_with_the_owner_of_the_directory(serve):
    server = serve()
    for arguments in (
        ["serve", "--listen", "127.0.0.1:0", "--host-sensors", "off", "--data", server.data],
        ["write", "--data", server.data],
    ):
        done = run(*arguments, stdin="")
        assert done.returncode == 1, arguments
        assert "in use by another process" in done.stderr
        assert str(server.process.pid) in done.stderr
        assert str(server.data) in done.stderr
    assert server.write("still v=1 1").status_code == 204
    # Every end of the process releases the lock.
    server.kill()
    assert run("query", "{}", "--data", server.data).returncode == 0


def test_a_port_that_is_taken(serve, tmp_path):
    server = serve()
    done = run("serve", "--data", tmp_path / "other", "--listen", server.address, "--host-sensors", "off")
    assert done.returncode == 1
    assert server.address in done.stderr and "listen" in done.stderr


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('memroy = "1 GiB"', ["line 1", "memroy", 'did you mean "memory"']),
        ('data = "x"\nmemory = "much"', ["line 2", "memory", "much", "256 MiB"]),
        ("memory = ", ["line 1"]),
        ('listen = "0.0.0.0:7670"', ["allow_remote", "127.0.0.1"]),
    ],
)
def test_bad_settings(tmp_path, text, parts):
    (tmp_path / "seiner.toml").write_text(text)
    for command in ("config", "serve"):
        done = run(command, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        for part in parts:
            assert part in done.stderr
    assert not (tmp_path / "seiner-data").exists(), "nothing is made before the settings are read"


def test_settings_are_printed_with_their_origins(tmp_path):
    (tmp_path / "seiner.toml").write_text('memory = "1 GiB"\nlog = "warn"\nlisten = "127.0.0.1:1"\n')
    done = run("config", "--listen", "127.0.0.1:5", cwd=tmp_path, env={"SEINER_LOG": "debug"})
    assert done.returncode == 0, done.stderr
    shown = {line.split(" = ")[0]: line for line in done.stdout.splitlines()}
    assert '"127.0.0.1:5"' in shown["listen"] and "flag --listen" in shown["listen"]
    assert '"debug"' in shown["log"] and "SEINER_LOG" in shown["log"]
    assert '"1 GiB"' in shown["memory"] and "seiner.toml, line 1" in shown["memory"]
    assert shown["durability"].endswith("# default")
    # The output is a valid settings file.
    (tmp_path / "kept.toml").write_text(done.stdout)
    again = run("config", "--config", "kept.toml", cwd=tmp_path)
    values = [line.split("#")[0].strip() for line in done.stdout.splitlines()]
    assert [line.split("#")[0].strip() for line in again.stdout.splitlines()] == values


def test_write_and_query_a_directory(tmp_path):
    data = tmp_path / "data"
    packed = tmp_path / "more.gz"
    packed.write_bytes(gzip.compress(b"cpu,host=b usage=2.5 2000\n"))
    plain = tmp_path / "plain.txt"
    plain.write_text('cpu,host=a usage=1.5 1000\nlog,host=a text="two\nlines" 1000\n')
    done = run("write", "--data", data, "--precision", "ms", plain, packed)
    assert done.returncode == 0, done.stderr
    done = run("write", "--data", data, "--allow-1970", stdin="cpu,host=a usage=3.5 3000000000\nbad\n")
    assert done.returncode == 1
    assert ":2: " in done.stderr
    # A pipe may end within a line if its writer ends.
    done = run("write", "--data", data, stdin="half v=4.5 4\nhalf v=5.5 5000")
    assert done.returncode == 1 and "standard input:2: the line has no newline" in done.stderr
    half = json.loads(run("query", "half", "--data", data, "--from", "0", "--format", "json").stdout)
    assert half["series"][0]["values"] == [4.5]
    ask = ["query", "cpu{}", "--data", data, "--from", "0", "--format"]
    answer = json.loads(run(*ask, "json").stdout)
    assert {series["tags"]["host"]: (series["times"], series["values"]) for series in answer["series"]} == {
        "a": ([1_000_000_000, 3_000_000_000], [1.5, 3.5]),
        "b": ([2_000_000_000], [2.5]),
    }
    assert run(*ask, "csv").stdout == (
        "measurement,tags,field,time,value\n"
        "cpu,host=a,usage,1000000000,1.5\ncpu,host=a,usage,3000000000,3.5\ncpu,host=b,usage,2000000000,2.5\n"
    )
    stream = subprocess.run([PROGRAM, *map(str, ask), "arrow"], capture_output=True, env=environment(), check=True).stdout
    assert pyarrow.ipc.open_stream(stream).read_all()["value"].to_pylist() == [1.5, 3.5, 2.5]
    table = run(*ask, "table").stdout.splitlines()
    assert table[0].split() == ["measurement", "tags", "field", "time", "value"]
    assert len(table) == 4
    latest = ["query", "cpu{}", "--data", data, "--latest", "--format", "csv"]
    assert run(*latest).stdout.splitlines()[1:] == ["cpu,host=a,usage,3000000000,3.5", "cpu,host=b,usage,2000000000,2.5"]
    assert run(*latest, "--from", "1970-01-01T00:00:03Z").stdout.splitlines()[1:] == ["cpu,host=a,usage,3000000000,3.5"]
    assert run(*latest, "--step", "1h").returncode == 2
    steps = run(*ask, "csv", "--step", "1h", "--aggregate", "count,max").stdout.splitlines()
    assert steps == ["measurement,tags,field,time,count,max", "cpu,host=a,usage,0,2,3.5", "cpu,host=b,usage,0,1,2.5"]


def test_write_and_query_a_server(serve):
    server = serve()
    lines = "".join(f"m,s={n % 7} v={n}i {n}\n" for n in range(50_000))
    done = run("write", "--to", server.url, stdin=lines + "m,s=0 v=x 1\n")
    assert done.returncode == 1
    assert ":50001: " in done.stderr
    done = run("query", 'm{s="3"}', "--server", server.url, "--from", "0", "--format", "json")
    assert done.returncode == 0, done.stderr
    (series,) = json.loads(done.stdout)["series"]
    assert series["values"] == list(range(3, 50_000, 7))
    done = run("query", "m", "--server", server.url, "--latest", "--format", "csv")
    assert [int(line.split(",")[-1]) % 7 for line in done.stdout.splitlines()[1:]] == list(range(7)), done.stderr


def test_ls_lists_the_same_of_a_server_and_of_its_directory(serve):
    server = serve()
    hosts = "\n".join(f'cpu,host=h{host} usage=1.5,state="on" {host}' for host in range(12))
    server.write(f"{hosts}\nmem used=5i 3000000000\n")
    server.flush()
    asked = json.loads(run("ls", "--json", "--server", server.url).stdout)
    read = json.loads(run("ls", "--json", "--data", server.data).stdout)
    assert asked == read and [one["measurement"] for one in asked] == ["cpu", "mem"]
    assert asked[0]["tags"] == [{"name": "host", "values": 12}] and asked[0]["bytes"] > 0
    assert asked[1]["fields"] == [{"name": "used", "type": "i64"}]
    table = run("ls", 'cpu{host=~"h[0-4]"}', "--server", server.url).stdout.splitlines()
    assert table[1].split()[:6] == ["cpu", "5", "host", "5", "state,", "usage"]
    none = run("ls", "disk", "--server", server.url)
    assert none.returncode == 0 and not none.stdout and "no source" in none.stderr
    assert run("ls", "cpu{", "--server", server.url).returncode == 2


def test_the_address_of_the_server_has_one_flag_and_a_variable(serve):
    server = serve()
    variable = {"SEINER_SERVER": server.url}
    assert run("write", stdin="m v=1 1\n", env=variable).returncode == 0
    assert run("write", "--server", server.url, stdin="m v=2 2\n").returncode == 0
    listed = run("query", "m", "--from", "first", "--format", "csv", env={"SEINER_SERVER": "http://127.0.0.1:1"})
    assert listed.returncode == 1 and "127.0.0.1:1" in listed.stderr
    listed = run("query", "m", "--from", "first", "--format", "csv", env=variable)
    assert len(listed.stdout.splitlines()) == 3, listed.stderr
    both = run("write", "--server", server.url, "--data", server.data, stdin="m v=1 1\n")
    assert both.returncode == 2 and "--data" in both.stderr


def test_errors_of_the_command_line(tmp_path):
    done = run("query", "cpu{", "--data", tmp_path / "data")
    assert done.returncode == 2 and "seiner: " in done.stderr
    done = run("query", "cpu", "--server", "http://127.0.0.1:9")
    assert done.returncode == 1 and "does not answer" in done.stderr and "seiner serve" in done.stderr
    done = run("write", "--data", tmp_path / "data", tmp_path / "absent.txt")
    assert done.returncode == 1 and "absent.txt" in done.stderr
    assert run("wrote").returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_completions(shell):
    done = run("completions", shell)
    assert done.returncode == 0
    assert "seiner" in done.stdout and "durability" in done.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)


def test_manual_pages(tmp_path):
    assert run("man").stdout.startswith(".ie")
    done = run("man", "--into", tmp_path / "man")
    assert done.returncode == 0, done.stderr
    pages = {page.name for page in (tmp_path / "man").iterdir()}
    assert {"seiner.1", "seiner-serve.1", "seiner-query.1", "seiner-import-csv.1", "seiner-sim-merge.1"} <= pages


def test_help_names_every_subcommand():
    reported = run("--help").stdout
    for command in ("serve", "write", "query", "import", "inspect", "check", "config", "sim", "completions", "man"):
        assert f"\n  {command}" in reported
    assert run("--version").stdout.startswith("seiner ")


def test_interrupt_stops_like_sigterm(serve):
    server = serve()
    assert server.write("i v=1 1").status_code == 204
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(30) == 0
    server.process = None
    server.start()
    assert server.query("i")["i", "v"]["values"] == [1]


def test_sensors_of_the_host_are_recorded(serve):
    server = serve(host_sensors="100ms")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        measurements = set(server.ask("measurements").json())
        if {"host_cpu", "host_mem"} <= measurements:
            break
        time.sleep(0.1)
    assert {"host_cpu", "host_mem"} <= measurements, measurements
