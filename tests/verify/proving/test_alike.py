from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import RewriteRulePass, Transformation, apply, passes
from onnx_passes.check.verification import Verification
from onnx_passes.fragment.fragment import Fragment
from onnx_passes.verify.proving.congruence import disagreement, has_same_bits
from onnx_passes.verify.proving.facts import Facts
from onnx_passes.verify.proving.shapes import _computation
from onnx_passes.verify.run.execute import Executor

HEAD = '<ir_version: 10, opset_import: ["": 20]>'


@passes.verify.equality
class KeepShape(Transformation, RewriteRulePass):
    """Compute a shape by adding an axis and taking it off again; but for the input named in ``wrong``."""

    wrong = ""

    def pattern(self, op, x):
        return op.Identity(op.Shape(x))

    def rewrite(self, op, x):
        end = op.Constant(value_ints=[1 if x.name == self.wrong else 2])
        return op.Slice(op.Concat(op.Shape(x), [7], axis=0), [0], end)


class Counting(Executor):
    """Counts the models of old and new nodes side by side."""

    ran = 0

    def prepare(self, model, **kwargs):
        self.ran += model.graph.name == "side by side"
        return super().prepare(model, **kwargs)


def layers(*sizes: int) -> ir.Model:
    inputs = ", ".join(f"float[{size}, 2] x{place}" for place, size in enumerate(sizes))
    body = " ".join(f"a{place} = Shape(x{place}) s{place} = Identity(a{place})" for place in range(len(sizes)))
    outputs = ", ".join(f"int64[k] s{place}" for place in range(len(sizes)))
    text = f"{HEAD} g ({inputs}) => ({outputs}) {{ {body} }}"
    return apply(ir.from_onnx_text(text), "shape-inference", verify=False).model


def proofs(model: ir.Model, pass_: Transformation) -> tuple[list[str], int]:
    executor = Counting()
    step = apply(model, pass_, verify=Verification(executor=executor)).steps[0]
    return [proof.level for proof in step.proofs], executor.ran


def test_what_is_alike_runs_once():
    assert proofs(layers(3, 3, 3), KeepShape()) == (["bits:proved-here"] * 3, 1)


def test_other_sizes_run_anew():
    assert proofs(layers(3, 4, 3), KeepShape()) == (["bits:proved-here"] * 3, 2)


def test_other_constants_run_anew():
    """What is wrong with one of three that look alike is not hidden by the others."""
    pass_ = KeepShape()
    pass_.wrong = "x1"
    with pytest.raises(Exception, match="s1 not as expected"):
        proofs(layers(3, 3, 3), pass_)


ARRAYS = [
    np.array([0.0, 1.0], np.float32),
    np.array([-0.0, 1.0], np.float32),
    np.array([np.nan, 1.0], np.float32),
    np.array([0, 0x3F800000], np.int32),
    np.array([0.0, 1.0], np.float64),
    np.array([[0.0, 1.0]], np.float32),
    np.array([True, False]),
    np.array([1 + 0j, 2]),
    np.array([], np.float32),
    np.array(1.5),
]


def test_bits_are_those_of_one_type_and_shape():
    for place, array in enumerate(ARRAYS):
        assert [has_same_bits(array, other.copy()) for other in ARRAYS] == [each == place for each in range(10)]
    assert not has_same_bits(np.array(["a"], object), np.array(["a"], object))


@pytest.mark.parametrize("place", [0, 1])
def test_signs_of_zeros_are_found_in_each_pair(place: int):
    plain, signed = (np.array([number, 1], np.float32) for number in (0.0, -0.0))
    old, new = [plain, plain], [plain, plain]
    new[place] = signed
    assert disagreement(old, new, ()) == "a zero is of another sign"
    assert disagreement(old, new, {"nsz"}) is None


def test_all_nan_are_one():
    other = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert disagreement([np.array([np.nan], np.float32)], [other], ()) is None


BASE = "a = Gather <axis = 1> (x, i) y = Concat <axis = 0> (a, x)"


def key(body: str, array: np.ndarray | None = None, size: int = 2) -> object:
    text = f"{HEAD} g (float[4,4] x) => (y) <int64[2] i = {{0, 1}}, int64[2] j = {{1, 0}}> {{ {body} }}"
    model = ir.from_onnx_text(text)
    model.graph.initializers["j"].const_value = ir.tensor(np.arange(size, dtype=np.int64)[::-1] % 2)
    side = Fragment(tuple(model.graph), tuple(model.graph.outputs), tuple(model.graph.inputs))
    return _computation((side,), [np.zeros((4, 4), np.float32) if array is None else array], Facts(model))


def test_a_computation_is_known_by_all_that_decides():
    assert key(BASE) == key(BASE) is not None
    others = [
        BASE.replace("axis = 1", "axis = 0"),
        BASE.replace("axis = 0", "axis = 1"),
        BASE.replace("(x, i)", "(x, j)"),
        BASE.replace("(a, x)", "(x, a)"),
        BASE.replace("(a, x)", "(a, a)"),
        BASE.replace("Gather", "GatherElements"),
        f"{BASE.replace('y =', 'b =')} y = Identity(a)",
    ]
    assert len({key(BASE), *map(key, others)}) == len(others) + 1
    assert key(BASE) != key(BASE, np.ones((4, 4), np.float32))
    assert key(BASE) != key(BASE, np.zeros((4, 4), np.float64))
    assert key(BASE) != key(BASE, np.zeros((2, 8), np.float32))


def test_what_holds_much_data_is_like_nothing_else():
    assert key(BASE, np.zeros((16, 16), np.float32)) is None
    assert key(BASE.replace("(x, i)", "(x, j)"), size=40) is None
