"""What a release is checked by fits the package: versions, lowest dependencies, extras."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import onnx_passes

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def release() -> Any:
    sys.path.insert(0, str(ROOT / "release"))
    try:
        import build
        import environments
        import smoke

        yield SimpleNamespace(build=build, environments=environments, smoke=smoke)
    finally:
        sys.path.remove(str(ROOT / "release"))


def test_lowest_versions_are_those_of_the_project(release: Any) -> None:
    lines = release.environments.lowest((3, 11), ["data"]).splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert len(lines) == len(project["dependencies"]) + len(project["optional-dependencies"]["data"])
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        ("a>=1.2,<2", (3, 11), ["a==1.2"]),
        ("a>=1.2; python_version < '3.13'", (3, 13), []),
        ("a>=1.2; python_version >= '3.13'", (3, 13), ["a==1.2"]),
        ("a[x]==3", (3, 12), ["a==3"]),
        ("a", (3, 12), []),
    ],
)
def test_lowest_version_of_a_requirement(
    release: Any, text: str, version: tuple[int, int], expected: list[str]
) -> None:
    assert list(release.environments._lowest_versions([text], version)) == expected


def test_every_extra_is_tried(release: Any) -> None:
    left_out = {"train"}
    assert release.smoke.EXTRAS.keys() == release.environments.extras().keys() - left_out


def test_files_that_a_wheel_must_have_are_there(release: Any) -> None:
    places = [ROOT / "src", ROOT]
    names = {name: name.replace("onnx_passes/certificates", "certificates") for name in release.build.REQUIRED}
    assert [name for name, path in names.items() if not any((place / path).is_file() for place in places)] == []


def test_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == onnx_passes.__version__
