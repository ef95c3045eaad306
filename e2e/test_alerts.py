"""Alerts: rules, states, an Alertmanager, a program, and receivers that fail."""

import http.server
import json
import shutil
import subprocess
import threading
import time

import pytest
import requests

from program import PROGRAM, ROOT, environment, free_port, run, until
from test_scrape import api

RULES = """
groups:
  - name: rooms
    interval: 200ms
    limit: 5
    rules:
      - alert: RoomIsHot
        expr: climate_temperature > 30
        for: 1s
        labels: {severity: page}
        annotations: {summary: "{{ $labels.room }} has {{ $value }} degrees"}
"""


def write(server, room, temperature):
    answer = requests.post(f"{server.url}/write", data=f"climate,room={room} temperature={temperature}", timeout=60)
    assert answer.status_code == 204, answer.text


class Receiver(http.server.ThreadingHTTPServer):
    """Receiver of alerts. Its answers have the given status."""

    def __init__(self):
        self.status, self.alerts = 200, []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        assert self.path == "/prefix/api/v2/alerts"
        assert self.headers["content-type"] == "application/json"
        self.server.alerts.append((self.server.status, json.loads(body)))
        self.send_response(self.server.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def rules_file(tmp_path, text=RULES):
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    return path


def metric(server, line):
    text = requests.get(f"{server.url}/metrics", timeout=60).text
    return next(float(found.split()[1]) for found in text.splitlines() if found.startswith(line))


def test_an_alert_fires_and_is_resolved(serve, tmp_path):
    receiver = Receiver()
    receiver.status = 500
    called = tmp_path / "called"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ncat >> {called}; echo >> {called}\n")
    program.chmod(0o755)
    server = serve(
        alert_rules=rules_file(tmp_path), alertmanager=f"{receiver.url}/prefix", alert_command=program
    )  # fmt: skip
    write(server, "attic", 31.5)
    write(server, "cellar", 12)

    def states():
        return [(alert["labels"], alert["state"]) for alert in api(server, "alerts")["alerts"]]

    labels = {"alertname": "RoomIsHot", "room": "attic", "severity": "page"}
    assert until(states, "no alert is pending") == [(labels, "pending")]
    until(lambda: states() == [(labels, "firing")], "the alert does not fire")
    [group] = api(server, "rules")["groups"]
    [rule] = group["rules"]
    assert (group["name"], rule["name"], rule["state"], rule["health"]) == ("rooms", "RoomIsHot", "firing", "ok")
    assert group["limit"] == 5
    assert rule["duration"] == 1 and rule["query"] == "climate_temperature > 30"
    # The program took the alert, so it is not sent to the program again.
    until(lambda: called.exists() and called.read_text().count("\n") == 1, "the program is not called")
    until(lambda: receiver.alerts, "the Alertmanager is not called")
    receiver.status = 200
    write(server, "attic", 21)
    until(lambda: states() == [], "the alert is not resolved")
    until(lambda: called.read_text().count("\n") == 2, "the program does not hear of the end")
    fired, resolved = [json.loads(line) for line in called.read_text().splitlines()]
    assert fired[0]["labels"] == resolved[0]["labels"] == labels
    assert fired[0]["annotations"] == {"summary": "attic has 31.5 degrees"}
    assert fired[0]["startsAt"] == resolved[0]["startsAt"] < resolved[0]["endsAt"] < fired[0]["endsAt"]
    answer = requests.get(fired[0]["generatorURL"].replace("127.0.0.1:0", server.url.removeprefix("http://")), timeout=60)
    assert answer.json()["status"] == "success"
    until(lambda: any(alerts[0]["endsAt"] == resolved[0]["endsAt"] for _, alerts in receiver.alerts), "no end is sent")
    assert metric(server, 'seiner_alert_messages_total{result="failed"}') > 0
    assert metric(server, 'seiner_alerts{state="firing"}') == 0


def series(server, query):
    found = api(server, "query", query=query)["result"]
    return sorted((one["metric"].get("alertstate") or one["metric"].get("floor"), float(one["value"][1])) for one in found)


def test_alerts_go_on_after_a_restart(serve, tmp_path):
    # Regression: states were lost, so each alert was pending anew.
    short = "      - alert: Wait\n        expr: climate_temperature > 30\n        for: 1h\n"
    server = serve(alert_rules=rules_file(tmp_path, RULES + short))
    write(server, "attic", 31.5)

    def states():
        return {alert["labels"]["alertname"]: (alert["state"], alert["activeAt"]) for alert in api(server, "alerts")["alerts"]}

    until(lambda: states().get("RoomIsHot", ("",))[0] == "firing", "the alert does not fire")
    assert states()["Wait"][0] == "pending"
    until(lambda: series(server, "ALERTS") == [("firing", 1), ("pending", 1)], "the states are not stored")
    [(_, stored)] = series(server, 'ALERTS_FOR_STATE{alertname="RoomIsHot"}')
    assert abs(stored - time.time()) < 60
    time.sleep(1.5)
    before = states()
    for stop in (server.stop, server.kill):
        stop()
        server.start()
        until(lambda: len(states()) == 2, "there are no alerts")
        after = states()
        # With a rule of a second, a new alert would not fire with the first evaluation.
        assert after["RoomIsHot"][0] == "firing" and after["Wait"][0] == "pending", after
        assert after["RoomIsHot"][1][:22] == before["RoomIsHot"][1][:22]
        # The time without a server does not count for an alert that is pending.
        assert before["Wait"][1][:19] <= after["Wait"][1][:19]
    # An alert that ended without a server does not go on when it comes back after another start.
    for temperature in (20, 31.5):
        server.stop()
        (tmp_path / "line").write_text(f"climate,room=attic temperature={temperature} {time.time_ns()}")
        done = run("write", "--data", server.data, tmp_path / "line")
        assert done.returncode == 0, done.stderr
        server.start()
        until(lambda: api(server, "rules")["groups"][0]["rules"][1]["health"] == "ok", "the rules are not evaluated")
        assert bool(states()) == (temperature > 30)
    assert states()["RoomIsHot"][1][:19] > after["RoomIsHot"][1][:19]
    write(server, "attic", 20)
    until(lambda: series(server, "ALERTS") == [], "the series of the alerts do not end")


def test_recording_rules_store_series(serve, tmp_path):
    text = """
groups:
  - name: floors
    interval: 200ms
    labels: {team: house}
    rules:
      - record: floor:temperature:mean
        expr: avg by (floor) (climate_temperature)
      - record: floors:hot:count
        expr: count(floor:temperature:mean > 25)
        labels: {team: ""}
"""
    path = rules_file(tmp_path, text)
    server = serve(alert_rules=path)

    def line(floor, room, temperature):
        body = f"climate,floor={floor},room={room} temperature={temperature}"
        assert requests.post(f"{server.url}/write", data=body, timeout=60).status_code == 204

    line("up", "attic", 31)
    line("up", "bath", 27)
    line("down", "cellar", 12)
    until(lambda: series(server, "floor:temperature:mean") == [("down", 12), ("up", 29)], "the means are not stored")
    until(lambda: series(server, "floors:hot:count") == [(None, 1)], "a rule does not use the one before it")
    assert api(server, "query", query='floor:temperature:mean{floor="up",team="house"}')["result"]
    assert not api(server, "query", query='floors:hot:count{team="house"}')["result"]
    found = [(rule["type"], rule["name"], rule["health"], "alerts" in rule) for rule in api(server, "rules")["groups"][0]["rules"]]
    assert found == [("recording", "floor:temperature:mean", "ok", False), ("recording", "floors:hot:count", "ok", False)]
    # A result that is empty ends the series, and so does the removal of the rule.
    line("up", "attic", 2)
    until(lambda: series(server, "floors:hot:count") == [], "the series does not end with its result")
    path.write_text(text.replace("record: floor:", "record: other:"))
    until(lambda: series(server, "floor:temperature:mean") == [], "the series does not end with its rule")
    assert series(server, "other:temperature:mean")
    rows = metric(server, 'seiner_ingest_rows_total{protocol="rules"')
    time.sleep(1)
    assert metric(server, 'seiner_ingest_rows_total{protocol="rules"') > rows


def test_changed_rules_are_read_while_the_server_runs(serve, tmp_path):
    path = rules_file(tmp_path)
    server = serve(alert_rules=path)
    write(server, "attic", 31.5)
    firing = lambda: [alert["state"] for alert in api(server, "alerts")["alerts"]] == ["firing"]  # noqa: E731
    until(firing, "the alert does not fire")
    [since] = [alert["activeAt"] for alert in api(server, "alerts")["alerts"]]
    # A broken file changes nothing, and the log names the place.
    path.write_text(RULES.replace("alert: RoomIsHot", "alert: [RoomIsHot"))
    until(lambda: "the rules stay as they are: " in server.log.read_text(), "the error is not logged")
    [line] = [line for line in server.log.read_text().splitlines() if "stay as they are" in line]
    assert " ERROR " in line and "rules.yaml" in line and "line " in line, line
    assert firing()
    # A new rule begins, and the alert of the other one goes on.
    new = "      - alert: RoomIsCold\n        expr: climate_temperature < 40\n"
    path.write_text(RULES + new)
    names = lambda: [rule["name"] for rule in api(server, "rules")["groups"][0]["rules"]]  # noqa: E731
    until(lambda: names() == ["RoomIsHot", "RoomIsCold"], "the new rule is not read")
    until(lambda: len(api(server, "alerts")["alerts"]) == 2, "the new rule is not evaluated")
    hot = [alert for alert in api(server, "alerts")["alerts"] if alert["labels"]["alertname"] == "RoomIsHot"]
    assert [(alert["state"], alert["activeAt"]) for alert in hot] == [("firing", since)]
    # Without rules, there are no alerts.
    path.write_text("groups: []")
    until(lambda: api(server, "alerts")["alerts"] == [], "the alerts stay")
    path.write_text(RULES)
    until(firing, "the rules do not come back")


def test_messages_are_sent_again_until_the_receiver_takes_them(serve, tmp_path):
    receiver = Receiver()
    receiver.status = 503
    server = serve(alert_rules=rules_file(tmp_path), alertmanager=f"{receiver.url}/prefix")
    write(server, "attic", 31.5)
    until(lambda: len(receiver.alerts) >= 3, "the message is not repeated")
    receiver.status = 200
    until(lambda: any(status == 200 for status, _ in receiver.alerts), "the message is not taken")
    taken = len(receiver.alerts)
    time.sleep(1)
    assert len(receiver.alerts) <= taken + 1, "a message that was taken is repeated only after a minute"


def test_rules_that_fail_are_shown_and_others_go_on(serve, tmp_path):
    text = RULES + """
      - alert: Twice
        expr: '{__name__=~"climate_.*"}'
      - alert: Text
        expr: '"text"'
"""
    server = serve(alert_rules=rules_file(tmp_path, text))
    requests.post(f"{server.url}/write", data="climate,room=a temperature=31,humidity=2", timeout=60)
    until(lambda: any(one["labels"]["alertname"] == "RoomIsHot" for one in api(server, "alerts")["alerts"]), "no alert")
    found = {rule["name"]: rule for rule in api(server, "rules")["groups"][0]["rules"]}
    assert "same labels" in found["Twice"]["lastError"] and found["Twice"]["health"] == "err"
    assert "text" in found["Text"]["lastError"]
    assert found["RoomIsHot"]["health"] == "ok"
    assert metric(server, 'seiner_alert_evaluations_total{result="failed"}') >= 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [("groups: [{name: g, rules: [{record: a, expr: b, for: 1m}]}]", "rule 1 \"a\""), ("groups: 1", "rules.yaml"), (None, "cannot be read")],
)  # fmt: skip
def test_a_bad_file_stops_the_start(tmp_path, text, reason):
    path = rules_file(tmp_path, text) if text else tmp_path / "none.yaml"
    arguments = ["serve", "--data", tmp_path / "data", "--listen", "127.0.0.1:0", "--alert-rules", path]
    done = subprocess.run([PROGRAM, *arguments], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "alert_rules" in done.stderr and reason in done.stderr, done.stderr


def test_the_rules_for_the_store_itself_are_quiet_on_a_sound_store(serve, tmp_path):
    rules = (ROOT / "deploy/alerts/seiner.yaml").read_text()
    hasty = rules.replace("  - name: seiner\n", "  - name: seiner\n    interval: 200ms\n")
    assert hasty != rules
    port = free_port()
    server = serve(
        listen=f"127.0.0.1:{port}", alert_rules=rules_file(tmp_path, hasty), scrape=f"name=seiner,targets=127.0.0.1:{port},interval=200ms"
    )  # fmt: skip

    def found():
        return {rule["name"]: rule for rule in api(server, "rules")["groups"][0]["rules"]}

    until(lambda: api(server, "query", query="seiner_rows_accepted_total")["result"], "the server does not scrape itself")
    # Rules that were first evaluated before the first scrape are evaluated again.
    until(lambda: all(rule["health"] == "ok" for rule in found().values()), "a rule is not evaluated")
    until(lambda: found()["SeinerIsSilent"]["state"] == "inactive", "the metrics are not noticed")
    for name, rule in found().items():
        assert rule["state"] == "inactive", (name, rule)
    # Every metric of the rules exists on this server.
    metrics = {name for rule in found().values() for name in rule["query"].replace("(", " ").split() if name.startswith("seiner_")}
    assert len(metrics) > 8
    for name in metrics - {"seiner_scrape_failures_total[5m])"}:
        name = name.split("[")[0].rstrip(")")
        assert api(server, "query", query=f"count({name})")["result"] or "rejected" in name, name


NUMBERS = [0, 1, -1, 0.12, 1234.5, -0.00123, 12345, 99999.5, 86465.7, -183845, 123456789, 1e17, 1.5e-20, 1435065584.128]
TEMPLATES = [
    "{{ $value | humanize }}", "{{ humanize1024 $value }}", "{{ $value | humanizeDuration }}", "{{ humanizePercentage $value }}",
    "{{ $value | printf `%.2f` }}", "{{ printf `%.3e and %.2g of %s: 5%%` $value $value $labels.host }}", "{{ printf `%f` $value }}",
    "{{ $labels.host | stripPort | toUpper | title }}", "{{ $labels.text | title }} {{ toLower $labels.text }}", "{{ print `a\tb` }}", "LABELS = {{ $labels }}",
]  # fmt: skip


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed: run scripts/need.sh prometheus")
def test_templates_give_the_texts_of_promtool(serve, tmp_path):
    times = [n for n in NUMBERS if 0 <= n < 9e9]
    annotations = {f"a{n}": text for n, text in enumerate(TEMPLATES)}
    rules = [
        {"alert": "Shown", "expr": "shown", "annotations": annotations},
        {"alert": "Time", "expr": "shown >= 0 and shown < 9e9", "annotations": {"time": "{{ $value | humanizeTimestamp }}"}},
    ]
    # JSON is YAML as well.
    path = rules_file(tmp_path, json.dumps({"groups": [{"name": "g", "interval": "200ms", "rules": rules}]}))
    server = serve(alert_rules=path)
    labels = {"host": "nas.example:9100", "text": "Two words"}
    lines = [f"shown,n={n},host=nas.example:9100,text=Two\\ words value={value!r}" for n, value in enumerate(NUMBERS)]
    assert requests.post(f"{server.url}/write", data="\n".join(lines), timeout=60).status_code == 204
    count = len(NUMBERS) + len(times)
    found = until(lambda: (found := api(server, "alerts")["alerts"]) and len(found) == count and found, "alerts are missing")
    cases = []
    for rule in ("Shown", "Time"):
        alerts = [alert for alert in found if alert["labels"]["alertname"] == rule]
        expected = [
            {
                "exp_labels": {name: value for name, value in alert["labels"].items() if name != "alertname"},
                "exp_annotations": alert["annotations"],
            }
            for alert in alerts
        ]
        cases.append({"eval_time": "0m", "alertname": rule, "exp_alerts": expected})
    series = [
        {"series": f'shown{{n="{n}",host="{labels["host"]}",text="{labels["text"]}"}}', "values": repr(value)}
        for n, value in enumerate(NUMBERS)
    ]
    case = {"interval": "1m", "input_series": series, "alert_rule_test": cases}
    (tmp_path / "test.yaml").write_text(json.dumps({"rule_files": [str(path)], "evaluation_interval": "1m", "tests": [case]}))
    done = subprocess.run(["promtool", "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum("a0" in alert["annotations"] for alert in found) == len(NUMBERS)


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed: run scripts/need.sh prometheus")
def test_promtool_accepts_the_rules_for_the_store():
    done = subprocess.run(
        ["promtool", "check", "rules", ROOT / "deploy/alerts/seiner.yaml"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    not shutil.which("prometheus-alertmanager"),
    reason="prometheus-alertmanager is not installed: run scripts/need.sh alertmanager",
)
def test_alertmanager_takes_the_alerts(serve, tmp_path):
    ports = []
    for _ in range(2):
        ports.append(free_port())
    settings = tmp_path / "alertmanager.yml"
    settings.write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    with open(tmp_path / "alertmanager.log", "wb") as log:
        manager = subprocess.Popen(
            [
                "prometheus-alertmanager", f"--config.file={settings}", f"--storage.path={tmp_path / 'alertmanager'}",
                f"--web.listen-address=127.0.0.1:{ports[0]}", "--cluster.listen-address=",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    url = f"http://127.0.0.1:{ports[0]}"
    try:
        server = serve(alert_rules=rules_file(tmp_path), alertmanager=url)
        write(server, "attic", 31.5)

        def alerts(state):
            try:
                found = requests.get(f"{url}/api/v2/alerts", params={"active": "true"}, timeout=10).json()
            except requests.ConnectionError:
                return []
            return [one for one in found if one["status"]["state"] == state]

        [alert] = until(lambda: alerts("active"), "Alertmanager has no alert")
        assert alert["labels"] == {"alertname": "RoomIsHot", "room": "attic", "severity": "page"}
        write(server, "attic", 20)
        until(lambda: not alerts("active"), "Alertmanager does not hear of the end")
    finally:
        manager.kill()
        manager.wait()
