from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from tests.cli.conftest import BREAK_ADDS


@pytest.fixture
def wrong(tmp_path, monkeypatch):
    """A user's wrong pass, in an empty working directory."""
    file = tmp_path / "user_wrong.py"
    file.write_text(BREAK_ADDS)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return file


def test_wrong_pass_ends_the_run_and_nothing_is_written(run, model, wrong, tmp_path):
    out = tmp_path / "out.onnx"
    answer = run("--import", wrong, "-o", out, model, "BreakAdds")
    assert answer.code == 1
    lines = answer.err.splitlines()
    assert lines[0] == "PostconditionError: Post-condition for pass 'BreakAdds' failed"
    assert lines[1] == "VerificationError: global_output_0 not as expected"
    for words in ("sum = Add(a, b)", "sum = Add(a, a)", "user_wrong.py:11", "seed 0", "onnx-passes-repro"):
        assert words in answer.err
    assert not out.exists()
    assert (tmp_path / "here" / "onnx-passes-repro" / "before.onnx").exists()


def test_verification_can_be_switched_off(run, model, wrong, tmp_path):
    (tmp_path / "cfg.yaml").write_text("verify: false\n")
    assert run("--import", wrong, "--verify", "off", "-q", model, "BreakAdds").code == 0
    assert run("--import", wrong, "-c", tmp_path / "cfg.yaml", "-q", model, "BreakAdds").code == 0
    assert run("--import", wrong, "--verify", "each", "-c", tmp_path / "cfg.yaml", "-q", model, "BreakAdds").code == 1


def test_inputs_and_expected_outputs_come_from_files(run, model, wrong, tmp_path):
    np.savez(tmp_path / "same.npz", a=np.ones(2, np.float32), b=np.ones(2, np.float32))
    np.savez(tmp_path / "other.npz", a=np.ones(2, np.float32), b=np.zeros(2, np.float32))
    np.save(tmp_path / "right.npy", np.full(2, 2, np.float32))
    same, other, right = (tmp_path / name for name in ("same.npz", "other.npz", "right.npy"))
    assert run("--import", wrong, "--inputs", same, "--expect", right, "-q", model, "BreakAdds").code == 0
    assert run("--import", wrong, "--inputs", other, "-q", model, "BreakAdds").code == 1
    answer = run("--inputs", other, "--expect", right, model, "cleanup")
    assert answer.code == 1
    assert "before any pass ran" in answer.err


def test_evidence_is_shown_and_recorded(run, model, tmp_path):
    answer = run("--json", "-o", tmp_path / "o.onnx", model, "cleanup")
    steps = {step["pass"]: step for step in json.loads(answer.out)["steps"]}
    assert steps["remove-unused-nodes"]["evidence"]["level"] == "bits:sampled"
    assert "bit-equal on 7 samples" in answer.err


NAN = """
import numpy as np
from onnx_passes import constant, passes, Transformation, RewriteRulePass

@passes.verify.equality
@passes.register()
class LosesNan(Transformation, RewriteRulePass):
    fast_math = ("nsz",)
    def pattern(self, op, x, one):
        return op.Mul(x, one)
    def check(self, op, x, one):
        return constant(one) is not None and constant(one) == 1
    def rewrite(self, op, x, one):
        return op.Where(op.Equal(x, x), x, np.zeros((), np.float32))
"""


def test_special_values_are_tried_unless_told_otherwise(run, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "user_nan.py").write_text(NAN)
    (tmp_path / "cfg.yaml").write_text("verify: {special: false}\n")
    given = ("--import", tmp_path / "user_nan.py", "-q")
    answer = run(*given, model, "LosesNan")
    assert answer.code == 1
    assert "by NaN" in answer.err
    assert run(*given, "--no-special", model, "LosesNan").code == 0
    assert run(*given, "-c", tmp_path / "cfg.yaml", model, "LosesNan").code == 0
    assert run(*given, "-c", tmp_path / "cfg.yaml", "--special", model, "LosesNan").code == 1


def test_number_of_samples(run, model, tmp_path):
    (tmp_path / "cfg.yaml").write_text("verify: {samples: 2}\n")
    assert "on 1 sample" in run("--samples", 1, model, "cleanup").err
    assert "on 2 samples" in run("-c", tmp_path / "cfg.yaml", model, "cleanup").err
    assert "on 7 samples" in run("-c", tmp_path / "cfg.yaml", "--samples", 7, model, "cleanup").err
    assert run("--samples", 0, model, "cleanup").code == 2


@pytest.mark.parametrize("tolerance", ["much", "1,2,3", "-1", ""])
def test_wrong_tolerance(run, model, tolerance):
    answer = run("--tolerance", tolerance, model, "cleanup")
    assert answer.code == 2
    assert "ATOL" in answer.err


def test_wrong_data_are_refused(run, model, tmp_path):
    np.save(tmp_path / "one.npy", np.ones(3, np.float32))
    answer = run("--inputs", tmp_path / "one.npy", model, "cleanup")
    assert answer.code == 2
    assert "one.npy" in answer.err
    assert run("--inputs", tmp_path / "absent.npy", model, "cleanup").code == 2


ROUNDED = """
<ir_version: 10, opset_import: ["": 20]>
example (float[2] a, float[2] b) => (float[2] global_output_0)
<float almost = {1.000001}>
{
    sum = Add(a, b)
    scaled = Mul(sum, almost)
    global_output_0 = Relu(scaled)
}
"""


def test_two_models_are_compared(run, model, tmp_path):
    clean, rounded = tmp_path / "clean.onnx", tmp_path / "rounded.onnxtxt"
    rounded.write_text(ROUNDED)
    run("-q", "-o", clean, model, "cleanup")
    answer = run("verify", model, clean)
    assert answer.code == 0
    assert "equal bit by bit on 7 samples" in answer.out
    answer = run("verify", model, rounded)
    assert answer.code == 1
    assert "first divergence: scaled[" in answer.out
    assert run("verify", "--tolerance", "1e-6,1e-5", model, rounded).code == 0
    assert json.loads(run("verify", "--json", model, rounded).out)["same"] is False


def test_models_with_other_outputs_differ(run, model, tmp_path):
    other = tmp_path / "other.onnxtxt"
    other.write_text(ROUNDED.replace("global_output_0", "else"))
    answer = run("verify", model, other)
    assert answer.code == 1
    assert "global_output_0" in answer.out


def test_explicit_check_is_a_pass(run, model, wrong):
    answer = run("--import", wrong, "--verify", "final", model, "BreakAdds, verify, cleanup")
    assert answer.code == 1
    assert "pass 'BreakAdds' failed" in answer.err
    assert run("-q", model, "verify").code == 0


def test_required_evidence_decides_about_the_exit_code(run, model, tmp_path):
    target = tmp_path / "out.onnx"
    assert run("--require", "sampled", "-o", target, model, "convert-opset21, cleanup").code == 0
    target.unlink()
    answer = run("--require", "proved", "-o", target, model, "convert-opset21, cleanup")
    assert answer.code == 1
    assert "'bits:proved' is required" in answer.err
    answer = run("--require", "proofed", "-o", target, model, "cleanup")
    assert answer.code == 2
    assert "proved" in answer.err
    assert not target.exists()
    assert run("--require", "sampled", "--verify", "off", model, "cleanup").code == 2


def test_sizes_of_dimensions_are_for_verification_alone(run, tmp_path):
    text = """<ir_version: 10, opset_import: ["": 20]>
    g (float[n, 40000] x, float[m, 2] z) => (float[n, 40000] y) { a = Neg(x) b = Neg(a) y = Relu(b) }"""
    model, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    answer = run("-o", out, model, "eliminate", "--size", "n=2", "--json", "--samples", 1)
    assert answer.code == 0
    assert json.loads(answer.out)["level"].startswith("bits:")
    assert onnx.load(out).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "n"
    unknown = run("-o", out, model, "eliminate", "--size", "k=2")
    assert (unknown.code, "no dynamic dimension 'k'" in unknown.err) == (2, True)
    assert run("-o", out, model, "eliminate", "--size", "n").code == 2
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 40000), np.float32), z=np.zeros((1, 2), np.float32))
    refused = run("-o", out, model, "eliminate", "--size", "n=2", "--inputs", tmp_path / "x.npz")
    assert (refused.code, "--size is for generated inputs" in refused.err) == (2, True)
