"""Right passes on models that are hard to run or to compare."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnx_passes import PassResult
from tests.planted.planting import Edit, Tricky, edit, rows, text
from tests.planted.tricky_floats import CancelsNegations
from tests.planted.tricky_shapes import RemovesIdentities

CLEANUP = "cleanup"


@edit
def renames_interior_values(model):
    for number, node in enumerate(model.graph):
        for value in node.outputs:
            if not value.is_graph_output():
                value.name = f"interior_{number}"


@edit
def shuffles_independent_nodes(model):
    nodes = list(model.graph)
    model.graph.remove(nodes)
    placed = set(model.graph.inputs) | set(model.graph.initializers.values())
    pending = nodes[::-1]
    while pending:
        ready = next(node for node in pending if all(value in placed for value in node.inputs))
        pending.remove(ready)
        placed.update(ready.outputs)
        model.graph.append(ready)


@edit
def does_nothing(model):
    pass


@edit
def adds_dead_code(model):
    dead = ir.node("Neg", [model.graph.inputs[0]])
    dead.outputs[0].name = "dead"
    model.graph.append(dead)


@edit
def writes_metadata(model):
    model.graph.metadata_props["seen"] = "yes"
    model.graph.doc_string = "documented"
    for node in model.graph:
        node.name = f"node of {node.outputs[0].name}"


@edit
def declares_less(model):
    for node in model.graph:
        for value in node.outputs:
            value.shape = None if not value.is_graph_output() else value.shape


class Says(Edit):
    """A pass that reports a change and makes none, as cautious passes do."""

    def call(self, model: ir.Model) -> PassResult:
        return PassResult(model, modified=True)


DEAD = text(
    "float[3] x",
    "float[3] y",
    "a = Neg(x) dead = Log(a) deader = Exp(dead) b = Abs(a) y = Add(b, one)",
    initializers="float one = {1.0}, float[3] unused = {1.0, 2.0, 3.0}",
)
TWINS = text(
    "float[3] x",
    "float[3] y",
    "a = Mul(x, one) b = Add(a, same) c = Mul(b, minus) d = Add(c, nan) e = Add(c, other) y = Max(d, e)",
    initializers="float one = {1.0}, float same = {1.0}, float minus = {-0.0}, float zero = {0.0}, "
    "float nan = {0.5}, float other = {0.5}",
)
CONSTANTS = text(
    "float[3] x",
    "float[3] y",
    "k = Constant<value = float[3] {1.0, -0.0, 2.0}>() f = Constant<value_float = 2.0>() a = Mul(x, k) b = Add(a, f) "
    "i = Constant<value_ints = [1]>() c = Unsqueeze(b, i) j = Constant<value_ints = [-1]>() y = Reshape(c, j)",
)
FUNCTIONS = text(
    "float[3] x",
    "float[3] y",
    "a = local.f(x) b = Neg(a) y = local.f<alpha = 0.5>(b)",
    domains='"local": 1',
    functions="""<domain: "local", opset_import: ["": 20]> f <alpha: float = 0.25> (v) => (r)
        { s = LeakyRelu<alpha: float = @alpha>(v) t = Log(s) r = Neg(t) }""",
)
UNSORTED = text("float[3] x", "float[3] y", "a = Neg(x) b = Abs(a) c = Neg(b) d = Exp(x) y = Add(c, d)")
OLD = text(
    "float[2,3] x",
    "float[2,3] y, float[] z",
    "a = Neg(x) y = Softmax<axis=1>(a) s = ReduceMean<axes=[1]>(a) z = Clip(s, low)",
    initializers="float low = {0.0}",
    opset=17,
)
WORDS = text(
    "string[4] x",
    "string[4] y, bool[4] z",
    'k = Constant<value_strings = ["a", "b", "", "Hello World"]>() a = StringConcat(x, k) dead = StringConcat(a, a) '
    "b = Identity(a) y = StringConcat(b, x) z = Equal(y, k)",
)
LOW = text(
    "float[8] x",
    "bfloat16[8] y, float8e4m3fn[8] z, int4[8] w",
    "a = Neg(x) b = Neg(a) c = Neg(b) d = Neg(c) y = Cast<to=16>(d) z = Cast<to=17>(d) w = Cast<to=22>(b) "
    "dead = Abs(d)",
    opset=21,
)
NARROW = text(
    "bfloat16[8] x, float16[8] h",
    "float[8] y, float16[8] z",
    "f = Cast<to=1>(x) n = Neg(f) y = Neg(n) m = Neg(h) z = Neg(m)",
)
NUMBERS = text(
    "float[24] x",
    "float[24] y, float[24] z, float[24] w",
    "a = Log(x) b = Neg(a) y = Neg(b) c = Div(x, zero) d = Neg(c) z = Neg(d) e = Mul(x, zero) f = Neg(e) w = Neg(f)",
    initializers="float zero = {0.0}",
)
NOTHING = text("", "float[3] y", "c = Constant<value_floats = [1.0, -2.0, 3.0]>() a = Neg(c) b = Neg(a) y = Abs(b)")
EMPTY = text(
    "float[0,3] x",
    "float[3,0] y, float[3] z",
    "a = Neg(x) b = Neg(a) y = Transpose(b) z = ReduceSum<keepdims=0>(b, axes)",
    initializers="int64[1] axes = {0}",
)
ANY = text("float[N,M] x, float[M,N] w", "float[] y", "a = MatMul(x, w) b = Neg(a) c = Neg(b) y = Softmax(c)")
SCALARS = text("float x, int64 i", "float y, int64 j", "a = Neg(x) y = Neg(a) b = Neg(i) j = Neg(b)")
RANDOM = text("float[8] x", "float[8] y", "r = RandomNormalLike(x) a = Add(r, x) b = Neg(a) c = Neg(b) y = Abs(c)")
SEEDED = RANDOM.replace("RandomNormalLike(x)", "RandomNormalLike<seed = 3.0>(x)")
SEQUENCE = text(
    "float[4,2] x",
    "float[2,2] y",
    "s = SplitToSequence<axis=0>(x, two) k = Constant<value = int64 {1}>() t = SequenceAt(s, k) a = Neg(t) y = Neg(a)",
    initializers="int64 two = {2}",
)
OPTIONAL = text(
    "float[8] x",
    "float[8] y",
    "a = Clip(x, , high) b = Neg(a) c = Neg(b) d, mask = Dropout(c) y = Neg(d)",
    initializers="float high = {1.0}",
)
DEFAULTED = text(
    "float[3] x, float scale",
    "float[3] y",
    "a = Mul(x, scale) b = Neg(a) y = Neg(b)",
    initializers="float scale = {3.0}",
)
LARGE = rows(
    "float[2,64] x",
    "a@ = MatMul(x, w) b@ = Neg(a@) c@ = Neg(b@) y@ = Tanh(c@)",
    count=3,
    before="size = Constant<value_ints = [64, 64]>() w = ConstantOfShape<value = float[1] {0.1}>(size)",
)
INTEGERS = rows(
    "int32[16] x, uint8[16] u, int64[16] z", "a@ = Neg(x) b@ = Neg(a@) y@ = Mul(b@, x)", count=3, result="int32[] y@"
)
GIVEN = ({"x": np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e38, -1e-45, 1], np.float32)},)
UNCHANGED = frozenset({"bits:sampled", "unchanged"})

TRICKY = [
    Tricky("dead code", CLEANUP, DEAD, "model", levels=UNCHANGED),
    Tricky("dead code of strings", CLEANUP, WORDS, "model", levels=UNCHANGED),
    Tricky("dead code added", adds_dead_code, NUMBERS, "model"),
    Tricky("twins among initializers", "deduplicate-initializers", TWINS, "model"),
    Tricky("constants to initializers", "lift-constants", CONSTANTS, "model"),
    Tricky("functions with attributes inlined", "inline-functions", FUNCTIONS, "model"),
    Tricky("nodes in another order", shuffles_independent_nodes, UNSORTED, "model"),
    Tricky("interior values renamed", renames_interior_values, UNSORTED, "model"),
    Tricky("metadata", writes_metadata, UNSORTED, "model"),
    Tricky("interior shapes forgotten", declares_less, LARGE, "model"),
    Tricky("shapes found", "shape-inference", ANY, "model"),
    Tricky("newer standard", "convert-opset21", OLD, "model"),
    Tricky("change said but none made", Says, NUMBERS, "model"),
    Tricky("nothing but a name for it", does_nothing, NUMBERS, "model"),
    Tricky("NaN, infinities and -0 in the result", CancelsNegations, NUMBERS, "model"),
    Tricky(
        "NaN, infinities and -0 given",
        CancelsNegations,
        rows("float[8] x", "a@ = Neg(x) y@ = Neg(a@)", count=3),
        "model",
        GIVEN,
    ),
    Tricky("narrow types in the result", CancelsNegations, LOW, "model"),
    Tricky("narrow types given", CancelsNegations, NARROW, "model"),
    Tricky("no inputs", CancelsNegations, NOTHING, "model"),
    Tricky("zero size", CancelsNegations, EMPTY, "model"),
    Tricky("any size", CancelsNegations, ANY, "model"),
    Tricky("scalars", CancelsNegations, SCALARS, "model"),
    Tricky("integers", CancelsNegations, INTEGERS, "model"),
    Tricky("sequences", CancelsNegations, SEQUENCE, "model"),
    Tricky("inputs left out", CancelsNegations, OPTIONAL, "model"),
    Tricky("large weights", CancelsNegations, LARGE, "model"),
    Tricky("seeded noise", CancelsNegations, SEEDED, "model", levels=frozenset({"bits:sampled", "unverified"})),
    Tricky("noise", CancelsNegations, RANDOM, "model", levels=frozenset({"bits:sampled", "unverified"})),
    Tricky("defaults made constant", "remove-initializers-from-inputs", DEFAULTED, "model"),
    Tricky("defaults kept", CancelsNegations, DEFAULTED, "model"),
    Tricky("text through Identity", RemovesIdentities, WORDS, "model"),
]
