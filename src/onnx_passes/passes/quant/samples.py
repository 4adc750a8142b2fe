"""ONNX models that the fuzzer starts from, as patterns do not determine consistent parameters."""

from __future__ import annotations

from collections.abc import Iterator

from onnx_passes.passes.quant.quantizer import DOMAIN

_HEADER = f'<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1, "{DOMAIN}" : 1]>'


def _model(graph: str) -> str:
    return f"{_HEADER} {graph}"


def _inputs(shape: str, constants: str, body: str) -> str:
    return _model(f"g (float[{shape}] x) => (float[{shape}] y) <{constants}> {{ {body} }}")


def _quantized(domain: str) -> Iterator[str]:
    """Yield models with QuantizeLinear and DequantizeLinear, with and without Clip in between."""
    for scale, kind, zero, low, high in (
        ("0.5", "int8", 0, -7, 7),
        ("0.3", "uint8", 33, 0, 200),
        ("0.1", "int8", -128, -128, 127),
        ("2.0", "uint8", 0, 0, 5),
        ("0.07", "int8", 1, 0, 127),
    ):
        parameters = f"float s = {{{scale}}}, {kind} z = {{{zero}}}, {kind} low = {{{low}}}, {kind} high = {{{high}}}"
        clip = "c = Clip (q, low, high) "
        for middle, name in (("", "q"), (clip, "c")):
            call = f"q = {domain}QuantizeLinear (x, s, z) {middle}y = {domain}DequantizeLinear ({name}, s, z)"
            yield _inputs("N,3", parameters, call)
    channels = "float[3] s = {0.5, 0.25, 1.0}, int8[3] z = {0, 3, -4}"
    call = f"q = {domain}QuantizeLinear <axis = 1> (x, s, z) y = {domain}DequantizeLinear <axis = -1> (q, s, z)"
    yield _inputs("2,3", channels, call)


def _stored(domain: str) -> Iterator[str]:
    """Yield models with DequantizeLinear of constants, with and without Clip before it."""
    for kind, values, zero, low, high in (
        ("int8", "1, -2, 3, -4, 5, -128", "0", -7, 7),
        ("uint8", "1, 2, 3, 4, 5, 255", "128", 0, 15),
        ("int8", "127, 0, 0, 1, 1, 1", "3", -100, 0),
        ("uint8", "0, 0, 0, 7, 7, 9", "0", 3, 9),
        ("int8", "-1, 1, -1, 1, 1, -1", "0", -1, 1),
    ):
        parameters = f"{kind}[2,3] w = {{{values}}}, {kind} low = {{{low}}}, {kind} high = {{{high}}}"
        scale = f"float[2] s = {{0.5, 0.1}}, {kind}[2] z = {{{zero}, {zero}}}"
        for clip, name in (("", "w"), ("c = Clip (w, low, high) ", "c")):
            call = f"{clip}v = {domain}DequantizeLinear <axis = 0> ({name}, s, z) y = Mul (x, v)"
            yield _inputs("2,3", f"{parameters}, {scale}", call)


def _quants() -> Iterator[str]:
    """Yield models with Quant of activations and constants, of several widths."""
    operator = f"{DOMAIN}.Quant"
    for scale, bits, signed, narrow in (("0.5", 4, 1, 1), ("0.25", 8, 0, 0), ("0.1", 16, 1, 0), ("0.3", 1, 0, 0)):
        parameters = f"float s = {{{scale}}}, float z = {{0}}, float b = {{{bits}}}"
        call = f"y = {operator} <signed = {signed}, narrow = {narrow}> (x, s, z, b)"
        yield _inputs("N,3", parameters, call)
    constants = "float[2,3] w = {1.0, -2.2, 3.1, -0.4, 5.0, -128.0}, float[3] s = {0.1, 0.2, 0.3}"
    for bits, zero in ((5, 3), (12, 0)):
        parameters = f"{constants}, float z = {{{zero}}}, float b = {{{bits}}}"
        yield _inputs("2,3", parameters, f"v = {operator} (w, s, z, b) y = Mul (x, v)")


QCDQ = tuple(model for domain in ("", "com.microsoft.") for made in (_quantized, _stored) for model in made(domain))
QUANT = tuple(_quants())
_X = "uint8[1,2,4,4] x"
_W = "int8[2,2,2,2] w = {1, -2, 3, -4, 5, -6, 7, 60, 1, -2, 3, -4, 5, -6, 7, -60}"
_B = "int8[3,2] b = {1, -2, 3, -4, 64, -64}"


def _qoperators(first: float, second: float, zero: int) -> Iterator[str]:
    """Yield models with each operator on quantized values."""
    one = f"float xs = {{{first}}}, uint8 xz = {{{zero}}}, float ys = {{0.5}}, uint8 yz = {{10}}"
    two = f"float as = {{{first}}}, uint8 az = {{{zero}}}, float bs = {{{second}}}, uint8 bz = {{4}}"
    two += ", float ys = {0.25}, uint8 yz = {100}"
    weights = f"{_W}, float[2] ws = {{{second}, 0.03125}}, int8[2] wz = {{0, 1}}, int32[2] b = {{100, -7}}"
    call = "y = QLinearConv <kernel_shape = [2, 2]> (x, xs, xz, w, ws, wz, ys, yz, b)"
    yield _model(f"g ({_X}) => (uint8[1,2,3,3] y) <{one}, {weights}> {{ {call} }}")
    for size, more, call in (
        ("3,2|2,2", "", "QLinearMatMul (a, as, az, b, bs, bz, ys, yz)"),
        ("3,2|2,2", ", int32[2] c = {5, -7}", "com.microsoft.QGemm <alpha = 0.5> (a, as, az, b, bs, bz, c, ys, yz)"),
        ("2,3|2,3", "", "com.microsoft.QLinearAdd (a, as, az, b, bs, bz, ys, yz)"),
        ("2,3|2,3", "", "com.microsoft.QLinearMul (a, as, az, b, bs, bz, ys, yz)"),
        ("2,3|4,3", "", "com.microsoft.QLinearConcat <axis = 0> (ys, yz, a, as, az, b, bs, bz)"),
    ):
        given, made = size.split("|")
        yield _model(f"g (uint8[2,3] a, uint8[{given}] b) => (uint8[{made}] y) <{two}{more}> {{ y = {call} }}")
    for call, made in (
        ("QLinearAveragePool <kernel_shape = [2, 2]>", "3,3"),
        ("QLinearGlobalAveragePool", "1,1"),
        ("QLinearSigmoid", "4,4"),
        ("QLinearLeakyRelu <alpha = 0.1>", "4,4"),
    ):
        yield _model(f"g ({_X}) => (uint8[1,2,{made}] y) <{one}> {{ y = com.microsoft.{call} (x, xs, xz, ys, yz) }}")


def _products(zero: int) -> Iterator[str]:
    """Yield models with integer products."""
    matrices = f"{_B}, uint8 az = {{{zero}}}, int8 bz = {{1}}"
    yield _model(f"g (uint8[2,3] a) => (int32[2,2] y) <{matrices}> {{ y = MatMulInteger (a, b, az, bz) }}")
    call = "y = ConvInteger <kernel_shape = [2, 2]> (x, w, xz)"
    yield _model(f"g ({_X}) => (int32[1,2,3,3] y) <{_W}, uint8 xz = {{{zero}}}> {{ {call} }}")


def _dynamic(scale: float) -> Iterator[str]:
    """Yield models with integer products that return floats."""
    weights = f"{_B}, float[2] bs = {{0.1, {scale}}}, int8[2] bz = {{1, 0}}, float[2] c = {{0.5, -1.0}}"
    call = "y = com.microsoft.MatMulIntegerToFloat (a, b, as, bs, az, bz, c)"
    yield _model(f"g (uint8[2,3] a) => (float[2,2] y) <float as = {{0.1}}, uint8 az = {{3}}, {weights}> {{ {call} }}")
    call = "y = com.microsoft.DynamicQuantizeMatMul (a, b, bs, bz, c)"
    yield _model(f"g (float[2,3] a) => (float[2,2] y) <{weights}> {{ {call} }}")


def _moved(scale: float) -> Iterator[str]:
    """Yield models with DequantizeLinear of moved data."""
    lists = "int64[3] i = {2, 0, 1}, int64[1] n = {-1}, int64[1] all = {2}"
    parameters = f"float s = {{{scale}}}, uint8 z = {{3}}, {lists}"
    for made, call in (
        ("1,32", "Flatten (q)"),
        ("4,4,2,1", "Transpose (q)"),
        ("1,2,2,2", "MaxPool <kernel_shape = [3, 3]> (q)"),
        ("1,2,3,4", "Gather <axis = 2> (q, i)"),
        ("32", "Reshape (q, n)"),
        ("1,2,4,4", "ReverseSequence <batch_axis = 0, time_axis = 1> (q, all)"),
    ):
        body = f"f = {call} y = DequantizeLinear (f, s, z)"
        yield _model(f"g (uint8[1,2,4,4] q) => (float[{made}] y) <{parameters}> {{ {body} }}")


_NUMBERS = ((0.5, 0.125, 3), (0.25, 0.25, 0), (0.0625, 1.0, 128), (0.25, 0.5, 255), (1.0, 1.0, 7), (2.0, 0.5, 9))
"""Scales are powers of two, for which sums of floats are as exact as sums of integers."""

QOPERATOR = tuple(model for numbers in _NUMBERS for model in _qoperators(*numbers))
PRODUCTS = tuple(model for zero in (0, 3, 128) for model in _products(zero))
DYNAMIC = tuple(model for scale in (0.1, 0.5, 2.0, 0.25, 1.0, 3.0) for model in _dynamic(scale))
DYNAMIC_QUANTIZER = tuple(
    _inputs(shape, "float one = {1}", "q, s, z = DynamicQuantizeLinear (x) y = DequantizeLinear (q, s, z)")
    for shape in ("2,3", "1", "4,1,5")
)
MOVED = tuple(model for scale in (0.3, 1.0, 0.007) for model in _moved(scale))
BIPOLAR = tuple(
    _inputs("N,3", f"float{shape} s = {{{scale}}}", f"y = {DOMAIN}.BipolarQuant (x, s)")
    for shape, scale in (
        *(("", "0.3"), ("", "1.0"), ("[1]", "1.99"), ("", "0.0001")),
        *(("[3]", "0.1, 1.5, 1.0"), ("[1,3]", "0.01, 0.2, 0.3")),
    )
)
ROUNDED = tuple(
    _inputs("N,3", f"float low = {{{low}}}, float high = {{{high}}}, float zero = {{0}}", call)
    for low, high in ((-8, 7), (0, 15), (-7, 7), (-5, 10), (-1, 1))
    for call in (
        "r = Floor (x) y = Clip (r, low, high)",
        "p = GreaterOrEqual (x, zero) y = Where (p, high, low)",
        *(
            f"{bounds} y = {operator} (c)"
            for operator in ("Round", "Floor", "Ceil")
            for bounds in (
                "c = Clip (x, low, high)",
                "m = Min (x, high) c = Max (m, low)",
                "a = Greater (x, high) b = Where (a, high, x) l = Less (b, low) c = Where (l, low, b)",
            )
        ),
    )
)
STORED_WEIGHTS = tuple(
    _model(
        f"g (float[2,3] x) => (float[2,2] y) <float[3,2] w = {{{weights}}}, float s = {{0.5}}, float z = {{0}}, "
        f"float b = {{4}}> {{ q = {DOMAIN}.Quant (x, s, z, b) y = MatMul (q, w) }}"
    )
    for weights in (
        "0.3, -0.6, 0.0, 0.3, 0.9, -2.1",
        "0.1, -0.1, 0.1, 0.1, -0.1, 0.1",
        "0.25, 3.0, 0.5, -6.0, -0.75, 9.0",
        "0.1, 0.123, 0.7, -1.1, 0.31, 0.2",
    )
)
