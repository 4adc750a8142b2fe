"""Environments that pages have made by hand hold all that this package needs."""

from __future__ import annotations

import shlex
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.docs.pages import DOCS, ROOT, blocks

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = [Requirement(text) for text in PROJECT["dependencies"]]
FINN_PLUS = ROOT / "tests" / "clients" / "finn_plus.txt"


def installed(page: str) -> tuple[list[Requirement], list[Requirement]]:
    """Read the requirements that the commands of a page install, with their dependencies and without."""
    found: tuple[list[Requirement], list[Requirement]] = ([], [])
    for block in blocks(DOCS / page):
        for line in block.text.replace("\\\n", " ").splitlines() if block.word("not-run") == "install" else ():
            match shlex.split(line):
                case ["pip", "install", "--no-deps", *names]:
                    found[1].extend(map(Requirement, names))
                case ["pip", "install", *names]:
                    found[0].extend(map(Requirement, names))
    return found


def versions(requirements: list[Requirement]) -> dict[str, str]:
    return {requirement.name: f"{requirement.extras}{requirement.specifier}" for requirement in requirements}


def test_the_environment_of_finn_plus_has_what_this_package_needs():
    given, alone = installed("how-to/finn.md")
    assert {"finn-plus", PROJECT["name"]} <= {requirement.name for requirement in alone}
    named = {requirement.name: requirement for requirement in given}
    assert not [str(needed) for needed in NEEDED if needed.name not in named]


@pytest.mark.parametrize("needed", NEEDED, ids=str)
def test_versions_of_that_environment_are_among_those_that_are_needed(needed: Requirement):
    [found] = [requirement for requirement in installed("how-to/finn.md")[0] if requirement.name == needed.name]
    bounds = {specifier.version for specifier in (*needed.specifier, *found.specifier)}
    for version in bounds:
        assert not found.specifier.contains(version) or needed.specifier.contains(version), f"{found} allows {version}"


def test_the_page_shows_the_environment_that_is_tried():
    lines = [line for line in FINN_PLUS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    assert versions(installed("how-to/finn.md")[0]) == versions(list(map(Requirement, lines)))
