"""What is written is loaded by ONNX Runtime at its default level first, in a process that may crash."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import Transformation, apply, examples, passes
from onnx_passes.core.base import PassResult
from onnx_passes.verify.run import loadable
from onnx_passes.verify.run.child import can_fork
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.run.loadable import LoadErrors, NotLoadableError, findings
from onnx_passes.verify.run.resources import Resources

HEAD = '<ir_version: 10, opset_import: ["": 20, "qonnx.custom_op.general": 1]>'
TEXT = f"{HEAD} g (float[N,4] x) => (float[N,4] y) <float[N,4] a> {{ a = Relu(x) y = Neg(a) }}"


class Becomes(Transformation):
    """Make the first node another operator."""

    def __init__(self, op_type: str, domain: str = "") -> None:
        super().__init__()
        self.op_type, self.domain = op_type, domain

    def call(self, model: ir.Model) -> PassResult:
        node = model.graph[0]
        node.op_type, node.domain = self.op_type, self.domain
        model.opset_imports.setdefault(self.domain, 1)
        return PassResult(model, modified=True)


@passes.verify.equality
class ClaimsAShape(Transformation):
    """Declare a shape that is false."""

    def call(self, model: ir.Model) -> PassResult:
        model.graph[0].outputs[0].shape = ir.Shape([4])
        return PassResult(model, modified=True)


def model() -> ir.Model:
    return ir.from_onnx_text(TEXT)


@pytest.mark.parametrize("becomes", [Becomes("Not"), Becomes("Thing", "local")], ids=["type", "operator"])
def test_a_result_that_does_not_load_is_not_written(becomes: Becomes, tmp_path: Path):
    result = apply(model(), becomes, verify=False)
    with pytest.raises(NotLoadableError, match="but it loads the original"):
        result.save(tmp_path / "out.onnx")
    session = onnx_passes.open(model(), verify=False)
    session.apply(becomes)
    with pytest.raises(NotLoadableError, match="but it loads the original"):
        session.save(tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_did_not_load_before_is_written_and_reported(tmp_path: Path):
    broken = apply(model(), Becomes("Not"), verify=False).model
    report = apply(broken, ClaimsAShape(), verify=False).save(tmp_path / "out.onnx")
    assert any("nor the original" in note for note in report.notes)
    assert (tmp_path / "out.onnx").exists()


@pytest.mark.skipif(not can_fork(), reason="there is no process to crash")
@pytest.mark.parametrize("verify", [True, False])
def test_a_result_that_crashes_is_not_written(verify: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    load = loadable._session

    def crash(model: ir.Model, executor: object) -> None:
        if any(node.op_type == "Gemm" for node in model.graph):
            os.kill(os.getpid(), signal.SIGSEGV)
        load(model, executor)

    monkeypatch.setattr(loadable, "_session", crash)
    nodes = "a = MatMul(x, w) y = Add(a, b)"
    before = ir.from_onnx_text(
        f"{HEAD} g (float[2,2] x) => (float[2,1] y) <float[2,1] w = {{1, 2}}, float[1] b = {{3}}> {{ {nodes} }}"
    )
    result = apply(before, "simplify", verify=verify)
    assert [node.op_type for node in result.model.graph] == ["Gemm"]
    with pytest.raises(NotLoadableError, match="SIGSEGV"):
        result.save(tmp_path / "out.onnx")
    assert list(tmp_path.iterdir()) == []


def test_shapes_that_onnx_contradicts_are_not_written(tmp_path: Path):
    result = apply(model(), ClaimsAShape(), verify=False)
    report = result.save(tmp_path / "out.onnx")
    assert any("left out the shapes of inner values" in note for note in report.notes)
    onnx.checker.check_model(onnx.load(tmp_path / "out.onnx"), full_check=True)


def test_operators_of_quantized_networks_need_no_functions(tmp_path: Path):
    quantized = f"""{HEAD} g (float[N,4] x) => (float[N,4] y) <float s = {{0.5}}, float z = {{0}}, float b = {{4}}> {{
        a = Relu(x) y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0> (a, s, z, b) }}"""
    report = apply(ir.from_onnx_text(quantized), ClaimsAShape(), verify=False).save(tmp_path / "out.onnx")
    assert not any("ONNX Runtime" in note for note in report.notes)


def test_a_model_with_big_weights_loads():
    large = ir.from_onnx_text(f"{HEAD} g (float[N,64] x) => (float[N,64] y) {{ y = MatMul(x, w) }}")
    node = large.graph[0]
    weight = ir.Value(name="w", const_value=ir.tensor(np.ones((64, 64), np.float32), name="w"))
    large.graph.register_initializer(weight)
    node.replace_input_with(1, weight)
    assert findings(large) == LoadErrors()


def test_weights_of_operators_that_are_written_as_functions_are_found():
    result = apply(str(examples.path("digits-mlp")), "streamline", verify=False)
    assert any(node.op_type == "MultiThreshold" for node in result.model.graph)
    assert findings(result.model).runtime == ""
    injected = apply(result.model, "inject-ops", verify=False)
    assert injected.model.functions
    assert findings(injected.model).runtime == ""


def test_a_model_whose_copies_exceed_memory_is_loaded_without_optimizations(monkeypatch):
    profiles: list[bool] = []
    session_maker = Executor.session_maker

    def watched(self, *given):
        profiles.append(self.profile.optimized)
        return session_maker(self, *given)

    monkeypatch.setattr(Executor, "session_maker", watched)
    monkeypatch.setattr(loadable, "can_fork", lambda: False)
    text = f"{HEAD} g (float[4] x) => (float[4] y) <float[4] w = {{1, 2, 3, 4}}> {{ y = Mul(x, w) }}"
    given, spare = ir.from_onnx_text(text), 4 * 16
    findings(given, Executor(resources=Resources(memory=spare)))
    findings(given, Executor(resources=Resources(memory=spare - 1)))
    assert profiles == [True, False]


def test_it_is_said_that_a_model_was_loaded_without_optimizations():
    weight = np.ones((1024, 1024, 20), np.float32)
    given = ir.from_onnx_text(f"{HEAD} g (float[20] x) => (float[1024, 1024, 20] y) {{ y = Mul(x, x) }}")
    w = ir.val("w", ir.DataType.FLOAT, weight.shape)
    w.const_value = ir.Tensor(weight)
    given.graph.register_initializer(w)
    given.graph[0].replace_input_with(1, w)
    found = findings(given, Executor(resources=Resources(memory=3 * weight.nbytes)))
    assert found == LoadErrors(untried=loadable._NOT_OPTIMIZED)
