"""Passes of installed packages: listed from notes in the cache folder, imported when they are needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import onnx_passes

PASS = '''
from pathlib import Path

from onnx_passes import Analysis, passes

with (Path(__file__).parent / "imports.log").open("a") as log:
    log.write("x")


@passes.register()
class {name}(Analysis):
    """Count nodes."""

    def analyze(self, model):
        return model.graph.num_nodes()
'''

MODEL = """<ir_version: 10, opset_import: ["": 20]>
main (float[2] x) => (float[2] y) { y = Relu(x) }"""


class Site:
    """A folder with one installed package that offers a plugin, and a cache folder."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "extra_passes"
        self.package.mkdir()
        (self.package / "__init__.py").write_text("")
        info = folder / "extra_passes-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra-passes\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[onnx_passes.passes]\nextra = extra_passes.counting\n")
        self.write(PASS.format(name="CountAll"))
        source = Path(onnx_passes.__file__).parent.parent
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(source)]),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "LOCALAPPDATA": str(folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def write(self, text: str) -> None:
        (self.package / "counting.py").write_text(text)

    @property
    def imports(self) -> int:
        log = self.package / "imports.log"
        return len(log.read_text()) if log.exists() else 0

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "onnx_passes", *arguments]
        return subprocess.run(
            command, env=self.environment, input=stdin, capture_output=True, text=True, timeout=120, check=False
        )


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


def test_a_plugin_is_imported_by_the_first_listing_alone(site):
    first, second = site.run("list", "count-all"), site.run("list", "count-all")
    assert first.stdout == second.stdout
    assert "count-all" in second.stdout
    assert "Count nodes." in second.stdout
    assert site.imports == 1


def test_a_pass_that_is_known_from_notes_runs(site):
    site.run("list")
    done = site.run("-", "count-all", stdin=MODEL)
    assert done.returncode == 0, done.stderr
    assert site.imports == 2


def test_a_plugin_that_changes_is_imported_again(site):
    site.run("list")
    site.write(PASS.format(name="CountEverything"))
    listed = site.run("list", "count-")
    assert "count-everything" in listed.stdout
    assert "count-all" not in listed.stdout
    assert site.imports == 2


def test_damaged_notes_count_as_none(site, tmp_path):
    site.run("list")
    (notes,) = (tmp_path / "cache" / "onnx-passes").rglob("plugin-*.json")
    notes.write_text("{")
    assert "count-all" in site.run("list", "count-").stdout
    assert site.imports == 2


@pytest.mark.parametrize(
    "text", ["import nobody_has_this", "raise RuntimeError('odd')", PASS.format(name="FoldConstants")]
)
def test_a_broken_plugin_is_noted_and_the_rest_is_listed(site, text):
    site.write(text)
    listed = site.run("list", "fold-constants")
    assert listed.returncode == 0
    assert "fold-constants" in listed.stdout
    assert listed.stderr.startswith("note: ")
    assert listed.stderr.count("\n") == 1
    assert "extra_passes.counting" in listed.stderr


def test_a_name_that_a_broken_plugin_may_have_is_unknown_with_a_note(site):
    site.write("import nobody_has_this")
    done = site.run("explain", "count-all")
    assert done.returncode == 2
    assert "plugin 'extra' (extra_passes.counting) cannot be imported" in done.stderr
    assert "count-all" in done.stderr
