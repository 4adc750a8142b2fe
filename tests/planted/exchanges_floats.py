"""Wrong nodes for floats: one last place beside a constant, kinks, ties, branches, masks, order of what is equal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnx_passes.verify.run.execute import Sample
from tests.planted.exchanges import Exchange, exchange

_NUMPY = {"float": np.float32, "double": np.float64}
_AFFINE = "u = Mul(x, factor) v = Add(u, term) @"


def beside(large: bool) -> Iterator[Exchange]:
    """Yield thresholds that are moved by one last place, and what happens exactly there."""
    for dtype, numpy in _NUMPY.items():
        for limit in (0.3, -1.7, 25.0):
            exact = numpy(limit)
            above, below = (np.nextafter(exact, numpy(end)) for end in (np.inf, -np.inf))
            named = {"limit": exact, "above": above, "below": below, "factor": 0.75, "term": 0.5, "six": 60.0}
            constants = ", ".join(f"{dtype} {name} = {{{float(number)!r}}}" for name, number in named.items())
            near = (exact - numpy(0.5)) / numpy(0.75)
            steps = np.arange(-12, 12) * np.spacing(near) / 2
            witness = {"x": (near + steps).astype(numpy).reshape(3, 8), "side": np.zeros(2, np.float32)}
            for place, before in (("an input", "v = Neg(x) @"), ("an affine map", _AFFINE)):

                def made(
                    right: str, wrong: str, after: str = "y = Not(w)", result: str = "bool", *, dtype: str = dtype,
                    before: str = before, place: str = place, constants: str = constants,
                    witness: Sample | None = None if place == "an input" else witness,
                ) -> Exchange:  # fmt: skip
                    return exchange(
                        f"threshold of {dtype} behind {place}", right, wrong, f"{before} {after}",
                        inputs=f"{dtype}[3,8] x", result=result, constants=constants, large=large, witness=witness,
                    )  # fmt: skip

                yield made("w = Greater(v, limit)", "w = GreaterOrEqual(v, limit)")
                yield made("w = Less(v, limit)", "w = Less(v, above)")
                yield made("w = LessOrEqual(v, limit)", "w = LessOrEqual(v, below)")
                yield made("w = Clip(v, limit, six)", "w = Clip(v, above, six)", "y = Neg(w)", dtype)
                yield made("w = Max(v, limit)", "w = Max(v, below)", "y = Neg(w)", dtype)
                yield made(
                    "b = Less(v, limit) w = Where(b, v, six)", "b = LessOrEqual(v, limit) w = Where(b, v, six)",
                    "y = Neg(w)", dtype,
                )  # fmt: skip


def kinks(large: bool) -> Iterator[Exchange]:
    """Yield what is right for most numbers, and not for some: the other sign, ties, ends, exactly zero."""
    numbers = "float zero = {0.0}, float half = {0.5}, float one = {1.0}, float two = {2.0}, float three = {3.0}, "
    numbers += "float six = {6.0}, float minus = {-0.1}, float low = {-2.5}, float high = {2.25}, float big = {127.0}, "
    numbers += "float least = {-128.0}, float tenth = {0.1}, float ten = {10.0}, float all = {255.0}"

    def made(
        right: str, wrong: str, after: str = "y = Neg(w)", result: str = "float", *, before: str = "v = Neg(x)"
    ) -> Exchange:
        body = f"{before} @ {after}"
        return exchange("kink", right, wrong, body, result=result, constants=numbers, large=large)

    rounds = "Round", "Floor", "Ceil"
    yield from (made(f"w = {a}(v)", f"w = {b}(v)") for a in rounds for b in rounds if a != b)
    yield made("w = Round(v)", "a = Add(v, half) w = Floor(a)")
    yield made("w = Round(v)", "a = Sub(v, half) w = Ceil(a)")
    yield made("w = Round(v)", "i = Cast<to=6>(v) w = Cast<to=1>(i)")
    yield made("i = Cast<to=7>(v) w = Cast<to=1>(i)", "w = Floor(v)")
    yield made("i = Cast<to=7>(v) w = Cast<to=1>(i)", "w = Round(v)")
    yield made("d = Div(v, tenth) w = Round(d)", "d = Mul(v, ten) w = Round(d)")
    yield made("c = Clip(v, least, big) i = Cast<to=3>(c) w = Cast<to=1>(i)", "i = Cast<to=6>(v) w = Cast<to=1>(i)")
    yield made(
        "c = Clip(v, zero, all) i = Cast<to=2>(c) w = Cast<to=1>(i)", "c = Relu(v) i = Cast<to=6>(c) w = Cast<to=1>(i)"
    )
    yield made("w = Relu(v)", "w = Abs(v)")
    yield made("w = Abs(v)", "w = Relu(v)")
    yield made("w = LeakyRelu<alpha=0.1>(v)", "w = Relu(v)")
    yield made("w = LeakyRelu<alpha=0.1>(v)", "w = LeakyRelu<alpha=0.1001>(v)")
    yield made("w = LeakyRelu<alpha=0.1>(v)", "m = Mul(v, minus) w = Max(v, m)")
    yield made("w = PRelu(v, minus)", "w = LeakyRelu<alpha=0.1>(v)")
    yield made("w = Elu(v)", "w = Relu(v)")
    yield made("w = Elu<alpha=1.0>(v)", "w = Selu(v)")
    yield made("w = ThresholdedRelu<alpha=1.0>(v)", "g = GreaterOrEqual(v, one) w = Where(g, v, zero)")
    yield made("w = HardSwish(v)", "w = Relu(v)")
    yield made("w = HardSigmoid<alpha=0.2, beta=0.5>(v)", "w = HardSigmoid<alpha=0.2, beta=0.5005>(v)")
    yield made("w = Shrink<lambd=0.5>(v)", "a = Abs(v) g = GreaterOrEqual(a, half) w = Where(g, v, zero)")
    yield made("w = Clip(v, zero, six)", "w = Relu(v)")
    yield made("w = Clip(v, low, high)", "w = Max(v, low)")
    yield made("w = Clip(v, low, high)", "w = Min(v, high)")
    yield made("w = Clip(v, least, big)", "w = Identity(v)")
    yield made("w = Pow(v, two)", "a = Abs(v) w = Mul(a, v)")
    yield made("w = Pow(v, three)", "a = Abs(v) w = Pow(a, three)")
    yield made("a = Abs(v) w = Pow(a, half)", "a = Relu(v) w = Sqrt(a)")
    yield made("m = Mul(v, v) w = Sqrt(m)", "w = Identity(v)")
    yield made("w = Sign(v)", "g = GreaterOrEqual(v, zero) s = Where(g, one, minus) w = Sign(s)")
    yield made("w = Mod<fmod=1>(v, three)", "d = Div(v, three) f = Floor(d) m = Mul(f, three) w = Sub(v, m)")
    yield made("w = Softplus(v)", "e = Exp(v) p = Add(e, one) w = Log(p)")
    yield made("w = Sigmoid(v)", "e = Exp(v) p = Add(e, one) w = Div(e, p)")
    before = "v = Neg(x) b = Greater(v, one) c = Not(b)"
    yield made("w = Where(b, v, one)", "w = Where(c, v, one)", before=before)
    yield made("w = IsNaN(v)", "w = Less(v, v)", "y = Not(w)", "bool")
    yield made("w = IsInf(v)", "w = IsInf<detect_negative=0>(v)", "y = Not(w)", "bool")
    yield made("w = IsInf(v)", "w = IsNaN(v)", "y = Not(w)", "bool")
    yield made("w = Equal(v, one)", "w = Less(v, v)", "y = Not(w)", "bool")
    yield made("w = Max(v, one)", "g = Greater(v, one) w = Where(g, v, one)")
    yield made("w = Min(v, one)", "l = Less(v, one) w = Where(l, v, one)")
    yield made("w = Mul(v, zero)", "w = Sub(zero, zero)", "y = Add(w, v)")
    yield made("w = Reciprocal(v)", "a = Abs(v) w = Reciprocal(a)")
    yield made("a = Add(v, big) w = Sub(a, big)", "w = Identity(v)")
    yield made("m = Mul(v, three) w = Div(m, three)", "w = Identity(v)")
    yield made("w = Div(v, v)", "w = Sub(one, zero)", "y = Add(w, v)")


def orders(large: bool) -> Iterator[Exchange]:
    """Yield reductions and choices that are wrong for what is equal, far, NaN, or in another order."""
    constants = "int64[1] last = {-1}, int64[1] k = {3}, float one = {1.0}, float zero = {0.0}, int64 at = {1}, "
    constants += "int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}"

    def made(
        right: str, wrong: str, *, result: str = "float", shape: str = "4,6", before: str = "v = Neg(x)"
    ) -> Exchange:
        body, given = f"{before} @ y = Neg(w)", f"float[{shape}] x"
        return exchange("order", right, wrong, body, inputs=given, result=result, constants=constants, large=large)

    for operator in ("ArgMax", "ArgMin"):
        base = f"{operator}<axis=1, keepdims=0"
        yield made(f"w = {base}>(v)", f"w = {base}, select_last_index=1>(v)", result="int64")
        yield made(f"w = {base}, select_last_index=1>(v)", f"w = {base}>(v)", result="int64", shape="N,5")
        yield made(f"w = {base}>(v)", f"r = Round(v) w = {base}>(r)", result="int64")
    yield made("w, i = TopK(v, k)", "w, i = TopK<largest=0>(v, k)")
    yield made("r = Round(v) d, w = TopK(r, k)", "r = Floor(v) d, w = TopK(r, k)", result="int64")
    yield made("w = CumSum(v, at)", "w = CumSum<exclusive=1>(v, at)")
    yield made("w = CumSum(v, at)", "w = CumSum<reverse=1>(v, at)", shape="N,3")
    yield made("w = Softmax(v)", "e = Exp(v) s = ReduceSum(e, last) w = Div(e, s)")
    yield made("w = LogSoftmax(v)", "s = Softmax(v) w = Log(s)")
    yield made("w = ReduceMax(v, last)", "a = Relu(v) w = ReduceMax(a, last)")
    yield made("w = ReduceL1(v, last)", "w = ReduceSum(v, last)")
    yield made("w = ReduceL1(v, last)", "w = ReduceSum(v, last)", before="a = Abs(x) b = Sub(a, one) v = Neg(b)")
    yield made("w = Hardmax(v)", "m = ReduceMax(v, last) e = Equal(v, m) w = CastLike(e, v)")
    yield made("w = Trilu<upper=0>(v)", "w = Trilu<upper=0>(v, at)")
    yield made("w = LpNormalization(v)", "w = LpNormalization<p=1>(v)")
    yield made("w = Transpose<perm=[1,0]>(v)", "w = Identity(v)", shape="5,5")
    yield made("w = Concat<axis=0>(v, x)", "w = Concat<axis=0>(x, v)")
    yield made(
        "w = MaxPool<kernel_shape=[2,2], pads=[1,1,1,1]>(v)",
        "p = Pad(v, pads) w = MaxPool<kernel_shape=[2,2]>(p)",
        shape="1,2,4,4",
    )
    yield made(
        "w = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(v)",
        "w = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(v)",
        shape="1,2,4,4",
    )
    yield made("w = DepthToSpace<blocksize=2>(v)", 'w = DepthToSpace<blocksize=2, mode="CRD">(v)', shape="1,8,2,2")


def branches(large: bool) -> Iterator[Exchange]:
    """Yield what is wrong in a branch, whether or not the condition usually takes it."""
    constants = (
        "float zero = {0.0}, float three = {3.0}, float thousand = {1000.0}, int64 seven = {7}, int64 limit = {300}"
    )
    conditions = {
        "an input": ("c = Identity(b)", ", bool b"),
        "a sum": ("s = ReduceSum<keepdims=0>(x) c = Greater(s, zero)", ""),
        "a large sum": ("s = ReduceSum<keepdims=0>(x) c = Greater(s, thousand)", ""),
        "a mean": ("s = ReduceMean<keepdims=0>(x) c = Less(s, three)", ""),
        "a number": ("c = Equal(n, seven)", ", int64 n"),
        "a large number": ("c = Less(n, limit)", ", int64 n"),
    }
    pairs = {"@ = Relu(u)": "@ = Abs(u)", "@ = Floor(u)": "@ = Round(u)", "@ = Sub(u, three)": "@ = Sub(three, u)"}
    for name, (condition, more) in conditions.items():
        for right, wrong in pairs.items():
            for place in ("p", "q"):
                then, other = ("@", "q = Sin(u)") if place == "p" else ("p = Sin(u)", "@")
                taken = f"then_branch = t () => (float[4] pn) {{ {then} pn = Neg(p) }}"
                left = f"else_branch = e () => (float[4] qn) {{ {other} qn = Neg(q) }}"
                body = f"u = Mul(x, three) {condition} z = If (c) <{taken}, {left}> y = Sub(z, u)"
                old, new = (text.replace("@", place) for text in (right, wrong))
                given = f"float[4] x{more}"
                kind = f"branch by {name}"
                yield exchange(kind, old, new, body, inputs=given, constants=constants, large=large)


def quantized(large: bool) -> Iterator[Exchange]:
    """Yield quantizers with another zero point, scale, axis or rounding."""
    constants = (
        "float scale = {0.1}, uint8 zero = {128}, int8 none = {0}, uint8 off = {129}, float other = {0.10000001}, "
    )
    constants += "float least = {-128.0}, float most = {127.0}, float seven = {7.0}, "
    constants += "float[4] scales = {0.1, 0.2, 0.3, 0.25}, int8[4] zeros = {0, 0, 0, 0}"

    def made(right: str, wrong: str, result: str = "float", shape: str = "3,4") -> Exchange:
        body, given = "v = Neg(x) @ y = Identity(w)", f"float[{shape}] x"
        return exchange("quantizer", right, wrong, body, inputs=given, result=result, constants=constants, large=large)

    yield made("w = QuantizeLinear(v, scale, zero)", "w = QuantizeLinear(v, scale, off)", "uint8")
    yield made("w = QuantizeLinear(v, scale, zero)", "w = QuantizeLinear(v, other, zero)", "uint8", "16,4")
    d = "d = Div(v, scale) r = {} c = Clip(r, least, most) w = Cast<to=3>(c)"
    yield made("w = QuantizeLinear(v, scale, none)", d.format("Floor(d)"), "int8")
    yield made(d.format("Round(d)"), d.replace("least", "seven").format("Round(d)"), "int8")
    yield made(
        "w = QuantizeLinear<axis=1>(v, scales, zeros)", "w = QuantizeLinear<axis=0>(v, scales, zeros)", "int8", "4,4"
    )
    yield made(
        "q = QuantizeLinear(v, scale, none) w = DequantizeLinear(q, scale, none)",
        "a = Clip(v, least, most) w = Identity(a)",
    )
    q = "q = QuantizeLinear(v, scale, none) r = Relu(q) w = DequantizeLinear(r, scale, none)"
    yield made(q, q.replace("Relu", "Identity"))


def all_of(large: bool = False) -> list[Exchange]:
    """Return all of this file."""
    makers = (beside, kinks, orders, branches, quantized)
    return [made for maker in makers for made in maker(large)]
