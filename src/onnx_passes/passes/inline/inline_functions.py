"""Replace calls of model-local functions by the bodies of the functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import zip_longest

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Context, PassResult, Transformation
from onnx_passes.core.errors import PassFailedError
from onnx_passes.graph import annotations
from onnx_passes.graph.edits import copy_type, detach, replace_value, subgraphs_of
from onnx_passes.graph.functions import MOST_NODES, expanded_size, fill_in_attributes
from onnx_passes.graph.hashing.fingerprint import used_functions
from onnx_passes.graph.names import Names
from onnx_passes.graph.wording import name_of
from onnx_passes.passes.cleanup.topological_sort import sort_nodes
from onnx_passes.rewrite.editor import Editor

Scope = ir.Graph | ir.Function
Results = list[ir.Value | None]
Functions = Mapping[ir.OperatorIdentifier, ir.Function]


@passes.verify.equality
@passes.register(tags=("inline", "functions"))
class InlineFunctions(Transformation):
    """Inline model-local functions, and remove them.

    Rewrites: ``y = local.f <k = 2> (x)`` → the nodes of ``f`` on ``x``, with ``k`` substituted; results keep the names,
              types and annotations of the call, nodes inherit its metadata.
    Refuses:  recursion; functions that expand to more than a million nodes; a function whose opset versions differ from
              those of the model; calls with more inputs or outputs than the function has, or with graphs as attributes.
    Exactness: bit-exact.
    """

    def call(self, model: ir.Model) -> PassResult:
        """Run without a pass manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Check all calls first, then inline within functions and finally in the graph."""
        if not model.functions:
            return PassResult(model, modified=False)
        functions = _callees_first(model)
        if (size := expanded_size(model)) > MOST_NODES:
            raise PassFailedError(
                f"the functions of the model expand to {size} nodes, more than {MOST_NODES}",
                hint="keep them as functions",
            )
        imports = _common_imports(model, functions)
        scopes = (*functions.values(), model.graph)
        for scope in scopes:
            for call in _calls(scope, functions):
                _refuse_misfits(call, functions[call.op_identifier()])
        with ExitStack() as stack:
            editors = [stack.enter_context(Editor(model, context, scope)) for scope in scopes]
            for editor in editors[:-1]:
                sort_nodes(editor)
            for editor in editors:
                if not any(earlier.stopped for earlier in editors):
                    _inline_calls(editor, functions, imports)
            if not any(editor.stopped for editor in editors):
                editors[-1].change("functions that nothing calls any more", (), lambda: _remove(model, imports))
        return PassResult(model, modified=any(editor.applied for editor in editors))


def _remove(model: ir.Model, imports: Mapping[str, int]) -> None:
    model.opset_imports.clear()
    model.opset_imports.update(imports)
    model.functions.clear()


def _callees_first(model: ir.Model) -> Functions:
    """Order the used functions so that callees come before callers."""
    used = used_functions(model, (node.op_identifier() for node in model.graph.all_nodes()))
    order: dict[ir.OperatorIdentifier, ir.Function] = {}
    for start in used:
        way: dict[ir.OperatorIdentifier, Iterator[ir.Node]] = {}
        if start.identifier() not in order:
            way[start.identifier()] = _calls(start, model.functions)
        while way:
            identifier, pending = next(reversed(way.items()))
            callee = next((c for call in pending if (c := call.op_identifier()) not in order), None)
            if callee is None:
                del way[identifier]
                order[identifier] = model.functions[identifier]
            elif callee in way:
                chain = list(way)[list(way).index(callee) :]
                names = " → ".join(_label(called) for called in (*chain, callee))
                raise PassFailedError(f"functions call each other in a cycle: {names}", hint="unroll the recursion")
            else:
                way[callee] = _calls(model.functions[callee], model.functions)
    return order


def _calls(scope: Scope, functions: Functions) -> Iterator[ir.Node]:
    return (node for node in scope.all_nodes() if node.op_identifier() in functions)


def _common_imports(model: ir.Model, functions: Functions) -> dict[str, int]:
    """Return the opset imports of the model with all bodies inlined."""
    imports = _normal(model.opset_imports)
    for identifier, function in functions.items():
        inside = {node.domain for node in function.all_nodes() if node.op_identifier() not in functions}
        for domain, version in _normal(function.opset_imports).items():
            if domain in inside and imports.setdefault(domain, version) != version:
                name = f"domain '{domain}'" if domain else "the default operator set"
                raise PassFailedError(
                    f"function {_label(identifier)} uses version {version} of {name}, the model {imports[domain]}",
                    hint="convert both to one version first, as convert-opset does",
                )
    return imports


def _normal(imports: Mapping[str, int]) -> dict[str, int]:
    return {"" if domain == "ai.onnx" else domain: version for domain, version in imports.items()}


def _refuse_misfits(call: ir.Node, function: ir.Function) -> None:
    for kind, given, taken in (
        ("inputs", len(call.inputs), len(function.inputs)),
        ("outputs", len(call.outputs), len(function.outputs)),
    ):
        if given > taken:
            raise PassFailedError(
                f"{name_of(call)} has {given} {kind}, but function {_label(function.identifier())} only {taken}"
            )
    if subgraphs_of(call):
        raise PassFailedError(f"{name_of(call)} passes a graph to a function, which cannot be inlined")
    given = dict(zip(function.inputs, call.inputs, strict=False))
    for result, output in zip(call.outputs, function.outputs, strict=False):
        if result.is_graph_output() and output in function.inputs and given.get(output) is None:
            raise PassFailedError(f"output '{result.name}' is an input of {name_of(call)} that is missing")


def _label(identifier: ir.OperatorIdentifier) -> str:
    domain, name, overload = identifier
    return f"'{domain}.{name}'" + (f" ({overload})" if overload else "")


def _inline_calls(editor: Editor, functions: Functions, imports: Mapping[str, int]) -> None:
    for call in list(_calls(editor.scope.container, functions)):
        body, results = _prepare(call, functions[call.op_identifier()], editor.scope.names)
        pairs = [(old, new) for old, new in zip(call.outputs, results, strict=False) if new is not None]
        put = partial(_insert_body, editor, call, body, results, imports)
        if not editor.change("call of a function", [call], put, replaced=pairs, added=list(body)):
            for node in body.all_nodes():
                detach(node)
            return


def _prepare(call: ir.Node, function: ir.Function, names: Names) -> tuple[ir.Function, Results]:
    """Return a copy of the body for one call, and its results."""
    body = function.clone(deep_copy=True)
    fill_in_attributes(body, {**function.attributes, **call.attributes})
    _adapt_names(body, call, names)
    _adapt_annotations(body, call)
    given = dict(zip_longest(body.inputs, call.inputs))
    results = [given.get(output, output) for output in body.outputs]
    body.outputs.clear()
    for formal, actual in given.items():
        _replace_uses(formal, actual)
    return body, results


def _insert_body(
    editor: Editor, call: ir.Node, body: ir.Function, results: Results, imports: Mapping[str, int]
) -> None:
    graph, nodes = call.graph, list(body)
    assert graph is not None
    for domain in {node.domain for node in body.all_nodes()} & imports.keys():
        editor.scope.container.opset_imports.setdefault(domain, imports[domain])
    body.remove(nodes)
    graph.insert_before(call, nodes)
    _take_over(call, results, editor.scope.names)
    graph.remove(call, safe=True)
    editor.scope.forget_references()


def _adapt_names(body: ir.Function, call: ir.Node, names: Names) -> None:
    prefix = f"{call.name}/" if call.name else ""
    renamed: dict[str, str] = {}
    for value in _defined(body):
        if value.name or value.uses():
            old, new = value.name or "value", names.value(f"{prefix}{value.name or 'value'}")
            value.name = renamed[old] = new
    for node in body.all_nodes():
        node.name = names.node(f"{prefix}{node.name or node.op_type}")
    annotations.rename_references(body, renamed)


def _defined(body: ir.Function) -> Iterable[ir.Value]:
    """Return the values that a body defines, without its inputs, which the call replaces."""
    inputs = set(body.inputs)
    return [value for value in annotations.values(body) if value not in inputs]


def _adapt_annotations(body: ir.Function, call: ir.Node) -> None:
    for value in _defined(body):
        if value.type is not None:
            value.type = copy_type(value.type)
        if value.shape is not None:
            # Names of dimensions are local to the function, and may clash with names outside.
            value.shape = ir.Shape([dim if isinstance(dim, int) else None for dim in value.shape])
    for node in body.all_nodes():
        for key, text in call.metadata_props.items():
            node.metadata_props.setdefault(key, text)


def _replace_uses(old: ir.Value, new: ir.Value | None) -> None:
    if new is not None:
        old.replace_all_uses_with(new)
        return
    for user, index in old.uses():
        user.replace_input_with(index, None)


def _take_over(call: ir.Node, results: Results, names: Names) -> None:
    """Replace the results of the call by those of the body, keeping the names where possible."""
    outside = {*call.inputs}
    named: set[ir.Value] = set()
    for old, new in zip(call.outputs, results, strict=False):
        if new is None:
            _replace_uses(old, None)
            continue
        if new not in outside and new not in named:
            named.add(new)
            new.type = old.type or new.type
            new.shape = old.shape or new.shape
            if not old.is_graph_output() and old.name:
                new.name, old.name = old.name, names.value(f"{old.name}_old")
        replace_value(old, new, names)
