"""Let layout converters take up the transpositions beside them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.core.base import Transformation
from onnx_passes.core.errors import ModelError
from onnx_passes.graph.builder import Builder
from onnx_passes.ops.collection import definition_of
from onnx_passes.ops.definition import OUR_DOMAIN
from onnx_passes.passes.move.layout import permutation
from onnx_passes.rewrite.hints import hints
from onnx_passes.rewrite.passes import RewriteRuleSetPass
from onnx_passes.rewrite.patterns import Op, Var
from onnx_passes.rewrite.refusal import Rewritten, no
from onnx_passes.rewrite.rule import Rule

_CONVERTER = f'{OUR_DOMAIN}.LayoutConverter <from_layout: string = "{{}}", to_layout: string = "{{}}">'
_CHAINS = (
    f"{{ t = Transpose <perm = [1, 2, 0]> (x) y = {_CONVERTER.format('NCW', 'NWC')} (t) }}",
    f"<float[4, N, 3] c> {{ c = {_CONVERTER.format('NCW', 'WNC')} (x) y = Transpose <perm = [2, 0, 1]> (c) }}",
    f"<float[4, N, 3] c> {{ c = {_CONVERTER.format('NCW', 'WNC')} (x) y = {_CONVERTER.format('WNC', 'NWC')} (c) }}",
)
_HEAD = f'<ir_version: 9, opset_import: ["" : 20, "{OUR_DOMAIN}" : 1]> g (float[N, 3, 4] x) => (float[A, B, C] y)'

Layouts = tuple[str, str]


@passes.verify.equality
@passes.register(tags=("layout",))
class AbsorbTransposeIntoLayout(Transformation, RewriteRuleSetPass):
    """Let layout converters take up the transpositions and converters beside them.

    Rewrites: ``LayoutConverter<NCHW, NHWC>(Transpose<0312>(x))`` → ``LayoutConverter<NHWC, NHWC>(x)``, likewise with
              the transposition behind; two converters where one ends as the other begins → one. A converter stays, also
              if it moves nothing: it says what the axes are.
    Refuses:  a transposition of unknown rank; converters that name axes differently, or are damaged; results that
              others use, too.
    Exactness: bit-exact.
    """

    needs = ("shape-inference",)
    fuzz_hints = hints(*(f"{_HEAD} {chain}" for chain in _CHAINS))

    def rules(self) -> Sequence[Rule]:
        """Return a rule for what is before, behind and on both sides."""
        return [
            _merging(_transposed_before, "Converter", "Transpose"),
            _merging(_transposed_behind, "Transpose", "Converter"),
            _merging(_converted_twice, "Converter", "Converter"),
        ]


def _merging(merge: Callable[[ir.Node, ir.Node], Layouts | None], outer: str, inner: str) -> Rule:
    def pattern(op: Op, x: Var) -> Var:
        return _node(op, outer, _node(op, inner, x, "middle"), "result")

    def rewrite(op: Builder, x: ir.Value, middle: ir.Value, result: ir.Value) -> Rewritten:
        first, second = middle.producer(), result.producer()
        assert first is not None
        assert second is not None
        layouts = merge(first, second)
        if layouts is None:
            return no("the rank is not known, or axes are named differently", at=middle)
        return op.LayoutConverter(x, from_layout=layouts[0], to_layout=layouts[1], _domain=OUR_DOMAIN)

    return Rule(pattern, rewrite, name=f"{outer}Of{inner}", commute=False, forks="exclusive")


def _node(op: Op, kind: str, x: Var, result: str) -> Var:
    if kind == "Transpose":
        return op.Transpose(x, _outputs=[result])
    return op.LayoutConverter(x, _domain=OUR_DOMAIN, _outputs=[result])


def _transposed_before(transpose: ir.Node, converter: ir.Node) -> Layouts | None:
    perm, layouts = permutation(transpose), _layouts(converter)
    if perm is None or layouts is None or len(perm) != len(layouts[0]):
        return None
    return "".join(layouts[0][perm.index(axis)] for axis in range(len(perm))), layouts[1]


def _transposed_behind(converter: ir.Node, transpose: ir.Node) -> Layouts | None:
    perm, layouts = permutation(transpose), _layouts(converter)
    if perm is None or layouts is None or len(perm) != len(layouts[0]):
        return None
    return layouts[0], "".join(layouts[1][axis] for axis in perm)


def _converted_twice(first: ir.Node, second: ir.Node) -> Layouts | None:
    before, behind = _layouts(first), _layouts(second)
    if before is None or behind is None or before[1] != behind[0]:
        return None
    return before[0], behind[1]


def _layouts(converter: ir.Node) -> Layouts | None:
    definition = definition_of(converter)
    try:
        given = {} if definition is None else definition.checked(converter)
    except ModelError:
        return None
    before, behind = given.get("from_layout", ""), given.get("to_layout", "")
    return (before, behind) if before and sorted(before) == sorted(behind) else None
