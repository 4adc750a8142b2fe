"""Metrics, structure and dumps as the command line and the configuration ask for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onnx_passes import examples, save
from tests.cli.conftest import Answer
from tests.helpers.digits import executable_digits, save_data

Run = Callable[..., Answer]

DAMAGE = """
import numpy as np
import onnx_ir as ir
from onnx_passes import PassResult, Transformation, passes

{claim}
@passes.register()
class DamageWeights(Transformation):
    amount: float = 0.3

    def call(self, model):
        rng = np.random.default_rng(0)
        for value in model.graph.initializers.values():
            array = value.const_value.numpy()
            if array.ndim >= 2:
                noise = self.amount * np.abs(array).max() * rng.standard_normal(array.shape)
                value.const_value = ir.Tensor((array + noise).astype(array.dtype), name=value.name)
        return PassResult(model, modified=True)


def share_of_ones(expected, found):
    return float((found.argmax(-1) == 1).mean())
"""
SLIGHTLY, BADLY = "damage-weights{amount=0.02}", "damage-weights{amount=0.3}"


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in with a model, images, labels and a pass that does damage."""
    monkeypatch.chdir(tmp_path)
    save(executable_digits(), tmp_path / "digits.onnx")
    save_data(tmp_path)
    (tmp_path / "damage.py").write_text(DAMAGE.format(claim=""))
    return tmp_path


DATA = ("--dataset", "images.npy", "--expect", "labels.npy")


def test_accuracy_falls_in_table_and_record(run: Run, digits: Path) -> None:
    arguments = ("--verify", "off", "--json", "-o", "out.onnx", "digits.onnx", *DATA, "--metric", "accuracy")
    answer = run("--import", "damage.py", *arguments, f"{SLIGHTLY}, {BADLY}")
    assert answer.code == 0
    record = json.loads(answer.out)
    assert record["metrics"]["accuracy"] == pytest.approx(examples.digits().accuracy["digits-mlp"])
    slightly, badly = (step["metrics"]["accuracy"] for step in record["steps"])
    assert 0.95 < slightly < record["metrics"]["accuracy"]
    assert badly < 0.8
    assert f"{badly:.4g} (−" in answer.err
    assert "metrics: measured on 360 samples" in answer.err


@pytest.mark.parametrize("condition", ["accuracy>=0.95", "accuracy=0.95,", "Accuracy=0.95,1"])
def test_out_of_range_ends_the_run_and_nothing_is_written(run: Run, digits: Path, condition: str) -> None:
    arguments = ("--verify", "off", "-o", "out.onnx", "digits.onnx", *DATA, "--metric", condition)
    answer = run("--import", "damage.py", *arguments, f"{SLIGHTLY}, {BADLY}")
    assert answer.code == 1
    lines = answer.err.splitlines()
    at = lines.index("PostconditionError: Post-condition for pass 'DamageWeights' failed")
    assert lines[at + 1].startswith("VerificationError: accuracy is 0.")
    assert "(step 2)" in lines[at + 2]
    assert any(line.strip().startswith("before:") for line in lines[at:])
    assert any(line.strip().startswith("baseline:") and "0.983333" in line for line in lines[at:])
    assert "(original)" in "\n".join(lines[:at])
    assert not (digits / "out.onnx").exists()


def test_the_configuration_of_old_works(run: Run, digits: Path) -> None:
    (digits / "cfg.yaml").write_text(
        f"imports: [damage.py]\npasses: ['{BADLY}']\n"
        "reference: {inp: [images.npy], out: [labels.npy]}\n"
        "verify: {tolerance: {atol: 1000}, metrics: {accuracy: [0.95, 1.0]}}\n"
    )
    answer = run("-c", "cfg.yaml", "-o", "out.onnx", "digits.onnx")
    assert answer.code == 1
    assert "accepted is 0.95 to 1" in answer.err
    assert "no effect" not in answer.err
    assert run("-c", "cfg.yaml", "-o", "out.onnx", "digits.onnx", SLIGHTLY).code == 0
    assert run("-c", "cfg.yaml", "--metric", "accuracy=0,", "-o", "out.onnx", "digits.onnx").code == 0


def test_a_baseline_out_of_range_is_told_first(run: Run, digits: Path) -> None:
    answer = run("-o", "out.onnx", "digits.onnx", *DATA, "--metric", "accuracy>=0.999", "cleanup")
    assert answer.code == 1
    assert "accuracy is 0.983333, accepted is at least 0.999, before any pass ran" in answer.err
    assert not (digits / "out.onnx").exists()


def test_functions_of_imported_files_are_metrics(run: Run, digits: Path) -> None:
    arguments = ("--json", "-o", "out.onnx", "digits.onnx", *DATA, "--metric", "damage:share_of_ones<=0.2")
    answer = run("--import", "damage.py", *arguments, "cleanup")
    assert answer.code == 0
    assert 0.05 < json.loads(answer.out)["metrics"]["damage:share_of_ones"] < 0.15


def test_a_promised_metric_is_measured_without_being_asked_for(run: Run, digits: Path) -> None:
    claim = "@passes.verify.metric(accuracy=(0.95, None))"
    (digits / "damage.py").write_text(DAMAGE.format(claim=claim))
    arguments = ("-o", "out.onnx", "digits.onnx", *DATA)
    answer = run("--import", "damage.py", *arguments, BADLY)
    assert answer.code == 1
    assert "accepted by the pass: at least 0.95" in answer.err
    assert run("--import", "damage.py", *arguments, SLIGHTLY).code == 0


def test_only_the_end_is_measured_if_that_is_asked_for(run: Run, digits: Path) -> None:
    arguments = ("--verify", "final", "--tolerance", "1000", "--json", "-o", "o.onnx", "digits.onnx", *DATA)
    answer = run("--import", "damage.py", *arguments, "--metric", "accuracy", f"{SLIGHTLY}, {BADLY}")
    assert ["metrics" in step for step in json.loads(answer.out)["steps"]] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric", "acuracy"], "did you mean 'accuracy'"),
        (["--metric", "accuracy=high"], "NAME>=MIN"),
        (["--metric", "nowhere:f"], "no module 'nowhere'"),
        (["--metric", "os:system('true')"], "names no function"),
        (["--metric", "accuracy", "--dataset", "absent.npy"], "no such file"),
        (["--metric", "accuracy", "--dataset", "images.npy", "--expect", "images.npy"], "do not fit together"),
        (["--metric", "accuracy", "--batch", "0"], "--batch"),
        (["--dataset", "images.npy"], "name a metric with --metric"),
        (["--structure", "acyclick"], "did you mean 'acyclic'"),
        (["--dump", "digits.onnx/x"], "cannot be created"),
        (["--dump", "d", "--dump-limit", "much"], "a size such as"),
    ],
)
def test_wrong_input(run: Run, digits: Path, arguments: list[str], message: str) -> None:
    answer = run("-o", "out.onnx", "digits.onnx", *arguments, "cleanup")
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err
    assert not (digits / "out.onnx").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("verify: {metrics: {accuracy: 0.9}}", "cfg.yaml: verify.metrics.accuracy: expected a range"),
        ("verify: {metrics: {acuracy: [0, 1]}}", "did you mean 'accuracy'"),
        ("verify: {structure: [acyclick]}", "cfg.yaml: verify.structure: there is no property 'acyclick'"),
        ("verify: {structure: [{at-most: {Conf: 3}}]}", "did you mean 'Conv'"),
        ("verify: {structures: [acyclic]}", "did you mean 'structure'"),
    ],
)
def test_wrong_configuration(run: Run, model: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "cfg.yaml").write_text(text)
    answer = run("-c", tmp_path / "cfg.yaml", model, "cleanup")
    assert answer.code == 2
    assert message in answer.err


def test_models_that_cannot_run_say_that_they_are_not_measured(run: Run, digits: Path) -> None:
    source = examples.path("digits-mlp")
    plain = digits / "plain.onnxtxt"
    assert run("-q", "-o", plain, source).code == 0
    plain.write_text(plain.read_text().replace("qonnx.custom_op.general", "nobody.knows"))
    answer = run("-o", "out.onnx", plain, *DATA, "--metric", "accuracy", "cleanup")
    assert answer.code == 0
    assert "metrics: not measured: " in answer.err
    assert "nobody.knows::Quant" in answer.err
    (digits / "out.onnx").unlink()
    answer = run("-o", "out.onnx", plain, *DATA, "--metric", "accuracy>=0.9", "cleanup")
    assert answer.code == 1
    assert "accuracy cannot be measured, accepted is at least 0.9: " in answer.err
    assert "nobody.knows::Quant" in answer.err
    assert not (digits / "out.onnx").exists()


# Structure


def test_structure_from_the_command_line(run: Run, model: Path, tmp_path: Path) -> None:
    good = ("--structure", "acyclic", "--structure", "at-most(Mul, 2)")
    assert run("-o", tmp_path / "o.onnx", *good, model, "cleanup").code == 0
    answer = run("-o", tmp_path / "p.onnx", "--structure", "at-most(Mul, 0)", model, "remove-unused-nodes")
    assert answer.code == 1
    assert "Post-condition for pass 'RemoveUnusedNodes' failed" in answer.err
    assert "at-most(Mul, 0): there is 1: Mul 'second'" in answer.err
    assert not (tmp_path / "p.onnx").exists()


def test_structure_from_the_configuration(run: Run, model: Path, tmp_path: Path) -> None:
    config = tmp_path / "cfg.yaml"
    config.write_text("verify: {structure: [acyclic, 'allowed-operators(Add, Mul, Relu)', {at-most: {Add: 1}}]}")
    assert run("-c", config, "-o", tmp_path / "o.onnx", model, "cleanup").code == 0
    config.write_text("verify: {structure: {only: [Add, Mul]}}")
    answer = run("-c", config, "-o", tmp_path / "p.onnx", model, "cleanup")
    assert answer.code == 1
    assert "Relu 'last'" in answer.err
    assert run("-c", config, "--verify", "off", "-o", tmp_path / "p.onnx", model, "cleanup").code == 0


# Dumps


def test_all_values_are_dumped(run: Run, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("-o", "o.onnx", "--dump", "values", model, "remove-unused-nodes").code == 0
    files = sorted((tmp_path / "values").iterdir())
    assert [file.name for file in files] == ["000-input.npz", "001-remove-unused-nodes.npz"]
    assert {"a", "b", "sum", "scaled", "nowhere", "global_output_0"} == set(np.load(files[0]).files)
    (tmp_path / "cfg.yaml").write_text("onnxruntime: {full_context_dump: true, context_dump_limit: 8}")
    answer = run("-c", "cfg.yaml", "-o", "o.onnx", model, "remove-unused-nodes")
    assert answer.code == 0
    assert "limit of 8 bytes is reached" in answer.err
    assert (tmp_path / "onnx-passes-dump" / "000-input.npz").exists()
    (tmp_path / "cfg.yaml").write_text("onnxruntime: {full_context_dump: here}")
    assert run("-c", "cfg.yaml", "-q", "-o", "o.onnx", model, "cleanup").code == 0
    assert (tmp_path / "here" / "000-input.npz").exists()
