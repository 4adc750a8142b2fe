"""Operators of a user's own, each in one file: everything knows them at once."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import operators
from onnx_passes.analysis.ranges import ranges_of
from onnx_passes.analysis.streamlined import streamlined
from onnx_passes.analysis.support import quantizers_of
from onnx_passes.graph.load import load
from onnx_passes.graph.tensor_types import datatype_of
from onnx_passes.graph.text import from_text
from onnx_passes.numbers.surds import nearest
from onnx_passes.ops.semantics.exact import evaluate
from onnx_passes.proofs.equal import prove_equal
from onnx_passes.proofs.proof import Proof
from onnx_passes.testing.fuzz import fuzz_each
from tests.plugins import product, ternary

HERE = Path(__file__).parent
SOURCE = Path(onnx_passes.__file__).parent
DIALECT = ("passes/qonnx/dialect.py",)
"""The names that QONNX knows, quantizers or not."""
INTERFACES = {"definition", "fuzz", "integer_form", "ranges", "traits", "work"}
IMPORTS = ("--import", str(HERE / "ternary.py"), "--import", str(HERE / "product.py"))
NETWORK = """
<ir_version: 9, opset_import: ["" : 17, "plugin.ternary" : 1, "plugin.product" : 1]>
g (float[2, 3] x) => (float[2, 4] y)
<float t = {0.5}, float s = {0.25}, float[4, 3] w = {0.6, -0.25, 0.75, 0, 0.25, 0.5, 1, -1, 0.5, 0.25, 0, 0.75},
 float[4, 1] c = {0.5, 0.25, 1, 2}, float[4] b = {0.5, 1, 1.5, 2}>
{ q = plugin.ternary.Ternary (x, t)
  h = Mul (q, s)
  v = plugin.ternary.Ternary (w, t)
  u = Mul (v, c)
  p = plugin.product.RowProduct (h, u)
  r = Add (p, b)
  y = plugin.ternary.Ternary (r, t) }
"""


@pytest.fixture
def network() -> onnx.ModelProto:
    return from_text(NETWORK, "network")


def command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "onnx_passes", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_they_are_executed_as_defined(network: onnx.ModelProto):
    x = np.array([[0.5, 0.6, -0.7], [np.nan, -0.5, 3]], np.float32)
    (y,) = onnx_passes.run_model(network, {"x": x}).values()
    q, v = ternary.Ternary(), np.array([[1, 0, 1], [0, 0, 0], [1, -1, 0], [0, 0, 1]], np.float32)
    h = q.compute([x, np.float32(0.5)], {}) * np.float32(0.25)
    r = product.RowProduct().compute([h, v * np.array([[0.5], [0.25], [1], [2]], np.float32)], {})
    expected = q.compute([r + np.array([0.5, 1, 1.5, 2], np.float32), np.float32(0.5)], {})
    np.testing.assert_array_equal(y, expected)


def test_exact_arithmetic_and_proofs_know_them_by_their_definitions(network: onnx.ModelProto):
    model = onnx_passes.apply(network, "shape-inference", verify=False).model
    x = np.array([[0.5, 0.6, -0.7], [0.25, -0.5, 3]], np.float32)
    (expected,) = onnx_passes.run_model(network, {"x": x}).values()
    np.testing.assert_array_equal(nearest(evaluate(model, {"x": x})["y"]), expected)
    lowered = onnx_passes.apply(network, "inline-qonnx", verify=False).model
    proof = prove_equal(model, lowered)
    assert isinstance(proof, Proof), proof
    changed = ir.from_proto(from_text(NETWORK.replace("float t = {0.5}", "float t = {0.75}"), "changed"))
    changed = onnx_passes.apply(changed, "shape-inference", verify=False).model
    assert not isinstance(prove_equal(model, changed), Proof)


def test_they_are_streamlined_to_integers_and_verified(network: onnx.ModelProto):
    result = onnx_passes.apply(network, "streamline", verify=True)
    nodes = [node.op_type for node in result.model.graph]
    assert nodes == ["MultiThreshold", "RowProduct", "MultiThreshold"]
    weights = result.model.graph.node(1).inputs[1].const_value.numpy()
    np.testing.assert_array_equal(weights, [[1, 0, 1], [0, 0, 0], [1, -1, 0], [0, 0, 1]])
    assert streamlined(result.model).fraction == 1


def test_they_are_folded_and_lowered(network: onnx.ModelProto):
    folded = onnx_passes.apply(network, "fold-quantized-weights")
    assert [node.op_type for node in folded.model.graph].count("Ternary") == 2
    lowered = onnx_passes.apply(network, "inline-qonnx", verify=True)
    assert {node.domain for node in lowered.model.graph} == {""}


def test_their_ranges_and_quantizers_are_known(network: onnx.ModelProto):
    model = onnx_passes.apply(network, "shape-inference").model
    known = {value.name: found for value, found in ranges_of(model).items()}
    assert (known["q"].low.min(), known["q"].high.max()) == (-1, 1)
    assert (known["p"].low.min(), known["p"].high.max()) == (-0.5, 0.5)
    assert sorted(map(str, quantizers_of(model))) == [
        "plugin.ternary::Ternary, signed 2 bits, activations, per tensor",
        "plugin.ternary::Ternary, signed 2 bits, weights, per tensor",
    ]


def test_their_integers_have_a_data_type(network: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch):
    def types(pass_: str) -> dict[str | None, str]:
        model = onnx_passes.apply(network, pass_).model
        return {value.name: str(datatype_of(value)) for node in model.graph for value in node.outputs}

    assert types("infer-datatypes")["q"] == "TERNARY"
    scaled = operators.IntegerGrid(-1, 1, np.array(0.25), np.array(0.0))
    monkeypatch.setattr(ternary.Ternary, "grid", lambda self, node: scaled)
    monkeypatch.setattr(ternary.Ternary, "quantize", lambda self, inputs, attributes: np.sign(inputs[0]) / 4)
    assert types("infer-datatypes")["q"] == "FLOAT32"
    assert types("infer-datatypes{allow-scaledint=true}")["q"] == "SCALEDINT<2>"


def test_a_plug_in_is_one_option_of_the_command_line(network: onnx.ModelProto, tmp_path: Path):
    file = tmp_path / "network.onnx"
    onnx.save(network, file)
    seen = json.loads(command("inspect", "--json", *IMPORTS, str(file)))
    assert {each["defined_by"] for each in seen["operator_support"]} == {"plug-in"}
    assert "24 MACs" in command("inspect", *IMPORTS, str(file))
    listed = json.loads(command("list", "--json", "--kind", "operator", *IMPORTS))
    assert {"Quant", "RowProduct", "Ternary"} <= {each["operator"] for each in listed}
    explained = command("explain", *IMPORTS, "RowProduct")
    assert "x @ w.T" in explained
    (line,) = [line for line in explained.splitlines() if line.startswith("Interfaces:")]
    assert set(line.split(":")[1].replace(" ", "").split(",")) == INTERFACES
    assert "quantizer" in command("explain", *IMPORTS, "Ternary")
    out = tmp_path / "out.onnx"
    command(str(file), "streamline", "-o", str(out), *IMPORTS)
    assert [node.op_type for node in load(out).graph] == ["MultiThreshold", "RowProduct", "MultiThreshold"]


@pytest.mark.parametrize("name", ["Ternary", "RowProduct"])
def test_they_are_fuzzed(name: str):
    (report,) = fuzz_each(name, 20, 0)
    assert report.ok, report.describe()


def test_a_lowering_that_contradicts_its_definition_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ternary.Ternary, "quantize", lambda self, inputs, attributes: np.sign(inputs[0]))
    (report,) = fuzz_each("Ternary", 60, 1)
    assert not report.ok


class TestOnePlace:
    """What is known of operators, of quantizers and of limits is in one table each."""

    def places(self, pattern: str, *, but: tuple[str, ...] = ()) -> list[str]:
        found = re.compile(pattern)
        files = (path for path in SOURCE.rglob("*.py") if found.search(path.read_text(encoding="utf-8")))
        return sorted(str(path.relative_to(SOURCE)) for path in files if str(path.relative_to(SOURCE)) not in but)

    def test_of_limits(self):
        limit = r"= (2 ?\*\* ?24|1 ?<< ?24|2 ?\*\* ?53|1 ?<< ?53)\b"
        # There it is how many points are looked at, no limit of floats.
        assert self.places(limit, but=("passes/thresholds/conversion.py",)) == ["datatypes/base.py"]

    def test_of_what_is_a_quantizer(self):
        assert (
            self.places(r'\{[^{}:]*"BipolarQuant",[^{}:]*\}|QUANTIZERS: (?!Interface)|_QUANTIZERS = ', but=DIALECT)
            == []
        )

    def test_of_operators(self):
        assert self.places(r"Mapping\[(str|tuple\[str, str\]), (Rule|Formula|Recipe|Handler)\]|dict\[str, Rule\]") == []


def test_shapes_of_an_operator_are_known_that_is_defined_after_others_were_inferred():
    script = f"""
import onnx_passes
from onnx_passes import examples
from onnx_passes.graph.text import from_text
onnx_passes.apply(examples.path("digits-mlp"), "shape-inference", verify=False)
from tests.plugins import product, ternary
model = onnx_passes.apply(from_text({NETWORK!r}, "network"), "shape-inference", verify=False).model
print([str(node.outputs[0].shape) for node in model.graph])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=HERE.parents[1]
    )
    assert done.stdout.split() == str(["[2,3]", "[2,3]", "[4,3]", "[4,3]", "[2,4]", "[2,4]", "[2,4]"]).split()
