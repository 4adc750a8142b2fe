"""Read data types from text, as QONNX writes them."""

from __future__ import annotations

import functools
import re

from onnx_passes.core.errors import UsageError, did_you_mean
from onnx_passes.datatypes.base import DataType
from onnx_passes.datatypes.floats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, MiniFloat
from onnx_passes.datatypes.integers import BINARY, BIPOLAR, TERNARY, FixedPoint, Integer, ScaledInteger

_NAMED: dict[str, DataType] = {
    str(datatype): datatype for datatype in (BINARY, BIPOLAR, TERNARY, FLOAT16, FLOAT32, FLOAT64, BFLOAT16)
}
_NUMBERED = re.compile(r"(U?INT) ?([0-9]{1,5})")
_BRACKETED = re.compile(r"(FIXED|SCALEDINT|FLOAT)<([^<>]*)>")
_NUMBER = re.compile(r"\s*-?[0-9]{1,5}\s*")
_EXAMPLES = ("INT4", "INT8", "UINT4", "UINT8", "FIXED<8,4>", "FLOAT<4,3>", "SCALEDINT<8>", *_NAMED)


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> DataType:
    """Return the data type of a name such as ``INT4``, ``BIPOLAR``, ``FIXED<8,4>`` or ``FLOAT<4,3>``.

    As in QONNX, ``UINT1`` is ``BINARY``, and a float without a bias, or with the bias 0, has the usual one.
    """
    stripped = text.strip()
    if stripped in _NAMED:
        return _NAMED[stripped]
    numbered, bracketed = _NUMBERED.fullmatch(stripped), _BRACKETED.fullmatch(stripped)
    if numbered is not None:
        return Integer(int(numbered[2]), is_signed=numbered[1] == "INT")
    found = None if bracketed is None else _bracketed(bracketed[1], bracketed[2].split(","))
    if found is not None:
        return found
    raise UsageError(f"there is no data type '{text[:60]}'", hint=_hint(stripped))


def _bracketed(family: str, parts: list[str]) -> DataType | None:
    numbers = [int(part) for part in parts if _NUMBER.fullmatch(part)]
    if len(numbers) != len(parts):
        return None
    match family, numbers:
        case "FIXED", [bits, integer_bits]:
            return FixedPoint(bits, integer_bits)
        case "SCALEDINT", [bits]:
            return ScaledInteger(bits)
        case "FLOAT", [exponent_bits, mantissa_bits, *bias] if len(bias) < 2:
            usual = (1 << max(exponent_bits - 1, 0)) - 1
            return MiniFloat(exponent_bits, mantissa_bits, bias[0] if bias and bias[0] else usual)
        case _:
            return None


def _hint(text: str) -> str:
    upper = text.upper()
    if upper != text and len(upper) < 60:
        try:
            return f"did you mean '{parse(upper)}'?"
        except UsageError:
            pass
    return did_you_mean(text[:60], _EXAMPLES) or (
        "known are BINARY, BIPOLAR, TERNARY, INT<n>, UINT<n>, FIXED<n,i>, FLOAT<e,m>, SCALEDINT<n>, FLOAT16, FLOAT32"
    )
