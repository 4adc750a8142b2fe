"""Bring models of QONNX, Brevitas and FINN to one form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.errors import UsageError
from onnx_passes.core.options import option
from onnx_passes.datatypes.text import parse
from onnx_passes.graph import annotations
from onnx_passes.graph.tensor_types import DATATYPE
from onnx_passes.ops.collection import definition_of
from onnx_passes.ops.definition import Definition
from onnx_passes.passes.qonnx.dialect import (
    EARLIER,
    GENERAL,
    OPERATORS,
    ROUNDING,
    Scope,
    is_backend_node,
    is_general,
    own_nodes,
    scopes,
    version_of,
)
from onnx_passes.rewrite.leftovers import Leftovers

LEAST_OPSET = 13
"""Since when axes are inputs, Softmax is along one axis, and all that quantizers are made of is there."""


@passes.verify.equality
@passes.register(tags=("qonnx", "convert"))
class ImportQonnx(Transformation):
    """Bring a model of QONNX, Brevitas or FINN, of any age, to one form.

    Rewrites: the domains ``onnx.brevitas``, ``finn.custom_op.general`` and ``finn`` → ``qonnx.custom_op.general``, with
              the version that Trunc asks for; the operator ``IntQuant`` → ``Quant``, the name that all tools know;
              attributes that are left out → their default; ``"round"`` → ``"ROUND"``, and one name for each way of
              rounding; standard operators of an opset below ``opset`` → those of that opset; names of data types in
              annotations → their canonical spelling.
    Refuses:  operators with inputs or attributes that they cannot have; Trunc of both versions in one graph. Operators
              of the domain ``finn`` with a ``backend`` are hardware, and stay.
    Exactness: bit-exact; scales, zero points and bit widths stay as they are.
    """

    preserves = ("remove-unused", "shape-inference", "topological-sort", "unique-names")

    opset: int = option(LEAST_OPSET, "least version of the default operator set; a model of a higher one keeps its own")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Normalise in place."""
        return PassResult(model, modified=normalise(model, context, self.opset))


def normalise(model: ir.Model, context: Context, opset: int = LEAST_OPSET) -> bool:
    """Bring a model to the normal form; tells whether it was in another. A refusal leaves the model as it was."""
    plans = [_Plan(model, scope, context) for scope in scopes(model)]
    modified = _raise_opset(model, opset)
    for plan in plans:
        modified |= plan.apply()
    return modified


def _raise_opset(model: ir.Model, least: int) -> bool:
    from onnx_passes.graph.opset import convert_opset

    versions = [scope.opset_imports.get("", least) for scope in scopes(model)]
    modified = min(versions) < least
    if modified:
        convert_opset(model, max(least, *versions))
    for scope in scopes(model):
        if "" not in scope.opset_imports:
            scope.opset_imports[""] = max(least, *versions)
            modified = True
    return modified


class _Plan:
    """What has to change in one graph with its subgraphs, or in one function."""

    def __init__(self, model: ir.Model, scope: Scope, context: Context) -> None:
        self._scope = scope
        self._version = version_of(model, scope)
        self._nodes: list[tuple[ir.Node, Definition | None, _Spelling]] = []
        backend: Counter[str] = Counter()
        unknown = Leftovers()
        self._kept: set[str] = set()
        for node in own_nodes(model, scope):
            if is_backend_node(node):
                backend[node.op_type] += 1
            if is_general(node):
                definition = definition_of(node)
                if definition is None and node.op_type not in OPERATORS:
                    unknown.add(node.op_type, "there is no such operator of QONNX")
                spelling = _Spelling() if definition is None else _respelled(definition, node)
                self._nodes.append((node, definition, spelling))
            else:
                self._kept.add(node.domain)
        self._kept.update(domain for domain, _, _ in model.functions)
        if backend:
            names = ", ".join(f"{count} {name}" for name, count in backend.items())
            context.note(f"left as they are, as they are of FINN's hardware library: {names}")
        for text in unknown.notes():
            context.note(text)
        self._datatypes = _datatypes(scope, context)

    def apply(self) -> bool:
        """Change the scope; tells whether anything had to change."""
        modified = bool(self._datatypes)
        for node, definition, spelling in self._nodes:
            if node.domain != GENERAL:
                node.domain = GENERAL
                modified = True
            if definition is not None and node.op_type != definition.name:
                node.op_type = definition.name
                modified = True
            modified |= spelling.apply(node)
        for value, text in self._datatypes:
            annotations.set(value, annotations.get(value) | {DATATYPE: text})
        return self._import_domains() or modified

    def _import_domains(self) -> bool:
        imports = self._scope.opset_imports
        before = dict(imports)
        if self._version is not None:
            imports[GENERAL] = self._version
            for domain in EARLIER:
                if domain not in self._kept:
                    imports.pop(domain, None)
        return dict(imports) != before


@dataclass(frozen=True)
class _Spelling:
    """Attributes that a node lacks or spells in another way than usual, and second names of others."""

    wanted: Sequence[ir.Attr] = ()
    unwanted: Sequence[str] = ()

    def apply(self, node: ir.Node) -> bool:
        for attribute in self.wanted:
            node.attributes.add(attribute)
        for name in self.unwanted:
            del node.attributes[name]
        return bool(self.wanted or self.unwanted)


def _respelled(definition: Definition, node: ir.Node) -> _Spelling:
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return _Spelling()
    values = definition.checked(node)
    found: list[ir.Attr] = []
    for attribute in definition.attributes:
        value: Any = values.get(attribute.name)
        if attribute.name == "rounding_mode":
            value = ROUNDING.get(value, value)
        if value in (None, "", ()):
            continue
        wanted = _attribute(attribute.name, attribute.kind, value)
        given = node.attributes.get(attribute.name)
        if given is None or given.type != wanted.type or _plain(given) != _plain(wanted):
            found.append(wanted)
    return _Spelling(found, [name for name in node.attributes if name not in values])


def _attribute(name: str, kind: str, value: Any) -> ir.Attr:
    match kind:
        case "int":
            return ir.AttrInt64(name, int(value))
        case "float":
            return ir.AttrFloat32(name, float(value))
        case "ints":
            return ir.AttrInt64s(name, [int(item) for item in value])
        case _:
            return ir.AttrString(name, str(value))


def _plain(attribute: ir.Attr) -> Any:
    return tuple(attribute.as_ints()) if attribute.type is ir.AttributeType.INTS else attribute.value


def _datatypes(scope: Scope, context: Context) -> list[tuple[ir.Value, str]]:
    """List the values whose data type is spelled in another way than usual."""
    found: list[tuple[ir.Value, str]] = []
    for value in annotations.values(scope):
        text = annotations.get(value).get(DATATYPE)
        if text is None:
            continue
        try:
            canonical = str(parse(text.upper()))
        except UsageError as error:
            context.note(f"the annotation of '{value.name}' is kept, though it says nothing: {error.what}")
            continue
        if canonical != text:
            found.append((value, canonical))
    return found
