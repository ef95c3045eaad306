"""Tokens: real clients with and without them, wrong tokens, revoked tokens, and tokens with a selector."""

import re
import shutil
import subprocess
import threading

import influxdb
import influxdb_client
import paho.mqtt.client as paho
import pytest
import requests
from influxdb_client.client.write_api import SYNCHRONOUS

from program import PROGRAM, free_port, run, until

BEGIN = 1_700_000_000
PATIENCE_S = 20


def create(server_data, name, scope, *more):
    """Creates a token with the command, and returns its text."""
    done = run("token", "create", name, "--scope", scope, "--data", server_data, *more)
    assert done.returncode == 0, done.stderr
    token = done.stdout.strip()
    assert re.fullmatch(r"seiner_[\w-]{43}", token), done.stdout
    assert token not in done.stderr
    return token


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def curl(*arguments):
    """Returns the status of a request."""
    done = subprocess.run(
        ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *arguments], capture_output=True, text=True, timeout=60
    )
    return int(done.stdout)


@pytest.fixture
def guarded(serve, tmp_path):
    """Server with an admin token. Returns the server and the token."""
    token = create(tmp_path / "data", "admin", "admin")
    return serve(), token


def test_the_tokens_are_private_and_listed_without_their_texts(guarded, tmp_path):
    server, token = guarded
    path = tmp_path / "data/access.toml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert token not in path.read_text()
    listed = run("token", "list", "--data", server.data)
    assert listed.returncode == 0 and "admin" in listed.stdout and token not in listed.stdout
    twice = run("token", "create", "admin", "--scope", "read", "--data", server.data)
    assert twice.returncode == 1 and "already" in twice.stderr
    for wrong in (["--scope", "all"], ["--scope", "read", "--where", "cpu{"]):
        assert run("token", "create", "x", *wrong, "--data", server.data).returncode == 2
    # The store accepts the file beside its own.
    server.stop()
    assert run("check", server.data).returncode == 0
    assert token not in server.log.read_text()


def test_curl_with_every_form_of_a_token(guarded):
    server, token = guarded
    lines = ["--data-binary", f"cpu x=1 {BEGIN}"]
    write = f"{server.url}/write?precision=s"
    assert curl(write, *lines) == 401
    assert curl(write, *lines, "-H", f"Authorization: Token {token}") == 204
    assert curl(write, *lines, "-H", f"Authorization: Bearer {token}") == 204
    assert curl(write, *lines, "-u", f"any:{token}") == 204
    assert curl(f"{write}&u=any&p={token}", *lines) == 204
    assert curl(write, *lines, "-H", f"Authorization: Bearer {token[:-1]}") == 401
    assert curl(write, *lines, "-H", "Authorization: Bearer " + "x" * 20_000) == 401
    assert curl(write, *lines, "-H", "Authorization: Bearer " + "x" * 60_000) == 431
    assert curl(f"{server.url}/ping") == 204
    assert curl(f"{server.url}/health") == 200
    assert token not in server.log.read_text()


def test_clients_of_influxdb(guarded):
    server, token = guarded
    with influxdb_client.InfluxDBClient(server.url, token=token, org="o") as client:
        writer = client.write_api(write_options=SYNCHRONOUS)
        writer.write("b", record=f"cpu,host=a x=1.5 {BEGIN}", write_precision="s")
    with influxdb_client.InfluxDBClient(server.url, token="wrong", org="o") as client:
        with pytest.raises(influxdb_client.rest.ApiException) as failed:
            client.write_api(write_options=SYNCHRONOUS).write("b", record=f"cpu x=2 {BEGIN}", write_precision="s")
        assert failed.value.status == 401
    host, port = server.address.split(":")
    old = influxdb.InfluxDBClient(host, int(port), "any", token, "b")
    found = list(old.query("SELECT x FROM cpu").get_points())
    assert [point["x"] for point in found] == [1.5]
    with pytest.raises(influxdb.exceptions.InfluxDBClientError):
        influxdb.InfluxDBClient(host, int(port), "any", "wrong", "b").query("SELECT x FROM cpu")


def test_the_command_line_presents_a_token(guarded, tmp_path):
    server, token = guarded
    write = ["write", "-", "--to", server.url]
    lines = f"cpu x=1 {BEGIN}000000000\n"
    without = run(*write, stdin=lines)
    assert without.returncode == 1 and "token" in without.stderr, without.stderr
    assert run(*write, stdin=lines, env={"SEINER_TOKEN": token}).returncode == 0
    file = tmp_path / "token"
    file.write_text(token + "\n")
    read = run("query", "cpu", "--from", BEGIN, "--server", server.url, "--token-file", file)
    assert read.returncode == 0 and "1" in read.stdout, read.stderr
    file.write_text("two words")
    assert "no token" in run("query", "cpu", "--server", server.url, "--token-file", file).stderr


def test_wrong_tokens_are_limited_and_a_right_one_is_not(guarded):
    server, token = guarded
    ask = lambda text: requests.get(f"{server.url}/status", headers=bearer(text), timeout=60)  # noqa: E731
    answers = [ask(f"seiner_{number}") for number in range(12)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 2
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert "bearer" in answers[0].headers["www-authenticate"].lower()
    assert ask(token).status_code == 200
    metrics = requests.get(f"{server.url}/metrics", headers=bearer(token), timeout=60).text
    assert 'seiner_denied_requests_total{reason="limited"} 2' in metrics
    assert "presented many wrong tokens" in server.log.read_text()


@pytest.mark.skipif(not shutil.which("mosquitto_pub"), reason="no mosquitto_pub: run scripts/need.sh mosquitto")
def test_mosquitto_presents_the_token_as_its_password(serve, tmp_path):
    token = create(tmp_path / "data", "device", "write", "--where", 'climate{room="hall"}')
    admin = create(tmp_path / "data", "admin", "admin")
    port = free_port()
    rule = "topic=home/{room}/{field},measurement=climate"
    server = serve(mqtt_listen=f"127.0.0.1:{port}", mqtt_topic=rule)
    publish = ["mosquitto_pub", "-p", str(port), "-q", "1"]

    def send(topic, *more):
        return subprocess.run([*publish, "-t", topic, "-m", "20.5", *more], capture_output=True, timeout=60).returncode

    def values():
        asked = requests.get(f"{server.url}/api/v1/query?select=climate", headers=bearer(admin), timeout=60)
        return {series["tags"]["room"]: series["values"] for series in asked.json()["series"]}

    assert send("home/hall/temperature") != 0
    assert send("home/hall/temperature", "-u", "any", "-P", "wrong") != 0
    assert values() == {}
    for version in ("311", "5"):
        assert send("home/hall/temperature", "-u", "any", "-P", token, "-V", f"mqttv{version}") == 0
    send("home/cellar/temperature", "-u", "any", "-P", token)
    assert set(values()) == {"hall"}


def test_a_revoked_token_ends_a_session_of_mqtt(serve, tmp_path):
    token = create(tmp_path / "data", "device", "write")
    admin = create(tmp_path / "data", "admin", "admin")
    port = free_port()
    server = serve(mqtt_listen=f"127.0.0.1:{port}", mqtt_topic="topic={field},measurement=m")
    connected, ended = threading.Event(), threading.Event()
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.on_connect = lambda *_: connected.set()
    client.on_disconnect = lambda *_: ended.set()
    client.username_pw_set("any", token)
    client.connect("127.0.0.1", port)
    client.loop_start()
    assert connected.wait(PATIENCE_S)
    client.publish("x", "1", qos=1).wait_for_publish(PATIENCE_S)
    assert run("token", "revoke", "device", "--data", server.data).returncode == 0
    ask = lambda text: requests.get(f"{server.url}/ports", headers=bearer(text), timeout=60)  # noqa: E731
    until(lambda: ask(token).status_code == 401, "the token is still valid")
    client.publish("x", "2", qos=1)
    assert ended.wait(PATIENCE_S), "the session continues"
    client.loop_stop()
    asked = requests.get(f"{server.url}/api/v1/query?select=m", headers=bearer(admin), timeout=60).json()
    assert [series["values"] for series in asked["series"]] == [[1.0]]
    log = server.log.read_text()
    assert "the token device was revoked or changed" in log


def test_a_selector_hides_other_sources(guarded):
    server, admin = guarded
    lines = f"cpu,host=a x=1 {BEGIN}\ncpu,host=b x=2 {BEGIN}\nmem,host=a x=3 {BEGIN}"
    written = server.write(lines, headers=bearer(admin), precision="s")
    assert written.status_code == 204
    token = create(server.data, "limited", "read,write", "--where", 'cpu{host="a"}')

    def get(path, **parameters):
        return requests.get(server.url + path, params=parameters, headers=bearer(token), timeout=60)

    until(lambda: get("/api/v2/orgs").status_code == 200, "the token is not valid")
    everything = get("/api/v1/query", select="{}", **{"from": 0}).json()["series"]
    assert [series["tags"]["host"] for series in everything] == ["a"]
    assert get("/api/v1/query", select="mem", **{"from": 0}).json()["series"] == []
    assert get("/api/v1/measurements").json() == ["cpu"]
    prometheus = get("/prometheus/api/v1/query", query='{__name__=~".+"}', time=BEGIN).json()
    assert [series["metric"]["host"] for series in prometheus["data"]["result"]] == ["a"]
    assert get("/metrics").status_code == get("/status").status_code == 403
    rejected = server.write(f"mem,host=a x=9 {BEGIN}", headers=bearer(token), precision="s")
    assert rejected.status_code == 400 and "may not write" in rejected.text
    deleted = requests.post(f"{server.url}/api/v1/delete?select=%7B%7D", headers=bearer(token), timeout=60)
    assert deleted.status_code == 403 and "admin" in deleted.text


def test_deletes_are_in_the_audit_log(guarded):
    server, token = guarded
    server.write(f"cpu x=1 {BEGIN}", headers=bearer(token), precision="s")
    path = f"{server.url}/api/v1/delete?select=cpu"
    assert requests.post(path, headers=bearer(token), timeout=60).status_code == 200
    audit = [line for line in server.log.read_text().splitlines() if " audit: " in line]
    assert any("admin from 127.0.0.1: POST /api/v1/delete?select=cpu, answered 200" in line for line in audit), audit


def test_a_remote_address_needs_a_token(tmp_path):
    remote = ["serve", "--listen", "0.0.0.0:0", "--allow-remote", "true", "--data", tmp_path / "data"]
    denied = run(*remote)
    assert denied.returncode == 2
    command = re.search(r"seiner (token create NAME .*)", denied.stderr).group(1).replace("NAME", "first")
    assert run(*command.split(), cwd=tmp_path).returncode == 0
    with pytest.raises(subprocess.TimeoutExpired):
        # It serves.
        run(*remote, timeout=3)
    denied = run(*remote, "--line-tcp", "0.0.0.0:0")
    assert denied.returncode == 2 and "access = " in denied.stderr, denied.stderr


@pytest.mark.skipif(not PROGRAM.with_name("seiner-sql").is_file(), reason="seiner-sql is missing: run `make sql`")
def test_sql_needs_a_token_without_a_selector(guarded):
    server, admin = guarded
    limited = create(server.data, "limited", "read", "--where", "cpu")
    server.write(f"cpu x=1 {BEGIN}", headers=bearer(admin), precision="s")
    path = f"{server.url}/api/v1/sql?q=SELECT+x+FROM+cpu"
    assert requests.get(path, headers=bearer(admin), timeout=60).json() == [{"x": 1.0}]
    assert requests.get(path, timeout=60).status_code == 401
    until(lambda: requests.get(path, headers=bearer(limited), timeout=60).status_code == 403, "the token is not valid")


@pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus: run scripts/need.sh prometheus")
def test_prometheus_sends_a_bearer_token(guarded, tmp_path):
    server, token = guarded
    port = free_port()
    (tmp_path / "token").write_text(token)
    credentials = f"{{credentials_file: {tmp_path}/token}}"
    (tmp_path / "prometheus.yml").write_text(
        f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: seiner
    authorization: {credentials}
    static_configs: [{{targets: ["{server.address}"]}}]
remote_write:
  - url: {server.url}/prometheus/api/v1/write
    authorization: {credentials}
"""
    )
    command = ["prometheus", f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/prometheus"]
    with open(tmp_path / "prometheus.log", "wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:

        def is_stored():
            asked = requests.get(f"{server.url}/api/v1/latest?select=up", headers=bearer(token), timeout=60).json()
            return any(1 in series["values"] for series in asked["series"])

        until(is_stored, (tmp_path / "prometheus.log").read_text()[-2000:])
    finally:
        process.kill()
        process.wait()
