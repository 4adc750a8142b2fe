"""How operators compute on scales times integers: for each, the form of its result from those of its inputs."""

from __future__ import annotations

from collections.abc import Callable

from onnx_passes.graph.operators import Interface
from onnx_passes.verify.proving.form_elementwise import (
    add,
    batch_normalization,
    cast,
    clip,
    div,
    extreme,
    mul,
    neg,
    relu,
    same,
    total,
)
from onnx_passes.verify.proving.form_movement import concat, move, pool
from onnx_passes.verify.proving.form_products import (
    average_pool,
    conv,
    conv_transpose,
    gemm,
    global_average,
    matmul,
    reduce,
)
from onnx_passes.verify.proving.forms import Form, Visit

FormRule = Callable[[Visit], Form | list[Form]]
SCALED_FORMS: Interface[FormRule] = Interface("scaled_form", "its result as a scale times integers, from such inputs")
SCALED_FORMS.attach(
    {
        "Add": add,
        "AveragePool": average_pool,
        "BatchNormalization": batch_normalization,
        "Cast": cast,
        "Clip": clip,
        "Concat": concat,
        "Conv": conv,
        "ConvTranspose": conv_transpose,
        "Div": div,
        "Gemm": gemm,
        "GlobalAveragePool": global_average,
        "GlobalMaxPool": pool,
        "Identity": same,
        "MatMul": matmul,
        "Max": extreme,
        "MaxPool": pool,
        "Min": extreme,
        "Mul": mul,
        "Neg": neg,
        "ReduceMean": lambda visit: reduce(visit, mean=True),
        "ReduceSum": lambda visit: reduce(visit, mean=False),
        "Relu": relu,
        "Sub": lambda visit: add(visit, -1),
        "Sum": total,
        **dict.fromkeys(
            (
                *("DepthToSpace", "Expand", "Flatten", "Gather", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split"),
                *("Squeeze", "Tile", "Transpose", "Unsqueeze"),
            ),
            move,
        ),
    }
)
