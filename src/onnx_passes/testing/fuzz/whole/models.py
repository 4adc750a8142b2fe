"""Random models of patterns, operators, authors' models and layers, partly in subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, Literal, cast

import onnx
import onnx_ir as ir

from onnx_passes.graph.schemas import schema_of
from onnx_passes.graph.text import from_text
from onnx_passes.graph.traits import TRAITS
from onnx_passes.rewrite.rule import Rule
from onnx_passes.testing.fuzz import shapes
from onnx_passes.testing.fuzz.build import ModelInput
from onnx_passes.testing.fuzz.case import Case
from onnx_passes.testing.fuzz.draws import Draws, RandomSource, UnbuildableError
from onnx_passes.testing.fuzz.hints import Hints
from onnx_passes.testing.fuzz.site import RECIPES, Built
from onnx_passes.testing.fuzz.surround import make_dynamic, name_nodes
from onnx_passes.testing.fuzz.targets import FuzzTarget, registered
from onnx_passes.testing.fuzz.values import Shape
from onnx_passes.testing.fuzz.whole.growth import Growth
from onnx_passes.testing.fuzz.whole.layers import LAYERS
from onnx_passes.testing.fuzz.whole.nesting import nest

Family = Literal["float", "quantized"]
FAMILIES: tuple[Family, ...] = ("float", "quantized")
_OPSETS = {"float": (17, 18, 20, 20, 20, 21, 21, 24), "quantized": (20, 20, 21)}
"""Opsets; the reference evaluator has no quantizers of older ones."""
_IR_VERSIONS = {17: 8, 18: 8, 20: 9, 21: 10, 24: 11}
_NAMES = ("plain", "plain", "empty", "like values")
_TYPES = (ir.DataType.FLOAT,) * 8 + (ir.DataType.DOUBLE, ir.DataType.INT64, ir.DataType.FLOAT16, ir.DataType.INT32)
_MOST_OUTPUTS = 5
_MOST_NODES = 40
"""Largest number of nodes of an author's model that is used."""
_DEEPEST = 2
_TRIES = 4
_IMAGE, _ROWS = (1, 4, 6, 6), (3, 6)


def families_named(name: str | None) -> tuple[Family, ...]:
    """List the family of a name, or ``all`` of them."""
    return FAMILIES if name == "all" else tuple(family for family in FAMILIES if family == name)


def random_case(family: Family, seed: int, favoured: Collection[str] = ()) -> Case:
    """Generate a model with data for it, determined by the seed.

    Patterns of ``favoured`` passes are more likely.
    """
    draws = Draws(RandomSource(seed * 2 + FAMILIES.index(family)))
    growth = Growth(draws, draws.freely(_OPSETS[family]), frozenset(favoured))
    if family == "quantized":
        growth.input(ir.DataType.FLOAT, draws.freely((_IMAGE, _ROWS, _ROWS)))
    else:
        for _ in range(draws.number(1, 2)):
            growth.input(draws.freely(_TYPES), shapes.shape(draws))
    for _ in range(draws.number(2, 12)):
        _step(growth, family, 0)
    return _assembled(growth, seed)


def _step(growth: Growth, family: Family, depth: int) -> None:
    """Add something; if that fails, try a few other ways."""
    for _ in range(_TRIES):
        try:
            _chosen(growth, family, depth)()
        except UnbuildableError:
            continue
        return


def _chosen(growth: Growth, family: Family, depth: int) -> Callable[[], None]:
    draws = growth.draws
    if depth < _DEEPEST and draws.happens(percent=15):
        return partial(nest, growth, partial(_step, growth, family, depth + 1))
    if family == "quantized" and draws.happens(percent=55):
        return partial(draws.freely(LAYERS), growth)
    if draws.happens(percent=35):
        return partial(_graft, growth, draws.freely(operators()))
    known = patterns(quantized=family == "quantized" and draws.happens(percent=70))
    names = [name for name in known if name in growth.favoured] if draws.happens(percent=60) else []
    piece = draws.freely(known[draws.freely(names or list(known))])
    models = [text for text in piece.hints.models if _opset_of(_parsed(text)) == growth.opset]
    if models and draws.happens(percent=60):
        return partial(_splice, growth, draws.freely(models))
    return partial(_graft, growth, piece)


def _graft(growth: Growth, piece: Piece) -> None:
    growth.graft(piece.rule, piece.hints)


def _splice(growth: Growth, text: str) -> None:
    """Add the nodes of a model given by the author of a pass."""
    model = _parsed(text)
    if model.functions or len(model.graph.node) > _MOST_NODES:
        raise UnbuildableError("the model belongs to another family")
    with growth.undone():
        defaults = {tensor.name for tensor in model.graph.initializer}
        names: dict[str, str] = {"": ""}
        for value in model.graph.input:
            if value.name not in defaults:
                names[value.name] = growth.like(*_declared(value)).name
        for tensor in model.graph.initializer:
            names[tensor.name] = growth.name("c")
            copied = onnx.TensorProto()
            copied.CopyFrom(tensor)
            copied.name = names[tensor.name]
            growth.parts.initializers.append(copied)
        growth.parts.nodes.extend(_renamed(node, names, growth) for node in model.graph.node)
        for value in model.graph.output:
            if value.name in {name for node in model.graph.node for name in node.output}:
                growth.pool.append(Built(names[value.name], *_declared(value)))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> onnx.ModelProto:
    return cast(Any, onnx.shape_inference.infer_shapes)(from_text(text, "the model of an author"))


def _opset_of(model: onnx.ModelProto) -> int:
    return next((item.version for item in model.opset_import if not item.domain), 0)


def _declared(value: onnx.ValueInfoProto) -> tuple[ir.DataType, Shape]:
    tensor = value.type.tensor_type
    if not tensor.elem_type or not tensor.HasField("shape"):
        raise UnbuildableError("its shape is unknown")
    sizes = [dim.dim_value if dim.HasField("dim_value") else 2 for dim in tensor.shape.dim]
    return ir.DataType(tensor.elem_type), tuple(sizes)


def _renamed(node: onnx.NodeProto, names: dict[str, str], growth: Growth) -> onnx.NodeProto:
    if any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
        raise UnbuildableError("it has bodies")
    for name in node.output:
        if name:
            names[name] = growth.name("v")
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    copied.name = ""
    copied.input[:] = [names[name] for name in node.input]
    copied.output[:] = [names[name] for name in node.output]
    return copied


def _assembled(growth: Growth, seed: int) -> Case:
    """Assemble the model: unused values, and some inner ones, are outputs."""
    draws, parts = growth.draws, growth.parts
    computed = {name for node in parts.nodes for name in node.output}
    read = {name for node in all_nodes(parts.nodes) for name in node.input}
    values = list({v.name: v for v in growth.pool if v.name in computed}.values())
    if not values:
        raise UnbuildableError("nothing is computed")
    outputs = [v for v in values if v.name not in read][-_MOST_OUTPUTS:]
    outputs += [v for v in values if v.name in read and draws.happens(percent=10)][:_MOST_OUTPUTS]
    outputs = outputs or values[-1:]
    kept = {tensor.name for tensor in parts.initializers}
    constants = [value for value in parts.constants if value.name in kept and value.name in read]
    for value in constants:
        if draws.happens(percent=4):
            parts.inputs.append(ModelInput(value.name, value.dtype, value.shape, value.array, overridable=True))
    parts.inputs = [item for item in parts.inputs if item.name in read] or parts.inputs[:1]
    name_nodes(parts.nodes, draws.freely(_NAMES))
    model = _model(growth, outputs)
    other = make_dynamic(model, parts.inputs, draws)
    inferred = cast(Any, onnx.shape_inference.infer_shapes)(model, data_prop=True)
    _complete(inferred, outputs)
    if draws.happens(percent=15):
        del inferred.graph.value_info[:]
    divides = any(node.op_type in ("Div", "Mod") for node in all_nodes(parts.nodes))
    return Case(inferred.SerializeToString(), tuple(parts.inputs), seed % 1024, other, divides)


def _complete(model: onnx.ModelProto, outputs: Sequence[Built]) -> None:
    """Declare the rank of outputs of operators of other domains, which onnx cannot infer."""
    for info, value in zip(model.graph.output, outputs, strict=True):
        tensor = info.type.tensor_type
        if not tensor.HasField("shape"):
            tensor.shape.CopyFrom(onnx.TensorShapeProto(dim=[onnx.TensorShapeProto.Dimension() for _ in value.shape]))


def _model(growth: Growth, outputs: Sequence[Built]) -> onnx.ModelProto:
    parts = growth.parts
    used = {node.domain for node in all_nodes(parts.nodes)} | {
        node.domain for function in growth.functions for node in all_nodes(function.node)
    }
    called = {(node.domain, node.op_type) for node in all_nodes(parts.nodes)}
    called |= {(node.domain, node.op_type) for f in growth.functions for node in all_nodes(f.node)}
    graph = onnx.helper.make_graph(
        parts.nodes,
        "random",
        [onnx.helper.make_tensor_value_info(item.name, item.dtype.value, item.shape) for item in parts.inputs],
        [onnx.helper.make_tensor_value_info(value.name, value.dtype.value, None) for value in outputs],
        parts.initializers,
    )
    imports = [onnx.helper.make_opsetid("", growth.opset)]
    imports += [onnx.helper.make_opsetid(domain, 1) for domain in sorted(used - {""})]
    functions = [function for function in growth.functions if (function.domain, function.name) in called]
    version = _IR_VERSIONS[growth.opset]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=version, functions=functions)


def all_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield all nodes, including those in subgraphs."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from all_nodes(attribute.g.node)


_QUANTIZED = ("qonnx", "quant", "streamline", "thresholds")
"""Packages of rules about quantized networks."""
_OPSET = 20
_STATEFUL = frozenset({"Dropout", "If", "Loop", "Scan", "RandomNormalLike", "RandomUniformLike", "Bernoulli"})


@dataclass(frozen=True)
class Piece:
    """Building block of a model: an instance of a pattern, or a model of the author."""

    rule: Rule
    hints: Hints


Pieces = Mapping[str, tuple[Piece, ...]]
"""Building blocks by pass: all passes are equally likely, whatever their number of rules."""


@cache
def patterns(*, quantized: bool) -> Pieces:
    """List the rules of quantized networks, or all others, by pass."""
    found: dict[str, list[Piece]] = {}
    for target in registered():
        if (_room_of(target) in _QUANTIZED) == quantized:
            found.setdefault(target.name.partition("/")[0], []).append(Piece(target.rule, target.hints))
    return {name: tuple(pieces) for name, pieces in found.items()}


@cache
def operators() -> tuple[Piece, ...]:
    """List the operators that have a recipe."""
    names = {name for domain, name in RECIPES.table() if domain == ""}
    names |= {name for (domain, name), traits in TRAITS.table().items() if not domain and traits.kind == "elementwise"}
    known = [name for name in sorted(names - _STATEFUL) if schema_of("", name, _OPSET) is not None]
    return tuple(Piece(_rule_of(name), Hints()) for name in known)


def _room_of(target: FuzzTarget) -> str:
    return Path(target.rule.source.rsplit(":", 1)[0]).parent.name


def _rule_of(operator: str) -> Rule:
    """Make a rule of one operator, of which only the pattern is used."""

    def pattern(op: Any, x: Any) -> Any:
        return getattr(op, operator)(x, _allow_other_inputs=True, _allow_other_attributes=True, _outputs=["y"])

    def rewrite(op: Any, x: Any) -> Any:
        return op.Identity(x)

    return Rule(pattern, rewrite, name=operator, commute=False)
