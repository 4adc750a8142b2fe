"""The origin of a result: the machine, and the versions of all software that determines results."""

from __future__ import annotations

import hashlib
import importlib.metadata
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_MATTERS = ("onnx-passes", "onnxruntime", "onnx", "onnx-ir", "onnxscript", "numpy")
"""Packages whose versions affect results."""

Versions = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Machine:
    """A machine, and the versions of packages in its process."""

    host: str
    versions: Versions

    def differences(self, ours: Versions) -> list[str]:
        """Return the packages whose versions differ between this machine and the other one."""
        here, there = dict(ours), dict(self.versions)
        return [
            f"{package} {there.get(package, 'none')} and not {here.get(package, 'none')}"
            for package in sorted(here.keys() | there.keys())
            if there.get(package) != here.get(package)
        ]


@cache
def own_origin() -> Machine:
    """Return the origin of the results of this process, as of the first call."""
    return Machine(socket.gethostname(), (*versions(), ("sources", _sources())))


@cache
def versions() -> Versions:
    """Return the versions of all packages that affect results."""
    return tuple((package, _version(package)) for package in _MATTERS)


def _sources() -> str:
    """Return a digest of this package: two checkouts may have the same version."""
    digest, package = hashlib.blake2b(digest_size=6), Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"
