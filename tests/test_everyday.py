"""What docs/everyday.md shows is executed as it stands there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.cli.main import run_command_line
from onnx_passes.core.config import load_config

PAGE = (Path(__file__).parent.parent / "docs" / "everyday.md").read_text(encoding="utf-8")
MODEL = """<ir_version: 9, opset_import: ["" : 18]>
g (float[batch, 3, 8, 8] image, float[4] mask) => (float[batch, 4] logits, float[batch, 4] features)
<float[4, 3, 1, 1] weight = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] bias = {1, 2, 3, 4}, int64[1] zero = {0},
 int64[1] one = {1}, int64[1] end = {8}> {
    [conv1] conv1_out = Conv(image, weight, bias)
    [relu1] relu1_out = Relu(conv1_out)
    [pool] pooled = GlobalAveragePool(relu1_out)
    [cut1] part = Slice(pooled, zero, end, one)
    [cut2] whole = Slice(part, zero, end, one)
    [flatten] features = Flatten(whole)
    [same] copy = Identity(features)
    [masked] logits = Mul(copy, mask)
}"""


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("onnx-passes ")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in a folder that has what the page speaks of."""
    model = ir.from_onnx_text(MODEL)
    model.graph.initializers["bias"].name = "conv1.bias"
    ir.save(model, tmp_path / "model.onnx")
    (tmp_path / "models").mkdir()
    shutil.copy(tmp_path / "model.onnx", tmp_path / "models" / "a.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(line: str) -> list[str]:
    """Split a line as a shell does, which leaves patterns alone that fit no file."""
    found = shlex.split(line, comments=True)[1:]
    return [name for word in found for name in (sorted(map(str, Path().glob(word))) if "*" in word else []) or [word]]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands(line: str, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run_command_line(words(line)) == 0, capsys.readouterr().err
    written = [
        path for path in folder.rglob("*.onnx") if path not in (folder / "model.onnx", folder / "models" / "a.onnx")
    ]
    assert written


def test_the_last_line_is_as_shown(folder: Path, capsys: pytest.CaptureFixture[str]):
    (shown,) = [line for line in PAGE.splitlines() if line.startswith("model.onnx: ")]
    run_command_line(["simplify", "model.onnx", "out.onnx"])
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert re.sub(r"[\d.]+", "0", said) == re.sub(r"[\d.]+", "0", shown)


def test_python(folder: Path):
    for block in blocks("python"):
        exec(compile(block, "everyday.md", "exec"), {})
    assert [value.name for value in ir.load(folder / "part.onnx").graph.inputs] == ["conv1_out"]


def test_configuration(folder: Path):
    (block,) = blocks("yaml")
    (folder / "config.yaml").write_text(block)
    assert load_config(folder / "config.yaml").extract.outputs == ("features",)
    assert run_command_line(["-c", "config.yaml", "-o", "out.onnx", "model.onnx", "-q"]) == 0
    assert [value.name for value in ir.load(folder / "out.onnx").graph.outputs] == ["y"]


def test_passes_that_the_page_names_exist():
    from onnx_passes.core.registry import REGISTRY

    for name in ("fuse-bias", "fuse-batchnorm", "fold-constants", "extract", "skip", "keep-nodes", "set-outputs"):
        assert f"{name}" in PAGE
        REGISTRY.find(name)
