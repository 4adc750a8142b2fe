from __future__ import annotations

import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes import examples
from onnx_passes.core.errors import OnnxPassesError, PassFailedError
from onnx_passes.graph.load import load
from onnx_passes.rewrite.choice import MEANT
from tests.passes.tools import model_of, operators

NET = """g (float[N, 3] x) => (float[N, 3] y) {
    [first] a = Neg(x)
    [second] b = Neg(a)
    [third] c = Relu(b)
    [fourth] d = Neg(c)
    [fifth] e = Neg(d)
    y = Relu(e)
}"""


def test_only_the_nodes_that_are_meant_are_rewritten():
    result = run_pipeline(model_of(NET), "only{nodes=[fourth]}(eliminate-involution)")
    assert operators(result.model.graph) == ["Neg", "Neg", "Relu", "Relu"]
    assert MEANT not in result.model.metadata_props


def test_what_they_became_is_meant_as_well():
    result = run_pipeline(model_of(NET), "only{nodes=[second]}(eliminate-involution, eliminate-idempotence)")
    assert operators(result.model.graph) == ["Relu", "Neg", "Neg", "Relu"]


def test_an_option_of_a_pass_is_one_of_a_layer():
    network = run_pipeline(load(str(examples.path("digits-cnn"))), "streamline{infer-thresholds.max-bits=1}").model
    left = [node.name for node in network.graph if node.op_type == "Quant"]
    assert len(left) > 1
    result = run_pipeline(network, f"only{{nodes=['{left[0]}']}}(infer-thresholds{{max-bits=8}})")
    now = [node.name for node in result.model.graph if node.op_type == "Quant"]
    assert now == left[1:]


def test_a_meaning_inside_another_is_narrower():
    text = "only{nodes=[first, second]}(only{nodes=[second, fourth]}(eliminate-involution))"
    assert operators(run_pipeline(model_of(NET), text).model.graph) == ["Relu", "Neg", "Neg", "Relu"]


def test_refuses_nodes_that_do_not_exist_and_no_nodes():
    with pytest.raises(PassFailedError, match="no node fits 'sixth'"):
        run_pipeline(model_of(NET), "only{nodes=[sixth]}(eliminate-involution)")
    with pytest.raises(OnnxPassesError, match="no nodes are selected"):
        run_pipeline(model_of(NET), "only(eliminate-involution)")
