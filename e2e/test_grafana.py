"""The dashboards of deploy/grafana: every panel has data, asked as the data source of Grafana asks."""

import csv
import itertools
import json
import re
import time

import pytest
import requests
from program import ROOT

DASHBOARDS = sorted((ROOT / "deploy/grafana/dashboards").glob("*.json"))
SECOND = 1_000_000_000
RANGE_S = 3600
# Width of a panel in points, by which Grafana chooses the step.
POINTS = 800
# Distance of samples, as timeInterval of the data source states.
SCRAPE_S = 1
# Steps to which Grafana rounds, in seconds.
ROUND_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600)
# Sensors that this machine may lack, in the form in which the server stores its own.
MISSING = (
    "host_temp,chip=test,sensor=test,host={host} celsius=40",
    "host_disk,device=test,host={host} read_bytes_per_s=1,write_bytes_per_s=2,busy=3",
    "host_net,interface=test,host={host} rx_bytes_per_s=1,tx_bytes_per_s=2",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server with its own sensors, and with a plant of 40 sensors, of which 10 are silent."""
    from program import Server

    folder = tmp_path_factory.mktemp("grafana")
    with Server(folder / "data", folder / "log", host_sensors="1s") as server:
        deadline = time.monotonic() + 60
        # Grafana aligns the end of a range to the step, so the sensors of the host need some steps.
        while not (found := Grafana(server.url).get("query", query="count_over_time(seiner_cpu[1m]) > 12")["result"]):
            assert time.monotonic() < deadline, "the server stores no sensors of its host"
            time.sleep(0.5)
        host = found[0]["metric"]["host"]
        now = time.time_ns()
        lines = []
        for ago in range(0, RANGE_S, 30):
            at = now - ago * SECOND
            lines += [f"{line.format(host=host)} {at}" for line in MISSING]
            for sensor in range(40):
                if sensor >= 10 or ago > 1200:
                    lines.append(f"a_plant,sensor=s{sensor:02},site=n{sensor % 4} temperature={20 + sensor} {at}")
        assert server.write("\n".join(lines)).status_code == 204
        yield server


class Grafana:
    """The requests of Grafana's data source for Prometheus, with its rules for variables and macros."""

    def __init__(self, url):
        self.api = f"{url}/prometheus/api/v1/"
        self.end = time.time()
        self.start = self.end - RANGE_S
        self.variables = {}

    def answer(self, answer):
        assert answer.status_code == 200, f"{answer.url}: {answer.text}"
        body = answer.json()
        assert body["status"] == "success", body
        return body["data"]

    def get(self, path, **parameters):
        return self.answer(requests.get(self.api + path, params=parameters, timeout=60))

    def post(self, path, **parameters):
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.answer(requests.post(self.api + path, data=parameters, headers=headers, timeout=60))

    @property
    def within(self):
        return {"start": int(self.start), "end": int(self.end)}

    def step(self):
        wanted = RANGE_S / POINTS
        return max(SCRAPE_S, next(step for step in ROUND_S if step >= wanted))

    def expand(self, text):
        """Replaces macros, then variables: $name, ${name} and [[name]]."""
        step = self.step()
        rate = max(step + SCRAPE_S, 4 * SCRAPE_S)
        macros = {
            "__rate_interval": f"{rate}s",
            "__interval_ms": str(1000 * step),
            "__interval": f"{step}s",
            "__range_ms": str(1000 * RANGE_S),
            "__range_s": str(RANGE_S),
            "__range": f"{RANGE_S}s",
        }
        values = {**self.variables, **macros}

        def value(match):
            name = next(filter(None, match.groups()))
            assert name in values, f"unknown variable {name} in {text!r}"
            return values[name]

        return re.sub(r"\$(\w+)|\$\{(\w+)(?::\w+)?\}|\[\[(\w+)\]\]", value, text)

    def choices(self, variable):
        """Returns the choices of a variable, in the order in which Grafana shows them."""
        if variable["type"] == "custom":
            return variable["query"].split(",")
        assert variable["type"] == "query"
        query = self.expand(variable["query"]["query"])
        if found := re.fullmatch(r"label_names\((.+)\)", query):
            found = self.post("labels", **{"match[]": found.group(1)}, **self.within)
        elif found := re.fullmatch(r"label_values\((?:(.+),\s*)?([a-zA-Z_$][a-zA-Z0-9_.]*)\)", query):
            selector, label = found.groups()
            match = {"match[]": selector} if selector else {}
            found = self.get(f"label/{label}/values", **match, **self.within)
        elif found := re.fullmatch(r"query_result\((.+)\)", query):
            series = self.post("query", query=found.group(1), time=self.end)["result"]
            labels = (",".join(f'{name}="{value}"' for name, value in one["metric"].items()) for one in series)
            found = ["{" + text + "}" for text in labels]
        else:
            raise AssertionError(f"unknown query of a variable: {query}")
        return sorted(found, reverse=variable["sort"] in (2, 4))

    def choose(self, variable, chosen=None):
        """Sets a variable to a choice, by default to the choice when a dashboard is opened."""
        choices = self.choices(variable)
        assert choices, f"the variable {variable['name']} has no choices"
        saved = variable.get("current", {}).get("value", choices[0])
        picked = chosen or saved
        picked = picked if isinstance(picked, list) else [picked]
        if picked == ["$__all"]:
            value = variable.get("allValue") or "(" + "|".join(map(re.escape, choices)) + ")"
        else:
            assert set(picked) <= set(choices), f"{variable['name']}: {picked} are not in {choices}"
            value = picked[0] if len(picked) == 1 else "(" + "|".join(map(re.escape, picked)) + ")"
        self.variables[variable["name"]] = value

    def query(self, target):
        """Returns the series of a target of a panel."""
        expression = self.expand(target["expr"])
        if target.get("instant"):
            return expression, self.post("query", query=expression, time=self.end)["result"]
        step = self.step()
        # Grafana aligns both ends to the step.
        start, end = (at // step * step for at in (self.start, self.end))
        data = self.post("query_range", query=expression, start=start, end=end, step=step)
        assert data["resultType"] == "matrix"
        return expression, data["result"]


def read(path):
    return json.loads(path.read_text())


def variables_of(board):
    return board["templating"]["list"]


def assert_panels_have_data(grafana, board):
    for panel in board["panels"]:
        for target in panel["targets"]:
            expression, series = grafana.query(target)
            assert series, f"{board['title']}, {panel['title']}: no data for {expression}"
            for one in series:
                numbers = [float(value) for _, value in one.get("values", [one.get("value")])]
                assert any(number == number for number in numbers), f"{panel['title']}: only NaN for {expression}"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_has_data_when_a_dashboard_is_opened(server, path):
    board, grafana = read(path), Grafana(server.url)
    for variable in variables_of(board):
        grafana.choose(variable)
    assert_panels_have_data(grafana, board)


@pytest.mark.parametrize(("metric", "label"), [("a_plant_temperature", "sensor"), ("host_mem_used", "__name__")])
def test_sensors_by_any_metric_and_label(server, metric, label):
    """A metric without labels is shown by its name."""
    board, grafana = read(ROOT / "deploy/grafana/dashboards/sensors.json"), Grafana(server.url)
    chosen = {"metric": metric, "label": label}
    for variable in variables_of(board):
        grafana.choose(variable, chosen.get(variable["name"]))
    assert_panels_have_data(grafana, board)


def test_silent_sensors_are_counted(server):
    board, grafana = read(ROOT / "deploy/grafana/dashboards/sensors.json"), Grafana(server.url)
    for variable in variables_of(board):
        grafana.choose(variable, "a_plant_temperature" if variable["name"] == "metric" else None)
    panels = {panel["title"]: panel["targets"][0] for panel in board["panels"]}

    def number(title):
        _, series = grafana.query(panels[title])
        return float(series[0]["value"][1])

    assert (number("Sensors in this interval"), number("Silent sensors")) == (40, 10)
    _, longest = grafana.query(panels["Longest silence"])
    assert {one["metric"]["sensor"] for one in longest} <= {f"s{sensor:02}" for sensor in range(10)}
    # A sensor is chosen by its label, several by an alternative.
    value = next(variable for variable in variables_of(board) if variable["name"] == "value")
    grafana.choose(value, ["n0", "n1"])
    assert number("Sensors in this interval") == 20


def test_other_requests_of_the_data_source(server):
    """The button "Save & test", the metric browser and the list of rules."""
    grafana = Grafana(server.url)
    assert grafana.get("status/buildinfo")["version"] == "3.5.0"
    assert grafana.post("query", query="1+1", time=grafana.end)["result"][1] == "2"
    assert "a_plant_temperature" in grafana.get("metadata")
    assert grafana.get("rules") == {"groups": []}
    match = {"match[]": 'a_plant_temperature{site="n1"}'}
    assert len(grafana.post("series", **match, **grafana.within)) == 10
    assert grafana.post("labels", **match, **grafana.within) == ["__name__", "sensor", "site"]
    before = {"start": int(grafana.start - 3600), "end": int(grafana.start - 1800)}
    assert grafana.get("label/site/values", **match, **before) == []


def test_the_address_for_infinity(server):
    """The address in docs/grafana.md returns the columns that the page lists."""
    page = (ROOT / "docs/grafana.md").read_text()
    address = re.search(r"^http://127\.0\.0\.1:7670(/api/v1/query\S+)$", page, re.MULTILINE).group(1)
    end = time.time_ns() // 1_000_000
    address = address.replace("${__from}", str(end - 1000 * RANGE_S)).replace("${__to}", str(end))
    answer = requests.get(server.url + address, timeout=60)
    assert answer.status_code == 200, answer.text
    header, *rows = csv.reader(answer.text.splitlines())
    assert header == ["measurement", "tags", "field", "time", "mean", "max"]
    assert any(row[1].startswith("core=all,host=") for row in rows), answer.text
    assert all(abs(int(row[3]) - end) < 1000 * RANGE_S for row in rows)


def test_dashboards_have_the_form_of_grafana():
    boards = [read(path) for path in DASHBOARDS]
    assert len({board["uid"] for board in boards}) == len(boards) == 3
    source = (ROOT / "deploy/grafana/provisioning/datasources/seiner.yaml").read_text()
    uid = re.search(r"uid: (\w+)", source).group(1)
    for board in boards:
        panels = board["panels"]
        assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
        sources = [item["datasource"] for item in panels + [t for panel in panels for t in panel["targets"]]]
        sources += [variable["datasource"] for variable in variables_of(board) if variable["type"] == "query"]
        assert all(source == {"type": "prometheus", "uid": uid} for source in sources)
        for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
            beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
            above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
            assert beside or above, f"{board['title']}: panels overlap"
