"""Which nodes compute from constants alone, and how large their results are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import zip_longest

import numpy as np
import onnx_ir as ir

from onnx_passes.core.walk import all_nodes, nested_graphs
from onnx_passes.graph.constants import constant, constant_tensor, is_constant
from onnx_passes.graph.randomness import is_random
from onnx_passes.graph.shapes import static_shape
from onnx_passes.graph.traits import is_elementwise
from onnx_passes.graph.uses import is_updated

_UNDEFINED_WITHOUT_DATA = ("Sequence", "Optional", "SplitToSequence", "ConcatFromSequence")
_KNOWN_DOMAINS = frozenset({"", "ai.onnx.ml", "com.microsoft"})
_ENDLESS = frozenset({"Loop", "Scan"})
_TEST_MODE_SINCE = 7
_EXPANDING = frozenset({"ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample"})
_LARGEST_ELEMENT = 8
_TEXT = 32


class Eligibility:
    """Decides which nodes give the same results in every run and on every machine."""

    def __init__(self, model: ir.Model, imports: Mapping[str, int], *, dequantize: bool) -> None:
        self._functions = model.functions
        self._opset = imports.get("", imports.get("ai.onnx", 1))
        self._plain: dict[ir.OperatorIdentifier, bool] = {}
        self._dequantize = dequantize

    def __call__(self, node: ir.Node) -> bool:
        """Return whether a node may be folded if its inputs are constant."""
        return self.objection(node) is None

    def objection(self, node: ir.Node) -> str | None:
        """Return the reason why a node must not be folded; None if it may."""
        identifier = node.op_identifier()
        if identifier == ("", "Constant", ""):
            return "it is a constant"
        if not node.outputs or any(attribute.is_ref() for attribute in node.attributes.values()):
            return "it takes an attribute from the caller of its function"
        if any(value.type is not None and not isinstance(value.type, ir.TensorType) for value in node.outputs):
            return "its result is not a tensor"
        function = self._functions.get(identifier)
        if function is None:
            return self._objection_alone(node)
        if identifier not in self._plain:
            self._plain[identifier] = False
            self._plain[identifier] = all(map(self._is_plain_inside, all_nodes(function)))
        return None if self._plain[identifier] else "its function may give another result each time, or may not end"

    def _is_plain_inside(self, node: ir.Node) -> bool:
        if node.op_identifier() in self._functions:
            return self(node)
        return node.op_type not in _ENDLESS and (node.op_type == "If" or self._objection_alone(node) is None)

    def _objection_alone(self, node: ir.Node) -> str | None:
        if node.domain not in _KNOWN_DOMAINS:
            return f"nothing defines operators of domain '{node.domain}'"
        if any(True for _ in nested_graphs(node)):
            return "it holds graphs"
        if is_random(node):
            return "its result is random"
        if node.op_type in ("Dropout", "BatchNormalization") and node.domain == "" and self._opset < _TEST_MODE_SINCE:
            return f"it may be in training mode before opset {_TEST_MODE_SINCE}"
        if _overwrites_what_is_read(node):
            return "ONNX Runtime overwrites its statistics in every run, and other nodes read them"
        if node.op_type == "DequantizeLinear" and not self._dequantize:
            return "weights would grow (dequantize)"
        if node.op_type.startswith(_UNDEFINED_WITHOUT_DATA):
            return "its result is not a tensor"
        return None


def _overwrites_what_is_read(node: ir.Node) -> bool:
    """Return whether a node updates constants with other consumers, or whose update is read."""
    updated = [v for i, v in enumerate(node.inputs) if is_updated(node, i) and v is not None and is_constant(v)]
    is_read = any(output.uses() or output.is_graph_output() for output in node.outputs[1:])
    return any(is_read or len(value.uses()) > 1 for value in updated)


class Candidates:
    """The nodes of a graph and its subgraphs that depend only on constants, in execution order.

    ``bytes`` has the size of each result, or a bound for it; ``source`` the bytes of the constants from which it is
    made. ``waiting`` are nodes whose inputs must first become constant, or whose shapes must first be inferred, before
    the size of their results is known, or whether they can be computed; ``huge`` and ``fed`` are nodes with results or
    inputs above the limit; ``overridable`` nodes would be candidates except for inputs with a default.
    """

    def __init__(
        self, scope: ir.Graph, may_fold: Eligibility, *, largest: int, largest_input: int, inferred: bool
    ) -> None:
        self.nodes: list[ir.Node] = []
        self.bytes: dict[ir.Value, int] = {}
        self.source: dict[ir.Value, int] = {}
        self.waiting: list[ir.Node] = []
        self.huge: dict[ir.Node, int] = {}
        self.fed: dict[ir.Node, int] = {}
        self.overridable: dict[ir.Node, int] = {}
        self._largest = largest
        self._largest_input = largest_input
        self._inferred = inferred
        missing: dict[ir.Node, int] = {}
        ready: list[ir.Node] = []
        for node in all_nodes(scope):
            defaults = _defaults(node)
            if defaults is not None and may_fold(node):
                if defaults:
                    self.overridable[node] = sum(map(bytes_of, defaults))
                else:
                    ready.append(node)
        for node in ready:
            if not self._admit(node):
                continue
            for output in node.outputs:
                for user, _ in output.uses():
                    if user not in missing:
                        missing[user] = sum(constant_tensor(v) is None for v in user.inputs if v is not None)
                    missing[user] -= 1
                    if missing[user] == 0 and may_fold(user):
                        ready.append(user)

    def __contains__(self, value: ir.Value) -> bool:
        return value in self.bytes

    def _admit(self, node: ir.Node) -> bool:
        inputs = [value for value in node.inputs if value is not None]
        tensors = {value: constant_tensor(value) for value in inputs}
        given = {value: bytes_of(tensor) for value, tensor in tensors.items() if tensor is not None}
        if max(given.values(), default=0) > self._largest_input:
            self.fed[node] = max(given.values())
            return False
        settled = len(given) == len(tensors)
        if _divides_integers(node) and not _divides_safely(node):
            if not settled:
                self.waiting.append(node)
            return False
        sizes = [self._size(node, output, settled=settled) for output in node.outputs]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            self.waiting.append(node)
            return False
        if max(known) > self._largest:
            self.huge[node] = max(known)
            return False
        self.nodes.append(node)
        computed = max((self.source[value] for value in inputs if value in self.source), default=0)
        for output, size in zip(node.outputs, known, strict=True):
            self.bytes[output] = size
            self.source[output] = sum(given.values()) + computed
        return True

    def _size(self, node: ir.Node, output: ir.Value, *, settled: bool) -> int | None:
        """Return the bytes of a result or an upper bound, if there is one."""
        if not output.name:
            return 0
        elements = _elements(output)
        if not self._inferred and (elements is None or output.dtype is None):
            return None
        if elements is None:
            elements = _elements_by_contents(node)
        if elements is None and is_elementwise(node):
            counts = [self._count(value) for value in node.inputs if value is not None]
            elements = math.prod(max(count, 1) for count in counts)
        if elements is None and settled and self._inferred and node.op_type not in _EXPANDING:
            # What no inference can tell depends on the data, as in NonZero, and stays in the order of its inputs.
            counts = [self._count(value) for value in node.inputs if value is not None]
            elements = _LARGEST_ELEMENT * (sum(counts) + 1)
        return None if elements is None else math.ceil(elements * _width(output.dtype))

    def _count(self, value: ir.Value) -> int:
        tensor = constant_tensor(value)
        if tensor is not None:
            return tensor.size
        return math.ceil(self.bytes[value] / _width(value.dtype))


def bytes_of(tensor: ir.TensorProtocol) -> int:
    """Return the size of a tensor; that of texts is guessed."""
    return math.ceil(tensor.size * _width(tensor.dtype))


def _width(dtype: ir.DataType | None) -> float:
    if dtype is None:
        return _LARGEST_ELEMENT
    return _TEXT if dtype is ir.DataType.STRING else dtype.bitwidth / 8


def _defaults(node: ir.Node) -> list[ir.TensorProtocol] | None:
    """Return the defaults of the inputs that a node reads; None if it reads anything else but constants."""
    defaults: list[ir.TensorProtocol] = []
    for value in node.inputs:
        if value is None or is_constant(value):
            continue
        if value.const_value is None or not value.is_graph_input():
            return None
        defaults.append(value.const_value)
    return defaults


def _elements(value: ir.Value) -> int | None:
    shape = static_shape(value)
    return None if shape is None else math.prod(shape)


def _elements_by_contents(node: ir.Node) -> int | None:
    """Return the number of result elements of operators with a size as input; None if unknown."""
    arrays = [constant(value) for value in node.inputs]
    if node.domain or not arrays or node.op_type not in ("ConstantOfShape", "Expand", "Tile", "Range"):
        return None
    if any(array is None for array in arrays):
        return None
    given = [array for array in arrays if array is not None]
    match node.op_type:
        case "ConstantOfShape":
            return _product(given[0])
        case "Expand":
            back = zip_longest(reversed(given[0].shape), reversed(given[1].tolist()), fillvalue=1)
            return math.prod(max(a, b) for a, b in back)
        case "Tile":
            return given[0].size * _product(given[1])
        case _:
            return _range_length(given)


def _product(sizes: np.ndarray) -> int:
    return math.prod(max(int(size), 0) for size in sizes.ravel().tolist())


def _range_length(given: Sequence[np.ndarray]) -> int | None:
    start, limit, delta = (float(array.reshape(-1)[0]) for array in given[:3])
    if delta == 0 or not all(map(math.isfinite, (start, limit, delta))):
        return None
    return max(0, math.ceil((limit - start) / delta))


def _divides_integers(node: ir.Node) -> bool:
    if node.domain or node.op_type not in ("Div", "Mod") or len(node.inputs) < 2 or node.inputs[1] is None:
        return False
    dtype = node.inputs[1].dtype
    return dtype is None or not dtype.is_floating_point()


def _divides_safely(node: ir.Node) -> bool:
    """Return whether an integer division cannot crash the process, as a division by zero does."""
    divisor = constant(node.inputs[1])
    if divisor is None:
        return False
    if divisor.dtype.kind not in "iu":
        return True
    if (divisor == 0).any():
        return False
    if divisor.dtype.kind == "u" or not (divisor == -1).any():
        return True
    # The lowest number has no counterpart above zero.
    dividend = constant(node.inputs[0])
    return dividend is not None and not (dividend == np.iinfo(divisor.dtype).min).any()
