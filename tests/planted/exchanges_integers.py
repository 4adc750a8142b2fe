"""Wrong nodes for integers: signs, the ends of every width, limits, bounds of indices, sizes beyond small ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.planted.exchanges import Exchange, exchange

_SIGNED = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_CODES = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "double": 11}
_CODES |= {"uint32": 12, "uint64": 13}
_CALCULATES = ("int32", "int64")
"""The integers that ONNX Runtime adds, divides and compares."""
_SIDE = {"side": np.zeros(2, np.float32)}
SHAPES = ("[3,8]", "[5]", "[N]", "[N,4]")


def _to(dtype: str, given: str, made: str) -> str:
    return f"{made} = Cast<to={_CODES[dtype]}>({given})"


def signs(large: bool) -> Iterator[Exchange]:
    """Yield what is wrong for negative integers, or the ends of the type."""
    for number, (dtype, bits) in enumerate(_SIGNED.items()):
        shape = SHAPES[number % len(SHAPES)]

        def made(
            right: str, wrong: str, constants: str = "", result: str = dtype, *, dtype: str = dtype, shape: str = shape
        ) -> Exchange:
            typed = constants.replace("T ", f"{dtype} ")
            return exchange(
                f"sign of {dtype}",
                right,
                wrong,
                "v = Identity(x) @ y = Identity(w)",
                inputs=f"{dtype}{shape} x",
                result=result,
                constants=typed,
                large=large,
            )

        yield made("w = Abs(v)", "w = Identity(v)")
        yield made("w = Mod(v, k)", "w = Mod<fmod=1>(v, k)", "T k = {7}")
        yield made("w = Mod<fmod=1>(v, k)", "w = Mod(v, k)", "T k = {-5}")
        yield made("w = Mod(v, k)", "m = Mod(v, k) w = Abs(m)", "T k = {-3}")
        yield made("w = Sign(v)", "a = Abs(v) w = Sign(a)")
        yield made("w = BitwiseAnd(v, k)", "w = Mod<fmod=1>(v, n)", "T k = {15}, T n = {16}")
        yield made("w = BitwiseNot(v)", "w = Identity(v)")
        other = f"uint{bits}"
        yield made(f"{_to(other, 'v', 'u')} w = Cast<to=11>(u)", "w = Cast<to=11>(v)", result="double")
        if bits > 8:
            yield made(f"{_to('int8', 'v', 'u')} {_to(dtype, 'u', 'w')}", "w = Identity(v)")
            yield made(f"{_to('uint8', 'v', 'u')} {_to(dtype, 'u', 'w')}", "w = Identity(v)")
        if bits > 16:
            yield made(f"{_to('int16', 'v', 'u')} {_to(dtype, 'u', 'w')}", "w = Identity(v)")
            yield made(f"{_to('float', 'v', 'u')} {_to(dtype, 'u', 'w')}", "w = Identity(v)")
        if bits > 32:
            yield made(f"{_to('int32', 'v', 'u')} {_to(dtype, 'u', 'w')}", "w = Identity(v)")
            yield made("d = Cast<to=11>(v) w = Cast<to=7>(d)", "w = Identity(v)")
        if dtype not in _CALCULATES:
            continue
        low = "f = Cast<to=11>(v) g = Div(f, kf) h = Floor(g)"
        yield made("w = Div(v, k)", f"{low} {_to(dtype, 'h', 'w')}", "T k = {4}, double kf = {4.0}")
        yield made("w = Div(v, k)", f"{low} {_to(dtype, 'h', 'w')}", "T k = {-3}, double kf = {-3.0}")
        yield made("d = Div(v, k) m = Mul(d, k) w = Sub(v, m)", "w = Mod(v, k)", "T k = {6}")
        yield made("d = Div(v, k) w = Mul(d, k)", "w = Identity(v)", "T k = {2}")
        yield made("m = Mul(v, k) w = Div(m, k)", "w = Identity(v)", "T k = {3}")
        yield made("a = Add(v, k) w = Greater(a, v)", "s = Sub(v, v) w = Equal(s, s)", "T k = {1}", "bool")
        yield made("n = Neg(v) w = Less(n, k)", "w = Greater(v, k)", "T k = {0}", "bool")
        yield made("w = Max(v, k)", "w = Relu(v)", "T k = {-2}")
        yield made("w = Relu(v)", "w = Abs(v)")
        yield made("w = Clip(v, a, b)", "w = Clip(v, a, c)", "T a = {-9}, T b = {99}, T c = {100}")
        yield made("w = Clip(v, a, b)", "w = Max(v, a)", "T a = {-9}, T b = {100000}")
        yield made("w = Clip(v, a, b)", "w = Min(v, b)", "T a = {-70000}, T b = {5}")
        yield made(
            "m = Mod<fmod=1>(v, k) w = Equal(m, o)", "m = Mod(v, k) w = Equal(m, o)", "T k = {2}, T o = {1}", "bool"
        )


def unsigned(large: bool) -> Iterator[Exchange]:
    """Yield what is wrong for the upper half of a type, or beyond its ends."""
    for number, (dtype, bits) in enumerate(_UNSIGNED.items()):
        shape = SHAPES[(number + 1) % len(SHAPES)]

        def made(
            right: str, wrong: str, constants: str = "", result: str = dtype, *, dtype: str = dtype, shape: str = shape
        ) -> Exchange:
            typed = constants.replace("T ", f"{dtype} ")
            body = "v = Identity(x) @ y = Identity(w)"
            return exchange(
                f"width of {dtype}", right, wrong, body, inputs=f"{dtype}{shape} x", result=result, constants=typed,
                large=large,
            )  # fmt: skip

        signed = f"int{bits}"
        yield made(f"{_to(signed, 'v', 'u')} w = Cast<to=11>(u)", "w = Cast<to=11>(v)", result="double")
        yield made("w = Mod(v, k)", "w = Identity(v)", f"T k = {{{2 ** (bits - 1)}}}")
        if bits > 8:
            yield made(f"{_to('uint8', 'v', 'u')} {_to(dtype, 'u', 'w')}", "w = Identity(v)")
        if bits != 16:
            yield made('w = BitShift<direction="RIGHT">(v, k)', "w = Sub(v, v)", f"T k = {{{bits - 1}}}")
            yield made(
                'a = BitShift<direction="LEFT">(v, k) w = BitShift<direction="RIGHT">(a, k)',
                "w = Identity(v)",
                "T k = {1}",
            )
            yield made(
                'w = BitShift<direction="RIGHT">(v, k)', 'w = BitShift<direction="RIGHT">(v, n)', "T k = {3}, T n = {2}"
            )
        yield made("w = BitwiseAnd(v, k)", "w = Identity(v)", f"T k = {{{2 ** (bits - 1) - 1}}}")
        yield made("w = BitwiseXor(v, k)", "w = BitwiseOr(v, k)", "T k = {64}")


def compared(large: bool) -> Iterator[Exchange]:
    """Yield comparisons that are wrong at a constant of the model."""
    limits = {"int8": (-77, 5), "uint8": (200,), "int16": (-3000,), "int32": (5, 100_000), "int64": (-40, 2**40)}
    # ONNX Runtime compares integers of these widths only.
    operators = {"Less": "LessOrEqual", "GreaterOrEqual": "Greater", "Equal": "Less", "LessOrEqual": "Less"}
    for dtype, numbers in limits.items():
        for limit in numbers:
            for right, wrong in operators.items():
                cast = "v = Identity(x)" if dtype in _CALCULATES else "v = Cast<to=6>(x)"
                kind = dtype if dtype in _CALCULATES else "int32"
                yield exchange(
                    f"comparison of {dtype}",
                    f"w = {right}(v, k)",
                    f"w = {wrong}(v, k)",
                    f"{cast} @ y = Not(w)",
                    inputs=f"{dtype}[N] x",
                    result="bool",
                    constants=f"{kind} k = {{{limit}}}",
                    large=large,
                )


def pairs(large: bool) -> Iterator[Exchange]:
    """Yield what is wrong for two inputs: signs of both, and ties."""
    signed = np.array([7, -7, 7, -7, 0], np.int64), np.array([3, 3, -3, -3, 5], np.int64)
    for dtype in _CALCULATES:
        witness = {"x": signed[0].astype(dtype), "z": signed[1].astype(dtype), **_SIDE}

        def made(
            right: str, wrong: str, result: str = dtype, *, dtype: str = dtype, witness: dict[str, np.ndarray] = witness
        ) -> Exchange:
            body, given = "v = Identity(x) @ y = Identity(w)", f"{dtype}[5] x, {dtype}[5] z"
            return exchange(
                f"two of {dtype}", right, wrong, body, inputs=given, result=result, large=large, witness=witness
            )

        tied = {**witness, "z": witness["x"]}
        yield made(
            "w = Div(v, z)", "f = Cast<to=11>(v) e = Cast<to=11>(z) g = Div(f, e) h = Floor(g) w = CastLike(h, v)"
        )
        yield made("w = Mod(v, z)", "w = Mod<fmod=1>(v, z)")
        yield made("w = Mod<fmod=1>(v, z)", "w = Mod(v, z)")
        yield made("w = Mod(v, z)", "a = Abs(z) w = Mod(v, a)")
        yield made("d = Div(v, z) m = Mul(d, z) w = Sub(v, m)", "w = Mod(v, z)")
        for right, wrong in (("Less", "LessOrEqual"), ("GreaterOrEqual", "Greater"), ("Equal", "Less")):
            yield made(f"w = {right}(v, z)", f"w = {wrong}(v, z)", "bool", witness=tied)
        yield made("w = Min(v, z)", "w = Max(v, z)")
        yield made("w = Sub(v, z)", "w = Sub(z, v)")


def indices(large: bool) -> Iterator[Exchange]:
    """Yield what is wrong for negative indices, and for those beyond small ones."""
    table = "float[40,3] t = {" + ", ".join(str(n * 7 % 31) for n in range(120)) + "}"
    constants = f"{table}, int64 zero = {{0}}, int64 limit = {{16}}, int64 last = {{39}}, int64 n = {{40}}, "
    constants += "float[2] values = {0.0, 1.0}"

    def made(
        right: str, wrong: str, *, shape: tuple[int, ...] = (6,), dtype: str = "int64", update: tuple[int, ...] = ()
    ) -> Exchange:
        # Rows and columns take other indices.
        places = (
            np.array([-1, -40, 39, 17, 0, 3], dtype) if shape[-1] != 3 else np.array([-1, -2, 30, 17, 0, -17], dtype)
        )
        witness = {"i": np.resize(places, shape), "u": np.arange(np.prod(update), dtype=np.float32).reshape(update)}
        given = [f"{dtype}{list(shape)} i", *([f"float{list(update)} u"] if update else [])]
        return exchange(
            "index",
            right,
            wrong,
            "@ y = Identity(w)",
            inputs=", ".join(given),
            constants=constants,
            large=large,
            witness={**witness, **_SIDE},
        )

    yield made("w = Gather(t, i)", "j = Max(i, zero) w = Gather(t, j)")
    yield made("w = Gather(t, i)", "j = Abs(i) w = Gather(t, j)")
    yield made("w = Gather(t, i)", "j = Min(i, limit) w = Gather(t, j)")
    yield made(
        "w = Gather(t, i)", "j = Min(i, last) k = Sub(j, zero) l = Mod<fmod=1>(k, n) m = Relu(l) w = Gather(t, m)"
    )
    gather = "w = GatherElements(t, {})"
    yield made(gather.format("i"), f"j = Max(i, zero) {gather.format('j')}", shape=(4, 3))
    yield made(gather.format("i"), f"j = Min(i, limit) {gather.format('j')}", shape=(4, 3))
    yield made("w = GatherND(t, i)", "j = Max(i, zero) w = GatherND(t, j)", shape=(5, 1))
    scatter = "w = ScatterElements(t, {}, u)"
    yield made(scatter.format("i"), f"j = Max(i, zero) {scatter.format('j')}", shape=(2, 3), update=(2, 3))
    added = scatter.replace("Elements", 'Elements<reduction="add">').format("i")
    yield made(added, scatter.format("i"), shape=(60, 3), update=(60, 3))
    yield made("w = ScatterND(t, i, u)", "j = Min(i, limit) w = ScatterND(t, j, u)", shape=(5, 1), update=(5, 3))
    yield made("w = OneHot(i, n, values)", "j = Min(i, limit) w = OneHot(j, n, values)")
    yield made("w = OneHot(i, n, values)", "j = Relu(i) w = OneHot(j, n, values)")
    yield made("w = Gather(t, i)", "z = CastLike(zero, i) j = Max(i, z) w = Gather(t, j)", dtype="int32")


def sizes(large: bool) -> Iterator[Exchange]:
    """Yield what is wrong beyond some size of a dynamic dimension."""
    for limit in (12, 16, 17, 20, 32, 48, 64, 100, 128):

        def made(right: str, wrong: str, given: str, more: str = "", *, limit: int = limit) -> Exchange:
            named = {"end": limit, "more": limit + 1, "begin": 0, "axis": 0}
            constants = ", ".join(f"int64[1] {name} = {{{number}}}" for name, number in named.items())
            kind = f"size beyond {'16' if limit < 17 else '64' if limit >= 64 else 'small'}"
            return exchange(
                kind,
                right,
                wrong,
                "v = Neg(x) @ y = Identity(w)",
                inputs=given,
                constants=constants + more,
                large=large,
            )

        cut = "w = Slice(v, begin, end, axis)"
        yield made("w = Identity(v)", cut, "float[N,3] x")
        yield made(cut, "w = Identity(v)", "float[N] x")
        if limit in (16, 32, 64):
            yield made(cut, "w = Slice(v, begin, more, axis)", "float[N,M] x")
            steps = [n % 5 for n in range(2 * limit)]
            other = steps[:limit] + [7] * limit
            positions = "".join(
                f", float[{2 * limit}] {name} = {{{', '.join(map(str, table))}}}"
                for name, table in (("table", steps), ("flat", other))
            )
            take = "s = Shape<start=0, end=1>(v) c = Slice({}, begin, s, axis) w = Add(v, c)"
            yield made(take.format("table"), take.format("flat"), "float[N] x", positions)
            yield made(
                "s = Shape<start=0, end=1>(v) m = Min(s, end) w = Slice(v, begin, m, axis)",
                "w = Identity(v)",
                "float[N,2] x",
            )
            yield made(
                "s = Shape<start=0, end=1>(v) g = Greater(s, end) n = Neg(v) w = Where(g, n, v)",
                "w = Identity(v)",
                "float[N,2] x",
            )


def all_of(large: bool = False) -> list[Exchange]:
    """Return all of this file."""
    makers = (signs, unsigned, compared, pairs, indices, sizes)
    return [made for maker in makers for made in maker(large)]
