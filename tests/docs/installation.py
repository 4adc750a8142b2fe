"""Modules that ``pip install onnx-passes`` brings; others of an environment for development are hidden from blocks."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
HIDDEN = "HIDDEN_MODULES"
"""The variable in which processes that a block starts find what they must not import."""
_HIDING = Path(__file__).parent / "hiding"


@functools.cache
def missing_modules(extras: tuple[str, ...] = ()) -> frozenset[str]:
    """Return the modules of this environment that an installation with some extras does not bring."""
    brought = _distributions([*PROJECT["dependencies"], *(text for extra in extras for text in EXTRAS[extra])])
    return frozenset(
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if PROJECT["name"] not in distributions and not brought & {_normal(name) for name in distributions}
    )


@contextmanager
def installed(*extras: str) -> Iterator[None]:
    """Hide the modules that such an installation lacks, here and in processes that are started."""
    missing = missing_modules(tuple(sorted(extras)))
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in missing}
    variables = {name: os.environ.get(name) for name in (HIDDEN, "PYTHONPATH")}
    hidden = dict.fromkeys((*kept, *missing))
    sys.modules.update(hidden)  # type: ignore[arg-type]  # None lets an import fail
    os.environ[HIDDEN] = ",".join(sorted(missing))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_HIDING), variables["PYTHONPATH"])))
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
        sys.modules.update(kept)
        for name, text in variables.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text


def _distributions(requirements: Iterable[str]) -> set[str]:
    """Return the names of distributions that requirements bring, with those that these require."""
    found: dict[str, set[str]] = {}
    left = [Requirement(text) for text in requirements]
    while left:
        requirement = left.pop()
        name = _normal(requirement.name)
        if name in found and requirement.extras <= found[name]:
            continue
        found.setdefault(name, set()).update(requirement.extras)
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # this environment has not all extras
            continue
        left += [one for one in map(Requirement, required) if _applies(one, requirement.extras)]
    return set(found)


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
