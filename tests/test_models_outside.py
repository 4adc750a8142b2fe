"""Tests need nothing outside of the repository; models of others are read only where a variable names them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.outside import VARIABLE

ROOT = Path(__file__).parents[1]
TEXTS = {"", ".cfg", ".ipynb", ".md", ".mjs", ".py", ".sh", ".toml", ".ts", ".tsx", ".txt", ".yaml", ".yml"}
MADE = re.compile(r"node_modules|out|dist|generated|__pycache__|\.(?!ci$|github$).*")
"""Folders of files that tools made, hidden ones among them."""
NAMED = re.compile(r"""\.\./shared|["'/]shared["'/]\S*(?:models|cases)|mark\.shared|MODELS\s*\?=.*\.\.""")
"""The folder that tests once looked for, and defaults of Makefiles that leave the checkout."""
CLIMBING = re.compile(r"Path\(__file__\)(?:\.resolve\(\))?((?:\.parents\[\d+\]|\.parent\b)+)((?: / \S+)*)")


def texts() -> Iterator[Path]:
    """Yield the files of the checkout that people wrote, except the script of continuous integration."""
    for folder, subfolders, files in os.walk(ROOT):
        subfolders[:] = [name for name in subfolders if not MADE.fullmatch(name)]
        for path in (Path(folder, name) for name in files):
            if path.suffix in TEXTS and path not in (ROOT / ".ci" / "run", Path(__file__)):
                yield path


def folders_up(climb: str) -> int:
    """Count the folders that an expression such as ``.parents[1].parent`` goes up."""
    return sum(int(found or 0) + 1 for found in re.findall(r"\.parents?(?:\[(\d+)\])?", climb))


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ('SHARED = ROOT / ".." / "shared" / "models"', True),
        ("MODELS ?= ../shared/models", True),
        ("MODELS ?= ../models", True),
        ("MODELS ?= $(ONNX_PASSES_MODELS)", False),
        ("make clients MODELS=../shared/models", True),
        ('save(model, path, external="shared")', False),
    ],
)
def test_lookups_are_recognized(text: str, is_found: bool):
    assert bool(NAMED.search(text.replace('" / "', "/"))) == is_found


def test_nothing_looks_beside_the_checkout():
    found: list[str] = []
    for path in texts():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            depth = len(path.relative_to(ROOT).parts)
            climbs = [folders_up(climb) + rest.count('".."') for climb, rest in CLIMBING.findall(line)]
            if NAMED.search(line.replace('" / "', "/")) or any(climb > depth for climb in climbs):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found


class TestMarker:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        """Make a folder of two tests, one of which wants models, under the settings of ours."""
        (tmp_path / "conftest.py").write_text(
            "from tests.conftest import pytest_collection_modifyitems, pytest_configure\n"
        )
        (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = models: wants models\n")
        (tmp_path / "test_it.py").write_text(
            "import pytest\n"
            "from tests.helpers.outside import as_parameters, outside, outside_models\n"
            "def test_plain(): pass\n"
            "@pytest.mark.models\n"
            "def test_of_a_model(): assert outside('zoo/one').stat().st_size == 3\n"
            "@pytest.mark.parametrize('path', as_parameters(outside_models('zoo')))\n"
            "def test_of_all(path): assert path.stem in ('one', 'two')\n"
        )
        return tmp_path

    def run(self, project: Path, models: Path | None, *options: str) -> subprocess.CompletedProcess[str]:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        environment.pop(VARIABLE, None)
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), environment.get("PYTHONPATH", "")))
        if models is not None:
            environment[VARIABLE] = str(models)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)

    def test_without_the_variable_tests_of_models_are_deselected(self, project: Path):
        done = self.run(project, None)
        assert done.returncode == 0, done.stdout
        assert "1 passed, 2 deselected" in done.stdout
        assert self.run(project, None, "-m", "models").returncode == pytest.ExitCode.NO_TESTS_COLLECTED

    def test_with_the_variable_they_run(self, project: Path, tmp_path: Path):
        (tmp_path / "given" / "zoo").mkdir(parents=True)
        for name in ("one", "two"):
            (tmp_path / "given" / "zoo" / f"{name}.onnx").write_text("abc")
        assert "3 passed, 1 deselected" in self.run(project, tmp_path / "given", "-m", "models").stdout
        assert "4 passed" in self.run(project, tmp_path / "given", "-n", "1").stdout

    def test_a_model_that_is_missing_is_a_failure(self, project: Path, tmp_path: Path):
        (tmp_path / "empty").mkdir()
        done = self.run(project, tmp_path / "empty", "-k", "test_of_a_model")
        assert done.returncode == pytest.ExitCode.TESTS_FAILED
        assert f"{tmp_path / 'empty' / 'zoo' / 'one.onnx'} is missing" in done.stdout

    def test_a_folder_that_is_missing_is_an_error_at_the_start(self, project: Path, tmp_path: Path):
        done = self.run(project, tmp_path / "nowhere")
        assert done.returncode == pytest.ExitCode.USAGE_ERROR
        assert f"{VARIABLE} names {tmp_path / 'nowhere'}, which is not a folder" in done.stderr
        assert "passed" not in done.stdout
