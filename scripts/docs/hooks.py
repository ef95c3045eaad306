"""Hooks of MkDocs: files outside `docs/` that pages link become pages of the site, below `source/`."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent.parent
# Links of Markdown outside of code: `](target)` with an optional title.
LINK = re.compile(r"(\]\()([^)\s]+)([^)]*\))")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
# Text followed by a list of the same indentation. Python-Markdown needs an empty line before such a list.
LIST = re.compile(r"^( *)(?![-*] |\d+\. )(\S.*)\n(?=\1(?:[-*]|\d+\.) )", re.MULTILINE)
IMAGES = (".png", ".svg")


def on_files(files, config):
    """Adds the linked files outside `docs/`, and the files that those link."""
    found, waiting = {}, [path for path in (ROOT / "docs").rglob("*.md")]
    while waiting:
        path = waiting.pop()
        for target in linked(path):
            name = target.relative_to(ROOT).as_posix()
            if name.startswith("docs/") or name in found:
                continue
            found[name] = target
            if target.suffix == ".md":
                waiting.append(target)
    for name, path in sorted(found.items()):
        uri = place(name)
        if path.suffix in IMAGES:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
        else:
            file = File.generated(config, uri, content=page(name, path))
            file.inclusion = file.inclusion.NOT_IN_NAV
            files.append(file)
    return files


def on_page_markdown(markdown, page, config, files):
    """Rewrites links to files outside `docs/`, and all links of those files. Separates lists from the text before."""
    uri = page.file.src_uri
    outside = uri.startswith("source/")
    here = Path(uri.removeprefix("source/") if outside else f"docs/{uri}").parent

    def rewrite(match):
        target, hash_, anchor = match[2].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return match[0]
        path = resolve(ROOT / here / target)
        if path is None or not outside and path.is_relative_to(ROOT / "docs"):
            return match[0]
        link = posixpath.relpath(place(path.relative_to(ROOT).as_posix()), posixpath.dirname(uri) or ".")
        return f"{match[1]}{link}{hash_}{anchor}{match[3]}"

    parts = enumerate(CODE.split(markdown))
    text = "".join(part if number % 2 else LINK.sub(rewrite, part) for number, part in parts)
    parts = enumerate(FENCE.split(text))
    return "".join(part if number % 2 else LIST.sub(r"\1\2\n\n", part) for number, part in parts)


def linked(path):
    """Returns the existing files that a page links."""
    prose = "".join(CODE.split(path.read_text())[::2])
    targets = (match[2].partition("#")[0] for match in LINK.finditer(prose))
    paths = (resolve(path.parent / target) for target in targets if target and "://" not in target)
    return [path for path in paths if path is not None]


def resolve(path):
    """Returns the file of a link, or the README.md of its folder; `None` if there is none in this repository."""
    path = path.resolve()
    if path.is_dir():
        path = path / "README.md"
    return path if path.is_file() and path.is_relative_to(ROOT) else None


def place(name):
    """Returns the place in the site of a file of the repository."""
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    return f"source/{name}" if name.endswith((".md", *IMAGES)) else f"source/{name}.md"


def page(name, path):
    """Returns the page for a file: its text if it is Markdown, otherwise a block of code."""
    text = path.read_text()
    if path.suffix == ".md":
        return text
    kind = {".yaml": "yaml", ".toml": "toml", ".rs": "rust", ".py": "python"}.get(path.suffix, "text")
    return f"# {name}\n\n````{kind}\n{text}\n````\n"
