"""TLS of the ports, with curl, paho and the OTLP exporter over gRPC; and pages of other hosts (CORS)."""

import pickle
import shutil
import socket
import ssl
import struct
import subprocess

import paho.mqtt.client as paho
import pytest
import requests

from authority import certificates
from program import free_port, run, until
from test_access import PATIENCE_S, bearer, create, curl

BEGIN = 1_700_000_000


@pytest.fixture
def encrypted(serve, tmp_path):
    """Server with a certificate and a token. Returns the server, the path of the authority, and the token."""
    authority, certificate, key = certificates(tmp_path)
    token = create(tmp_path / "data", "admin", "admin")
    port = free_port()
    server = serve(tls_certificate=certificate, tls_key=key, mqtt_listen=f"127.0.0.1:{port}", mqtt_topic="topic={field},measurement=m")
    server.mqtt_port = port
    return server, authority, token


def test_http_and_mqtt_are_encrypted(encrypted):
    server, authority, token = encrypted
    assert server.url.startswith("https://127.0.0.1:")
    trusted = {"verify": str(authority), "timeout": 60}
    lines = f"cpu x=1 {BEGIN}"
    written = requests.post(f"{server.url}/write?precision=s", data=lines, headers=bearer(token), **trusted)
    assert written.status_code == 204
    assert requests.get(f"{server.url}/status", **trusted).status_code == 401
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{server.url}/ping", timeout=60)
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(server.url.replace("https", "http") + "/ping", timeout=60)
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.tls_set(str(authority))
    client.username_pw_set("any", token)
    client.connect("127.0.0.1", server.mqtt_port)
    client.loop_start()
    client.publish("x", "1", qos=1).wait_for_publish(PATIENCE_S)
    client.disconnect()
    client.loop_stop()
    stored = requests.get(f"{server.url}/api/v1/latest?select=m", headers=bearer(token), **trusted).json()
    assert [series["values"] for series in stored["series"]] == [[1]]


def test_a_certificate_that_signs_itself_is_enough_to_start(serve, tmp_path):
    made = run("tls", "self-signed", tmp_path / "tls", "--host", "127.0.0.1,nas.local")
    assert made.returncode == 0, made.stderr
    certificate, key = made.stdout.split()
    assert (tmp_path / "tls/key.pem").stat().st_mode & 0o077 == 0
    server = serve(tls_certificate=certificate, tls_key=key)
    assert requests.get(f"{server.url}/ping", verify=certificate, timeout=60).status_code == 204
    listed = run("ls", "--server", server.url, "--ca", certificate)
    assert listed.returncode == 0, listed.stderr
    again = run("tls", "self-signed", tmp_path / "tls", "--host", "127.0.0.1")
    assert again.returncode == 1 and "not replaced" in again.stderr


def test_the_command_line_checks_the_certificate(encrypted):
    server, authority, token = encrypted
    query = ["query", "cpu", "--server", server.url]
    trusted = run(*query, "--ca", authority, env={"SEINER_TOKEN": token})
    assert trusted.returncode == 0, trusted.stderr
    assert "token" in run(*query, "--ca", authority).stderr
    unknown = run(*query, env={"SEINER_TOKEN": token})
    assert unknown.returncode == 1 and token not in unknown.stderr


def test_hostile_handshakes_do_not_stop_the_port(encrypted):
    server, authority, _ = encrypted
    host, port = server.address.removeprefix("https://").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(20)]
    for bytes_ in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 1000, b"\x80"):
        with socket.create_connection((host, int(port))) as wrong:
            wrong.sendall(bytes_)
    assert requests.get(f"{server.url}/ping", verify=str(authority), timeout=60).status_code == 204
    for each in silent:
        each.close()


def served_certificate(server):
    host, port = server.address.removeprefix("https://").split(":")
    return ssl.get_server_certificate((host, int(port)), timeout=60)


def test_a_changed_certificate_is_read_again_and_a_broken_one_is_not(encrypted, tmp_path):
    server, authority, _ = encrypted
    first = served_certificate(server)
    (tmp_path / "host.pem").write_text("no certificate")
    until(lambda: "the certificate stays as it is" in server.log.read_text(), "the broken file was not read")
    assert served_certificate(server) == first
    (tmp_path / "new").mkdir()
    certificates(tmp_path / "new")
    for name in ("host.key", "host.pem"):
        shutil.copy(tmp_path / "new" / name, tmp_path / name)
    until(lambda: served_certificate(server) != first, "the new certificate is not served")
    assert requests.get(f"{server.url}/ping", verify=str(tmp_path / "new/ca.pem"), timeout=60).status_code == 204


def test_certificates_of_clients(serve, tmp_path):
    authority, certificate, key = certificates(tmp_path)
    server = serve(tls_certificate=certificate, tls_key=key, tls_client_ca=authority)
    trusted = ["--cacert", authority, f"{server.url}/ping"]
    assert curl(*trusted) == 0
    assert curl("--cert", certificate, "--key", key, *trusted) == 204


def test_otlp_over_grpc_is_encrypted(serve, tmp_path):
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    import grpc

    authority, certificate, key = certificates(tmp_path)
    token = create(tmp_path / "data", "otlp", "read,write")
    port = free_port()
    server = serve(tls_certificate=certificate, tls_key=key, otlp_grpc=f"127.0.0.1:{port}")
    for text, is_stored in (("wrong", False), (token, True)):
        exporter = OTLPMetricExporter(
            endpoint=f"https://127.0.0.1:{port}",
            credentials=grpc.ssl_channel_credentials(authority.read_bytes()),
            headers=(("authorization", f"Bearer {text}"),),
        )
        provider = MeterProvider([PeriodicExportingMetricReader(exporter, export_interval_millis=600_000)])
        provider.get_meter("test").create_counter("pieces").add(7)
        provider.force_flush()
        provider.shutdown()
        found = requests.get(
            f"{server.url}/api/v1/measurements", headers=bearer(token), verify=str(authority), timeout=60
        ).json()
        assert any("pieces" in name for name in found) == is_stored, found


def test_wrong_files_are_named(tmp_path):
    denied = run("serve", "--tls-certificate", "a.pem", "--data", tmp_path / "data")
    assert denied.returncode == 2 and "tls_key" in denied.stderr
    denied = run("serve", "--tls-certificate", "a.pem", "--tls-key", "a.key", "--data", tmp_path / "data", cwd=tmp_path)
    assert denied.returncode == 1 and "a.pem" in denied.stderr, denied.stderr


def test_pages_of_permitted_origins_may_use_the_server(serve):
    server = serve(cors_origins="https://app.example")
    asks = {"origin": "https://app.example", "sec-fetch-site": "cross-site"}
    preflight = {**asks, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    for path in ("/write", "/api/v1/query"):
        answer = requests.options(server.url + path, headers=preflight, timeout=60)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "authorization" in answer.headers["access-control-allow-headers"]
    answer = requests.post(f"{server.url}/write?precision=s", data=f"cpu x=1 {BEGIN}", headers=asks, timeout=60)
    assert answer.status_code == 204 and answer.headers["vary"] == "Origin"
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert "x-request-id" in exposed and "etag" in exposed
    for origin in ("https://evil.example", "https://app.example.evil.example", "null"):
        answer = requests.get(f"{server.url}/status", headers={**asks, "origin": origin}, timeout=60)
        assert answer.status_code == 403 and "access-control-allow-origin" not in answer.headers


def secured(port, authority, **certificate):
    """Returns a TLS connection to a port of lines."""
    context = ssl.create_default_context(cafile=str(authority))
    if certificate:
        context.load_cert_chain(**certificate)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=60), server_hostname="127.0.0.1")


def stored(server, authority, **certificate):
    """Returns the number of samples by measurement."""
    cert = tuple(map(str, certificate.values())) or None
    latest = requests.get(f"{server.url}/api/v1/latest", params={"select": "{}"}, verify=str(authority), cert=cert, timeout=60).json()
    return {series["measurement"]: series["values"][0] for series in latest["series"]}


def pickled(value):
    body = pickle.dumps([("graphite.pickled", (BEGIN, value))], protocol=2)
    return struct.pack(">I", len(body)) + body


def test_lines_over_tcp_are_encrypted(serve, tmp_path):
    authority, certificate, key = certificates(tmp_path)
    ports = {name: free_port() for name in ("line_tcp", "graphite_listen", "graphite_pickle_listen", "opentsdb_listen")}
    addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    server = serve(tls_certificate=certificate, tls_key=key, **addresses)
    texts = {
        "line_tcp": f"line x=%d {BEGIN * 10**9}\n".encode(),
        "graphite_listen": f"graphite.plain %d {BEGIN}\n".encode(),
        "opentsdb_listen": f"put tsdb {BEGIN} %d host=a\n".encode(),
    }
    for name, port in ports.items():
        plain, encrypted_ = (texts[name] % value if name in texts else pickled(value) for value in (1, 2))
        with socket.create_connection(("127.0.0.1", port), timeout=60) as unencrypted:
            unencrypted.sendall(plain)
            assert unencrypted.recv(100)[:1] in (b"", b"\x15")
        with secured(port, authority) as connection:
            connection.sendall(encrypted_)
    until(lambda: len(stored(server, authority)) == 4, "samples over TLS are missing")
    assert set(stored(server, authority).values()) == {2}
    log = server.log.read_text()
    assert log.count("because it was not encrypted") == 4 and "tls_plain_lines = true" in log
    metrics = requests.get(f"{server.url}/metrics", verify=str(authority), timeout=60).text
    assert 'seiner_ingest_rejected_rows_total{protocol="graphite"} 2' in metrics


def test_senders_of_lines_without_tls_can_be_permitted(serve, tmp_path):
    authority, certificate, key = certificates(tmp_path)
    port = free_port()
    server = serve(tls_certificate=certificate, tls_key=key, tls_plain_lines="true", line_tcp=f"127.0.0.1:{port}")
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain, secured(port, authority) as connection:
        plain.sendall(f"plain x=1 {BEGIN * 10**9}\n".encode())
        connection.sendall(f"secured x=2 {BEGIN * 10**9}\n".encode())
    until(lambda: stored(server, authority) == {"plain": 1, "secured": 2}, "samples are missing")


def test_senders_of_lines_prove_themselves_by_a_certificate(serve, tmp_path):
    authority, certificate, key = certificates(tmp_path)
    create(tmp_path / "data", "admin", "admin")
    port = free_port()
    remote = ["--allow-remote", "true", "--line-tcp", f"0.0.0.0:{port}", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"]
    denied = run("serve", *remote, "--tls-certificate", certificate, "--tls-key", key)
    assert denied.returncode == 2 and "tls_client_ca" in denied.stderr, denied.stderr
    with pytest.raises(subprocess.TimeoutExpired):
        # It serves.
        run("serve", *remote, "--tls-certificate", certificate, "--tls-key", key, "--tls-client-ca", authority, timeout=3)
    shutil.rmtree(tmp_path / "data")
    server = serve(tls_certificate=certificate, tls_key=key, tls_client_ca=authority, line_tcp=f"127.0.0.1:{port}")
    own = {"certfile": certificate, "keyfile": key}
    with pytest.raises((ssl.SSLError, ConnectionError)), secured(port, authority) as connection:
        connection.sendall(f"stranger x=1 {BEGIN * 10**9}\n".encode())
        connection.recv(1)
    with secured(port, authority, **own) as connection:
        connection.sendall(f"known x=2 {BEGIN * 10**9}\n".encode())
    until(lambda: stored(server, authority, **own) == {"known": 2}, "samples are missing, or a stranger's were stored")
