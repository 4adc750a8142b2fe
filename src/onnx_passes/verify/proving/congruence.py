"""Equal computations: the same operators on the same inputs, but for steps that give back every float as it is.

Quantizers are read as the standard operators that they stand for: one with a scale is a quotient, one without it, and a
product.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.fragment.fragment import Fragment
from onnx_passes.graph.constants import constant_tensor, is_constant_node
from onnx_passes.graph.encode import Expand
from onnx_passes.graph.randomness import is_random
from onnx_passes.graph.shapes import rank
from onnx_passes.graph.traits import is_elementwise, traits_of
from onnx_passes.ops.describe import expander
from onnx_passes.ops.quantizer import rounds_to_integers
from onnx_passes.proofs.proof import Proof, Unproved
from onnx_passes.verify.proving.facts import Facts

METHOD = "the same computation"
_NEUTRAL: Mapping[str, tuple[float, Collection[int]]] = {
    "Mul": (1.0, (0, 1)),
    "Div": (1.0, (1,)),
    "Sub": (0.0, (1,)),
    "Add": (-0.0, (0, 1)),
}
"""What gives every float back as it is, zeros with their sign included, and at which inputs it may stand."""
_ORDERED = frozenset({"Max", "Min", "Mean", "Sum"})
"""What depends on the order of its inputs by the sign of zeros, or by the order of its additions."""
_UNSIGNED = frozenset({"Round", "Floor", "Ceil", "Clip", "Identity", "Relu"})
"""What makes the same of zeros of either sign, but for the sign."""


def prove_congruent(old: Fragment, new: Fragment, facts: Facts) -> Proof | Unproved:
    """Write both sides as terms, which are numbered so that equal ones have one number."""
    both_round = all(any(map(rounds_to_integers, side.moving)) for side in (old, new))
    for expand in (None, *((expander(facts.model.functions, fast=False),) if both_round else ())):
        terms = _Terms(facts.model.opset_imports, expand)
        if [terms.of(old, value) for value in old.outputs] == [terms.of(new, value) for value in new.outputs]:
            dropped = sorted(terms.dropped)
            said = ["both sides apply the same operators to the same values"]
            if dropped:
                said.append(f"but for {', '.join(dropped)}, which change no bit")
            return Proof("proved-here", METHOD, (", ".join(said),))
    return Unproved("both sides apply other operators, or to other values")


class _Terms:
    """Numbers for terms; ``held`` are those of constants, ``dropped`` says what was left out as neutral."""

    def __init__(self, imports: Mapping[str, int], expand: Expand | None) -> None:
        self._imports, self._expand = imports, expand
        self._numbers: dict[Hashable, int] = {}
        self._parts: dict[int, tuple[str, Hashable, tuple[int, ...]]] = {}
        self._known: dict[ir.Value, int] = {}
        self._ranks: dict[int, int] = {}
        self._alike: dict[Hashable, list[int]] = {}
        """Numbers of constants by type and shape."""
        self.held: dict[int, np.ndarray] = {}
        self.dropped: set[str] = set()

    def of(self, side: Fragment, result: ir.Value) -> int:
        for node in side.nodes:
            if node.outputs[0] not in self._known:
                self._visit(node)
        return self._value(result)

    def _visit(self, node: ir.Node) -> None:
        built = self._expand(node, self._imports) if self._expand is not None and rounds_to_integers(node) else None
        if built is None:
            self._add(node)
            return
        for inner in built.nodes:
            if not is_constant_node(inner):
                self._add(inner)
        self._known[node.outputs[0]] = self._value(built.nodes[-1].outputs[0])
        built.discard()

    def _value(self, value: ir.Value | None) -> int:
        if value is None:
            return -1
        if value in self._known:
            return self._known[value]
        tensor = constant_tensor(value)
        if tensor is None or tensor.dtype is ir.DataType.STRING:
            number = self._number(("value", id(value)))
        else:
            number = self._constant(tensor.numpy())
        self._known[value] = number
        if (length := rank(value)) is not None:
            self._ranks[number] = length
        return number

    def _constant(self, array: np.ndarray) -> int:
        alike = self._alike.setdefault((array.dtype, array.shape), [])
        for number in alike:
            if has_same_bits(self.held[number], array):
                return number
        number = self._number(("constant", array.dtype, array.shape, len(alike)))
        alike.append(number)
        self.held[number] = array
        self._ranks[number] = array.ndim
        return number

    def _add(self, node: ir.Node) -> None:
        inputs = [self._value(value) for value in node.inputs]
        while inputs and inputs[-1] == -1:
            inputs.pop()
        if is_elementwise(node):
            inputs = self._without_ones(inputs)
        same = self._same(node, inputs)
        if same is not None:
            self._known[node.outputs[0]] = same
            return
        if node.op_type in ("Add", "Sub") and node.domain == "":
            inputs = self._blind(node.op_type, inputs)
        traits = traits_of(node)
        if traits.commutative and node.op_type not in _ORDERED:
            inputs.sort()
        attributes = tuple(sorted((name, _plain(attribute)) for name, attribute in node.attributes.items()))
        for place, value in enumerate(node.outputs):
            number = self._number((node.domain, node.op_type, node.overload, attributes, tuple(inputs), place))
            self._parts[number] = ("" if node.domain else node.op_type, attributes, tuple(inputs))
            self._known[value] = number
            if (length := rank(value)) is not None:
                self._ranks[number] = length
            elif is_elementwise(node) and inputs and all(each in self._ranks for each in inputs if each >= 0):
                self._ranks[number] = max(self._ranks[each] for each in inputs if each >= 0)

    def _without_ones(self, inputs: Sequence[int]) -> list[int]:
        """Leave out axes of size 1 in front of constants that something else has as well."""
        longest = max((self._ranks.get(each, -1) for each in inputs if each not in self.held), default=-1)
        return [
            self._constant(_shortened(self.held[each]))
            if each in self.held and self.held[each].ndim <= longest
            else each
            for each in inputs
        ]

    def _same(self, node: ir.Node, inputs: Sequence[int]) -> int | None:
        """Return the input that a node gives back as it is."""
        if node.domain:
            return None
        if node.op_type == "Identity" or _keeps_type(node) or _keeps_all(node):
            return inputs[0]
        neutral, places = _NEUTRAL.get(node.op_type, (0.0, ()))
        for place in places:
            array = self.held.get(inputs[place])
            if array is not None and array.ndim == 0 and array.dtype.kind == "f" and _is(array, neutral):
                self.dropped.add({"Mul": "factors of 1", "Div": "divisors of 1"}.get(node.op_type, "zeros"))
                return inputs[1 - place]
        return None

    def _blind(self, op_type: str, inputs: Sequence[int]) -> list[int]:
        """Forget the sign of a zero that something other than zero is added to."""
        for place, other in ((0, 1), (1, 0)):
            array = self.held.get(inputs[other])
            if array is not None and array.dtype.kind == "f" and array.all() and (place == 0 or op_type == "Add"):
                changed = list(inputs)
                changed[place] = self._unsigned(inputs[place])
                return changed
        return list(inputs)

    def _unsigned(self, number: int) -> int:
        """Return a term for a value but for the sign of zeros: adding zero does nothing else."""
        op_type, attributes, inputs = self._parts.get(number, ("", (), ()))
        if op_type == "Add":
            for place, other in ((0, 1), (1, 0)):
                array = self.held.get(inputs[other])
                if array is not None and array.ndim == 0 and array == 0:
                    self.dropped.add("zeros")
                    return self._unsigned(inputs[place])
        if op_type not in _UNSIGNED:
            return number
        return self._number(("unsigned", op_type, attributes, self._unsigned(inputs[0]), inputs[1:]))

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _keeps_type(node: ir.Node) -> bool:
    """Tell whether a node casts to the type that it is given."""
    given = node.inputs[0].dtype if node.op_type == "Cast" and node.inputs[0] is not None else None
    return given is not None and given == node.attributes.get_int("to", 0)


def _keeps_all(node: ir.Node) -> bool:
    """Tell whether a node is a Dropout that is not in training, of whose results there is one."""
    return node.op_type == "Dropout" and len(node.outputs) == 1 and not is_random(node)


def _shortened(array: np.ndarray) -> np.ndarray:
    while array.ndim and array.shape[0] == 1:
        array = array[0]
    return array


def _is(array: np.ndarray, number: float) -> bool:
    return bool(array == number and np.signbit(array) == np.signbit(number))


def _plain(attribute: ir.Attr) -> Hashable:
    if attribute.type is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return str(tensor.dtype), tuple(tensor.shape.numpy()), tensor.tobytes()
    return str(attribute.type), repr(attribute.value)


_WORDS = (1, 2, 4, 8)
SIGNS = "zeros may be of another sign, as the pass says"


def disagreement(old: Sequence[np.ndarray], new: Sequence[np.ndarray], ignores: Collection[str]) -> str | None:
    """Say where results differ; all NaN are one. Nothing where they do not, but perhaps in the sign of zeros."""
    for a, b in zip(old, new, strict=True):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"the results are {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
        if has_same_bits(a, b):
            continue
        same = a == b
        if a.dtype.kind == "f":
            same |= np.isnan(a) & np.isnan(b)
        if not same.all():
            at = int(np.argmin(same))
            return f"{a.reshape(-1)[at]} becomes {b.reshape(-1)[at]}"
        if "nsz" not in ignores and signs_differ([a], [b]):
            return "a zero is of another sign"
    return None


def has_same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Tell whether two arrays are of one type and shape and hold the same bits; other objects are never said to."""
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind == "O":
        return False
    bits = np.dtype(f"u{a.dtype.itemsize}" if a.dtype.itemsize in _WORDS else "u1")
    left, right = (np.ascontiguousarray(array).reshape(-1).view(bits) for array in (a, b))
    return np.array_equal(left, right)


def signs_differ(old: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> bool:
    """Tell whether equal results differ in the sign of a zero."""
    return any(
        a.dtype.kind == "f" and bool(((np.signbit(a) != np.signbit(b)) & (a == 0)).any())
        for a, b in zip(old, new, strict=True)
    )
