"""Archive of the programs, for every Linux: seiner-VERSION-ARCH-linux.tar.gz."""

import stage
from common import ROOT, WORK, fresh, pack, version


def write(arch, programs):
    tree = fresh(WORK / arch / "tree")
    stage.install(arch, programs, tree, "/usr/local")
    stage.documents(tree)
    # The folder of the archive is the context of the container's build.
    stage.put(tree, ROOT / "deploy/release/Containerfile")
    pack(tree, f"seiner-{version()}-{arch}-linux")
