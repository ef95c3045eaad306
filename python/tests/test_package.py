"""Tests of the README's example and of the stubs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import seiner
from seiner import _seiner

PYTHON = Path(__file__).parents[1]


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PYTHON / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 2
    program = "import warnings; warnings.simplefilter('error')\n" + "\n".join(blocks)
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "sensors").is_dir()


def stubbed() -> dict[str, set[str]]:
    """Returns the names in the stubs: of the module, and of each class."""
    names: dict[str, set[str]] = {"": set()}
    for node in ast.parse((PYTHON / "python/seiner/_seiner.pyi").read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names[""].add(node.name)
        if isinstance(node, ast.ClassDef):
            names[node.name] = {part.name for part in node.body if isinstance(part, ast.FunctionDef)} - {"__new__", "__len__", "__iter__", "__next__"}
    return names


def test_the_stubs_match_the_module() -> None:
    names = stubbed()
    assert names.pop("") == {name for name in dir(_seiner) if not name.startswith("_")}
    for name, methods in names.items():
        assert methods == {part for part in vars(getattr(_seiner, name)) if not part.startswith("__") or part == "__arrow_c_stream__"}


@pytest.mark.parametrize("name", seiner.__all__)
def test_everything_public_is_documented(name: str) -> None:
    public = getattr(seiner, name)
    if isinstance(public, str):
        return
    assert public.__doc__
    if isinstance(public, type) and public.__module__.startswith("seiner") and not issubclass(public, Exception):
        for part, value in vars(public).items():
            if not part.startswith("_") and callable(value):
                assert value.__doc__, f"{name}.{part}"


def test_no_data_frame_library_is_imported() -> None:
    program = (
        "import sys, tempfile, numpy, seiner\n"
        "with tempfile.TemporaryDirectory() as d, seiner.open(d) as store:\n"
        "    store.append('m', None, {'time': [1, 2], 'v': [1.0, 2.0], 's': ['a', None]})\n"
        "    assert len(store.query('m').numpy()) == 2\n"
        "assert not {'pandas', 'polars', 'pyarrow', 'arro3'} & set(sys.modules), sys.modules.keys()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
