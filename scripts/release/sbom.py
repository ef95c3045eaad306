"""Lists of the components in each program and in the wheel (SBOM), as CycloneDX JSON: NAME-VERSION.cdx.json."""

import base64
import json
import re
import subprocess
import tomllib
import uuid
from datetime import datetime, timezone

from common import ARCHITECTURES, OUTPUT, ROOT, environment, run, target, version
from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

# Crates that are programs or the wheel, each with the folder of its workspace.
PRODUCTS = {"seiner": ROOT, "seiner-sql": ROOT / "sql", "seiner-python": ROOT / "python"}

LINE = re.compile(r"(?P<depth>\d+)(?P<name>\S+) v(?P<version>[^\s|]+)[^|]*\|(?P<license>[^|]*)")


def write():
    for name, workspace in PRODUCTS.items():
        bom = crates(name, workspace)
        if name == "seiner":
            page(bom)
        path = OUTPUT / f"{name}-{version()}.cdx.json"
        path.write_text(JsonV1Dot6(bom).output_as_string(indent=1))
        print(f"    {name}: {len(bom.components)} components")


def crates(product, workspace):
    """Returns the crates that are compiled into a product, on any architecture, with their dependencies."""
    hashes = checksums(workspace)
    components = {}
    edges = {}
    for arch in ARCHITECTURES:
        path = []
        for line in tree(product, workspace, arch):
            found = LINE.match(line)
            depth, key = int(found["depth"]), (found["name"], found["version"])
            if key not in components:
                components[key] = component("cargo", *key, found["license"].strip(), hashes.get(key))
            del path[depth:]
            if path:
                edges.setdefault(path[-1], set()).add(key)
            path.append(key)
    root = next(iter(components))
    components[root].type = ComponentType.APPLICATION
    bom = Bom(components=[component for key, component in components.items() if key != root])
    bom.metadata.component = components[root]
    stamp = environment()["SOURCE_DATE_EPOCH"]
    # A list of the same commit has the same number.
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"{product}-{version()}-{stamp}")
    bom.metadata.timestamp = datetime.fromtimestamp(int(stamp), timezone.utc)
    for key, component_of_key in components.items():
        bom.register_dependency(component_of_key, [components[other] for other in edges.get(key, ())])
    return bom


def tree(product, workspace, arch):
    """Returns the lines of `cargo tree`, without tests, and without programs that run only in the build."""
    options = ["--locked", "--target", target(arch), "--edges", "normal,no-proc-macro"]
    form = ["--prefix", "depth", "--format", "{p}|{l}|"]
    manifest = ["--manifest-path", workspace / "Cargo.toml", "-p", product]
    return run("cargo", "tree", *manifest, *options, *form, stdout=subprocess.PIPE).splitlines()


def checksums(workspace):
    """Returns the checksums of the crates of a registry, by name and version."""
    locked = tomllib.loads((workspace / "Cargo.lock").read_text())["package"]
    return {(crate["name"], crate["version"]): crate.get("checksum") for crate in locked}


def page(bom):
    """Adds the packages of npm that the page contains."""
    locked = json.loads((ROOT / "web/package-lock.json").read_text())["packages"]
    added = []
    for path, package in locked.items():
        if path and not package.get("dev"):
            name = path.removeprefix("node_modules/")
            sha512 = base64.b64decode(package["integrity"].removeprefix("sha512-")).hex()
            added.append(component("npm", name, package["version"], package["license"], None))
            added[-1].hashes = [HashType(alg=HashAlgorithm.SHA_512, content=sha512)]
    bom.components.update(added)
    bom.register_dependency(bom.metadata.component, added)


def component(kind, name, number, license_text, sha256):
    address = PackageURL(kind, None, name, number)
    # Older crates separate licences by a slash.
    expression = license_text.replace("/", " OR ")
    licenses = [LicenseFactory().make_from_string(expression)] if expression else []
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=number,
        purl=address,
        bom_ref=address.to_string(),
        licenses=licenses,
        hashes=hashes,
    )
