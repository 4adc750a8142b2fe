"""What operator schemas say of types."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from onnx_passes.graph.schemas import Signature, signature

FLOAT, HALF, INT64, INT8 = (ir.TensorType(ir.DataType[name]) for name in ("FLOAT", "FLOAT16", "INT64", "INT8"))


def schema(op_type: str, version: int = 21, domain: str = "") -> Signature:
    found = signature(domain, op_type, version)
    assert found is not None
    return found


def test_unknown_operators_have_none() -> None:
    assert signature("", "NoSuchOperator", 21) is None
    assert signature("qonnx.custom_op.general", "Quant", 1) is None


def test_versions_differ() -> None:
    assert "axes" in schema("ReduceSum", 11).attributes
    assert "axes" not in schema("ReduceSum", 13).attributes


@pytest.mark.parametrize(
    ("op_type", "index", "known", "expected"),
    [
        ("Add", 1, [FLOAT, None], "FLOAT"),
        ("Add", 0, [None, HALF], "FLOAT16"),
        ("Add", 1, [None, None], None),
        ("Where", 2, [None, HALF, None], "FLOAT16"),
        ("Where", 0, [None, HALF, HALF], "BOOL"),
        ("Reshape", 1, [FLOAT, None], "INT64"),
        ("Sum", 4, [HALF, None, None, None, None], "FLOAT16"),
        ("Pow", 1, [FLOAT, None], None),
        ("QuantizeLinear", 1, [FLOAT, None, None], "FLOAT"),
        ("Add", 2, [FLOAT, FLOAT, None], None),
        ("Loop", 2, [INT64, None, None, FLOAT], None),
        ("Loop", 3, [INT64, None, FLOAT, None], None),
    ],
)
def test_required_type_of_an_input(
    op_type: str, index: int, known: list[ir.TypeProtocol | None], expected: str | None
) -> None:
    found = schema(op_type).required_dtype(index, known)
    assert (None if found is None else found.name) == expected


@pytest.mark.parametrize(
    ("op_type", "index", "known", "integer", "expected"),
    [
        ("Pow", 1, [FLOAT, None], False, "FLOAT"),
        ("Pow", 1, [None, None], True, None),
        ("Slice", 1, [FLOAT, None, None], True, "INT64"),
        ("Slice", 1, [FLOAT, None, None], False, None),
        ("Gather", 1, [FLOAT, None], True, "INT64"),
        ("QuantizeLinear", 2, [FLOAT, FLOAT, None], True, None),
        ("Dropout", 1, [HALF, None], False, "FLOAT16"),
        ("Loop", 2, [INT64, None, None], True, None),
    ],
)
def test_natural_type_of_a_number(
    op_type: str, index: int, known: list[ir.TypeProtocol | None], integer: bool, expected: str | None
) -> None:
    found = schema(op_type).natural_dtype(index, known, integer=integer)
    assert (None if found is None else found.name) == expected


@pytest.mark.parametrize(
    ("op_type", "index", "known", "expected"),
    [
        ("Add", 0, [HALF, None], HALF),
        ("Shape", 0, [FLOAT], INT64),
        ("Equal", 0, [FLOAT, FLOAT], ir.TensorType(ir.DataType.BOOL)),
        ("Split", 1, [HALF], HALF),
        ("Split", 5, [HALF], HALF),
        ("CastLike", 0, [FLOAT, INT8], INT8),
        ("TopK", 1, [FLOAT, INT64], INT64),
        ("DequantizeLinear", 0, [INT8, HALF, INT8], HALF),
        ("ConstantOfShape", 0, [INT64], None),
        ("Loop", 0, [INT64, None, FLOAT], None),
        ("If", 0, [None], None),
        ("Add", 1, [FLOAT, FLOAT], None),
        ("Identity", 0, [ir.SequenceType(FLOAT)], ir.SequenceType(FLOAT)),
        ("SequenceAt", 0, [ir.SequenceType(FLOAT), INT64], None),
        ("SequenceLength", 0, [ir.SequenceType(FLOAT)], INT64),
    ],
)
def test_type_of_an_output(
    op_type: str, index: int, known: list[ir.TypeProtocol | None], expected: ir.TypeProtocol | None
) -> None:
    assert schema(op_type).type_of_output(index, known) == expected


def test_every_operator_of_the_standard_can_be_read() -> None:
    for found in onnx.defs.get_all_schemas_with_history():
        assert signature(found.domain, found.name, found.since_version) is not None
