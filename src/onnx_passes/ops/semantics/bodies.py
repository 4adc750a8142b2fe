"""Branches, loops and function bodies: evaluated where it is known, or does not matter, which way they go."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes.graph.randomness import is_random
from onnx_passes.graph.schemas import schema_of
from onnx_passes.graph.shapes import static_shape
from onnx_passes.numbers.algebra import Symbol, Tensor, UnsupportedError
from onnx_passes.ops.semantics.table import SEMANTICS, OperatorView


def body_of(call: OperatorView) -> ir.Function | None:
    """Return the function that an operator is by the standard, for these attributes and types."""
    node = call.node
    schema: Any = schema_of(node.domain, node.op_type, call.version)
    if schema is None or not (schema.has_function or schema.has_context_dependent_function):
        return None
    types = tuple(None if tensor is None else (int(tensor.dtype), tensor.shape) for tensor in call.inputs)
    return _body(node.domain, node.op_type, call.version, _node_proto(call).SerializeToString(), types)


@functools.lru_cache(maxsize=256)
def _body(domain: str, op_type: str, version: int, node: bytes, types: tuple[Any, ...]) -> ir.Function | None:
    import onnx

    schema: Any = schema_of(domain, op_type, version)
    if schema.has_function:
        function = onnx.FunctionProto()
        function.CopyFrom(schema.function_body)
    else:
        versions: list[int] = schema.context_dependent_function_opset_versions
        protos = [b"" if type_ is None else _type_proto(*type_).SerializeToString() for type_ in types]
        chosen = max((v for v in versions if v <= version), default=versions[0])
        built = schema.get_context_dependent_function_with_opset_version(chosen, node, protos)
        if not built:
            return None
        function = onnx.FunctionProto()
        function.ParseFromString(built)
    written = {name for inner in function.node for name in inner.output} | set(function.input)
    while function.output and function.output[-1] not in written:
        function.output.pop()
    if any(name not in written for name in function.output):
        return None
    if not function.opset_import:
        function.opset_import.append(onnx.helper.make_opsetid("", version))
    return ir.from_proto(function)


def output_types(call: OperatorView) -> list[tuple[ir.DataType, tuple[int, ...]]]:
    """Return type and shape of each result. Raises UnsupportedError where they are not known."""
    outputs = call.node.outputs
    declared = [(output.dtype, static_shape(output)) for output in outputs]
    if all(dtype is not None and shape is not None for dtype, shape in declared):
        return [(dtype, shape) for dtype, shape in declared if dtype is not None and shape is not None]
    found = _inferred(call)
    if found is None:
        raise UnsupportedError(f"the sizes of the results of {call.node.op_type} are not known")
    return found


def _inferred(call: OperatorView) -> list[tuple[ir.DataType, tuple[int, ...]]] | None:
    import onnx

    node = call.node
    schema = schema_of(node.domain, node.op_type, call.version)
    if schema is None:
        return None
    given = {f"x{i}": tensor for i, tensor in enumerate(call.inputs) if tensor is not None}
    types = {name: _type_proto(int(tensor.dtype), tensor.shape) for name, tensor in given.items()}
    data = {
        name: ir.to_proto(ir.Tensor(np.ascontiguousarray(tensor.known)))
        for name, tensor in given.items()
        if tensor.known is not None and tensor.known.size <= 64
    }
    try:
        found = onnx.shape_inference.infer_node_outputs(schema, _node_proto(call), types, data)
    except Exception:  # noqa: BLE001 - whatever inference stumbles over, sizes stay unknown
        return None
    results: list[tuple[ir.DataType, tuple[int, ...]]] = []
    for index in range(len(node.outputs)):
        type_ = found.get(f"y{index}")
        if type_ is None or not type_.tensor_type.HasField("shape"):
            return None
        dims = type_.tensor_type.shape.dim
        if any(not dim.HasField("dim_value") for dim in dims):
            return None
        results.append((ir.DataType(type_.tensor_type.elem_type), tuple(dim.dim_value for dim in dims)))
    return results


def _node_proto(call: OperatorView) -> Any:
    import onnx

    return onnx.NodeProto(
        op_type=call.node.op_type,
        domain=call.node.domain,
        input=["" if tensor is None else f"x{i}" for i, tensor in enumerate(call.inputs)],
        output=[f"y{i}" for i in range(len(call.node.outputs))],
        attribute=[ir.to_proto(attr) for attr in call.attributes.values()],
    )


def _type_proto(dtype: int, shape: tuple[int, ...]) -> Any:
    import onnx

    return onnx.helper.make_tensor_type_proto(dtype, list(shape))


_MOST = 1 << 20


def computed(call: OperatorView) -> list[np.ndarray] | None:
    """Return what ONNX Runtime makes of a node whose inputs are known; nothing if it cannot."""
    import onnx
    import onnxruntime as ort

    onnxruntime: Any = ort

    node = call.node
    arrays = [None if tensor is None else tensor.known for tensor in call.inputs]
    if is_random(node) or sum(array.size for array in arrays if array is not None) > _MOST:
        return None
    names = ["" if array is None else f"x{index}" for index, array in enumerate(arrays)]
    outputs = [f"y{index}" for index in range(len(node.outputs))]
    attributes = [ir.to_proto(attr) for attr in call.attributes.values()]
    proto = onnx.NodeProto(op_type=node.op_type, input=names, output=outputs, attribute=attributes)
    initializers = [
        ir.to_proto(ir.Tensor(array, name=name)) for name, array in zip(names, arrays, strict=True) if array is not None
    ]
    graph = onnx.GraphProto(
        name="constant", node=[proto], initializer=initializers, output=[onnx.ValueInfoProto(name=n) for n in outputs]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", call.version)])
    model.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [np.asarray(array) for array in session.run(None, {})]
    except Exception:  # noqa: BLE001 - whatever it cannot compute stays as it is written
        return None


_MOST_ROUNDS = 64


def _body_of(call: OperatorView, name: str) -> ir.Graph:
    found = call.attributes[name].value
    if not isinstance(found, ir.Graph):
        raise UnsupportedError(f"{name} is no graph")
    return found


@SEMANTICS.of("If")
def _if(call: OperatorView) -> list[Tensor]:
    condition = call.tensor(0)
    branches = [_body_of(call, name) for name in ("then_branch", "else_branch")]
    if condition.known is not None:
        chosen = branches[0] if condition.known.reshape(-1)[0] else branches[1]
        return call.evaluation.graph(chosen, [], call.attributes)
    results = [call.evaluation.graph(branch, [], call.attributes) for branch in branches]
    if any(a.shape != b.shape or a.dtype is not b.dtype for a, b in zip(*results, strict=True)):
        raise UnsupportedError("branches with results of different sizes")
    decision = condition.elements(call.algebra).reshape(())
    found: list[Tensor] = []
    for a, b in zip(*results, strict=True):
        symbol = Symbol("Where", a.dtype, (ir.DataType.BOOL, a.dtype, a.dtype))
        arrays = [decision, a.elements(call.algebra), b.elements(call.algebra)]
        found.append(Tensor(a.dtype, None, call.algebra.scalar(symbol, arrays)))
    return found


@SEMANTICS.of("Loop")
def _loop(call: OperatorView) -> list[Tensor]:
    trips, going = call.known(0), call.known(1)
    if trips is None:
        raise UnsupportedError("a Loop without a number of rounds")
    rounds = int(trips.reshape(())) if going is None or going.reshape(-1)[0] else 0
    if rounds > _MOST_ROUNDS:
        raise UnsupportedError(f"a Loop of more than {_MOST_ROUNDS} rounds")
    body = _body_of(call, "body")
    carried = [tensor for tensor in call.inputs[2:] if tensor is not None]
    scanned: list[list[Tensor]] = [[] for _ in body.outputs[1 + len(carried) :]]
    for number in range(rounds):
        counted = Tensor(ir.DataType.INT64, np.array(number, np.int64))
        condition = Tensor(ir.DataType.BOOL, np.array(True))
        results = call.evaluation.graph(body, [counted, condition, *carried], call.attributes)
        if results[0].known is None:
            raise UnsupportedError("a Loop whose end depends on data")
        carried = results[1 : 1 + len(carried)]
        for rows, tensor in zip(scanned, results[1 + len(carried) :], strict=True):
            rows.append(tensor)
        if not results[0].known.reshape(-1)[0]:
            break
    return [*carried, *(_stacked(call, rows) for rows in scanned)]


@SEMANTICS.of("Scan")
def _scan(call: OperatorView) -> list[Tensor]:
    if call.version < 9:
        raise UnsupportedError("a Scan over batches")
    body, amount = _body_of(call, "body"), call.get("num_scan_inputs")
    if any(any(call.get(name, None) or ()) for name in ("scan_input_axes", "scan_output_axes")) or any(
        any(call.get(name, None) or ()) for name in ("scan_input_directions", "scan_output_directions")
    ):
        raise UnsupportedError("a Scan along other axes or backwards")
    tensors = [tensor for tensor in call.inputs if tensor is not None]
    carried, inputs = tensors[: len(tensors) - amount], tensors[len(tensors) - amount :]
    rounds = inputs[0].shape[0]
    if rounds > _MOST_ROUNDS:
        raise UnsupportedError(f"a Scan of more than {_MOST_ROUNDS} rounds")
    scanned: list[list[Tensor]] = [[] for _ in body.outputs[len(carried) :]]
    for number in range(rounds):
        rows = [Tensor(tensor.dtype, None, tensor.elements(call.algebra)[number]) for tensor in inputs]
        results = call.evaluation.graph(body, [*carried, *rows], call.attributes)
        carried = results[: len(carried)]
        for found, tensor in zip(scanned, results[len(carried) :], strict=True):
            found.append(tensor)
    return [*carried, *(_stacked(call, rows) for rows in scanned)]


def _stacked(call: OperatorView, rows: list[Tensor]) -> Tensor:
    if not rows:
        raise UnsupportedError("a loop that makes nothing")
    return Tensor(rows[0].dtype, None, np.stack([row.elements(call.algebra) for row in rows]))
