"""MQTT: Mosquitto as the broker, paho-mqtt and mosquitto_pub as senders, and the port for devices."""

import json
import shutil
import socket
import subprocess
import threading
import time

import paho.mqtt.client as paho
import pytest

from authority import certificates
from program import SLOW, free_port, until

BEGIN_MS = 1_700_000_000_000
MESSAGES = 100_000 if SLOW else 20_000
KILLS = 10 if SLOW else 4
PATIENCE_S = 60
# Maximum number of messages without an acknowledgement.
WINDOW = 5_000

needs_mosquitto = pytest.mark.skipif(
    not shutil.which("mosquitto") or not shutil.which("mosquitto_pub"),
    reason="mosquitto is not installed: run scripts/need.sh mosquitto",
)


class Broker:
    """Mosquitto with sessions that survive its restart."""

    def __init__(self, folder, more=("allow_anonymous true",)):
        self.folder = folder
        self.port = free_port()
        self.process = None
        # Mosquitto gives up root, and must then write the folder.
        lines = [
            f"listener {self.port} 127.0.0.1",
            *more,
            "persistence true",
            f"persistence_location {folder}/",
            "max_queued_messages 0",
            "user root",
        ]
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    def start(self):
        with open(self.folder / "log", "ab") as log:
            command = ["mosquitto", "-c", self.folder / "mosquitto.conf"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: connects(self.port), "Mosquitto does not listen")

    def stop(self):
        """Stops Mosquitto, which saves its sessions."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE_S)
            self.process = None


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture
def broker(tmp_path):
    folder = tmp_path / "broker"
    folder.mkdir()
    broker = Broker(folder)
    broker.start()
    yield broker
    broker.stop()


def settings(broker=None, **more):
    topic = "topic=load/{sender}/{field},measurement=load,time=at"
    of_broker = {"mqtt_broker": f"127.0.0.1:{broker.port}", "mqtt_client_id": "seiner-e2e"} if broker else {}
    return {"mqtt_topic": topic, **of_broker, **more}


def subscribed(server):
    until(lambda: server.status()["mqtt"]["connected"], "the server does not connect to the broker")
    # The subscription follows the connection.
    time.sleep(0.5)


class Sender:
    """Publishes numbered messages with QoS 1. Paho repeats those without an acknowledgement."""

    def __init__(self, port, name="a", version=paho.MQTTv5, qos=1):
        self.client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=f"sender-{name}", protocol=version)
        self.client.reconnect_delay_set(0.1, 0.5)
        self.client.max_queued_messages_set(0)
        self.client.max_inflight_messages_set(200)
        self.client.connect("127.0.0.1", port)
        self.client.on_publish = self.acknowledge
        self.client.loop_start()
        self.topic = f"load/{name}/n"
        self.qos = qos
        self.sent = 0
        self.acknowledged = 0

    def acknowledge(self, *_):
        self.acknowledged += 1

    def send(self, numbers):
        for n in numbers:
            # Paho has an identifier for at most 65535 messages.
            until(lambda: self.sent - self.acknowledged < WINDOW, "messages are not acknowledged", 0.001)
            self.client.publish(self.topic, json.dumps({"at": BEGIN_MS + n, "v": n}), qos=self.qos)
            self.sent += 1

    def finish(self):
        """Waits for all acknowledgements."""
        until(lambda: self.acknowledged == self.sent, "a message was not acknowledged")
        self.client.disconnect()
        self.client.loop_stop()


def stored(server, name="a"):
    """Returns the numbers of the stored messages of a sender."""
    series = server.query(f'load{{sender="{name}"}}', limit=10**9)
    return series[(f"load,sender={name}", "n_v")]["values"] if series else []


def complete(server, count, name="a"):
    """Asserts that each message was stored once, with its value at its time."""
    until(lambda: len(stored(server, name)) >= count, "messages are missing")
    assert stored(server, name) == list(range(count))


@needs_mosquitto
@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_messages_arrive_through_a_broker(serve, broker, version):
    server = serve(**settings(broker, mqtt_version=version))
    subscribed(server)
    publish = ["mosquitto_pub", "-p", str(broker.port), "-q", "1"]
    for topic, payload in [
        ("load/b/temp", "21.5"),
        ("load/b/temp", "nonsense"),
        ("load/b/json", '{"at":"2026-11-21T08:00:00Z","x":{"y":2},"on":true}'),
        ("load/b/line", "weather,station=north temperature=3 1700000000000000000"),
    ]:
        subprocess.run([*publish, "-t", topic, "-m", payload], check=True, timeout=PATIENCE_S)
    subprocess.run([*publish, "-r", "-t", "load/b/kept", "-m", "1"], check=True, timeout=PATIENCE_S)
    until(lambda: server.status()["mqtt"]["messages"] >= 5, "messages are missing")
    series = server.query('load{sender="b"}')
    values = {field: found["values"] for (_, field), found in series.items()}
    assert values == {"temp": [21.5], "json_x_y": [2], "json_on": [True], "kept": [1]}
    assert server.query("weather")[("weather,station=north", "temperature")]["values"] == [3]
    status = server.status()["mqtt"]
    assert status["rejected_messages"] == 1
    assert status["last_rejection"]["topic"] == "load/b/temp"
    # A retained message is an old one for a new connection.
    server.stop()
    server.start()
    subscribed(server)
    assert server.query('load{sender="b"}')[("load,sender=b", "kept")]["values"] == [1]
    server.stop()


@needs_mosquitto
@pytest.mark.parametrize("version", ["5", "3.1.1"])
def test_kills_under_load_lose_and_repeat_nothing(serve, broker, dice, version):
    server = serve(**settings(broker, mqtt_version=version))
    subscribed(server)
    sender = Sender(broker.port)
    sending = threading.Thread(target=sender.send, args=[range(MESSAGES)])
    sending.start()
    for _ in range(KILLS):
        time.sleep(dice.uniform(0.1, 0.6))
        server.kill()
        server.start()
    sending.join()
    sender.finish()
    complete(server, MESSAGES)
    server.stop()


@needs_mosquitto
def test_the_harness_detects_a_loss(serve, broker):
    """Canary: with durability `memory` the server acknowledges messages that a kill loses."""
    server = serve(**settings(broker, durability="memory"))
    subscribed(server)
    sender = Sender(broker.port)
    sender.send(range(1000))
    sender.finish()
    until(lambda: len(stored(server)) == 1000, "messages are missing")
    # The acknowledgements are on their way.
    time.sleep(0.5)
    server.kill()
    server.start()
    subscribed(server)
    assert len(stored(server)) < 1000


@needs_mosquitto
def test_a_broker_may_restart(serve, broker):
    server = serve(**settings(broker))
    subscribed(server)
    sender = Sender(broker.port)
    sender.send(range(2000))
    broker.stop()
    sender.send(range(2000, 3000))
    until(lambda: not server.status()["mqtt"]["connected"], "the server does not notice the end of the broker")
    troubles = server.status()["troubles"]
    assert any("MQTT broker" in trouble["text"] for trouble in troubles)
    # The server works without the broker.
    assert server.write("m v=1 1").status_code == 204
    broker.start()
    subscribed(server)
    sender.send(range(3000, 5000))
    sender.finish()
    complete(server, 5000)
    assert server.status()["mqtt"]["connects"] == 2
    server.stop()


@needs_mosquitto
def test_a_broker_with_encryption_and_passwords(serve, tmp_path):
    folder = tmp_path / "broker"
    folder.mkdir()
    authority, certificate, key = certificates(folder)
    users = folder / "users"
    subprocess.run(["mosquitto_passwd", "-b", "-c", users, "seiner", "secret-word"], check=True, timeout=PATIENCE_S)
    broker = Broker(
        folder, [f"certfile {certificate}", f"keyfile {key}", "allow_anonymous false", f"password_file {users}"]
    )
    broker.start()
    try:
        password = tmp_path / "password"
        password.write_text("secret-word\n")
        given = settings(mqtt_password_file=password, mqtt_broker=f"mqtts://seiner@127.0.0.1:{broker.port}")
        # The system does not have the authority of the test.
        server = serve(**given)
        until(lambda: "TLS" in (server.status()["mqtt"]["last_error"] or ""), "the certificate is not rejected")
        server.stop()
        server = serve(**given, mqtt_ca_file=authority)
        subscribed(server)
        login = ["-u", "seiner", "-P", "secret-word", "--cafile", authority]
        where = ["-h", "127.0.0.1", "-p", str(broker.port), "-q", "1", "-t", "load/a/temp"]
        subprocess.run(["mosquitto_pub", *where, "-m", "21.5", *login], check=True, timeout=PATIENCE_S)
        until(lambda: len(server.query("load")) == 1, "the message is missing")
        # The password is in no text of the server.
        for text in [server.log.read_text(), str(server.status())]:
            assert "secret-word" not in text
        password.write_text("another\n")
        broker.stop()
        broker.start()
        until(lambda: "NotAuthorized" in (server.status()["mqtt"]["last_error"] or ""), "the password is not checked")
        server.stop()
    finally:
        broker.stop()


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize("qos", [1, 2])
def test_devices_publish_without_a_broker(serve, dice, version, qos):
    port = free_port()
    server = serve(**settings(mqtt_listen=f"127.0.0.1:{port}"))
    sender = Sender(port, version=version, qos=qos)
    sending = threading.Thread(target=sender.send, args=[range(MESSAGES // 4)])
    sending.start()
    time.sleep(dice.uniform(0.1, 0.5))
    server.kill()
    server.start()
    sending.join()
    sender.finish()
    complete(server, MESSAGES // 4)
    server.stop()


@needs_mosquitto
def test_clients_of_mosquitto_publish_and_may_not_subscribe(serve):
    port = free_port()
    server = serve(**settings(mqtt_listen=f"127.0.0.1:{port}"))
    for qos in "012":
        publish = ["mosquitto_pub", "-p", str(port), "-q", qos, "-t", f"load/q{qos}/temp", "-m", "1"]
        subprocess.run(publish, check=True, timeout=PATIENCE_S)
    until(lambda: len(server.query("load")) == 3, "messages are missing")
    listen = ["mosquitto_sub", "-p", str(port), "-t", "load/#", "-W", "5"]
    answer = subprocess.run(listen, capture_output=True, text=True, timeout=PATIENCE_S)
    assert "denied" in answer.stderr
    server.stop()
