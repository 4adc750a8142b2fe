"""Small models as files, of every kind that tests also read from a folder of models of others.

They are made by scripts of ours from fixed seeds, by name as in that folder, with inputs and results beside them as it
has them: ``in_b1__NAME`` and ``out_b1__NAME``, computed by QONNX, or for standard operators by ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from _pytest.mark import ParameterSet

from tests.helpers import networks, quantized_networks
from tests.helpers.outside import as_parameters, outside_models
from tests.helpers.thorough import some

Build = Callable[[], onnx.ModelProto]
_GENERAL = quantized_networks.GENERAL


_FLOAT = {
    **networks.NETWORKS,
    "decoder_with_past": networks.decoder_with_past,
    "encoder_stack": networks.encoder_stack,
}


def _float(name: str) -> onnx.ModelProto:
    return ir.to_proto(_FLOAT[name]())


def _quantized_cnn(way: str) -> onnx.ModelProto:
    from tests.helpers import onnxruntime_networks  # its tools take long to import

    return onnxruntime_networks.quantized_cnn(way)


def _cnn() -> onnx.ModelProto:
    from tests.helpers import onnxruntime_networks

    return onnxruntime_networks.cnn()


def _quantized_lstm() -> onnx.ModelProto:
    from tests.helpers import onnxruntime_networks

    return onnxruntime_networks.quantized_lstm()


def _node(
    operator: str, constants: Mapping[str, object], attributes: str = "", domain: str = _GENERAL
) -> onnx.ModelProto:
    """Make a model of one node, with an image as its input and arrays for the rest."""
    operands = ", ".join(("x", *constants))
    body = f"y = {domain}.{operator}<{attributes}>({operands})"
    shape = "float[1,4,3,3]"
    text = f'<ir_version: 8, opset_import: ["": 17, "{domain}": 1]> g ({shape} x) => ({shape} y) {{ {body} }}'
    made = onnx.parser.parse_model(text.replace("<>", ""))
    arrays = {name: np.array(given, np.float32) for name, given in constants.items()}
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    return made


def _quantizer(
    bits: float = 4,
    scale: object = 0.25,
    zero: object = 0,
    *,
    signed: int = 1,
    mode: str = "ROUND",
    domain: str = _GENERAL,
) -> onnx.ModelProto:
    attributes = f'signed={signed}, narrow={1 - signed}, rounding_mode="{mode}"'
    return _node("Quant", {"s": scale, "z": zero, "b": bits}, attributes, domain)


_CHANNELS = np.array([0.2, 0.3, 0.25, 0.1]).reshape(1, 4, 1, 1)
_STEPS = np.sort(np.random.default_rng(0).normal(size=(4, 7)), axis=1)
_QCDQ = [name for name in quantized_networks.NETWORKS if name not in quantized_networks.ONLY_QONNX]
SMALL: Mapping[str, Build] = {
    **{name: partial(quantized_networks.qonnx, name) for name in quantized_networks.NETWORKS},
    **{f"qcdq/{name.partition('/')[2]}__qcdq": partial(quantized_networks.qcdq, name) for name in _QCDQ},
    **{
        f"ort-quantized/small_cnn__{way}": partial(_quantized_cnn, way)
        for way in ("qdq_s8s8_pc", "qdq_u8s8", "qdq_u16s8", "qop_u8u8")
    },
    "ort-quantized/small_cnn__float": _cnn,
    "ort-quantized/small_lstm__dynamic_int8": _quantized_lstm,
    **{f"float/small_{name}": partial(_float, name) for name in _FLOAT},
    **{
        f"edge/small_quant_{mode.lower()}": partial(_quantizer, mode=mode)
        for mode in ("ROUND", "CEIL", "FLOOR", "HALF_UP", "HALF_DOWN", "UP", "DOWN")
    },
    "edge/small_quant_unsigned": partial(_quantizer, 3, signed=0),
    "edge/small_quant_channels": partial(_quantizer, 4, _CHANNELS, np.array([0, 3, -2, 5]).reshape(1, 4, 1, 1)),
    "edge/small_quant_legacy_domain": partial(_quantizer, domain="onnx.brevitas"),
    "edge/small_bipolarquant": partial(_node, "BipolarQuant", {"s": 0.5}),
    "edge/small_multithreshold": partial(_node, "MultiThreshold", {"t": _STEPS}, 'out_dtype="UINT3"'),
    "edge/small_multithreshold_scale": partial(
        _node, "MultiThreshold", {"t": _STEPS[:1]}, 'out_dtype="INT4", out_scale=0.5, out_bias=-2.0'
    ),
}


def files(*folders: str, every: int = 1, keep: Callable[[Path], bool] = lambda path: True) -> list[ParameterSet]:
    """List small models as parameters of the fixture ``path``, and every n-th of others' that the test keeps."""
    small = [pytest.param(name, id=name) for name in SMALL if not folders or name.partition("/")[0] in folders]
    return [*small, *as_parameters(some([path for path in outside_models(*folders) if keep(path)], every=every))]


def named(table: Mapping[str, object] | Sequence[str]) -> list[ParameterSet]:
    """List models by name, those of others with their marker; from a table with what is known of each."""
    found: list[ParameterSet] = []
    for name in table:
        known = (table[name],) if isinstance(table, Mapping) else ()
        found.append(pytest.param(name, *known, id=name, marks=() if name in SMALL else pytest.mark.models))
    return found


def save_small(name: str, folder: Path) -> Path:
    """Write a small model, its inputs and its results, unless they are there."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        model = SMALL[name]()
        inputs = {value.name: _random(value) for value in model.graph.input}
        stored = {f"in_b1__{key}": array for key, array in inputs.items()}
        stored |= {f"out_b1__{key}": array for key, array in _results(model, inputs).items()}
        np.savez(path.with_suffix(".npz"), **stored)  # type: ignore[arg-type]
        onnx.save(model, path)
    return path


def _random(value: onnx.ValueInfoProto) -> np.ndarray:
    random, tensor = np.random.default_rng(0), value.type.tensor_type
    shape = [dim.dim_value or (1 if dim.dim_param == "N" else 2) for dim in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return np.asarray(random.normal(size=shape) if dtype.kind == "f" else random.integers(0, 2, shape)).astype(dtype)


def _results(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    if any(node.domain and node.domain != "com.microsoft" for node in model.graph.node):
        from tests.helpers.qonnx_executor import execute, with_shapes

        found = execute(with_shapes(model), inputs)
        return {value.name: found[value.name] for value in model.graph.output}
    from tests.passes.tools import run

    return dict(zip((value.name for value in model.graph.output), run(ir.from_proto(model), inputs), strict=True))
