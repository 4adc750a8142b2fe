"""Support of a model's operators: who defines them, kernels that ONNX Runtime lacks, and quantizers."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, cast

import onnx_ir as ir

from onnx_passes.core.walk import all_nodes
from onnx_passes.graph.arguments import argument
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.schemas import schema_of
from onnx_passes.graph.wording import operator_name
from onnx_passes.ops.definition import DEFINITIONS, GENERAL_DOMAINS
from onnx_passes.ops.quantizer import Dequantizing, is_quantizer, quantizer_of

Definer = Literal["onnx", "onnxruntime", "function", "quantized networks", "plug-in", "nothing"]
_CPU = "CPUExecutionProvider"


class Support(NamedTuple):
    """An operator, who defines it in the version that the model imports, and whether ONNX Runtime's CPU has a kernel.

    ``kernel`` is ``None`` where none is needed, because a function of the model or of ONNX stands for the operator.
    """

    operator: str
    nodes: int
    defined_by: Definer
    kernel: bool | None

    @property
    def is_plain(self) -> bool:
        """Tell whether ONNX defines the operator and ONNX Runtime runs it."""
        return self.defined_by == "onnx" and self.kernel is not False


def support_of(model: ir.Model) -> list[Support]:
    """Look up every operator of the graph, its bodies and the functions that the model brings."""
    found: dict[tuple[str, str, int | None], Support] = {}
    counts: Counter[tuple[str, str, int | None]] = Counter()
    for node, version in _nodes(model):
        key = (node.domain, node.op_type, version)
        counts[key] += 1
        if key not in found:
            is_function = node.op_identifier() in model.functions
            found[key] = _support(node, version, is_function=is_function)
    return [support._replace(nodes=counts[key]) for key, support in found.items()]


def _nodes(model: ir.Model) -> Iterator[tuple[ir.Node, int | None]]:
    for scope in (model.graph, *model.functions.values()):
        imports = {**model.graph.opset_imports, **scope.opset_imports}
        for node in all_nodes(scope):
            yield node, imports.get(node.domain)


def _support(node: ir.Node, version: int | None, *, is_function: bool) -> Support:
    domain, name = node.domain, node.op_type
    if is_function:
        return Support(operator_name(node), 0, "function", None)
    since, by_function = (None, False) if version is None else _schema(domain, name, version)
    if since is not None:
        kernel = _has_kernel(domain, name, since)
        return Support(operator_name(node), 0, "onnx", None if by_function and not kernel else kernel)
    if (domain, name) in _contributed():
        return Support(operator_name(node), 0, "onnxruntime", _has_kernel(domain, name, 1))
    if domain in GENERAL_DOMAINS or domain.startswith(("qonnx.", "finn.")):
        return Support(operator_name(node), 0, "quantized networks", False)
    return Support(operator_name(node), 0, "nothing" if DEFINITIONS.get(node) is None else "plug-in", False)


def _schema(domain: str, name: str, version: int) -> tuple[int | None, bool]:
    """Return the version in which ONNX defined an operator as it is, and whether it has a body in ONNX."""
    schema = cast(Any, schema_of(domain, name, version))
    if schema is None:
        return None, False
    return int(schema.since_version), bool(schema.has_function or schema.has_context_dependent_function)


@functools.cache
def _contributed() -> frozenset[tuple[str, str]]:
    """Return the operators that ONNX Runtime defines itself; none if this build does not tell."""
    runtime = _runtime()
    schemas = runtime.get_all_operator_schema() if hasattr(runtime, "get_all_operator_schema") else ()
    return frozenset((str(schema.domain), str(schema.name)) for schema in schemas if schema.domain.startswith("com."))


@functools.cache
def _kernels() -> dict[tuple[str, str], tuple[tuple[int, int], ...]] | None:
    runtime = _runtime()
    if not hasattr(runtime, "get_all_opkernel_def"):
        return None
    kernels: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for kernel in runtime.get_all_opkernel_def():
        if kernel.provider == _CPU:
            kernels.setdefault((kernel.domain, kernel.op_name), set()).add(tuple(kernel.version_range))
    return {name: tuple(ranges) for name, ranges in kernels.items()}


def _has_kernel(domain: str, name: str, version: int) -> bool | None:
    """Tell whether there is a kernel for some element type; nothing if this build does not tell."""
    kernels = _kernels()
    if kernels is None or (domain == "" and name == "Constant"):
        return None
    return any(first <= version <= last for first, last in kernels.get((domain, name), ()))


def _runtime() -> Any:
    import importlib

    return importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")


_PASSES_ON = frozenset({"Clip", "DequantizeLinear", "Identity", "Reshape", "Transpose"})
_DEQUANTIZER = Dequantizing()


class QuantizerKind(NamedTuple):
    """A kind of quantizer: ``bits`` and ``signed`` are ``None`` where they depend on the run.

    ``of`` is ``weights`` or ``activations``, ``per`` says what one scale is for: ``tensor``, ``channel`` or unknown.
    """

    operator: str
    bits: float | None
    signed: bool | None
    of: str
    per: str

    def __str__(self) -> str:
        sign = "" if self.signed is None else "signed " if self.signed else "unsigned "
        bits = "? bits" if self.bits is None else "1 bit" if self.bits == 1 else f"{self.bits:g} bits"
        return f"{self.operator}, {sign}{bits}, {self.of}" + (f", per {self.per}" if self.per else "")


def quantizers_of(model: ir.Model) -> Counter[QuantizerKind]:
    """Count the quantizers of the graph and its bodies by kind."""
    return Counter(found for node in all_nodes(model.graph) for found in _quantizer(node))


def _quantizer(node: ir.Node) -> Iterator[QuantizerKind]:
    found = _DEQUANTIZER if node.op_type == "DequantizeLinear" else quantizer_of(node)
    if found is not None:
        of = "weights" if _is_weight(argument(node, 0)) else "activations"
        yield QuantizerKind(operator_name(node), found.bits(node), found.signed(node), of, found.per(node))


def _is_weight(value: ir.Value | None) -> bool:
    """Tell whether a value comes with the model, also if nodes stand between that only take it further."""
    for _ in range(16):
        if value is None:
            return False
        producer = value.producer()
        if producer is None:
            return value.is_initializer()
        if is_constant_node(producer):
            return True
        if producer.op_type not in _PASSES_ON and not is_quantizer(producer):
            return False
        value = argument(producer, 0)
    return False
