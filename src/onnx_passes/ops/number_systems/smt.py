"""Terms in the theories of an SMT solver: integers as bit-vectors, floats by IEEE 754, each in its true width.

What is not defined (a cast out of range, the larger of two zeros) and functions that are only approximated are
uninterpreted: the same for the same operands, else anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from onnx_passes.numbers.algebra import Symbol
from onnx_passes.ops.number_systems.rings import POLYNOMIAL
from onnx_passes.ops.number_systems.terms import CONSTANT, Terms

_FLOATS = {
    ir.DataType.FLOAT16: (5, 11),
    ir.DataType.BFLOAT16: (8, 8),
    ir.DataType.FLOAT: (8, 24),
    ir.DataType.DOUBLE: (11, 53),
    ir.DataType.FLOAT8E5M2: (5, 3),
}


class Ends(Protocol):
    """The least and the greatest number of a variable."""

    @property
    def low(self) -> float:
        """Return the least number."""
        ...

    @property
    def high(self) -> float:
        """Return the greatest number."""
        ...


class NotExpressibleError(Exception):
    """A type that the solver has no theory of."""


def is_available() -> bool:
    """Tell whether the solver is installed."""
    import importlib.util

    return importlib.util.find_spec("z3") is not None


class Translation:
    """Terms as expressions of z3; ``leaves`` are taken for variables."""

    def __init__(self, terms: Terms, leaves: Mapping[int, ir.DataType]) -> None:
        import z3

        self.z3: Any = z3
        self.context: Any = self.z3.main_ctx()
        self._terms = terms
        self._leaves = leaves
        self._made: dict[int, Any] = {}
        self._functions: dict[Any, Any] = {}
        self.nearest: Any = self.z3.RNE(self.context)

    def equation(self, a: int, b: int) -> Any:
        """Return that two terms are the same, bit by bit."""
        return self.of(a) == self.of(b)

    def of(self, root: int) -> Any:
        """Return the expression of a term."""
        for term in self._terms.below(root, leaves=self._leaves):
            if term not in self._made:
                self._made[term] = self._expression(term)
        return self._made[root]

    def within(self, term: int, domain: Ends) -> Any:
        """Return that a variable is in its domain; steps of floats are not told."""
        z3, x, dtype = self.z3, self.of(term), self._terms.symbols[term].dtype
        low, high = self.number(dtype, domain.low), self.number(dtype, domain.high)
        if dtype.is_floating_point():
            return z3.And(z3.fpLEQ(low, x), z3.fpLEQ(x, high))
        return z3.And(low <= x, x <= high) if dtype.is_signed() else z3.And(z3.ULE(low, x), z3.ULE(x, high))

    def sort(self, dtype: ir.DataType) -> Any:
        """Return the theory of a type."""
        if dtype is ir.DataType.BOOL:
            return self.z3.BoolSort(self.context)
        if dtype.is_integer():
            return self.z3.BitVecSort(dtype.bitwidth, self.context)
        if dtype in _FLOATS:
            return self.z3.FPSort(*_FLOATS[dtype], self.context)
        raise NotExpressibleError(str(dtype))

    def number(self, dtype: ir.DataType, number: Any) -> Any:
        """Return a constant."""
        z3 = self.z3
        if dtype is ir.DataType.BOOL:
            return z3.BoolVal(bool(number), self.context)
        if dtype.is_integer():
            return z3.BitVecVal(int(number), dtype.bitwidth, self.context)
        bits = np.asarray(number).astype(dtype.numpy()).reshape(1).view(f"u{dtype.itemsize:.0f}")[0]
        return z3.fpBVToFP(z3.BitVecVal(int(bits), dtype.bitwidth, self.context), self.sort(dtype))

    def _expression(self, term: int) -> Any:
        symbol = self._terms.symbols[term]
        if term in self._leaves:
            return self.z3.Const(f"t{term}", self.sort(symbol.dtype))
        if symbol.name == CONSTANT:
            if term not in self._terms.constants:
                raise NotExpressibleError("a text")
            return self.number(symbol.dtype, self._terms.constants[term])
        operands = [self._made[arg] for arg in self._terms.args[term]]
        rule = _RULES.get(symbol.name)
        try:
            found = None if rule is None else rule(self, symbol, operands)
        except self.z3.Z3Exception as error:
            raise NotExpressibleError(f"{symbol.name} of operands that have other types than they declare") from error
        return self.unknown(symbol, operands) if found is None else found

    def unknown(self, symbol: Symbol, operands: Sequence[Any]) -> Any:
        """Apply a function that nothing is known of."""
        key = (symbol, tuple(str(operand.sort()) for operand in operands))
        function = self._functions.get(key)
        if function is None:
            sorts = [operand.sort() for operand in operands]
            function = self._functions[key] = self.z3.Function(
                f"{symbol.name}_{len(self._functions)}", *sorts, self.sort(symbol.dtype)
            )
        return function(*operands)


Translator = Callable[[Translation, Symbol, list[Any]], Any]
_RULES: dict[str, Translator] = {}


def _rule(*names: str) -> Callable[[Translator], Translator]:
    def attach(rule: Translator) -> Translator:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return attach


def _is_float(symbol: Symbol) -> bool:
    dtype = symbol.sources[0] if symbol.sources else symbol.dtype
    return dtype.is_floating_point()


@_rule("Add", "Sub", "Mul", "Product")
def _arithmetic(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    a, b = operands
    if not _is_float(symbol):
        return {"Add": a.__add__, "Sub": a.__sub__, "Mul": a.__mul__}[symbol.name](b)
    if symbol.name == "Product":
        return None
    return {"Add": t.z3.fpAdd, "Sub": t.z3.fpSub, "Mul": t.z3.fpMul}[symbol.name](t.nearest, a, b)


@_rule("Div")
def _divided(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    a, b = operands
    if _is_float(symbol):
        return t.z3.fpDiv(t.nearest, a, b)
    quotient = a / b if symbol.dtype.is_signed() else t.z3.UDiv(a, b)
    return t.z3.If(b == 0, t.unknown(symbol, operands), quotient)


@_rule("Mod")
def _modulo(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    a, b = operands
    if _is_float(symbol):
        return None
    signed = t.z3.SRem(a, b) if symbol.params[0] else a % b
    rest = signed if symbol.dtype.is_signed() else t.z3.URem(a, b)
    return t.z3.If(b == 0, t.unknown(symbol, operands), rest)


@_rule("Neg")
def _negative(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return t.z3.fpNeg(operands[0]) if _is_float(symbol) else -operands[0]


@_rule("Abs")
def _absolute(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    (x,) = operands
    if _is_float(symbol):
        return t.z3.fpAbs(x)
    return t.z3.If(x < 0, -x, x) if symbol.dtype.is_signed() else x


def _zero(t: Translation, symbol: Symbol) -> Any:
    return t.number(symbol.dtype, 0)


def _less(t: Translation, dtype: ir.DataType, a: Any, b: Any) -> Any:
    if dtype.is_floating_point():
        return t.z3.fpLT(a, b)
    if dtype is ir.DataType.BOOL:
        return t.z3.And(t.z3.Not(a), b)
    return a < b if dtype.is_signed() else t.z3.ULT(a, b)


@_rule("Sign")
def _sign(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    (x,) = operands
    zero = _zero(t, symbol)
    one, minus = t.number(symbol.dtype, 1), t.number(symbol.dtype, -1)
    found = t.z3.If(_less(t, symbol.dtype, zero, x), one, t.z3.If(_less(t, symbol.dtype, x, zero), minus, zero))
    return t.z3.If(t.z3.fpIsNaN(x), x, found) if _is_float(symbol) else found


@_rule("Relu")
def _relu(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    zero = _zero(t, symbol)
    return t.z3.If(_less(t, symbol.dtype, operands[0], zero), zero, operands[0])


@_rule("Clip")
def _clipped(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    x, low, high = operands
    raised = t.z3.If(_less(t, symbol.dtype, x, low), low, x)
    return t.z3.If(_less(t, symbol.dtype, high, raised), high, raised)


@_rule("Max", "Min")
def _extreme(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    z3 = t.z3
    pair = symbol._replace(sources=symbol.sources[:2])

    def chosen(a: Any, b: Any) -> Any:
        order = _less(t, symbol.dtype, a, b)
        found = z3.If(order, b, a) if symbol.name == "Max" else z3.If(_less(t, symbol.dtype, b, a), b, a)
        if not _is_float(symbol):
            return found
        tie = z3.And(z3.fpIsZero(a), z3.fpIsZero(b), a != b)
        signed = t.z3.If(t.unknown(Symbol("sign", ir.DataType.BOOL, (), (pair,)), [a, b]), a, b)
        nan = z3.fpNaN(t.sort(symbol.dtype))
        return z3.If(z3.Or(z3.fpIsNaN(a), z3.fpIsNaN(b)), nan, z3.If(tie, signed, found))

    return reduce(chosen, operands)


@_rule("Floor", "Ceil", "Round")
def _rounded(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    modes = {"Floor": t.z3.RTN, "Ceil": t.z3.RTP, "Round": t.z3.RNE}
    return t.z3.fpRoundToIntegral(modes[symbol.name](t.context), operands[0])


@_rule("Sqrt")
def _root(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return t.z3.fpSqrt(t.nearest, operands[0])


@_rule("And")
def _and(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return t.z3.And(*operands)


@_rule("Or")
def _or(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return t.z3.Or(*operands)


@_rule("Xor")
def _xor(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return reduce(t.z3.Xor, operands)


@_rule("Not")
def _not(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return t.z3.Not(operands[0])


@_rule("BitwiseAnd")
def _bitwise_and(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return reduce(lambda a, b: a & b, operands)


@_rule("BitwiseOr")
def _bitwise_or(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return operands[0] | operands[1]


@_rule("BitwiseNot")
def _bitwise_not(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return ~operands[0]


@_rule("BitwiseXor")
def _bitwise_xor(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return operands[0] ^ operands[1]


@_rule("BitShift")
def _shifted(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    x, by = operands
    if symbol.params[0] == "LEFT":
        return x << by
    return x >> by if symbol.dtype.is_signed() else t.z3.LShR(x, by)


@_rule("Less")
def _smaller(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return _less(t, symbol.sources[0], *operands)


@_rule("LessOrEqual")
def _at_most(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    if _is_float(symbol):
        return t.z3.fpLEQ(*operands)
    return t.z3.Not(_less(t, symbol.sources[0], operands[1], operands[0]))


@_rule("Greater", "GreaterOrEqual")
def _converse(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    rule = _smaller if symbol.name == "Greater" else _at_most
    return rule(t, symbol, operands[::-1])


@_rule("Equal")
def _equal(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return t.z3.fpEQ(*operands) if _is_float(symbol) else operands[0] == operands[1]


@_rule("Where")
def _where(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return t.z3.If(*operands)


@_rule("IsNaN")
def _is_nan(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    return t.z3.fpIsNaN(operands[0])


@_rule("IsInf")
def _is_inf(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    (x,), z3 = operands, t.z3
    negative, positive = symbol.params
    signs = [sign for sign, wanted in ((z3.fpIsNegative(x), negative), (z3.fpIsPositive(x), positive)) if wanted]
    return z3.And(z3.fpIsInf(x), z3.Or(*signs)) if signs else z3.BoolVal(False, t.context)


@_rule("LeakyRelu")
def _leaky(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    (x,) = operands
    slope = t.number(symbol.dtype, float(np.float32(symbol.params[0])))
    return t.z3.If(t.z3.fpLT(x, _zero(t, symbol)), t.z3.fpMul(t.nearest, slope, x), x)


@_rule("PRelu")
def _sloped(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    x, slope = operands
    if not _is_float(symbol):
        return None
    return t.z3.If(t.z3.fpLT(x, _zero(t, symbol)), t.z3.fpMul(t.nearest, slope, x), x)


@_rule("ThresholdedRelu")
def _thresholded(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    limit = t.number(symbol.dtype, float(np.float32(symbol.params[0])))
    return t.z3.If(t.z3.fpGT(operands[0], limit), operands[0], _zero(t, symbol))


@_rule(POLYNOMIAL)
def _polynomial(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    width = symbol.dtype.bitwidth
    total: Any = None
    for coefficient, places in symbol.params:
        factors = [operands[place] for place in places]
        number = t.z3.BitVecVal(coefficient, width, t.context)
        product = number if not factors else reduce(lambda a, b: a * b, factors)
        product = product if not factors or coefficient == 1 else number * product
        total = product if total is None else total + product
    return total


@_rule("Cast")
def _cast(t: Translation, symbol: Symbol, operands: list[Any]) -> Any:
    (x,), z3 = operands, t.z3
    source, target = symbol.sources[0], symbol.dtype
    if target is ir.DataType.BOOL:
        return z3.Not(z3.fpIsZero(x)) if source.is_floating_point() else x != 0
    if source is ir.DataType.BOOL:
        return z3.If(x, t.number(target, 1), t.number(target, 0))
    if source.is_integer() and target.is_integer():
        more = target.bitwidth - source.bitwidth
        if more <= 0:
            return z3.Extract(target.bitwidth - 1, 0, x) if more else x
        return z3.SignExt(more, x) if source.is_signed() else z3.ZeroExt(more, x)
    if target.is_floating_point():
        if target not in _FLOATS or target.bitwidth == 8:
            return None
        if source.is_floating_point():
            return z3.fpFPToFP(t.nearest, x, t.sort(target)) if source in _FLOATS else None
        made = z3.fpSignedToFP if source.is_signed() else z3.fpUnsignedToFP
        return made(t.nearest, x, t.sort(target))
    if source not in _FLOATS:
        return None
    # Beside what a float type can hold, limits of integers are powers of two.
    width = target.bitwidth
    top = float(2 ** (width - 1) if target.is_signed() else 2**width)
    bottom = -top if target.is_signed() else 0.0
    whole = z3.fpRoundToIntegral(z3.RTZ(t.context), x)
    if top > float(source.max):
        return None
    inside = z3.And(z3.fpLEQ(t.number(source, bottom), whole), z3.fpLT(whole, t.number(source, top)))
    sort = z3.BitVecSort(width, t.context)
    made = z3.fpToSBV if target.is_signed() else z3.fpToUBV
    return z3.If(inside, made(z3.RTZ(t.context), x, sort), t.unknown(symbol, operands))
