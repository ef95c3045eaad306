"""Commands of docs/import.md. Every imported value is compared with Python's CSV reader."""

import csv
import gzip
import json
import math
import os
import re
import shlex
import struct
from datetime import datetime, timezone
from pathlib import Path

import numpy
import pytest

from program import ROOT, run

PAGE = ROOT / "docs/import.md"
DATASETS = Path(os.environ.get("SEINER_DATASETS", ROOT / "../shared/datasets"))
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def commands():
    """Returns the arguments of each import on the page, by the name of its file."""
    found = {}
    for line in re.findall(r"^seiner (import csv .*)$", PAGE.read_text(), re.MULTILINE):
        arguments = shlex.split(line)
        found[arguments[-1]] = arguments[:-1]
    return found


COMMANDS = commands()


def test_the_page_has_eight_commands():
    assert len(COMMANDS) == 8
    assert set(COMMANDS) == set(SHAPES)


# Files in the form of each dataset: header, units, peculiarities


def float32_as_double(number):
    return repr(float(numpy.float32(number)))


def nab_cloudwatch(dice):
    yield ["series", "ts", "value"]
    for series in ("ec2_cpu_utilization_24ae8d", "elb_request_count_8c0756"):
        ts = 1_392_388_200
        for _ in range(400):
            row = [series, ts, dice.choice(["0.0", "0.132", "0.134", "1.73"])]
            # Some rows occur twice.
            yield from [row] * dice.choice([1] * 30 + [2])
            ts += dice.choice([300] * 30 + [900])


def live_collectd(dice):
    yield ["series", "ts", "value"]
    for series, counter in (("cpu-0.cpu-idle.value", True), ("interface-eth0.if_octets.rx", True), ("load.load.a", False)):
        ts, total = 1_795_238_428_644, 74_892.0
        for _ in range(400):
            total += dice.randrange(2_000)
            row = [series, ts, total if counter else dice.random() * 4]
            yield from [row] * dice.choice([1] * 9 + [2])
            ts += dice.choice([1_000] * 5 + [987, 1_013, 4_021])


def oxford_accel(dice):
    yield ["series", "ts", "accuracy", "ax", "ay", "az"]
    for series in ("Nexus_Jamie_Hard_InHand_1", "Nexus_Jamie_Hard_InHand_2"):
        ts = 263_239_144_953_734
        for _ in range(600):
            yield [series, ts, dice.randrange(4), *(str(numpy.float32(dice.gauss(0, 9))) for _ in range(3))]
            ts += 5_035_400 + dice.randrange(-9_000, 9_000)


def gps_delivery(dice):
    yield ["series", "ts", "x", "y"]
    for series in range(40):
        ts = -188_438_400_000_000_000 + series
        for _ in range(dice.randrange(1, 60)):
            yield [f"trajectory_{series:04}", ts, repr(dice.gauss(0, 200)), repr(dice.gauss(0, 200))]
            ts += 5_005_000_208 + dice.randrange(10**6)


def wind_scada(dice):
    names = ["Ba_avg", "P_avg", "Ws_avg", "Va_avg", "Ot_avg", "Ya_avg", "Wa_avg"]
    yield ["series", "ts", *names]
    ts = 1_388_534_400
    for row in range(700):
        # A few cells are missing, and sometimes a whole row.
        missing = 1.0 if row % 211 == 13 else 0.02
        yield ["R80711", ts, *("" if dice.random() < missing else float32_as_double(dice.gauss(5, 90)) for _ in names)]
        ts += dice.choice([600] * 60 + [0, 1_200])


def pv_power(dice):
    yield ["series", "ts", "value"]
    for series in ("serf_east_1min_ac_power", "module_temperature"):
        for n in range(500):
            value = 0 if n % 5 == 0 else round(dice.gauss(500, 300), 4)
            yield [series, 1_647_603_180 + 60 * n, value]


def surfrad_weather(dice):
    names = (
        "zenith,dw_solar,uw_solar,direct_n,diffuse,dw_ir,dw_casetemp,dw_dometemp,uw_ir,uw_casetemp,uw_dometemp,uvb,par,"
        "netsolar,netir,totalnet,temp,rh,windspd,winddir,pressure"
    ).split(",")
    yield ["ts", *names]
    for n in range(300):
        yield [1_451_606_400 + 60 * n, *("-9999.9" if dice.random() < 0.1 else f"{dice.gauss(0, 300):.1f}" for _ in names)]


def uci_airquality(dice):
    names = "CO_GT,PT08_S1_CO,NMHC_GT,C6H6_GT,PT08_S2_NMHC,NOx_GT,PT08_S3_NOx,NO2_GT,PT08_S4_NO2,PT08_S5_O3,T,RH,AH".split(",")
    yield ["ts", *names]
    for n in range(300):
        cells = []
        for name in names:
            number = f"{dice.gauss(20, 9):.4f}" if name in ("T", "RH", "AH", "CO_GT", "C6H6_GT") else dice.randrange(2_000)
            cells.append("-200" if dice.random() < 0.2 else number)
        yield [1_078_941_600 + 3_600 * n, *cells]


SHAPES = {
    f"{shape.__name__}.csv.gz": shape
    for shape in (
        nab_cloudwatch,
        live_collectd,
        oxford_accel,
        gps_delivery,
        wind_scada,
        pv_power,
        surfrad_weather,
        uci_airquality,
    )
}


def option(arguments, name, default=None):
    return arguments[arguments.index(name) + 1] if name in arguments else default


def expected(path, arguments):
    """Returns the texts of Python's reader by (tags, field) and time. The last text of a time counts."""
    tags = (option(arguments, "--tag-columns") or "").split(",")
    unit = UNITS[option(arguments, "--time-unit", "s")]
    missing = {"", *(option(arguments, "--missing") or "").split(",")}
    series = {}
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            source = tuple((tag, row.pop(tag)) for tag in tags if tag in row)
            ts = int(row.pop("ts")) * unit
            for field, text in row.items():
                if text not in missing:
                    series.setdefault((source, field), {})[ts] = text
    return series


def same(kind, value, text):
    """Returns true if a value equals, bit by bit, the value that the text denotes."""
    if kind in ("i64", "u64"):
        return value == int(text)
    if kind == "f32":
        return numpy.float32(value).tobytes() == numpy.float32(text).tobytes()
    assert kind == "f64", kind
    return struct.pack("d", value) == struct.pack("d", float(text)) and not math.isnan(value)


def check_import(path, name, folder):
    arguments = [text if text != "./seiner-data" else str(folder) for text in COMMANDS[name]]
    assert str(folder) in arguments
    done = run(*arguments, path)
    assert done.returncode == 0, done.stderr
    assert "0 rejected" in done.stderr
    answer = run(
        "query", f"{name.split('.')[0]}{{}}", "--data", folder, "--format", "json", "--from", -(2**63), "--to", 2**63 - 1
    )
    assert answer.returncode == 0, answer.stderr
    found = {(tuple(series["tags"].items()), series["field"]): series for series in json.loads(answer.stdout)["series"]}
    wanted = expected(path, arguments)
    assert set(found) == set(wanted)
    values = 0
    for key, texts in wanted.items():
        series = found[key]
        assert series["times"] == sorted(texts), key
        for ts, value in zip(series["times"], series["values"]):
            assert same(series["type"], value, texts[ts]), f"{key} at {ts}: {texts[ts]!r} came back as {value!r}"
            values += 1
    assert values == sum(map(len, wanted.values())) > 0
    return values


@pytest.mark.parametrize("name", SHAPES)
def test_a_generated_file_is_imported(name, tmp_path, dice):
    path = tmp_path / name
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows(SHAPES[name](dice))
    first = check_import(path, name, tmp_path / "data")
    # A second import changes nothing.
    assert check_import(path, name, tmp_path / "data") == first


@pytest.mark.parametrize("name", SHAPES)
def test_the_original_file_is_imported(name, tmp_path):
    path = DATASETS / name
    if not path.is_file():
        pytest.skip(f"{name} is not at hand; SEINER_DATASETS names a folder with it")
    print(f"{name}: {check_import(path, name, tmp_path / 'data')} values, all equal")


def test_32_bit_floats_are_detected(tmp_path, dice):
    """Noise of 32-bit floats is stored as such. Doubles stay where they take as little space, or are exact."""
    path = tmp_path / "mixed.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["ts", "short", "double", "decimal", "other"])
        for row in range(500):
            single = numpy.float32(dice.gauss(0, 9))
            writer.writerow([row, single, repr(float(single)), f"{dice.gauss(20, 3):.1f}", repr(dice.random())])
    assert types(tmp_path / "first", path) == {"short": "f32", "double": "f64", "decimal": "f64", "other": "f64"}
    assert types(tmp_path / "second", path, "--types", "short=f64")["short"] == "f64"
    # A later file follows the types that the store has.
    more = tmp_path / "more.csv"
    more.write_text("ts,short,double\n1000,1.9400482,7\n")
    found = types(tmp_path / "first", more, "--measurement", "mixed")
    assert (found["short"], found["double"]) == ("f32", "f64")


def types(folder, *arguments):
    """Imports a file and returns the types of its fields."""
    done = run("import", "csv", "--data", folder, *arguments)
    assert done.returncode == 0, done.stderr
    answer = run("query", "mixed{}", "--data", folder, "--format", "json", "--from", 0, "--to", 2**63 - 1)
    assert answer.returncode == 0, answer.stderr
    return {series["field"]: series["type"] for series in json.loads(answer.stdout)["series"]}


def test_a_new_store_has_large_blocks(tmp_path):
    path = tmp_path / "m.csv"
    path.write_text("ts,v\n1,1.5\n")

    def block_bytes(folder, *flags):
        done = run("import", "csv", "--data", tmp_path / folder, *flags, path)
        assert done.returncode == 0, done.stderr
        rules = (tmp_path / folder / "rules").read_bytes().decode("utf-8", "replace")
        return re.search(r"block_bytes\W+(\d+)", rules)[1], done.stderr

    assert block_bytes("a")[0] == "65536"
    assert block_bytes("b", "--block-bytes", "8KiB")[0] == "8192"
    size, note = block_bytes("a", "--block-bytes", "8KiB")
    assert size == "65536" and "keeps its rules" in note


def raw_airquality(path, rows):
    """Writes rows in the form of the original file: date and time of day apart, decimal commas, empty cells at the end."""
    with open(path, "w", newline="") as file:
        names = [name for name in rows[0] if name != "ts"]
        file.write(";".join(["Date", "Time", *names, "", ""]) + "\r\n")
        for row in rows:
            when = datetime.fromtimestamp(int(row["ts"]), timezone.utc)
            cells = [row[name].replace(".", ",") for name in names]
            file.write(";".join([f"{when:%d/%m/%Y}", f"{when:%H.%M.%S}", *cells, "", ""]) + "\r\n")
        file.write(";" * (len(names) + 3) + "\r\n")


def test_dates_in_two_columns_are_detected(tmp_path, dice):
    """The same rows with epochs and in the original form of the file give the same values."""
    path = DATASETS / "uci_airquality.csv.gz"
    if path.is_file():
        with gzip.open(path, "rt", newline="") as file:
            rows = list(csv.DictReader(file))
    else:
        header, *cells = uci_airquality(dice)
        rows = [dict(zip(header, map(str, row))) for row in cells]
    raw_airquality(tmp_path / "raw.csv", rows)
    done = run("import", "csv", "--data", tmp_path / "data", "--missing", "-200", tmp_path / "raw.csv", "--allow-empty")
    assert done.returncode == 0, done.stderr
    assert "read as %d/%m/%Y %H.%M.%S" in done.stderr
    answer = run("query", "raw{}", "--data", tmp_path / "data", "--format", "json", "--from", 0, "--to", 2**63 - 1)
    found = {series["field"]: series for series in json.loads(answer.stdout)["series"]}
    for name in rows[0]:
        wanted = [(int(row["ts"]) * 10**9, row[name]) for row in rows if row[name] not in ("", "-200")]
        if name == "ts" or not wanted:
            continue
        series = found[name]
        assert series["times"] == [ts for ts, _ in wanted], name
        assert all(same(series["type"], value, text) for value, (_, text) in zip(series["values"], wanted)), name


def test_json_lines_come_back_bit_by_bit(tmp_path, dice):
    path = tmp_path / "readings.jsonl.gz"
    rows = []
    for n in range(1500):
        number = struct.unpack("d", struct.pack("Q", dice.getrandbits(64)))[0]
        rows.append(
            {
                "time": 1_795_238_428_000 + n,
                "device": dice.choice(["a", "b"]),
                "deep": {"double": number if math.isfinite(number) else None, "list": [n] if n == 7 else None},
                "count": dice.getrandbits(63),
                "on": dice.random() < 0.5,
                "state": dice.choice(["idle", "a \"b\" \u00fc\U0001f600"]),
            }
        )
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
        file.write('{"time": 1795238430000, "device"\n')
    rejects = tmp_path / "rejects.csv"
    done = run("import", "json", "--data", tmp_path / "data", "--tag-columns", "device", "--rejects", rejects, path)
    assert done.returncode == 1, done.stderr
    assert "1500 rows imported, 1 rejected, 1 cells rejected" in done.stderr
    with open(rejects, newline="") as file:
        assert [row["line"] + row["column"] for row in csv.DictReader(file)] == ["8deep.list", "1501"]
    answer = run("query", "readings{}", "--data", tmp_path / "data", "--format", "json", "--from", 0, "--to", 2**63 - 1)
    found = {(series["tags"]["device"], series["field"]): series for series in json.loads(answer.stdout)["series"]}
    for device in "ab":
        for field in ("deep.double", "count", "on", "state"):
            path = field.split(".")
            wanted = [(row["time"] * 10**6, row[path[0]][path[1]] if path[1:] else row[field]) for row in rows if row["device"] == device]
            series = found[device, field]
            wanted = [(ts, value) for ts, value in wanted if value is not None]
            assert list(zip(series["times"], series["values"])) == wanted, field


def test_all_rows_that_a_server_rejects_are_listed(serve, tmp_path):
    """A server lists 100 rejected rows of a request. The file has all of them."""
    server = serve()
    (tmp_path / "first.csv").write_text("ts,v\n1700000000,1\n")
    assert run("import", "csv", "--server", server.url, "--measurement", "m", tmp_path / "first.csv").returncode == 0
    rows = [f"{1_700_000_001 + n},{n}.5" if n % 3 else f"{1_700_000_001 + n}," for n in range(1000)]
    (tmp_path / "second.csv").write_text("ts,v,w\n" + "".join(f"{row},7\n" for row in rows))
    rejects = tmp_path / "rejects.csv"
    done = run("import", "csv", "--server", server.url, "--measurement", "m", "--rejects", rejects, tmp_path / "second.csv")
    assert done.returncode == 1
    assert "334 rows imported, 666 rejected" in done.stderr and "lists all rejected" in done.stderr
    with open(rejects, newline="") as file:
        listed = list(csv.DictReader(file))
    assert [int(row["line"]) for row in listed] == [n + 2 for n in range(1000) if n % 3]
    assert listed[0]["text"] == "1700000002,1.5,7"
    assert len(server.query("m")["m", "w"]["times"]) == 334


def test_a_file_is_imported_into_a_server(serve, tmp_path, dice):
    server = serve()
    path = tmp_path / "pv_power.csv.gz"
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows(pv_power(dice))
    done = run("import", "csv", "--to", server.url, "--tag-columns", "series", path)
    assert done.returncode == 0, done.stderr
    wanted = expected(path, ["--tag-columns", "series"])
    found = server.query("pv_power")
    assert len(found) == len(wanted) == 2
    for (tags, field), texts in wanted.items():
        series = found[f"pv_power,series={tags[0][1]}", field]
        assert series["times"] == sorted(texts)
        assert all(same(series["type"], value, texts[ts]) for ts, value in zip(series["times"], series["values"]))


def test_bad_rows_are_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("ts,v\n1,1.5\nyesterday,2\n3,2.5\n")
    done = run("import", "csv", "--data", tmp_path / "data", path)
    assert done.returncode == 1
    assert "2 rows imported, 1 rejected" in done.stderr
    assert ":3: " in done.stderr and "yesterday" in done.stderr
    done = run("import", "csv", "--data", tmp_path / "data", "--time-column", "time", path)
    assert done.returncode == 2
    assert "time" in done.stderr and "ts" in done.stderr


def test_a_forgotten_tag_stops_the_import(serve, tmp_path, dice):
    """Imports the file with the tag through a server. A second import changes nothing."""
    server = serve()
    path = tmp_path / "live_collectd.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(live_collectd(dice))
    forgotten = run("import", "csv", "--to", server.url, "--time-unit", "ms", path)
    assert forgotten.returncode == 1
    assert "is \"series\" a tag? --tag-columns series" in forgotten.stderr
    assert server.query("live_collectd") == {}
    for note in (False, True):
        done = run("import", "csv", "--to", server.url, "--time-unit", "ms", "--tag-columns", "series", path)
        assert done.returncode == 0, done.stderr
        assert ("samples of live_collectd in this time already" in done.stderr) == note


def test_a_sensor_goes_on_after_its_file_was_imported_as_32_bit_floats(serve, tmp_path, dice):
    """Without --types, the import chooses f32. Lines of the same sensor are stored in this type if nothing is lost."""
    path = tmp_path / "acc.csv"
    texts = [str(numpy.float32(dice.gauss(0, 9))) for _ in range(3000)]
    path.write_text("ts,ax\n" + "".join(f"{1_700_000_000 + n},{text}\n" for n, text in enumerate(texts)))
    done = run("import", "csv", "--data", tmp_path / "data", path)
    assert done.returncode == 0 and "ax: 32-bit floats" in done.stderr, done.stderr
    server = serve()
    assert server.write("acc ax=21.37 1800000000\nacc ax=1.5 1800000001\n", precision="s").status_code == 204
    answer = server.write("acc ax=0.30000000000000004 1800000002\n", precision="s")
    assert answer.status_code == 400 and "f32" in answer.text
    [series] = server.query("acc").values()
    assert series["type"] == "f32" and len(series["values"]) == 3002
    assert series["values"][-2:] == [21.37, 1.5]
