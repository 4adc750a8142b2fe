from __future__ import annotations

import json

import pytest

from onnx_passes import apply as run_pipeline
from onnx_passes import examples
from onnx_passes.core.errors import ModelError, PassFailedError
from onnx_passes.graph.load import load
from onnx_passes.passes.control.keep_nodes import KeepNodes
from onnx_passes.passes.eliminate.lattice_laws import EliminateInvolution
from onnx_passes.rewrite.choice import KEPT
from tests.passes.tools import model_of, operators

NET = """g (float[N, 3] x) => (float[N, 3] y, float[N, 3] z) {
    [first] a = Identity(x)
    [second] b = Identity(a)
    y = Relu(b)
    [same] c = Exp(x)
    [other] d = Exp(x)
    z = Mul(c, d)
}"""


def test_kept_nodes_are_not_rewritten_and_the_reason_is_counted():
    result = run_pipeline(model_of(NET), "keep-nodes{nodes=[first]}, eliminate-identity, keep-nodes")
    assert operators(result.model.graph).count("Identity") == 1
    step = next(step for step in result.record.steps if step.name == "eliminate-identity")
    assert any("kept as it is" in reason for rule in step.rules for reason in rule.refused)
    assert KEPT not in result.model.metadata_props


@pytest.mark.parametrize(("nodes", "left"), [("Identity", 2), ("a", 1), ("'*'", 2), ("[first, second]", 2)])
def test_nodes_are_named_by_name_result_or_operator(nodes, left):
    result = run_pipeline(model_of(NET), f"keep-nodes{{nodes={nodes}}}, eliminate-identity")
    assert operators(result.model.graph).count("Identity") == left


def test_a_kept_node_is_not_merged_and_not_folded():
    text = "keep-nodes{nodes=[same, other]}, eliminate-common-subexpression"
    assert operators(run_pipeline(model_of(NET), text).model.graph).count("Exp") == 2
    constant = model_of("g (float[1] x) => (float[1] y) <float[1] w = {2}> { [e] e = Exp(w) \n y = Add(x, e) }")
    result = run_pipeline(constant, "keep-nodes{nodes=[e]}, fold-constants")
    assert operators(result.model.graph) == ["Exp", "Add"]


def test_nodes_without_a_name_are_told_apart_by_their_results():
    text = "g (float[3] x) => (float[3] y, float[3] z) { a = Neg(x) \n y = Neg(a) \n b = Neg(y) \n z = Neg(b) }"
    model = model_of(text)
    assert not any(node.name for node in model.graph)
    KeepNodes(nodes=("a",))(model)
    assert json.loads(model.metadata_props[KEPT]) == ["-> a"]
    left = EliminateInvolution()(model).model
    assert operators(left.graph) == ["Neg", "Neg", "Neg"]
    named = run_pipeline(left, "unique-names, eliminate-involution").model
    assert operators(named.graph) == ["Neg", "Neg", "Neg"]


def test_the_rest_of_a_network_is_streamlined():
    result = run_pipeline(
        load(str(examples.path("digits-cnn"))), "keep-nodes{nodes=[conv3/Conv]}, streamline, keep-nodes"
    )
    left = next(node for node in result.model.graph if node.name == "conv3/Conv")
    assert left.op_type == "Conv"
    notes = [note for step in result.record.steps for note in step.notes if "Conv 'conv" in note]
    assert sum("it is kept as it is" in note for note in notes) == 1


def test_refuses_a_pattern_that_fits_no_node():
    with pytest.raises(PassFailedError, match="no node fits 'frist'; did you mean 'first'"):
        run_pipeline(model_of(NET), "keep-nodes{nodes=[frist]}")


def test_text_in_a_model_that_is_no_list_is_an_error():
    model = model_of(NET)
    model.metadata_props[KEPT] = "first"
    with pytest.raises(ModelError, match="no list of names"):
        run_pipeline(model, "eliminate-identity", verify=False)
