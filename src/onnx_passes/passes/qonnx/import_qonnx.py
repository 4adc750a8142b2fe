"""Import models of QONNX, Brevitas and FINN in a canonical form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context
from onnx_passes.core.errors import UsageError
from onnx_passes.core.options import option
from onnx_passes.datatypes.types import parse
from onnx_passes.graph import annotations
from onnx_passes.graph.tensor_types import DATATYPE
from onnx_passes.ops.definition import Definition, definition_of
from onnx_passes.passes.convert.convert_opset import convert_to
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
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.leftovers import Leftovers
from onnx_passes.rewrite.passes import EditorPass

LEAST_OPSET = 13
"""The first opset with axes as inputs, Softmax along one axis, and all operators that quantizers lower to."""


@passes.verify.equality
@passes.register(tags=("qonnx", "convert"))
class ImportQonnx(EditorPass):
    """Canonicalize models of QONNX, Brevitas and FINN, of any age, to one form.

    Rewrites: the domains ``onnx.brevitas``, ``finn.custom_op.general`` and ``finn`` → ``qonnx.custom_op.general``, with
              the version that Trunc requires; the operator ``IntQuant`` → ``Quant``, the name that all tools know;
              missing attributes → their defaults; aliases of rounding modes, such as ``"round"`` → ``"ROUND"``;
              standard operators of an opset below ``opset`` → those of that opset; names of data types in annotations →
              their canonical spelling.
    Refuses:  operators with unsupported inputs or attributes; Trunc of both versions in one graph. Operators of the
              domain ``finn`` with a ``backend`` are hardware, and stay.
    Exactness: bit-exact; scales, zero points and bit widths are unchanged.
    """

    preserves = ("remove-unused", "shape-inference", "topological-sort", "unique-names")

    opset: int = option(LEAST_OPSET, "least version of the default operator set; models of higher versions keep theirs")

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Canonicalize in place."""
        normalise(model, editor, self.opset)


def normalise(model: ir.Model, editor: Editor, opset: int = LEAST_OPSET) -> None:
    """Canonicalize a model; a refusal leaves it unchanged."""
    plans = [_Plan(model, scope, editor.context) for scope in scopes(model)]
    _raise_opset(model, editor, opset)
    for plan in plans:
        if not editor.stopped:
            plan.apply(editor)


def _raise_opset(model: ir.Model, editor: Editor, least: int) -> None:
    versions = [scope.opset_imports.get("", least) for scope in scopes(model)]
    version = max(least, *versions)
    if min(versions) < least and not convert_to(version, model, editor):
        return
    for scope in scopes(model):
        editor.import_opsets(scope.opset_imports, {"": scope.opset_imports.get("", version)})


class _Plan:
    """Plan of the changes in one graph with its subgraphs, or in one function."""

    def __init__(self, model: ir.Model, scope: Scope, context: Context) -> None:
        self._imports = scope.opset_imports
        self._version = version_of(model, scope)
        self._nodes: list[tuple[ir.Node, str, Mapping[str, ir.Attr | None]]] = []
        backend: Counter[str] = Counter()
        unknown = Leftovers()
        self._kept = {domain for domain, _, _ in model.functions}
        for node in own_nodes(model, scope):
            if is_backend_node(node):
                backend[node.op_type] += 1
            if not is_general(node):
                self._kept.add(node.domain)
                continue
            definition = definition_of(node)
            if definition is not None:
                self._nodes.append((node, definition.name, _respelled(definition, node)))
                continue
            self._nodes.append((node, node.op_type, {}))
            if node.op_type not in OPERATORS:
                unknown.add(node.op_type, "there is no such operator of QONNX")
        if backend:
            names = ", ".join(f"{count} {name}" for name, count in backend.items())
            context.note(f"unchanged nodes of FINN's hardware library: {names}")
        for text in unknown.notes():
            context.note(text)
        self._datatypes = _datatypes(scope, context)

    def apply(self, editor: Editor) -> None:
        """Apply the plan: change the operators between the import of new domains and the removal of old ones."""
        for value, text in self._datatypes:
            annotations.set(value, annotations.get(value) | {DATATYPE: text})
            editor.annotated = True
        if self._version is None:
            return
        editor.import_opsets(self._imports, {GENERAL: self._version})
        for node, name, attributes in self._nodes:
            rule = f"QONNX form of {node.op_type}"
            if not editor.update(rule, node, domain=GENERAL, op_type=name, attributes=attributes):
                return
        editor.import_opsets(self._imports, {}, without=set(EARLIER) - self._kept)


def _respelled(definition: Definition, node: ir.Node) -> Mapping[str, ir.Attr | None]:
    """Return missing attributes and those with non-canonical values; aliases of attributes map to None."""
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return {}
    values = definition.checked(node)
    found: dict[str, ir.Attr | None] = {name: None for name in node.attributes if name not in values}
    for attribute in definition.attributes:
        value: Any = values.get(attribute.name)
        if attribute.name == "rounding_mode":
            value = ROUNDING.get(value, value)
        if value in (None, "", ()):
            continue
        wanted = _attribute(attribute.name, attribute.kind, value)
        given = node.attributes.get(attribute.name)
        if given is None or given.type != wanted.type or _plain(given) != _plain(wanted):
            found[attribute.name] = wanted
    return found


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
    """Return the values with a non-canonical data type, and its canonical spelling."""
    found: list[tuple[ir.Value, str]] = []
    for value in annotations.values(scope):
        text = annotations.get(value).get(DATATYPE)
        if text is None:
            continue
        try:
            canonical = str(parse(text.upper()))
        except UsageError as error:
            context.note(f"the annotation of '{value.name}' is kept, but is not a data type: {error.what}")
            continue
        if canonical != text:
            found.append((value, canonical))
    return found
