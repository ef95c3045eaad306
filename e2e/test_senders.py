"""Telegraf, Home Assistant and Node-RED, with the configurations of their pages in docs/.

Telegraf and Node-RED run if they are on the path. The requests that they send are replayed in any case. Home Assistant is
replaced by the calls that its integration makes to its client libraries.
"""

import gzip
import json
import shutil
import subprocess
import time
import tomllib

import pytest
import requests
import yaml
from influxdb import InfluxDBClient
from influxdb_client import InfluxDBClient as InfluxDBClientV2
from influxdb_client.client.write_api import ASYNCHRONOUS, SYNCHRONOUS
from influxdb_client.rest import ApiException

from program import ROOT, free_port, run, until
from test_documents import PORT, blocks
from test_mqtt import Broker, needs_mosquitto, subscribed

TELEGRAF = ROOT / "docs/telegraf.md"
HOME_ASSISTANT = ROOT / "docs/home-assistant.md"
NODE_RED = ROOT / "docs/node-red.md"
NOW_NS = time.time_ns()

needs_telegraf = pytest.mark.skipif(not shutil.which("telegraf"), reason="telegraf is not on the path")
needs_node_red = pytest.mark.skipif(not shutil.which("node-red"), reason="node-red is not on the path")


def output(kind):
    """Returns the configuration of an output of Telegraf from the page."""
    (text,) = [block for block in blocks(TELEGRAF, "toml") if f"[[outputs.{kind}]]" in block]
    return text


def settings_of(kind):
    """Returns the parsed configuration of an output of Telegraf."""
    (settings,) = tomllib.loads(output(kind))["outputs"][kind]
    return settings


def token_of(data, scope):
    created = run("token", "create", f"{scope}-only", "--scope", scope, "--data", data)
    assert created.returncode == 0, created.stderr
    return created.stdout.split()[-1]


# Telegraf


def telegraf(folder, server, text, port="127.0.0.1:4317", host="host"):
    """Runs Telegraf once: it reads the memory of the host, and sends it by an output of the page."""
    text = text.replace(PORT, server.address).replace("127.0.0.1:4317", port)
    config = folder / "telegraf.conf"
    config.write_text(f'[agent]\n  hostname = "{host}"\n[[inputs.mem]]\n{text}')
    done = subprocess.run(["telegraf", "--config", config, "--once"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and " E! " not in done.stderr, done.stderr


@needs_telegraf
@pytest.mark.parametrize("kind", ["influxdb_v2", "influxdb"])
def test_telegraf_writes_for_influxdb(serve, tmp_path, kind):
    server = serve()
    telegraf(tmp_path, server, output(kind))
    series = server.query("mem")
    assert 0 < series["mem,host=host", "used_percent"]["values"][-1] <= 100
    assert series["mem,host=host", "total"]["type"] == "i64"


@needs_telegraf
def test_telegraf_writes_with_a_token(serve, tmp_path):
    token, reader = token_of(tmp_path / "data", "write"), token_of(tmp_path / "data", "read")
    server = serve(access="tokens")
    for kind, place in [("influxdb_v2", 'token = "any"'), ("influxdb", 'password = "any"')]:
        telegraf(tmp_path, server, output(kind).replace(place, place.replace("any", token)), host=kind)
    answer = requests.get(
        f"{server.url}/api/v1/query",
        # Telegraf rounds times to seconds, so that they may be in the future.
        params={"select": "mem", "fields": "total", "to": f"{2**63 - 1}ns"},
        headers={"Authorization": f"Bearer {reader}"},
        timeout=60,
    )
    assert {series["tags"]["host"] for series in answer.json()["series"]} == {"influxdb", "influxdb_v2"}


@needs_telegraf
@pytest.mark.parametrize("kind", ["http", "opentelemetry"])
def test_telegraf_writes_with_names_of_prometheus(serve, tmp_path, kind):
    port = f"127.0.0.1:{free_port()}"
    server = serve(otlp_grpc=port)
    telegraf(tmp_path, server, output(kind), port)
    (series,) = server.query("mem_used_percent").values()
    assert series["field"] == "value" and 0 < series["values"][-1] <= 100
    assert series["tags"] == {"host": "host"}


def sent(server, settings, lines, token):
    """Sends lines as Telegraf's output for InfluxDB 2 does."""
    return requests.post(
        f"{server.url}/api/v2/write",
        params={"bucket": settings["bucket"], "org": settings["organization"]},
        data=gzip.compress(lines.encode()),
        headers={
            "Authorization": f"Token {token}",
            "Content-Encoding": "gzip",
            "Content-Type": "text/plain; charset=utf-8",
            "User-Agent": "Telegraf/1.33.0 Go/1.23.0",
        },
        timeout=60,
    )


def test_requests_of_telegraf(serve, tmp_path):
    server = serve()
    settings = settings_of("influxdb_v2")
    assert settings["urls"] == [f"http://{PORT}"]
    line = f"mem,host=host used_percent=12.5,total=8i {NOW_NS}\n"
    assert sent(server, settings, line, settings["token"]).status_code == 204
    rejected = sent(server, settings, line + f"mem,host=host total=1.5 {NOW_NS}\n", settings["token"])
    assert rejected.status_code == 400 and "total" in rejected.json()["message"]
    assert server.query("mem")["mem,host=host", "used_percent"]["values"] == [12.5]
    # The output for InfluxDB 1.
    settings = settings_of("influxdb")
    login = (settings["username"], settings["password"])
    created = requests.post(
        f"{server.url}/query", data={"q": f'CREATE DATABASE "{settings["database"]}"'}, auth=login, timeout=60
    )
    assert created.status_code == 200 and "error" not in created.text
    written = requests.post(
        f"{server.url}/write",
        params={"db": settings["database"]},
        data=gzip.compress(f"old,host=host n=1i {NOW_NS}\n".encode()),
        auth=login,
        headers={"Content-Encoding": "gzip", "Content-Type": "text/plain; charset=utf-8"},
        timeout=60,
    )
    assert written.status_code == 204 and server.query("old")["old,host=host", "n"]["values"] == [1]


def test_telegraf_without_a_token_may_try_again(serve, tmp_path):
    token = token_of(tmp_path / "data", "write")
    server = serve(access="tokens")
    settings = settings_of("influxdb_v2")
    line = f"mem,host=host used_percent=12.5 {NOW_NS}\n"
    assert sent(server, settings, line, settings["token"]).status_code == 401
    assert sent(server, settings, line, token).status_code == 204


# Home Assistant


def integration(version):
    """Returns the settings of the integration from the page."""
    found = [yaml.safe_load(block).get("influxdb") for block in blocks(HOME_ASSISTANT, "yaml")]
    (settings,) = [settings for settings in found if settings and settings.get("api_version", 1) == version]
    assert f"{settings['host']}:{settings['port']}" == PORT
    return settings


def state(settings, entity, device_class, value, text=None):
    """Returns what the integration makes of a state."""
    domain, name = entity.split(".")
    assert settings["measurement_attr"] == "domain__device_class"
    fields = {"value": float(value), **({"state": text} if text else {})}
    return {
        "measurement": f"{domain}__{device_class}",
        "tags": {"domain": domain, "entity_id": name},
        "time": "2026-11-21T08:00:00.250000+00:00",
        "fields": fields,
    }


def states(settings):
    return [
        state(settings, "sensor.kitchen", "temperature", 21.5),
        state(settings, "binary_sensor.door", "opening", 1, "on"),
    ]


def complete(server):
    series = server.query("{}")
    assert series["sensor__temperature,domain=sensor,entity_id=kitchen", "value"]["values"] == [21.5]
    door = "binary_sensor__opening,domain=binary_sensor,entity_id=door"
    assert series[door, "value"]["values"] == [1] and series[door, "state"]["values"] == ["on"]
    assert {tuple(found["times"]) for found in series.values()} == {(1_795_248_000_250_000_000,)}


def test_calls_of_home_assistant_with_version_2(serve):
    server = serve()
    settings = integration(2)
    assert not settings["ssl"]
    client = InfluxDBClientV2(
        url=server.url, token=settings["token"], org=settings["organization"], timeout=10_000, verify_ssl=True
    )
    # The test of the connection: an empty body is stored, or rejected with 400.
    try:
        client.write_api(write_options=SYNCHRONOUS).write(bucket=settings["bucket"], record=b"")
    except ApiException as rejection:
        assert rejection.status == 400
    writer = client.write_api(write_options=ASYNCHRONOUS)
    writer.write(bucket=settings["bucket"], record=states(settings)).get()
    writer.close()
    complete(server)
    # A sensor with queries in Flux does not work.
    with pytest.raises(ApiException):
        client.query_api().query("buckets()")
    client.close()


def test_calls_of_home_assistant_with_version_1(serve):
    server = serve()
    settings = integration(1)
    host, port = server.address.split(":")
    client = InfluxDBClient(host=host, port=int(port), database=settings["database"], timeout=10, verify_ssl=True)
    client.write_points([], time_precision=None)
    client.write_points(states(settings), time_precision=None)
    complete(server)
    assert list(client.query("SHOW DATABASES;").get_points())
    sensor = 'SELECT mean("value") AS value FROM "sensor__temperature" WHERE "entity_id" = \'kitchen\''
    (point,) = client.query(sensor, database=settings["database"]).get_points()
    assert point["value"] == 21.5


def test_home_assistant_version_1_takes_a_token_as_password(serve, tmp_path):
    token = token_of(tmp_path / "data", "write")
    server = serve(access="tokens")
    host, port = server.address.split(":")
    client = InfluxDBClient(host=host, port=int(port), database="home", username="any", password=token)
    assert client.write_points(states(integration(1)))


@needs_mosquitto
def test_states_of_home_assistant_by_mqtt(serve, tmp_path):
    folder = tmp_path / "broker"
    folder.mkdir()
    broker = Broker(folder)
    broker.start()
    try:
        (text,) = blocks(HOME_ASSISTANT, "toml")
        settings = tmp_path / "seiner.toml"
        settings.write_text(text.replace('mqtt_broker = "127.0.0.1"', f'mqtt_broker = "127.0.0.1:{broker.port}"'))
        server = serve(config=settings)
        subscribed(server)
        pages = [yaml.safe_load(block) for block in blocks(HOME_ASSISTANT, "yaml")]
        (stream,) = [page["mqtt_statestream"] for page in pages if "mqtt_statestream" in page]
        for text in ("unavailable", "21.5"):
            topic = f"{stream['base_topic']}/{stream['include']['domains'][0]}/kitchen/state"
            command = ["mosquitto_pub", "-p", str(broker.port), "-q", "1", "-r", "-t", topic, "-m", text]
            subprocess.run(command, check=True, timeout=60)
        until(lambda: server.status()["mqtt"]["messages"] >= 2, "messages are missing")
        assert server.query("home")["home,domain=sensor,entity_id=kitchen", "value"]["values"] == [21.5]
        assert server.status()["mqtt"]["rejected_messages"] == 1
        server.stop()
    finally:
        broker.stop()


# Node-RED


def flows():
    """Returns the flows of the page: with the nodes for InfluxDB, and with a plain request."""
    nodes, plain = (json.loads(block) for block in blocks(NODE_RED, "json"))
    return nodes, plain


@pytest.fixture
def node_red(tmp_path):
    """Starts Node-RED with a flow."""
    running = []

    def start(flow, server, credentials):
        folder = tmp_path / f"node-red-{len(running)}"
        folder.mkdir()
        (folder / "flows.json").write_text(json.dumps(flow).replace(PORT, server.address))
        (folder / "flows_cred.json").write_text(json.dumps(credentials))
        (folder / "settings.js").write_text("module.exports = { credentialSecret: false, flowFile: 'flows.json' }\n")
        log = open(folder / "log", "wb")
        command = ["node-red", "--userDir", folder, "--port", str(free_port())]
        running.append((subprocess.Popen(command, stdout=log, stderr=log), log))
        return folder / "log"

    yield start
    for process, log in running:
        process.kill()
        process.wait()
        log.close()


def boilers(server, log):
    until(lambda: ("boiler,house=7", "flow") in server.query("boiler"), f"no row of Node-RED: {log.read_text()}")
    series = server.query("boiler")
    assert series["boiler,house=7", "flow"]["values"][0] == 61.5
    assert series["boiler,house=7", "burning"]["values"][0] is True
    return series["boiler,house=7", "starts"]


@needs_node_red
def test_node_red_writes_by_its_nodes_for_influxdb(serve, node_red):
    server = serve()
    flow, _ = flows()
    log = node_red(flow, server, {"server": {"token": "any"}})
    starts = boilers(server, log)
    assert (starts["type"], starts["values"][0]) == ("i64", 7)


@needs_node_red
def test_node_red_writes_by_a_plain_request(serve, node_red):
    server = serve()
    _, flow = flows()
    log = node_red(flow, server, {})
    until(lambda: server.query("weather"), f"no row of Node-RED: {log.read_text()}")
    assert server.query("weather")["weather,station=north", "temperature"]["values"][0] == 21.5


def test_requests_of_node_red(serve):
    """The requests of the two flows, without Node-RED."""
    server = serve()
    nodes, plain = flows()
    (config,) = [node for node in nodes if node["type"] == "influxdb"]
    (write,) = [node for node in nodes if node["type"] == "influxdb out"]
    fields, tags = json.loads(next(node["payload"] for node in nodes if node["type"] == "inject"))
    assert config["url"] == f"http://{PORT}" and (fields["starts"], tags) == ("7i", {"house": "7"})
    line = f"boiler,house=7 burning=T,flow=61.5,starts=7i {NOW_NS // 1_000_000}"
    answer = requests.post(
        f"{server.url}/api/v2/write",
        params={"org": write["org"], "bucket": write["bucket"], "precision": write["precisionV18FluxV20"]},
        data=line.encode(),
        headers={"Authorization": "Token any", "Content-Type": "text/plain; charset=utf-8"},
        timeout=60,
    )
    assert answer.status_code == 204
    (post,) = [node for node in plain if node["type"] == "http request"]
    url = post["url"].replace(PORT, server.address)
    answer = requests.post(url, data="weather,station=north temperature=21.5", timeout=60)
    assert (post["method"], answer.status_code) == ("POST", 204)
    assert server.query("boiler")["boiler,house=7", "starts"]["values"] == [7]
