from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import RewriteRulePass, Transformation, passes
from onnx_passes.check.blame.reproducer import write_reproducer
from onnx_passes.check.verification import Verification
from onnx_passes.core.errors import UsageError
from onnx_passes.core.registry import REGISTRY
from onnx_passes.debug.repro import repeat
from onnx_passes.verify.failure import PostconditionError

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] a, float[2] b) => (float[2] z) { n = Neg(a) s = Add(n, b) z = Relu(s) }
"""
PASS = """
from onnx_passes import passes, RewriteRulePass, Transformation

@passes.verify.equality
@passes.register("scale-adds")
class ScaleAdds(Transformation, RewriteRulePass):
    factor: float = 1.0

    def pattern(self, op, x, y):
        return op.Add(x, y)

    def check(self, op, x, y):
        return x.producer() is not None and x.producer().op_type == "Neg"

    def rewrite(self, op, x, y):
        return op.Mul(op.Add(op.Identity(x), y), op.Constant(value_float=self.factor))
"""


@pytest.fixture
def scale_adds(tmp_path):
    path = tmp_path / "scale_adds_file.py"
    path.write_text(PASS)
    onnx_passes.core.imports.import_user_modules([str(path)])
    yield path
    forget(path)


@pytest.fixture
def registered():
    """Forget the passes that a test registers."""
    yield
    forget(Path(__file__))


def forget(path: Path) -> None:
    for key, entry in list(REGISTRY._entries.items()):
        if entry.module.endswith(path.stem):
            del REGISTRY._entries[key]
            REGISTRY._classes.pop(entry.name, None)
    if path != Path(__file__):
        sys.modules.pop(path.stem, None)


def failed(tmp_path: Path, pipeline: str, **more) -> Path:
    folder = tmp_path / "kept"
    verification = Verification(reproducer=folder, **more)
    with pytest.raises(PostconditionError):
        onnx_passes.apply(ir.from_onnx_text(MODEL), pipeline, verify=verification)
    return folder


def test_a_failure_is_repeated_with_options_and_imports(tmp_path, scale_adds):
    folder = failed(tmp_path, "cleanup, scale-adds{factor=3.0}")
    report = json.loads((folder / "report.json").read_text())
    assert report["pipeline"] == "scale-adds{factor=3.0}"
    assert report["imports"] == [str(scale_adds)]
    forget(scale_adds)
    outcome = repeat(folder)
    assert outcome.fails
    assert isinstance(outcome.error, PostconditionError)
    assert "ScaleAdds" in str(outcome)
    assert outcome.notes == ()
    assert outcome.to_json()["failure"]["text"] == "scale-adds{factor=3.0}"


def test_a_repaired_pass_no_longer_fails(tmp_path, scale_adds):
    folder = failed(tmp_path, "scale-adds{factor=3.0}")
    report = json.loads((folder / "report.json").read_text())
    report["pipeline"] = "scale-adds"
    (folder / "report.json").write_text(json.dumps(report))
    outcome = repeat(folder)
    assert not outcome.fails
    assert "no longer fails" in str(outcome)


def test_the_tolerance_of_the_run_is_kept(tmp_path, registered):
    @passes.register("almost-right")
    class AlmostRight(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Relu(x)

        def check(self, op, x):
            return x.producer().op_type != "Mul"

        def rewrite(self, op, x):
            return op.Relu(op.Mul(x, op.Constant(value_float=1.01)))

    samples = [{"a": np.array([-1, -2], np.float32), "b": np.zeros(2, np.float32)}]
    for rtol, fails in ((0.001, True), (0.5, False)):
        folder = write_reproducer(
            tmp_path / "kept", ir.from_onnx_text(MODEL), "almost-right", samples, {}, tolerance=(0.0, rtol)
        )
        assert repeat(folder).fails is fails


def test_special_values_are_kept(tmp_path, registered):
    @passes.verify.equality
    @passes.register("max-by-comparison")
    class MaxByComparison(Transformation, RewriteRulePass):
        def pattern(self, op, v, three):
            return op.Max(v, three)

        def rewrite(self, op, v, three):
            return op.Where(op.Greater(v, three), v, three)

    folder = tmp_path / "kept"
    model = ir.from_onnx_text(
        '<ir_version: 9, opset_import: ["": 20]> '
        "g (float[4, 8] x) => (float[4, 8] y) <float three = {3.0}> {y = Max(x, three)}"
    )
    with pytest.raises(PostconditionError, match="special values"):
        onnx_passes.apply(model, "max-by-comparison", verify=Verification(reproducer=folder))
    outcome = repeat(folder)
    assert outcome.fails
    assert "nan" in str(outcome)


def test_a_file_given_by_hand_stands_in_for_one_that_is_gone(tmp_path, scale_adds):
    folder = failed(tmp_path, "scale-adds{factor=2.0}")
    forget(scale_adds)
    moved = tmp_path / "moved_scale_adds.py"
    scale_adds.rename(moved)
    with pytest.raises(UsageError, match=r"scale_adds_file\.py.*--import"):
        repeat(folder)
    try:
        assert repeat(folder, imports=[str(moved)]).fails
    finally:
        forget(moved)


def test_code_that_comes_with_a_folder_is_not_run_unasked(tmp_path, scale_adds):
    folder = failed(tmp_path, "scale-adds{factor=2.0}")
    forget(scale_adds)
    inside = folder / "inside_code.py"
    inside.write_text("raise SystemExit('this ran')\n")
    report = json.loads((folder / "report.json").read_text())
    for name in (str(inside), "inside_code"):
        (folder / "report.json").write_text(json.dumps({**report, "imports": [name]}))
        with pytest.raises(UsageError, match="if you trust it"):
            repeat(folder)


def test_other_versions_are_noted(tmp_path, scale_adds):
    folder = failed(tmp_path, "scale-adds{factor=2.0}")
    report = json.loads((folder / "report.json").read_text())
    report["versions"] |= {"numpy": "0.1", "bygone": "3"}
    (folder / "report.json").write_text(json.dumps(report))
    notes = repeat(folder).notes
    assert notes[0].startswith("numpy was 0.1")
    assert "bygone was 3 when the failure was kept, and is not installed now" in notes


def test_another_failure_than_the_kept_one_is_noted(tmp_path, scale_adds):
    folder = failed(tmp_path, "scale-adds{factor=2.0}")
    report = json.loads((folder / "report.json").read_text())
    report["difference"] = "z: shape differs, expected float32[2], found float32[3]"
    (folder / "report.json").write_text(json.dumps(report))
    outcome = repeat(folder)
    assert outcome.fails
    assert "it was 'shape differs' when it was kept, and is 'values differ' now" in outcome.notes[0]


def test_the_script_repeats_it(tmp_path, scale_adds):
    folder = failed(tmp_path, "scale-adds{factor=3.0}")
    script = folder / "repro.py"
    assert len(script.read_text().splitlines()) <= 12
    environment = {**os.environ, "PYTHONPATH": str(Path(onnx_passes.__file__).parents[1])}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1, done.stderr
    assert "PostconditionError" in done.stderr


def test_crashes_are_repeated(tmp_path, registered):
    @passes.register("crash-always")
    class CrashAlways(Transformation):
        def call(self, model):
            raise ZeroDivisionError("always")

    folder = write_reproducer(tmp_path / "kept", ir.from_onnx_text(MODEL), "crash-always", [], {})
    outcome = repeat(folder)
    assert outcome.fails
    assert "ZeroDivisionError" in str(outcome)


def test_the_failure_of_a_command_is_left_to_the_command(tmp_path):
    folder = write_reproducer(tmp_path / "kept", ir.from_onnx_text(MODEL), "", [], {"command": "check-it {}"})
    with pytest.raises(UsageError, match="check-it"):
        repeat(folder)


def test_small_floats_go_through(tmp_path):
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 20]>
        brain (bfloat16[2] a) => (bfloat16[2] z) { z = Neg(a) }"""
    )
    samples = [{"a": np.array([1.5, np.nan], ml_dtypes.bfloat16)}]
    assert not repeat(write_reproducer(tmp_path / "kept", model, "cleanup", samples, {})).fails


def test_a_model_that_no_longer_runs_is_not_taken_for_fine(tmp_path):
    folder = write_reproducer(
        tmp_path / "kept", ir.from_onnx_text(MODEL), "cleanup", [{"a": np.ones(7, np.float32)}], {}
    )
    with pytest.raises(UsageError, match="does not run on these inputs"):
        repeat(folder)
