"""Repair models on import, with a sentence about each repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx
import onnx.helper
import onnx_ir as ir

from onnx_passes.core.errors import ModelError
from onnx_passes.core.walk import all_graphs
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.edits import subgraphs_of
from onnx_passes.graph.wellformed import TEXTS, node_label

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, MutableSequence

    from google.protobuf.message import Message

    from onnx_passes.graph.wellformed import WalkFindings

MAX_IR_VERSION = 13
"""The newest IR version that ONNX Runtime reads."""

DEFAULT_DOMAIN = ""

KNOWN_DOMAINS = {
    "ai.onnx.contrib": 1,
    "ai.onnx.preview.training": 1,
    "com.microsoft": 1,
    "com.microsoft.experimental": 1,
    "com.microsoft.nchwc": 1,
    "finn": 1,
    "finn.custom_op.fpgadataflow": 1,
    "finn.custom_op.fpgadataflow.hls": 1,
    "finn.custom_op.fpgadataflow.rtl": 1,
    "finn.custom_op.general": 1,
    "onnx.brevitas": 1,
    "onnx_passes": 1,
    "org.pytorch.aten": 1,
    "qonnx.custom_op.channels_last": 1,
    "qonnx.custom_op.general": 1,
}
"""Domains that exporters use without an import, with the version to import."""

_ML_DOMAIN = "ai.onnx.ml"
_FUNCTIONS_SINCE, _OVERLOADS_SINCE, _OPSETS_SINCE = 8, 10, 3


def repair(model: onnx.ModelProto, findings: WalkFindings, where: str) -> list[str]:
    """Repair a model in place before it enters the IR; return the list of repairs.

    Adds missing imports of known domains, reads ``ai.onnx`` as the default domain, merges repeated quantization
    annotations, keeps the last of repeated constants, sets missing types of attributes, sorts axes that are removed or
    added, makes texts valid, and changes the IR version to one that ONNX Runtime reads. Raises ModelError if an import
    is missing and cannot be inferred.
    """
    done: list[str] = []
    if not model.opset_import and model.ir_version < _OPSETS_SINCE:
        model.opset_import.add(domain=DEFAULT_DOMAIN, version=1)
        done.append(f"IR version {model.ir_version} knows no operator sets: taken as opset 1")
        model.ir_version = _OPSETS_SINCE
    local = {function.domain for function in model.functions}
    done += _imports(model.opset_import, findings.domains, local, {}, "", where)
    imported = {entry.domain: entry.version for entry in model.opset_import}
    for function, domains in zip(model.functions, findings.function_domains, strict=True):
        of = f" in function '{function.name}'"
        done += _imports(function.opset_import, domains, local, imported, of, where)
    for nodes in findings.repeated:
        done += _constants(nodes)
    done += _attribute_types(findings.untyped)
    done += _ascending(findings.unordered)
    done += _texts(findings.garbled)
    for graph in findings.annotated:
        done += _annotations(graph)
    done += _ir_version(model, overloaded=findings.overloaded)
    return done


def sort(model: ir.Model, where: str) -> list[str]:
    """Sort the nodes of all graphs topologically; raise ModelError for a cycle."""
    for scope in (model.graph, *model.functions.values()):
        try:
            scope.sort()
        except ValueError as error:
            raise ModelError(_cycle(scope), where=where, hint="no order of the nodes can run it") from error
    return ["the nodes were not in an order that can run: sorted"]


def _imports(
    entries: MutableSequence[onnx.OperatorSetIdProto],
    used: dict[str, str],
    local: set[str],
    model: dict[str, int],
    of: str,
    where: str,
) -> list[str]:
    """Complete the opset imports of a model or function; the last of several for one domain counts."""
    done: list[str] = []
    versions: dict[str, int] = {}
    for entry in entries:
        domain = _normal(entry.domain)
        if entry.domain != domain:
            done.append(f"import of domain 'ai.onnx'{of}: taken as the default domain")
        if versions.get(domain, entry.version) != entry.version:
            done.append(f"domain '{domain}' was imported twice{of}: version {entry.version} kept")
        versions[domain] = entry.version
    for domain in sorted({_normal(domain) for domain in used} - versions.keys()):
        version = model.get(domain) or _version_of(domain, versions, local)
        if version is None:
            node = used.get(domain) or used["ai.onnx"]
            name = f"domain '{domain}'" if domain else "the default domain"
            raise ModelError(
                f"{node} is of {name}, which is not imported{of}",
                where=where,
                hint="export the model with its opset imports",
            )
        versions[domain] = version
        done.append(f"import of domain '{domain}'{of} was missing: version {version} added")
    if done:
        del entries[:]
        entries.extend(onnx.helper.make_opsetid(domain, version) for domain, version in versions.items())
    return done


def _normal(domain: str) -> str:
    return DEFAULT_DOMAIN if domain == "ai.onnx" else domain


def _version_of(domain: str, versions: dict[str, int], local: set[str]) -> int | None:
    if domain == _ML_DOMAIN:
        opset = versions.get(DEFAULT_DOMAIN, 1)
        return max(row[3] for row in onnx.helper.VERSION_TABLE if row[2] <= opset)
    return 1 if domain in local else KNOWN_DOMAINS.get(domain)


def _attribute_types(attributes: list[onnx.AttributeProto]) -> list[str]:
    """Infer the types of attributes from their only non-empty field."""
    types = {
        "i": onnx.AttributeProto.INT,
        "f": onnx.AttributeProto.FLOAT,
        "s": onnx.AttributeProto.STRING,
        "t": onnx.AttributeProto.TENSOR,
        "ints": onnx.AttributeProto.INTS,
        "floats": onnx.AttributeProto.FLOATS,
        "strings": onnx.AttributeProto.STRINGS,
    }
    repaired = 0
    for attribute in attributes:
        filled = [types[field.name] for field, _ in attribute.ListFields() if field.name in types]
        if len(filled) == 1:
            attribute.type = filled[0]
            repaired += 1
    return [f"{repaired} attributes did not say their type: told from their value"] if repaired else []


def _ascending(attributes: Iterable[onnx.AttributeProto]) -> list[str]:
    """Sort axes whose order has no meaning, as onnx infers wrong shapes for unsorted ones."""
    sorted_ = 0
    for attribute in attributes:
        attribute.ints[:] = sorted(attribute.ints)
        sorted_ += 1
    return [f"the axes of {sorted_} Squeeze or Unsqueeze did not ascend: sorted"] if sorted_ else []


def _constants(nodes: MutableSequence[onnx.NodeProto]) -> list[str]:
    """Keep the last of several Constant nodes for one value, which ONNX Runtime uses."""
    seen: set[str] = set()
    dropped: list[str] = []
    for position in reversed(range(len(nodes))):
        node = nodes[position]
        if is_constant_node(node):
            if node.output[0] in seen:
                dropped.append(node.output[0])
                del nodes[position]
            seen.update(node.output)
    return [f"{len(dropped)} constants were defined again, such as '{dropped[-1]}': last kept, as ONNX Runtime does"]


def _texts(messages: Iterable[Message]) -> list[str]:
    """Replace texts that are not UTF-8 in names of nodes and documentation, as they cannot be written again."""
    repaired = 0
    for message in messages:
        for name in TEXTS:
            text = getattr(message, name, None)
            if isinstance(text, bytes):
                setattr(message, name, text.decode(errors="replace"))
                repaired += 1
    return [f"{repaired} names or documentations were not UTF-8: marks put in place"] if repaired else []


def _annotations(graph: onnx.GraphProto) -> list[str]:
    """Merge annotations of one tensor into one; the last of contradicting texts counts."""
    merged: dict[str, dict[str, str]] = {}
    done: list[str] = []
    for annotation in graph.quantization_annotation:
        name = annotation.tensor_name
        texts = merged.setdefault(name, {})
        for entry in annotation.quant_parameter_tensor_names:
            before = texts.get(entry.key, entry.value)
            if before != entry.value:
                done.append(f"annotation '{entry.key}' of '{name}' was '{before}' and '{entry.value}': last kept")
            texts[entry.key] = entry.value
    if len(merged) == len(graph.quantization_annotation) and not done:
        return []
    repeated = len(graph.quantization_annotation) - len(merged)
    if repeated:
        done.append(f"{repeated} repeated quantization annotations were merged")
    del graph.quantization_annotation[:]
    for name, texts in merged.items():
        annotation = graph.quantization_annotation.add(tensor_name=name)
        for key, text in texts.items():
            annotation.quant_parameter_tensor_names.add(key=key, value=text)
    return done


def _ir_version(model: onnx.ModelProto, *, overloaded: bool) -> list[str]:
    version, needed, why = model.ir_version, 0, ""
    if model.functions:
        needed, why = _FUNCTIONS_SINCE, "functions"
    if overloaded or any(function.overload for function in model.functions):
        needed, why = _OVERLOADS_SINCE, "overloaded functions"
    if version > MAX_IR_VERSION:
        model.ir_version = MAX_IR_VERSION
        return [f"IR version {version} lowered to {MAX_IR_VERSION}, the newest that ONNX Runtime reads"]
    if version < needed:
        model.ir_version = needed
        return [f"IR version {version} raised to {needed}, as {why} need it"]
    return []


def _cycle(scope: ir.Graph | ir.Function) -> str:
    """Describe a cycle in a graph."""
    for graph in (scope, *all_graphs(scope)):
        loop = _loop(graph)
        if loop:
            names = " → ".join(node_label(node) for node in loop[:6]) + (" → …" if len(loop) > 6 else "")
            return f"the graph has a cycle: {names}"
    return "the graph has a cycle"


def _loop(graph: ir.Graph | ir.Function) -> list[ir.Node]:
    """Return the nodes of a cycle, found by following inputs back from each node."""
    finished: set[ir.Node] = set()
    for start in graph:
        way = [(start, _sources(start))]
        on_way = {start}
        while way and start not in finished:
            node, sources = way[-1]
            source = next(sources, None)
            if source is None:
                finished.add(node)
                on_way.discard(node)
                way.pop()
            elif source in on_way:
                nodes = [passed for passed, _ in way]
                return nodes[nodes.index(source) :][::-1]
            elif source not in finished:
                on_way.add(source)
                way.append((source, _sources(source)))
    return []


def _sources(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the nodes of the same graph that must run before ``node``, also because of its subgraphs."""
    inner = [n for graph in subgraphs_of(node) for n in graph.all_nodes()]
    for reader in (node, *inner):
        for value in reader.inputs:
            producer = None if value is None else value.producer()
            if producer is not None and producer.graph is node.graph:
                yield producer
