"""Write rules as equations: laws with named conditions, which are explained, fuzzed and applied as they stand."""

import onnx

import onnx_passes
from onnx_passes import LawPass, Vocabulary, When, passes

law = Vocabulary().law


@passes.verify.equality
@passes.register()
class MergeRounding(LawPass):
    """Round once what is rounded twice.

    Rewrites: ``Floor(Ceil(x))`` → ``Ceil(x)``; ``Round(Floor(x))`` → ``Floor(x)``; ``Max(Floor(x), Floor(y))`` →
              ``Floor(Max(x, y))``.
    Refuses:  maxima of which one is constant.
    Exactness: bit-exact.
    """

    laws = (
        law("Floor(Ceil(x)) → Ceil(x)"),
        law("Round(Floor(x)) → Floor(x)"),
        law(
            "Max(Floor(x), Floor(y)) → Floor(Max(x, y))",
            When("not is_constant(x) and not is_constant(y)", "one side is constant"),
        ),
    )


model = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 21]>
g (float[8] x, float[8] y) => (float[8] z) {
  a = Floor (x)
  b = Floor (y)
  c = Max (a, b)
  z = Round (c)
}""")

result = onnx_passes.apply(model, "merge-rounding")
print(" → ".join(node.op_type for node in result.model.graph))
report = onnx_passes.fuzz("merge-rounding", cases=10)
print(f"{report.cases} generated models, {report.matches} rewritten, {len(report.findings)} findings")
