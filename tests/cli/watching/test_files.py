from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from onnx_passes.cli.watching.files import Watched, understood
from onnx_passes.core.errors import UsageError


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("model.onnx", "model.onnx.data", "passes.py", "more.py", "x.npz"):
        Path(name).write_text("")
    Path("cfg.yaml").write_text("imports: [more.py, some.module]\npasses: [cleanup]\n")
    return tmp_path


def test_files_of_a_command_line(folder):
    arguments = "model.onnx -c cfg.yaml --import passes.py --import other.module --inputs x.npz a, b -o out.onnx"
    command = understood(arguments.split())
    names = {path.name for path in command.files()}
    assert names == {"model.onnx", "model.onnx.data", "cfg.yaml", "passes.py", "more.py", "x.npz"}
    assert command.output == "out.onnx"


def test_modules_are_not_imported(folder):
    Path("passes.py").write_text("raise SystemExit('imported')")
    assert understood(["model.onnx", "--import", "passes.py"]).imports == ("passes.py",)


def test_a_broken_configuration_is_watched_all_the_same(folder):
    Path("cfg.yaml").write_text("imports: [")
    assert Path("cfg.yaml") in understood(["model.onnx", "-c", "cfg.yaml"]).files()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-"], "standard input cannot be watched"),
        (["model.onnx", "--in-place"], "would change after every run"),
        (["missing.onnx"], "there is no such file"),
    ],
)
def test_what_cannot_be_watched_is_refused(folder, arguments, message):
    with pytest.raises(UsageError, match=message):
        understood(arguments)


def test_an_unknown_option_is_refused(folder):
    with pytest.raises(click.UsageError, match="No such option"):
        understood(["model.onnx", "--bogus"])


def test_a_model_has_to_be_named(folder):
    with pytest.raises(click.UsageError, match="Missing argument"):
        understood([])


def test_changes_are_told_once(folder):
    watched = Watched([Path("model.onnx"), Path("cfg.yaml")])
    assert watched.changed(settle=0) == []
    Path("cfg.yaml").write_text("passes: []")
    assert watched.changed(settle=0) == [Path("cfg.yaml")]
    assert watched.changed(settle=0) == []


def test_waits_until_nobody_writes_any_more(folder):
    writes = ["a", "ab", "abc"]

    def write_on(seconds: float) -> None:
        if writes:
            Path("model.onnx").write_text(writes.pop(0) * 10)

    watched = Watched([Path("model.onnx")], wait=write_on)
    Path("model.onnx").write_text("start")
    assert watched.changed() == [Path("model.onnx")]
    assert not writes
    assert watched.changed() == []


def test_files_that_are_replaced_or_removed_have_changed(folder):
    watched = Watched([Path("model.onnx"), Path("cfg.yaml")])
    before = Path("cfg.yaml").stat()
    Path("new").write_text(Path("cfg.yaml").read_text())
    os.utime("new", ns=(before.st_atime_ns, before.st_mtime_ns))
    Path("new").replace("cfg.yaml")
    Path("model.onnx").unlink()
    assert watched.changed(settle=0) == [Path("model.onnx"), Path("cfg.yaml")]


def test_a_file_that_changed_before_it_was_watched_again_is_told(folder):
    watched = Watched([Path("model.onnx")])
    Path("model.onnx").write_text("new")
    watched.watch([Path("model.onnx"), Path("cfg.yaml")])
    assert watched.changed(settle=0) == [Path("model.onnx")]
