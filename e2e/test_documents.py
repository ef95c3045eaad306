"""Commands and links of the documents work as printed."""

import re
import subprocess
import sys
import time
import warnings

import pytest

from program import PROGRAM, ROOT, environment

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PORT = "127.0.0.1:7670"
COMMANDS = ("seiner query 'host_cpu", "seiner export ./files --select host_cpu")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_point_to_existing_files(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_navigation_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", navigation, re.MULTILINE)
    docs = ROOT / "docs"
    pages = sorted(page.relative_to(docs).as_posix() for page in docs.rglob("*.md"))
    listed = [page for page in listed if not page.startswith("source/")]
    assert sorted(listed) == pages, "mkdocs.yml lists every page of docs/ once"


def test_commands_work_as_printed(serve, tmp_path):
    server = serve(host_sensors="100ms")
    time.sleep(0.5)
    settings = {**environment(), "PATH": f"{PROGRAM.parent}:{environment()['PATH']}"}
    done = 0
    for page in PAGES:
        shell = [
            line
            for block in blocks(page, "sh")
            for line in block.splitlines()
            if line.startswith("curl") and PORT in line or line.startswith(COMMANDS)
        ]
        if not PROGRAM.with_name("seiner-sql").is_file():
            warnings.warn("the examples in SQL are left out: seiner-sql is missing, run `make sql`")
            shell = [line for line in shell if "/api/v1/sql" not in line]
        for line in shell:
            line = line.replace(PORT, server.address).replace("curl ", "curl -sSf ")
            if line.startswith("seiner"):
                line += f" --server {server.url}"
            reported = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path, env=settings)
            assert reported.returncode == 0, f"{page.name}: {line}\n{reported.stdout}{reported.stderr}"
            done += 1
        for program in blocks(page, "python"):
            # Programs on the files of an export run after the export of the same page.
            if PORT in program or "files/measurement=" in program:
                program = program.replace(PORT, server.address)
                # A program that reads has its result in a table; one that sends says so at its end.
                check = "\nassert table.num_rows > 0\n" if "table" in program else "\nassert provider.force_flush()\n"
                subprocess.run([sys.executable, "-c", program + check], check=True, cwd=tmp_path)
                done += 1
    assert done >= 7, "the test found too few examples in the documents"
