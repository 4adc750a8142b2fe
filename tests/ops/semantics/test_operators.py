"""What terms of single nodes are worth, beside what ONNX Runtime computes, over attributes drawn at random."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.numbers.algebra import Tensor
from onnx_passes.ops.number_systems import values
from onnx_passes.ops.number_systems.terms import CALL, Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof
from onnx_passes.proofs.samples import variables
from tests.helpers.random_nodes import NODES, Drawn, some
from tests.helpers.thorough import THOROUGH

OPAQUE = frozenset(
    {"ArgMax", "ArgMin", "Hardmax", "InstanceNormalization", "LayerNormalization", "LogSoftmax", "LpNormalization"}
    | {"OneHot", "ReduceLogSum", "ReduceLogSumExp", "Softmax", "Softmax-11", "TopK"}
)
"""Functions of sequences that have no numbers: what they are in real numbers is tested beside what defines them."""
COUNT = 40 if THOROUGH else 10


def values_of(each: Drawn) -> tuple[list[np.ndarray], bool, np.ndarray] | None:
    """Compute the terms of results; also whether all engines agree on them, and where they may not."""
    model, terms = ir.from_proto(each.proto), Terms(most=50_000)
    made = variables(terms, model)
    results = Evaluation(model, terms).outputs(made)
    numbers = {
        term: np.array([number]).astype(tensor.dtype.numpy())
        for tensor, value in zip(made, model.graph.inputs, strict=True)
        for term, number in zip(
            tensor.elements(terms).reshape(-1).tolist(), each.feeds[str(value.name)].reshape(-1), strict=True
        )
    }
    found: list[np.ndarray] = []
    settled, undefined = True, np.zeros(1, bool)
    for result, expected in zip(results, each.results, strict=True):
        assert result.shape == expected.shape, each
        assert result.dtype.numpy() == expected.dtype, each
        roots = result.elements(terms).reshape(-1).tolist()
        try:
            computed = values.compute(terms, roots, numbers)
        except values.NoValueError:
            return None
        settled, undefined = settled and computed.settled, undefined | computed.undefined
        array = np.array([computed.of[root].reshape(-1)[0] for root in roots], expected.dtype)
        found.append(array.reshape(expected.shape))
    return found, settled, undefined


@pytest.mark.parametrize("name", NODES)
def test_terms_are_worth_what_onnxruntime_computes(name: str):
    known = 0
    for each in some(name, COUNT):
        computed = values_of(each)
        if computed is None or computed[2].any():
            continue
        known += 1
        for array, expected in zip(computed[0], each.results, strict=True):
            if expected.dtype.kind in "iub":
                assert np.array_equal(array, expected), each
            else:
                # Numbers are such that sums and products are exact; what is divided or approximated is not.
                near = 1e-3 if expected.dtype == np.float16 else 2e-6
                np.testing.assert_allclose(array, expected, rtol=near, atol=near, err_msg=str(each))
    assert known >= COUNT / 2 or name in OPAQUE, f"{known} of {COUNT} are known"


@pytest.mark.parametrize("name", NODES)
def test_nodes_with_other_attributes_are_not_proved_to_be_the_same(name: str):
    nodes = some(name, COUNT)
    for one, other in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        before, after = ir.from_proto(one.proto), ir.from_proto(other.proto)
        ours, theirs = ([(v.dtype, v.shape) for v in model.graph.inputs] for model in (before, after))
        if ours != theirs or _same(one, other):
            continue
        assert not isinstance(prove_equal(before, after, solver=False), Proof), f"{one}\n{other}"


def _same(one: Drawn, other: Drawn) -> bool:
    """Tell whether two models compute the same of what both are fed."""
    from tests.helpers.random_nodes import run

    for feeds in (one.feeds, other.feeds):
        found = [run(each.proto, dict(zip(each.feeds, feeds.values(), strict=True))) for each in (one, other)]
        if any(each is None for each in found):
            return False
        pairs = zip(*found, strict=True) if len(found[0]) == len(found[1]) else [(np.zeros(1), np.zeros(2))]
        if not all(
            a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True) for a, b in pairs
        ):
            return False
    return True


@pytest.mark.parametrize("name", sorted(NODES))
def test_a_node_is_proved_to_be_the_same_as_itself(name: str):
    for each in some(name, 2):
        models = [ir.from_proto(each.proto) for _ in range(2)]
        assert isinstance(prove_equal(*models, solver=False), Proof), each


def test_unknown_functions_are_told_apart_by_their_attributes_and_versions():
    terms = Terms()
    made = Tensor(ir.DataType.FLOAT, None, terms.variable("x", ir.DataType.FLOAT, [2]))
    head = '<ir_version: 10, opset_import: ["": 20, "some.where": {}]> g (float[2] x) => (float[2] y)'
    found = set()
    for version, body in ((1, "<a = 1>"), (1, "<a = 2>"), (1, "<b = 1>"), (1, ""), (2, "<a = 1>")):
        model = ir.from_onnx_text(f"{head.format(version)} {{ y = some.where.Foo {body} (x) }}")
        (result,) = Evaluation(model, terms).outputs([made])
        found.add(tuple(result.elements(terms).tolist()))
    assert len(found) == 5
    assert any(symbol.name == CALL for symbol in terms.symbols)
