"""Tree of the installed files, which the archive and the Debian package share."""

import gzip
import platform
import shutil
import subprocess

from common import ROOT, Failure, programs_folder, run, runner

UNITS = ["seiner.service", "seiner-backup.service", "seiner-backup.timer"]
COMPLETIONS = {
    "bash": "share/bash-completion/completions/seiner",
    "zsh": "share/zsh/site-functions/_seiner",
    "fish": "share/fish/vendor_completions.d/seiner.fish",
}


def install(arch, programs, into, prefix):
    """Writes the files that belong below a prefix such as /usr: programs, units, manual, completions, examples."""
    if not (programs / "seiner").is_file():
        raise Failure(f"there is no program for {arch}; run `make dist` with the part `programs`, or with --prebuilt")
    put(into / "bin", *programs.iterdir(), mode=0o755)
    for name in UNITS:
        unit = into / "lib/systemd/system" / name
        write(unit, (ROOT / "deploy" / name).read_text().replace("/usr/local/bin/", f"{prefix}/bin/"))
    seiner = runnable(arch, programs)
    manual = into / "share/man/man1"
    run(*seiner, "man", "--into", manual, stdout=subprocess.PIPE)
    for page in list(manual.iterdir()):
        page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    for shell, path in COMPLETIONS.items():
        write(into / path, run(*seiner, "completions", shell, stdout=subprocess.PIPE))
    put(into / "share/seiner", ROOT / "deploy/seiner.toml", ROOT / "deploy/port.toml")
    shutil.copytree(ROOT / "deploy/grafana", into / "share/seiner/grafana")


def runnable(arch, programs):
    """Returns a command that prints the manual and the completions. For another architecture, this is the program for
    this machine if there is one, because its texts are the same."""
    native = programs_folder(platform.machine()) / "seiner"
    if arch != platform.machine() and native.is_file():
        return [native]
    return [*runner(arch), programs / "seiner"]


def documents(into):
    """Writes the pages for users, so that the links of README.md to other pages work."""
    put(into, *(ROOT / name for name in ("README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "SECURITY.md")))
    shutil.copytree(ROOT / "docs", into / "docs", ignore=shutil.ignore_patterns("lab"))


def put(folder, *files, mode=0o644):
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, folder)
        (folder / file.name).chmod(mode)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
