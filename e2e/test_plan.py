"""The planner in typical use."""

import csv
import json
import re
import time

import pytest

from program import ROOT, run
from test_datasets import DATASETS, expected
from test_documents import blocks


def plan(*arguments, **settings):
    return run("plan", *arguments, **settings)


def configuration(done):
    """Returns the configuration in the text of a plan."""
    assert done.returncode == 0, done.stderr
    return done.stdout.split("Configuration:\n")[1]


def test_a_plan_is_a_configuration_that_the_server_takes(tmp_path):
    demand = ["--sensors", "1e5", "--every", "10s", "--fields", "4", "--keep", "30d", "--ram", "8GiB", "--space", "500GB"]
    done = plan(*demand, "--tbw", "290TB", "--raid", "6:6:16KiB")
    assert done.returncode == 0, done.stderr
    for part in ("It fits one machine", "planing", "life of the SSD", "K_wa", "a power cut loses", "(paper)"):
        assert part in done.stdout
    settings = tmp_path / "seiner.toml"
    settings.write_text(configuration(done))
    assert run("config", "--config", settings).returncode == 0


def test_budget_and_classes_are_planned_and_served(tmp_path, serve):
    classes = ["--class", "raw:90%:30d:accel", "--class", "rest:10%:1y"]
    demand = ["--sensors", "1e3", "--ram", "8GiB", "--space", "500GB", "--budget", "2GiB", *classes]
    done = plan(*demand)
    assert done.returncode == 0, done.stderr
    for part in ("class raw", "2 filled of 32", "written again by merges", "2 GiB of", "(simulated)"):
        assert part in done.stdout, part
    done = plan(*demand, "--toml")
    assert done.returncode == 0, done.stderr
    settings = tmp_path / "seiner.toml"
    settings.write_text(done.stdout)
    server = serve(config=settings)
    log = server.ask("log").json()
    assert log["space"]["budget"] == 2 << 30
    assert [one["name"] for one in log["classes"]] == ["raw", "rest"]
    done = plan("--sensors", "1e4", "--space", "500GB", "--class", "raw:90%:30d:accel")
    assert done.returncode == 2 and "90.0 %" in done.stderr


def test_the_page_plans_with_the_same_code(serve, tmp_path):
    server = serve()
    asked = {"sensors": "1e5", "keep": "30d", "ram": "8GiB", "processors": "4", "space": "500GB"}
    answer = server.ask("plan", **asked)
    assert answer.status_code == 200, answer.text
    reported = answer.json()
    assert reported["fits"] and not reported["ways"]
    assert {"disk budget", "lanes", "start"} <= {figure["name"] for figure in reported["figures"]}
    settings = tmp_path / "seiner.toml"
    settings.write_text(reported["toml"])
    assert run("config", "--config", settings).returncode == 0
    rejected = server.ask("plan", sensors="many")
    assert rejected.status_code == 400 and "sensors" in rejected.json()["error"]
    silent = server.ask("plan", own="true")
    assert silent.status_code == 400 and "receives no rows at present" in silent.json()["error"]


def test_a_plan_that_does_not_fit_lists_alternatives():
    done = plan("--sensors", "1e6", "--every", "1s", "--keep", "90d", "--ram", "4GiB", "--space", "1TB")
    assert done.returncode == 0, done.stderr
    assert "It does not fit one machine" in done.stdout
    assert "What would fit" in done.stdout and "machines like this" in done.stdout
    assert "[[class]]" not in done.stdout
    done = plan("--sensors", "1e6", "--every", "1s", "--fields", "10", "--keep", "5y", "--space", "1TB", "--toml")
    assert done.returncode == 1 and done.stdout == ""
    assert "the demand does not fit" in done.stderr


def size(text):
    """Returns the bytes that a number with a unit denotes."""
    number, unit = text.split()
    return float(number) * 1024 ** ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].index(unit)


def figures(done):
    """Returns the values of a plan by the names of its figures."""
    assert done.returncode == 0, done.stderr
    lines = (re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines())
    return {parts[0]: parts[1] for parts in lines if len(parts) == 3}


def test_a_plan_without_samples_shows_the_range_of_real_sensors():
    done = plan("--sensors", "1e4", "--every", "10m", "--fields", "7", "--keep", "1y", "--space", "500GB")
    middle, low, high = re.match(r"(.*) \((.*) to (.*)\)", figures(done)["a sample on disk"]).groups()
    # A wind turbine of this shape takes 3.2 bytes.
    assert size(low) < size(middle) < 3.2 < size(high)
    assert "--like" in done.stdout


# Columns of the original files.
LIKE = {
    "nab_cloudwatch": ["--tag-columns", "series"],
    "live_collectd": ["--tag-columns", "series", "--time-unit", "ms"],
    "oxford_accel": ["--tag-columns", "series", "--time-unit", "ns"],
    "gps_delivery": ["--tag-columns", "series", "--time-unit", "ns"],
    "wind_scada": ["--tag-columns", "series"],
    "pv_power": ["--tag-columns", "series"],
    "surfrad_weather": ["--missing", "-9999.9"],
    "uci_airquality": ["--missing", "-200"],
}


def stored(serve, tmp_path, path, columns, samples, settings):
    """Returns the bytes per sample of a file in a store with these settings."""
    (tmp_path / "seiner.toml").write_text(settings)
    server = serve(config=tmp_path / "seiner.toml")
    done = run("import", "csv", "--server", server.url, "--replace", "--allow-empty", *columns, path)
    assert done.returncode == 0, done.stderr
    server.stop()
    listed = json.loads(run("ls", "--data", server.data, "--json").stdout)
    return sum(one["bytes"] for one in listed) / samples


def samples_of(path, columns):
    arguments = ["--tag-columns", "", *columns] if "--tag-columns" not in columns else columns
    return sum(map(len, expected(path, arguments).values()))


@pytest.mark.parametrize("name", LIKE)
def test_a_plan_for_samples_like_the_users_forecasts_their_bytes(serve, tmp_path, name):
    path = DATASETS / f"{name}.csv.gz"
    if not path.is_file():
        pytest.skip(f"{name} is not at hand; SEINER_DATASETS names a folder with it")
    done = plan("--like", path, *LIKE[name], "--keep", "100y", "--space", "100TiB")
    found = figures(done)
    assert found["samples are"].startswith(f"as in {name}.csv.gz")
    forecast = size(found["a sample on disk"])
    measured = stored(serve, tmp_path, path, LIKE[name], samples_of(path, LIKE[name]), configuration(done))
    print(f"{name}: {forecast} bytes forecast, {measured:.3f} measured")
    assert abs(forecast / measured - 1) < 0.15, (forecast, measured)


def test_a_plan_takes_samples_from_a_file_a_directory_and_a_server(serve, tmp_path, dice):
    """Samples with noise of 14 bits take the same space, wherever the plan reads them."""
    rows = [["sensor", "ts", "value"]]
    rows += [[f"s{sensor}", 1_700_000_000 + 10 * n, dice.randrange(2**14) / 10] for sensor in range(8) for n in range(3000)]
    path = tmp_path / "noise.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    server = serve()
    done = run("import", "csv", "--server", server.url, "--tag-columns", "sensor", path)
    assert done.returncode == 0, done.stderr
    keep = ["--keep", "30d", "--space", "100GB"]
    of_server = figures(plan("--like", server.url, *keep))
    server.stop()
    of_directory = figures(plan("--like", server.data, *keep))
    of_file = plan("--like", path, *keep)
    assert "tags are the columns sensor" in of_file.stderr
    found = [of_server, of_directory, figures(of_file)]
    sizes = [size(one["a sample on disk"]) for one in found]
    # 14 bits of noise are 1.75 bytes.
    assert all(1.7 < one < 2.2 for one in sizes), sizes
    assert all(one["samples a second"] == "0.8 (0.8 rows)" for one in found), found
    assert all("8 sources" in one["samples are"] for one in found), found
    # Other sensors with the same samples.
    more = figures(plan("--like", server.data, "--sensors", "1e6", "--every", "1m", "--keep", "30d", "--space", "100TB"))
    assert more["samples a second"] == "16\u202f667 (16\u202f667 rows)"


def test_samples_that_teach_nothing_are_rejected(tmp_path, serve):
    short = tmp_path / "short.csv"
    short.write_text("ts,v\n" + "".join(f"{n},{n}\n" for n in range(20)))
    (tmp_path / "empty").mkdir()
    for like, words in ((short, "20 rows; a plan needs 100"), (tmp_path / "none", "none"), (tmp_path / "empty", "empty")):
        done = plan("--like", like)
        assert done.returncode != 0 and words in done.stderr, (like, done.stderr)
        assert "panicked" not in done.stderr
    assert list((tmp_path / "empty").iterdir()) == [], "planning changes nothing"
    server = serve()
    done = plan("--like", server.url)
    assert done.returncode == 1 and "0 rows" in done.stderr, done.stderr
    done = plan("--like", short, "--values", "floats")
    assert done.returncode == 2 and "--values" in done.stderr


def test_a_plan_from_a_running_server(serve):
    server = serve()
    for second in range(6):
        lines = "".join(f"planned,sensor={sensor} a=1.5,b=2.5 {second + 1}\n" for sensor in range(50))
        assert server.write(lines).status_code == 204
        time.sleep(0.3)
    done = plan("--from", server.url, "--keep", "30d", "--space", "100GB")
    assert done.returncode == 0, done.stderr
    assert "samples a second" in done.stdout
    assert f"as in {server.url}: 300 rows of 50 sources" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--every", "10s"], "--sensors"),
        (["--sensors", "many"], "1e6"),
        (["--sensors", "10", "--raid", "6:2:16KiB"], "4 members"),
        (["--sensors", "10", "--disk", "/nowhere"], "/nowhere"),
        (["--sensors", "10", "--measured", "/nowhere"], "/nowhere"),
        (["--sensors", "10", "--keep", "soon"], "--keep"),
        (["--sensors", "10", "--ram", "1MiB"], "64 MiB"),
        (["--sensors", "10", "--fields", "1e9"], "1024 fields"),
    ],
)
def test_an_invalid_demand_is_rejected(arguments, reason):
    done = plan(*arguments)
    assert done.returncode == 2
    assert reason in done.stderr


# The page about capacity

CAPACITY = ROOT / "docs/capacity.md"


def near(shown, found, most=1.1):
    """Asserts that two texts have the same words, and numbers within a factor `most`. Ends of ranges, which are in
    parentheses, are within a factor of 2: they depend on the speed that the trial of the plan has."""
    number = r"\d+(?:\.\d+)?(?: (?:[KMGT]i)?B)?"
    assert re.sub(number, "N", shown) == re.sub(number, "N", found), (shown, found)
    pairs = zip(re.finditer(number, shown), re.findall(number, found))
    for one, other in pairs:
        factor = 2 if "(" in shown[: one.start()].rpartition(")")[2] else most
        one, other = (size(text) if " " in text else float(text) for text in (one.group(), other))
        assert one / factor <= other <= one * factor, (shown, found)


def test_the_plan_prints_what_the_page_about_capacity_shows():
    (command,) = [block for block in blocks(CAPACITY, "sh") if block.startswith("seiner plan")]
    (shown,) = blocks(CAPACITY, "text")
    found = figures(plan(*command.split()[2:]))
    shown = [re.split(r"\s{2,}", line) for line in shown.splitlines()]
    assert [name for name, _ in shown] == [name for name in found if name in dict(shown)]
    for name, value in shown:
        # The memory, too, depends on the speed of the trial.
        near(value, found[name], 2 if name == "memory of the store" else 1.1)


def test_a_plan_is_proved_with_the_engine(tmp_path):
    demand = ["--sensors", "2e4", "--every", "10s", "--keep", "30d", "--ram", "4GiB", "--space", "4TB"]
    done = plan(*demand, "--prove", tmp_path, "--prove-samples", "2M")
    assert done.returncode == 0, done.stderr
    assert re.search(r"Proof: \d+ sensors, \d+ rows each", done.stdout), done.stdout
    error = r"^(rows of a block|bytes written a row|memory in use, bytes) +\S+ +\S+ +([-+.\d]+)%$"
    errors = {name: float(percent) for name, percent in re.findall(error, done.stdout, re.M)}
    assert len(errors) == 3, done.stdout
    # Few samples are less exact than those of the proofs on the page about plans.
    assert abs(errors["bytes written a row"]) < 20 and max(map(abs, errors.values())) < 50, done.stdout
    assert list(tmp_path.iterdir()) == [], "the store of the proof was removed"


def rows_of(text, first):
    """Returns the rows of the table whose title begins with `first`, as dictionaries."""
    table = text[text.index(f"| {first} |") :].partition("\n\n")[0]
    title, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    return [dict(zip(title, row)) for row in rows]


@pytest.mark.parametrize("row", rows_of(CAPACITY.read_text(), "`--sensors`"), ids=lambda row: "-".join(row.values())[:24])
def test_plans_of_the_table_about_capacity(row):
    flags = [text for title, value in row.items() if title.startswith("`") for text in (title.strip("`"), value)]
    done = plan(*flags, "--processors", "4")
    found = figures(done)
    assert ("It fits one machine" in done.stdout) == (row["it fits"] == "yes")
    # The rows of a block, and so the bundles, depend on the speed of the processor.
    near(row["kept at the end"], found["kept at the end"].partition(",")[0], most=1.2)


def test_measured_figures_of_the_page_about_capacity_are_in_the_results():
    results, page = (ROOT / "bench/RESULTS.md").read_text(), CAPACITY.read_text()
    for row in rows_of(page, "sensors"):
        part = results[re.search(rf"\*\*\(\w\) {row['sensors']} sources x", results).start() :]
        (server,) = [found for found in rows_of(part, "server") if found["server"] == "Seiner"]
        assert list(row.values())[1:] == [server[title] for title in ("M samples per CPU-s", "peak RSS, GB", "bytes a sample")]
    part = page[page.index("| sensors | rows per sensor") :]
    cells = {found["cell"]: found for found in rows_of(results, "cell") if found["form"] == "bundles"}
    for row, name in zip(rows_of(part, "sensors"), "abc", strict=True):
        assert f"of ({name}), {row['sensors']} × {row['rows per sensor']} |" in results
        assert list(row.values())[2:] == [cells[name][title] for title in ("bytes a sample", "with names", "largest RSS, MiB")]
    core = results[results.index("## core\n") :]
    phases = {(found["case"], found["phase"]): found for found in rows_of(core, "case")}
    for row in rows_of(page, "sensors, million"):
        case = f"memory-{row['sensors, million']}M"
        start = phases[case, "start"]
        assert list(row.values())[1:] == [phases[case, "registration"]["peak, MiB"], start["peak, MiB"], start["wall, s"]]
