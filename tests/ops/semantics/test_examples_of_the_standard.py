"""What operators mean, against the examples that the standard gives of each of them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases

from onnx_passes.graph.traits import operators
from onnx_passes.numbers.algebra import Tensor, TooLargeError, UnsupportedError
from onnx_passes.ops.number_systems import values
from onnx_passes.ops.number_systems.terms import Terms
from onnx_passes.ops.semantics.evaluation import Evaluation
from onnx_passes.proofs.samples import variables
from tests.helpers.thorough import some

_EXACT = frozenset("biuOSU")
_PLAIN = frozenset(operators("elementwise"))


def _cases():
    found = [case for case in collect_testcases(None) if case.kind == "node"]
    return [case for case in found if "training" not in case.name and "expanded" not in case.name]


def _array(data):
    return onnx.numpy_helper.to_array(data) if isinstance(data, onnx.TensorProto) else data


def _computed(case) -> bool:
    """Compare one example of the standard with what its terms are; tells whether they have values."""
    inputs, outputs = ([_array(data) for data in side] for side in case.data_sets[0])
    if not all(isinstance(array, np.ndarray | np.generic) for array in (*inputs, *outputs)):
        return False
    model, terms = ir.from_proto(case.model), Terms(most=20_000)
    try:
        made = variables(terms, model)
        # Sizes and indices have to be known, in models as here.
        made = [
            Tensor(tensor.dtype, np.asarray(array))
            if index and array.dtype.kind in "iu" and array.size < 64 and case.model.graph.node[0].op_type not in _PLAIN
            else tensor
            for index, (tensor, array) in enumerate(zip(made, inputs, strict=True))
        ]
        results = Evaluation(model, terms).outputs(made)
    except (UnsupportedError, TooLargeError):
        return False
    numbers = {
        term: np.array([number]).astype(tensor.dtype.numpy())
        for tensor, array in zip(made, inputs, strict=True)
        if tensor.known is None
        for term, number in zip(tensor.elements(terms).reshape(-1).tolist(), np.asarray(array).reshape(-1), strict=True)
    }
    for result, given in zip(results, outputs, strict=False):
        expected = np.asarray(given)
        roots = result.elements(terms)
        assert roots.shape == expected.shape, case.name
        assert result.dtype.numpy() == expected.dtype, case.name
        try:
            found = values.compute(terms, roots.reshape(-1).tolist(), numbers)
        except values.NoValueError:
            return False
        if not found.undefined.any():
            array = np.array([found.of[term].reshape(-1)[0] for term in roots.reshape(-1).tolist()])
            _assert_equal(array.reshape(roots.shape), expected, case.name)
    return True


def _assert_equal(array: np.ndarray, expected: np.ndarray, name: str) -> None:
    if expected.dtype.kind in _EXACT or not expected.size:
        assert np.array_equal(array, expected), name
    else:
        near = 1e-2 if expected.dtype.itemsize < 4 else 1e-4
        np.testing.assert_allclose(array.astype(float), expected.astype(float), rtol=near, atol=near / 10, err_msg=name)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_meanings_agree_with_the_examples_of_the_standard():
    cases = some(_cases(), every=4)
    computed = sum(_computed(case) for case in cases if case.data_sets and "STRING" not in case.name)
    assert computed > len(cases) / 2
