"""Every gate that the documentation offers, with a fault that it must stop and the same command without one.

A gate is a row of GATES: what the command line asks for, passes that bring in the fault, passes that do not, and what
the message must say. Both runs take the same options.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import Measuring, PassResult, Transformation, Verification
from onnx_passes.core.base import Pass
from onnx_passes.core.claims import Claim
from onnx_passes.core.errors import ExitCode, OnnxPassesError
from tests.cli.conftest import Answer

Run = Callable[..., Answer]

MODEL = """
<ir_version: 10, opset_import: ["": 20]>
scores (float[N, 3] x) => (float[N, 3] y)
<float[3] c = {0.5, 0.25, 0.125}>
{
    [last] y = Sub(x, c)
}
"""
UNKNOWN = MODEL.replace('"": 20', '"": 20, "nobody": 1').replace("y = Sub(x, c)", "z = nobody.Knows(x) y = Sub(z, c)")

FAULTS = """
import numpy as np
import onnx_ir as ir
from onnx_passes import Annotation, PassResult, RewriteRulePass, Transformation, constant, passes


class _AddInstead(Transformation, RewriteRulePass):
    '''Add the negative constant, which is the same bit by bit, and so much to the first class, which is not.'''

    amount: float = 0.0

    def pattern(self, op, x, c):
        return op.Sub(x, c)

    def rewrite(self, op, x, c):
        wrong = np.array([self.amount, 0, 0], np.float32)
        return op.Add(x, -constant(c) + wrong)


@passes.verify.equality
@passes.register()
class EqualAdd(_AddInstead):
    pass


@passes.verify.tolerance
@passes.register()
class CloseAdd(_AddInstead):
    pass


@passes.verify.metric(psnr=(-1000.0, None))
@passes.register()
class MeasuredAdd(_AddInstead):
    '''Promise next to nothing, so that only the gate of the run is in the way.'''


@passes.verify.metric(accuracy=(0.9, None))
@passes.register()
class AccurateAdd(_AddInstead):
    pass


@passes.verify.structure("none-of(Add)")
@passes.register()
class PromisesNoAdd(_AddInstead):
    pass


@passes.register()
class WritesInstead(Annotation):
    '''Change a weight, which an annotation must not.'''

    amount: float = 0.0

    def call(self, model):
        if not self.amount:
            return PassResult(model, modified=False)
        c = model.graph.initializers["c"]
        c.const_value = ir.Tensor(c.const_value.numpy() + np.float32(self.amount), name="c")
        return PassResult(model, modified=True)


@passes.register()
class AddsAnAttribute(Transformation):
    '''Leave a model that is not valid: no operator has this attribute.'''

    def call(self, model):
        next(iter(model.graph)).attributes["unheard_of"] = ir.AttrInt64("unheard_of", 1)
        return PassResult(model, modified=True)


def spread(outputs, expected):
    '''Return how far the scores of a sample are apart, on average: of the outputs, whatever is expected.'''
    return float(np.mean(outputs.max(axis=1) - outputs.min(axis=1)))
"""

DATA = ("--inputs", "x.npy")
LABELLED = ("--dataset", "x.npy", "--expect", "labels.npy")
EXPECTED = (*DATA, "--expect", "y.npy")
UNVERIFIED = ("--verify", "off")


@dataclass(frozen=True)
class Gate:
    """Options of a gate, passes with and without a fault, and what is said of the fault."""

    options: tuple[str, ...]
    fault: str
    control: str
    message: str
    code: int = 1
    is_loadable: bool = True
    """Whether ONNX Runtime loads the faulty model; no run writes one that it does not load."""


GATES = {
    "accuracy": Gate(
        (*UNVERIFIED, *LABELLED, "--metric", "accuracy>=0.9"),
        "measured-add{amount=100}",
        "measured-add",
        "accuracy is 0.3",
    ),
    "accuracy, verified": Gate(
        (*LABELLED, "--metric", "accuracy>=0.9"), "measured-add{amount=100}", "measured-add", "accuracy is 0.3"
    ),
    "the greatest error": Gate(
        (*DATA, "--metric", "max_abs_error<=0.01"), "measured-add{amount=1}", "measured-add", "max_abs_error is 1"
    ),
    "a metric of the user": Gate(
        (*DATA, "--metric", "faults:spread<=10"), "measured-add{amount=100}", "measured-add", "faults:spread is 102"
    ),
    "a metric that a pass promises": Gate(
        LABELLED, "accurate-add{amount=100}", "accurate-add", "accepted by the pass: at least 0.9"
    ),
    "structure": Gate(
        ("--structure", "none-of(Add)"), "equal-add", "cleanup", "none-of(Add): forbidden operators are used: Add"
    ),
    "structure, unverified": Gate(
        (*UNVERIFIED, "--structure", "none-of(Add)"),
        "equal-add",
        "cleanup",
        "none-of(Add): forbidden operators are used: Add",
    ),
    "structure at the end": Gate(
        (),
        "equal-add, check-structure{properties=['none-of(Add)']}",
        "check-structure",
        "none-of(Add): forbidden operators are used: Add",
    ),
    "structure that a pass promises": Gate(
        (), "promises-no-add", "equal-add", "none-of(Add): forbidden operators are used: Add"
    ),
    "equality": Gate((), "equal-add{amount=0.00001}", "equal-add", "y not as expected"),
    "equality at the end": Gate(("--verify", "final"), "equal-add{amount=0.00001}", "equal-add", "y not as expected"),
    "equality beside a tolerance": Gate(
        ("--tolerance", "1000"), "equal-add{amount=0.00001}", "equal-add", "y not as expected"
    ),
    "tolerance by default": Gate((), "close-add{amount=0.01}", "close-add{amount=0.000001}", "y not as expected"),
    "a narrower tolerance": Gate(
        ("--tolerance", "1e-6,0"), "close-add{amount=0.00001}", "close-add", "y not as expected"
    ),
    "a wider tolerance": Gate(
        ("--tolerance", "0.1,0"), "close-add{amount=0.2}", "close-add{amount=0.05}", "y not as expected"
    ),
    "outputs that are expected": Gate(EXPECTED, "close-add{amount=0.01}", "close-add", "y not as expected"),
    "outputs that are expected, whatever a pass promises": Gate(
        EXPECTED, "measured-add{amount=0.01}", "measured-add", "y not as expected after all passes ran"
    ),
    "outputs that are expected, at the end": Gate(
        ("--verify", "final", *EXPECTED), "measured-add{amount=0.01}", "measured-add", "y not as expected"
    ),
    **{
        f"evidence, {asked}": Gate(
            ("--require", asked), "close-add{amount=0.000001}", "equal-add", f"'{meant}' is required"
        )
        for asked, meant in {
            "sampled": "bits:sampled",
            "bits": "bits:sampled",
            "levels": "levels:sampled",
            "reals": "reals:sampled",
        }.items()
    },
    "the contract of an annotation": Gate(
        (*UNVERIFIED, "--paranoid"),
        "writes-instead{amount=1}",
        "writes-instead",
        "is an annotation but changed",
        code=3,
    ),
    "the checker of ONNX": Gate(
        UNVERIFIED, "adds-an-attribute, checker", "checker", "unheard_of", code=3, is_loadable=False
    ),
    "bounds of a configuration": Gate(
        ("-c", "metrics.yaml"), "measured-add{amount=100}", "measured-add", "accuracy is 0.3"
    ),
    "structure of a configuration": Gate(
        ("-c", "structure.yaml"), "equal-add", "cleanup", "none-of(Add): forbidden operators are used: Add"
    ),
    "tolerance of a configuration": Gate(
        ("-c", "tolerance.yaml"), "close-add{amount=0.2}", "close-add{amount=0.05}", "y not as expected"
    ),
    "expected outputs of a configuration": Gate(
        ("-c", "expected.yaml"), "measured-add{amount=0.01}", "measured-add", "y not as expected after all passes ran"
    ),
}
CONFIGURATIONS = {
    "metrics": "reference: {inp: [x.npy], out: [labels.npy]}\nverify: {metrics: {accuracy: [0.9, null]}}\n",
    "structure": "verify: {structure: ['none-of(Add)']}\n",
    "tolerance": "verify: {tolerance: {atol: 0.1, rtol: 0}}\n",
    "expected": "reference: {inp: [x.npy], out: [y.npy]}\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in: a model whose results are exact, its inputs and outputs, labels, and faults."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("model", MODEL), ("unknown", UNKNOWN)):
        onnx.save(ir.to_proto(ir.from_onnx_text(text)), f"{name}.onnx")
    x = np.random.default_rng(0).integers(-40, 40, (90, 3)).astype(np.float32) / 16
    x[np.arange(90), np.arange(90) % 3] += 8
    y = x - np.array([0.5, 0.25, 0.125], np.float32)
    for name, array in (("x", x), ("y", y), ("labels", y.argmax(axis=1))):
        np.save(f"{name}.npy", array)
    for name, text in CONFIGURATIONS.items():
        Path(f"{name}.yaml").write_text(text)
    Path("faults.py").write_text(FAULTS)
    return tmp_path


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES.keys())
def test_a_gate_stops_its_fault_and_nothing_else(run: Run, folder: Path, gate: Gate) -> None:
    command = ("--import", "faults.py", "-q", "-o", "out.onnx", *gate.options, "model.onnx")
    stopped = run(*command, gate.fault)
    assert stopped.code == gate.code, stopped.err
    assert gate.message in stopped.err
    assert not (folder / "out.onnx").exists()
    passed = run(*command, gate.control)
    assert passed.code == 0, passed.err
    assert (folder / "out.onnx").exists()


@pytest.mark.parametrize("gate", [gate for gate in GATES.values() if gate.is_loadable])
def test_a_fault_passes_without_its_gate(run: Run, folder: Path, gate: Gate) -> None:
    """A fault that anything else stops would say nothing of the gate."""
    fault = gate.fault.split(", check")[0]
    assert run("--import", "faults.py", "-q", "--verify", "off", "-o", "out.onnx", "model.onnx", fault).code == 0


# What cannot be checked is not fine


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--require", "metric"), "'metric:sampled' is required, the run is unverified", 5),
        ((*LABELLED, "--metric", "accuracy>=0.9"), "accuracy cannot be measured, accepted is at least 0.9", 1),
        (("--expect", "y.npy"), "not compared with those that are expected", 1),
    ],
    ids=["evidence", "metric", "expected outputs"],
)
def test_a_model_that_cannot_run_passes_no_gate(
    run: Run, folder: Path, options: tuple[str, ...], message: str, code: int
) -> None:
    answer = run("--import", "faults.py", "-q", "-o", "out.onnx", *options, "unknown.onnx", "equal-add")
    assert answer.code == code, answer.err
    assert message in answer.err
    assert not (folder / "out.onnx").exists()
    assert run("--import", "faults.py", "-q", "-o", "out.onnx", "unknown.onnx", "equal-add").code == 0


@pytest.mark.parametrize("options", [("--require", "sampled"), EXPECTED], ids=["evidence", "expected outputs"])
def test_gates_of_verification_are_not_switched_off_with_it(run: Run, folder: Path, options: tuple[str, ...]) -> None:
    answer = run("--verify", "off", "-o", "out.onnx", *options, "model.onnx", "cleanup")
    assert answer.code == 2
    assert "needs verification, which is switched off" in answer.err


# Commands that compare two models


@pytest.mark.parametrize(
    ("amount", "options", "code"),
    [
        ("0", (), 0),
        ("0.001", (), 1),
        ("0.001", ("--tolerance", "0.01,0"), 0),
        ("0.1", ("--tolerance", "0.01,0"), 1),
    ],
)
def test_verify_compares_results(run: Run, folder: Path, amount: str, options: tuple[str, ...], code: int) -> None:
    fault = f"measured-add{{amount={amount}}}"
    assert run("--import", "faults.py", "-q", "--verify", "off", "-o", "out.onnx", "model.onnx", fault).code == 0
    answer = run("verify", "model.onnx", "out.onnx", "--inputs", "x.npy", *options)
    assert answer.code == code
    assert ("different on" in answer.out) == bool(code)


def interface(outputs: str, nodes: str) -> str:
    return f"""<ir_version: 10, opset_import: ["": 20]>
    g (float[N, 3] x) => ({outputs}) <float[3] c = {{1, 2, 3}}> {{ {nodes} }}"""


BEFORE = interface("float[N, 3] y, float[N, 3] z", "y = Sub(x, c) z = Neg(x)")
INTERFACES = {
    "another order": interface("float[N, 3] z, float[N, 3] y", "y = Sub(x, c) z = Neg(x)"),
    "one output less": interface("float[N, 3] y", "y = Sub(x, c)"),
    "another name": interface("float[N, 3] y, float[N, 3] u", "y = Sub(x, c) u = Neg(x)"),
    "another type": interface("float[N, 3] y, double[N, 3] z", "y = Sub(x, c) s = Neg(x) z = Cast<to = 11>(s)"),
    "another shape": interface("float[N, 3] y, float[3, N] z", "y = Sub(x, c) s = Neg(x) z = Transpose(s)"),
    "not a number": interface("float[N, 3] y, float[N, 3] z", "y = Sub(x, c) s = Sub(x, x) z = Div(s, s)"),
}


@pytest.mark.parametrize("after", INTERFACES.values(), ids=INTERFACES.keys())
def test_verify_compares_interfaces_before_any_tolerance(run: Run, folder: Path, after: str) -> None:
    for name, text in (("before", BEFORE), ("after", after)):
        onnx.save(ir.to_proto(ir.from_onnx_text(text)), f"{name}.onnx")
    options = ("--inputs", "x.npy", "--tolerance", "1000,1000")
    assert run("verify", "before.onnx", "before.onnx", *options).code == 0
    assert run("verify", "before.onnx", "after.onnx", *options).code == 1


def test_verify_is_not_content_with_models_that_cannot_run(run: Run, folder: Path) -> None:
    assert run("verify", "unknown.onnx", "unknown.onnx").code == 5


def test_diff_compares_structure(run: Run, folder: Path) -> None:
    assert run("--import", "faults.py", "-q", "-o", "out.onnx", "model.onnx", "equal-add").code == 0
    assert run("diff", "model.onnx", "out.onnx").code == 1
    assert run("diff", "model.onnx", "model.onnx").code == 0


# Several models


@pytest.mark.parametrize("command", [(), ("batch",)], ids=["run", "batch"])
def test_one_bad_model_of_several_decides(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    (folder / "zoo").mkdir()
    right = onnx.load("model.onnx")
    onnx.save(right, "zoo/right.onnx")
    right.graph.node[0].op_type = "Add"
    onnx.save(right, "zoo/with_an_add.onnx")
    given = (*command, "-q", "--json", "--import", "faults.py", "zoo")
    assert run(*given, "-o", "out", "equal-add").code == 0
    answer = run(*given, "-o", "other", "equal-add{amount=1}")
    assert answer.code == 1
    told = json.loads(answer.out)
    assert told["exit_code"] == 1
    assert sorted(model["status"] for model in told["models"]) == ["failed", "ok"]
    assert not (folder / "other" / "right.onnx").exists()
    assert (folder / "other" / "with_an_add.onnx").exists()


@pytest.mark.parametrize("name", ["the greatest error", "structure", "outputs that are expected", "evidence, bits"])
def test_gates_hold_in_a_batch(run: Run, folder: Path, name: str) -> None:
    gate = GATES[name]
    (folder / "zoo").mkdir()
    onnx.save(onnx.load("model.onnx"), "zoo/model.onnx")
    batch = ("batch", "zoo", "--json", "-q", "--import", "faults.py", *gate.options)
    stopped = run(*batch, "-o", "out", gate.fault)
    assert stopped.code == gate.code
    (model,) = json.loads(stopped.out)["models"]
    assert model["status"] == "failed"
    assert gate.message.partition(":")[0] in model["message"] + stopped.err
    assert not (folder / "out" / "model.onnx").exists()
    passed = run(*batch, "-o", "fine", gate.control)
    assert passed.code == 0, passed.err
    assert json.loads(passed.out)["statuses"] == {"ok": 1}


def test_a_batch_that_got_worse_is_told_by_its_exit_code(run: Run, folder: Path) -> None:
    (folder / "zoo").mkdir()
    onnx.save(onnx.load("model.onnx"), "zoo/model.onnx")
    batch = ("batch", "zoo", "-q", "--import", "faults.py")
    assert run(*batch, "-o", "before", "equal-add").code == 0
    assert run(*batch, "-o", "same", "equal-add", "--compare", "before").code == 0
    assert run(*batch, "-o", "worse", "equal-add{amount=1}", "--compare", "before").code == 1
    assert run("batch", "--compare", "before", "same", "-q").code == 0
    assert run("batch", "--compare", "before", "worse", "-q").code == 1


# From Python


def far(model: ir.Model) -> None:
    """Add a hundred to the first class."""
    c = model.graph.initializers["c"]
    assert c.const_value is not None
    c.const_value = ir.Tensor(c.const_value.numpy() - np.array([100, 0, 0], np.float32), name="c")


def held(**gate: Any) -> Callable[[Pass], onnx_passes.Result]:
    return lambda pass_: onnx_passes.apply("model.onnx", pass_, **gate)


PYTHON: dict[str, Callable[[], Callable[[Pass], Any]]] = {
    "metrics": lambda: held(metrics={"max_abs_error": (None, 1)}, inputs="x.npy"),
    "a dataset": lambda: held(metrics=Measuring({"accuracy": (0.9, None)}, dataset="x.npy", expect="labels.npy")),
    "a function": lambda: held(metrics=Measuring({spread: (None, 10)}, dataset="x.npy"), inputs="x.npy"),
    "expected outputs": lambda: held(verify=Verification(inputs="x.npy", expect="y.npy")),
    "a level": lambda: held(verify=Verification(require="bits")),
    "a pass alone": lambda: alone(Claim("tolerance")),
    "a metric of a pass alone": lambda: alone(Claim("metric", {"max_abs_error": (None, 1.0)})),
}


def alone(claim: Claim) -> Callable[[Pass], Any]:
    return lambda pass_: type("Alone", (type(pass_),), {"claims": (claim,)})()(onnx_passes.load("model.onnx"))


def spread(outputs: np.ndarray, expected: np.ndarray) -> float:
    return float(np.mean(outputs.max(axis=1) - outputs.min(axis=1)))


class Wrong(Transformation):
    claims = (Claim("metric", {"psnr": (-1000.0, None)}),)

    def call(self, model: ir.Model) -> PassResult:
        far(model)
        return PassResult(model, modified=True)


class Right(Transformation):
    claims = (Claim("equality"),)

    def call(self, model: ir.Model) -> PassResult:
        next(iter(model.graph)).name = "another"
        return PassResult(model, modified=True)


@pytest.mark.parametrize("gate", PYTHON.values(), ids=PYTHON.keys())
def test_gates_of_python_stop_a_fault(folder: Path, gate: Callable[[], Callable[[Pass], Any]]) -> None:
    gate()(Right())
    with pytest.raises(OnnxPassesError) as stopped:
        gate()(Wrong())
    assert stopped.value.exit_code is ExitCode.VERIFICATION
    onnx_passes.apply("model.onnx", Wrong(), verify=False)


def test_structure_stops_a_fault(folder: Path) -> None:
    assert onnx_passes.apply("model.onnx", Right(), structure=["at-most(Sub, 1)"])
    with pytest.raises(OnnxPassesError, match=r"at-most\(Sub, 0\)"):
        onnx_passes.apply("model.onnx", Right(), structure=["at-most(Sub, 0)"])
