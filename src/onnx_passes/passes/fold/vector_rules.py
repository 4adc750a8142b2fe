"""How the operators that make up shapes treat vectors of which something is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import onnx_ir as ir

from onnx_passes.graph import extents
from onnx_passes.graph.arguments import argument, is_given
from onnx_passes.graph.extents import Element
from onnx_passes.passes.fold.vectors import LONGEST, TRACKED, VECTORS, Made, Vector, VectorRule, Vectors


def _shape(vectors: Vectors, node: ir.Node) -> Made:
    dims = vectors.shape(argument(node, 0))
    if dims is None:
        return None
    start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(dims))
    rank = len(dims)
    bounds = [min(max(bound + rank if bound < 0 else bound, 0), rank) for bound in (start, end)]
    return Vector(dims[bounds[0] : bounds[1]])


def _size(vectors: Vectors, node: ir.Node) -> Made:
    dims = vectors.shape(argument(node, 0))
    return None if dims is None else Vector((_product(dims),), is_scalar=True)


def _product(elements: Sequence[Element]) -> Element:
    return reduce(extents.multiply, elements, 1)


def _same(vectors: Vectors, node: ir.Node) -> Made:
    return vectors.get(argument(node, 0))


def _cast(vectors: Vectors, node: ir.Node) -> Made:
    vector, target = vectors.get(argument(node, 0)), node.attributes.get_int("to", 0)
    if vector is None or ir.DataType(target) not in TRACKED:
        return None
    if ir.DataType(target) is not ir.DataType.BOOL:
        return vector
    return Vector(tuple(int(e != 0) if isinstance(e, int) else None for e in vector.elements), vector.is_scalar)


def _gather(vectors: Vectors, node: ir.Node) -> Made:
    data, index = vectors.get(argument(node, 0)), vectors.get(argument(node, 1))
    numbers = None if index is None else index.numbers()
    if data is None or data.is_scalar or index is None or numbers is None:
        return None
    length = len(data.elements)
    if not all(-length <= number < length for number in numbers):
        return None
    return Vector(tuple(data.elements[number] for number in numbers), is_scalar=index.is_scalar)


def _slice(vectors: Vectors, node: ir.Node) -> Made:
    data = vectors.get(argument(node, 0))
    starts, ends = vectors.numbers(node, 1, "starts"), vectors.numbers(node, 2, "ends")
    steps = vectors.numbers(node, 4) if argument(node, 4) is not None else [1]
    if data is None or data.is_scalar or starts is None or ends is None or steps is None:
        return None
    if not len(starts) == len(ends) == len(steps) == 1 or steps[0] == 0:
        return None
    length = len(data.elements)
    if steps[0] < 0:
        start = min(starts[0] + length if starts[0] < 0 else starts[0], length - 1)
        # Unlike in Python, an end far below zero means the front.
        end = max(ends[0] + length if ends[0] < 0 else ends[0], -1)
        return None if start < 0 else Vector(tuple(data.elements[at] for at in range(start, end, steps[0])))
    return Vector(data.elements[slice(starts[0], ends[0], steps[0])])


def _concat(vectors: Vectors, node: ir.Node) -> Made:
    parts = [vectors.get(value) for value in node.inputs]
    elements: list[Element] = []
    for value, part in zip(node.inputs, parts, strict=True):
        if part is not None and not part.is_scalar:
            elements.extend(part.elements)
            continue
        length = None if value is None or value.shape is None or len(value.shape) != 1 else value.shape[0]
        if not isinstance(length, int) or length > LONGEST:
            return None
        elements.extend([None] * length)
    return Vector(tuple(elements)) if any(part is not None for part in parts) else None


def _squeeze(vectors: Vectors, node: ir.Node) -> Made:
    vector = vectors.get(argument(node, 0))
    return None if vector is None or len(vector.elements) != 1 else Vector(vector.elements, is_scalar=True)


def _unsqueeze(vectors: Vectors, node: ir.Node) -> Made:
    vector, axes = vectors.get(argument(node, 0)), vectors.numbers(node, 1, "axes")
    is_first = axes is not None and len(axes) == 1 and axes[0] in (0, -1)
    return Vector(vector.elements) if vector is not None and vector.is_scalar and is_first else None


def _reshape(vectors: Vectors, node: ir.Node) -> Made:
    vector, target = vectors.get(argument(node, 0)), vectors.get(argument(node, 1))
    if vector is None or target is None or len(target.elements) > 1:
        return None
    return Vector(vector.elements, is_scalar=not target.elements)


def _reduce(vectors: Vectors, node: ir.Node) -> Made:
    vector, axes = vectors.get(argument(node, 0)), vectors.numbers(node, 1, "axes")
    keeps = node.attributes.get_int("keepdims", 1) == 1
    all_axes = not is_given(node, 1, "axes")
    if vector is None or vector.is_scalar or not (all_axes or axes in ([0], [-1])):
        return None
    if all_axes and node.attributes.get_int("noop_with_empty_axes", 0):
        return None
    total = _product(vector.elements) if node.op_type == "ReduceProd" else _sum(*vector.elements)
    return Vector((total,), is_scalar=not keeps)


def _constant_of_shape(vectors: Vectors, node: ir.Node) -> Made:
    length = vectors.numbers(node, 0)
    value = node.attributes.get("value")
    if length is None or len(length) > 1 or value is None or math.prod(length) > LONGEST or min(length, default=0) < 0:
        return None
    number = value.as_tensor().numpy().reshape(-1)[0]
    if number.dtype.kind not in "ib":
        return None
    return Vector((int(number),) * math.prod(length), is_scalar=not length)


def _split(vectors: Vectors, node: ir.Node) -> Made:
    vector = vectors.get(argument(node, 0))
    if vector is None or vector.is_scalar:
        return None
    explicit = is_given(node, 1, "split")
    parts, length = len(node.outputs), len(vector.elements)
    even = -(-length // parts)
    sizes = vectors.numbers(node, 1, "split") if explicit else [min(even, length - i * even) for i in range(parts)]
    if sizes is None or sum(sizes) != length or len(sizes) != parts or min(sizes) < 0:
        return None
    ends = [sum(sizes[: index + 1]) for index in range(parts)]
    return [Vector(vector.elements[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _expand(vectors: Vectors, node: ir.Node) -> Made:
    vector, target = vectors.get(argument(node, 0)), vectors.numbers(node, 1)
    if vector is None or target is None or len(target) != 1 or not 0 < target[0] <= LONGEST:
        return None
    if len(vector.elements) == 1:
        return Vector(vector.elements * target[0])
    return Vector(vector.elements) if target[0] in (1, len(vector.elements)) else None


def _elementwise(function: Callable[..., Element]) -> VectorRule:
    def rule(vectors: Vectors, node: ir.Node) -> Made:
        given = [vectors.get(value) for value in node.inputs]
        present = [vector for vector in given if vector is not None]
        if len(present) < len(given) or not given:
            return None
        length = {len(vector.elements) for vector in present} - {1} or {1}
        if len(length) > 1:
            return None
        size = length.pop()
        columns = [vector.elements * size if len(vector.elements) == 1 else vector.elements for vector in present]
        elements = tuple(function(*row) for row in zip(*columns, strict=True))
        return Vector(elements, is_scalar=all(vector.is_scalar for vector in present))

    return rule


def _sign(accepted: tuple[int, ...]) -> VectorRule:
    def holds(a: Element, b: Element) -> Element:
        sign = extents.compare(a, b)
        return None if sign is None else int(sign in accepted)

    return _elementwise(holds)


def _where(condition: Element, a: Element, b: Element) -> Element:
    if isinstance(condition, int):
        return a if condition else b
    return a if a == b else None


def _choose(sign: int) -> Callable[..., Element]:
    def choose(*elements: Element) -> Element:
        best = elements[0]
        for element in elements[1:]:
            order = 0 if element == best and best is not None else extents.compare(element, best)
            if order is None:
                return None
            best = element if order == sign else best
        return best

    return choose


def _sum(*elements: Element) -> Element:
    return reduce(extents.add, elements, 0)


def _subtract(a: Element, b: Element) -> Element:
    return extents.add(a, extents.negate(b))


def _not(a: Element) -> Element:
    return 1 - a if isinstance(a, int) else None


def _and(a: Element, b: Element) -> Element:
    return 0 if 0 in (a, b) else 1 if a == b == 1 else None


def _or(a: Element, b: Element) -> Element:
    return _not(_and(_not(a), _not(b)))


VECTORS.attach(
    {
        "Add": _elementwise(extents.add),
        "And": _elementwise(_and),
        "Cast": _cast,
        "Concat": _concat,
        "ConstantOfShape": _constant_of_shape,
        "Div": _elementwise(extents.divide),
        "Equal": _sign((0,)),
        "Expand": _expand,
        "Gather": _gather,
        "Greater": _sign((1,)),
        "GreaterOrEqual": _sign((0, 1)),
        "Identity": _same,
        "Less": _sign((-1,)),
        "LessOrEqual": _sign((-1, 0)),
        "Max": _elementwise(_choose(1)),
        "Min": _elementwise(_choose(-1)),
        "Mul": _elementwise(extents.multiply),
        "Neg": _elementwise(extents.negate),
        "Not": _elementwise(_not),
        "Or": _elementwise(_or),
        "ReduceProd": _reduce,
        "ReduceSum": _reduce,
        "Reshape": _reshape,
        "Shape": _shape,
        "Size": _size,
        "Slice": _slice,
        "Split": _split,
        "Squeeze": _squeeze,
        "Sub": _elementwise(_subtract),
        "Sum": _elementwise(_sum),
        "Unsqueeze": _unsqueeze,
        "Where": _elementwise(_where),
    }
)
