"""Metrics are measured on data before and after passes, told in the record, and held to their ranges."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes import ComposePass, PassResult, Transformation, apply, examples
from onnx_passes.check import claims
from onnx_passes.check.measuring import Measuring
from onnx_passes.core.errors import ExitCode, RegistrationError, UsageError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager
from onnx_passes.core.plan import plan
from onnx_passes.verify.failure import PostconditionError, VerificationError
from onnx_passes.verify.metrics.metrics import Originals
from onnx_passes.verify.run.execute import Executor
from tests.helpers.digits import executable_digits

LINEAR = """
<ir_version: 10, opset_import: ["": 20]>
g (float[{batch}2] x) => (float[{batch}3] y)
<float[2, 3] w = {{1, 2, 3, 3, 2, 1}}>
{{ y = MatMul (x, w) }}
"""
ROWS = np.array([[1, 0], [0, 1], [1, 2], [5, 0], [0, 3], [2, 2], [4, 1]], np.float32)
LABELS = np.array([2, 0, 0, 2, 0, 0, 2])


def linear(batch: str = "N, ") -> ir.Model:
    return ir.from_onnx_text(LINEAR.format(batch=batch))


class Scale(Transformation):
    """Multiply the first column of the weights."""

    by: float = 1.0

    def call(self, model: ir.Model) -> PassResult:
        weight = model.graph.initializers["w"]
        array = weight.const_value.numpy().copy()
        array[:, 0] *= self.by
        weight.const_value = ir.Tensor(array, name="w")
        return PassResult(model, modified=True)


class Rename(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        model.graph.name = "other"
        return PassResult(model, modified=True)


class RenameOutput(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        model.graph.outputs[0].name = "z"
        return PassResult(model, modified=True)


class Counting(Executor):
    """Counts models that are prepared and rows that are run."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared = 0
        self.sizes: list[int] = []

    def prepare(self, model, **options):
        self.prepared += 1
        ready = super().prepare(model, **options)
        run = ready.run

        def counted(sample):
            self.sizes.append(len(next(iter(sample.values()))))
            return run(sample)

        ready.run = counted
        return ready


def run(model, passes, metrics, **options):
    options = {"dataset": [ROWS], "expect": [LABELS]} | options
    return apply(model, passes, metrics=Measuring(metrics, **options), verify=False)


# Values


def test_baseline_and_value_after_each_pass_are_recorded():
    result = run(linear(), [Scale(by=10), Scale(by=0.1)], {"accuracy": None})
    assert result.record.metrics == {"accuracy": 1.0}
    assert [step.metrics["accuracy"] for step in result.steps] == [pytest.approx(4 / 7), 1.0]
    assert [step.evidence.level for step in result.steps] == ["metric:sampled", "metric:sampled"]
    data = json.loads(json.dumps(result.record.to_json(), allow_nan=False))
    assert data["metrics"] == {"accuracy": 1.0}
    assert data["steps"][0]["metrics"]["accuracy"] == pytest.approx(4 / 7)
    assert "7 samples" in data["metrics_note"]


def test_infinities_are_text_in_json():
    result = run(linear(), [Scale(by=2)], {"psnr": None}, expect=[])
    assert result.record.metrics["psnr"] == math.inf
    assert json.loads(json.dumps(result.record.to_json(), allow_nan=False))["metrics"] == {"psnr": "inf"}


@pytest.mark.parametrize("batch", [None, 1, 2, 3, 7, 100])
@pytest.mark.parametrize("declared", ["N, ", "1, ", "2, ", "3, ", "7, ", "16, "])
def test_any_batches_give_the_same_values(declared: str, batch: int | None):
    metrics = dict.fromkeys(("accuracy", "count_mispredictions", "max_abs_error", "mean_abs_error", "psnr"))
    whole = run(linear(), Scale(by=3), metrics, batch=100).steps[0].metrics
    values = run(linear(declared), Scale(by=3), metrics, batch=batch).steps[0].metrics
    assert values == pytest.approx(whole)
    assert values["max_abs_error"] == 18
    assert values["count_mispredictions"] == 3


def test_batches_have_the_size_asked_for_or_that_of_the_model():
    executor = Counting()
    run(linear(), [], {"accuracy": None}, batch=3, executor=executor)
    assert executor.sizes == [3, 3, 1]
    executor.sizes.clear()
    run(linear("4, "), [], {"accuracy": None}, batch=3, executor=executor)
    assert executor.sizes == [4, 4]


def test_models_without_a_batch_take_stacked_samples():
    values = run(linear(""), Scale(by=3), {"accuracy": None, "max_abs_error": None}).steps[0].metrics
    assert values == {"accuracy": pytest.approx(4 / 7), "max_abs_error": 18}


@pytest.mark.parametrize("labels", [LABELS, LABELS[:, None], LABELS.astype(np.uint8), np.eye(3)[LABELS]])
def test_labels_may_be_numbers_columns_or_one_hot(labels: np.ndarray):
    assert run(linear(), Scale(by=3), {"accuracy": None}, expect=[labels]).steps[0].metrics == {
        "accuracy": pytest.approx(4 / 7)
    }


def test_without_expectations_the_original_is_the_reference():
    noise = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32)
    model = linear()
    before = Executor().prepare(model).run({"x": noise})["y"].argmax(-1)
    result = run(model, Scale(by=1.5), {"accuracy": None}, dataset=[noise], expect=[])
    after = Executor().prepare(result.model).run({"x": noise})["y"].argmax(-1)
    assert result.record.metrics == {"accuracy": 1.0}
    assert result.steps[0].metrics == {"accuracy": pytest.approx((before == after).mean())}
    assert 0 < result.steps[0].metrics["accuracy"] < 1


def test_errors_of_numbers_are_held_against_the_original_where_there_are_only_labels():
    result = run(linear(), Scale(by=2), {"accuracy": None, "max_abs_error": None})
    assert result.record.metrics == {"accuracy": 1.0, "max_abs_error": 0.0}
    assert result.steps[0].metrics["max_abs_error"] == 9


def test_whole_outputs_may_be_expected():
    outputs = Executor().prepare(linear()).run({"x": ROWS})["y"] + 1
    assert run(linear(), [], {"max_abs_error": None}, expect=[outputs]).record.metrics == {"max_abs_error": 1}


def test_several_files_are_one_dataset(tmp_path: Path):
    np.save(tmp_path / "a.npy", ROWS[:4])
    np.save(tmp_path / "b.npy", ROWS[4:])
    np.savez(tmp_path / "labels.npz", y=LABELS)
    files = [tmp_path / "a.npy", tmp_path / "b.npy"]
    one = run(linear(), Scale(by=3), {"accuracy": None}, dataset=files, expect=[tmp_path / "labels.npz"], batch=3)
    two = run(linear(), Scale(by=3), {"accuracy": None}, dataset=files, expect=[LABELS[:4], LABELS[4:]])
    assert one.steps[0].metrics == two.steps[0].metrics == {"accuracy": pytest.approx(4 / 7)}


def test_of_several_outputs_errors_take_in_all_and_classes_the_first():
    text = """
    <ir_version: 10, opset_import: ["": 20]>
    g (float[N, 2] x) => (float[N, 2] y, float[N, 2] z) <float[2] w = {1, 1}> { y = Neg (x) z = Mul (x, w) }
    """
    result = run(ir.from_onnx_text(text), Second(), {"max_abs_error": None, "accuracy": None}, expect=[])
    assert result.steps[0].metrics == {"max_abs_error": 5, "accuracy": 1.0}


class Second(Transformation):
    def call(self, model: ir.Model) -> PassResult:
        model.graph.initializers["w"].const_value = ir.Tensor(np.array([2, 2], np.float32), name="w")
        return PassResult(model, modified=True)


def test_without_a_dataset_samples_are_generated():
    result = run(linear(), Scale(by=2), {"max_abs_error": None}, dataset=[], expect=[])
    assert "generated" in result.record.metrics_note
    assert result.steps[0].metrics["max_abs_error"] > 0


def test_users_functions_are_metrics(tmp_path: Path):
    (tmp_path / "user_metrics.py").write_text("def gap(expected, found):\n    return float(found.max())\n")
    result = run(linear(), Scale(by=10), {"user_metrics:gap": (None, 100)}, base=tmp_path)
    assert result.record.metrics == {"user_metrics:gap": 15}

    def own(expected, found):
        return 1.0

    assert run(linear(), [], {own: None}).record.metrics == {"own": 1.0}


# When


def test_unchanged_models_are_not_measured_again():
    executor = Counting()
    run(linear(), [Scale(by=1), Rename(), "checker"], {"accuracy": None}, executor=executor)
    assert executor.prepared == 1
    run(linear(), [Scale(by=2), Rename(), Scale(by=3)], {"accuracy": None}, executor=executor)
    assert executor.prepared == 4


def test_at_the_end_only_if_that_is_asked_for():
    executor = Counting()
    result = run(
        linear(), [Scale(by=10), Scale(by=0.1), Scale(by=3)], {"accuracy": None}, mode="final", executor=executor
    )
    assert executor.prepared == 2
    assert [bool(step.metrics) for step in result.steps] == [False, False, True]


def test_the_verify_pass_asks_for_a_measurement():
    result = run(linear(), [Scale(by=10), "verify", Scale(by=0.1)], {"accuracy": None}, mode="final")
    assert [bool(step.metrics) for step in result.steps] == [False, True, True]


def test_nothing_runs_where_nothing_is_asked_for():
    executor = Counting()
    result = run(linear(), Scale(by=2), {}, executor=executor)
    assert executor.prepared == 0
    assert result.record.metrics == {}
    assert "metrics" not in result.record.to_json()


def test_results_of_the_original_beyond_memory_are_computed_again(monkeypatch):
    monkeypatch.setattr(Originals.__init__, "__kwdefaults__", {"most_bytes": 40})
    executor = Counting()
    result = run(linear(), Scale(by=2), {"max_abs_error": None, "psnr": None}, expect=[], batch=3, executor=executor)
    assert result.steps[0].metrics["max_abs_error"] == 9
    assert executor.sizes == [3, 3, 1, 3, 3, 3, 1, 1]


def test_a_big_dataset_is_never_in_memory_as_a_whole(tmp_path: Path):
    np.save(tmp_path / "rows.npy", np.ones((2_000_000, 2), np.float32))
    np.save(tmp_path / "labels.npy", np.zeros(2_000_000, np.int8))
    options = {"dataset": [tmp_path / "rows.npy"], "expect": [tmp_path / "labels.npy"], "batch": 20_000}
    run(linear(), [], {"accuracy": None})
    tracemalloc.start()
    result = run(linear(), Scale(by=10), {"accuracy": None}, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.steps[0].metrics == {"accuracy": 1.0}
    assert peak < 8_000_000


# Ranges


def test_a_metric_out_of_its_range_ends_the_run():
    with pytest.raises(PostconditionError) as caught:
        run(linear(), [Scale(by=1.01), Scale(by=10)], {"accuracy": (0.95, None)})
    lines = str(caught.value).splitlines()
    assert lines[0] == "PostconditionError: Post-condition for pass 'Scale' failed"
    assert lines[1] == "VerificationError: accuracy is 0.571429, accepted is at least 0.95"
    assert "scale{by=10} (step 2)" in lines[2]
    assert any("before:" in line and " 1" in line for line in lines)
    assert any("baseline:" in line for line in lines)
    assert caught.value.exit_code is ExitCode.VERIFICATION


def test_a_baseline_out_of_range_is_told_before_any_pass():
    calls: list[str] = []

    class Watch(Instrument):
        def before_pass(self, record, step, model):
            calls.append(step.name)

    measuring = Measuring({"accuracy": (0.99, 1)}, dataset=[ROWS], expect=[2 - LABELS])
    with pytest.raises(VerificationError, match=r"accuracy is 0, accepted is 0\.99 to 1, before any pass ran"):
        apply(linear(), Scale(by=2), metrics=measuring, instruments=[Watch()])
    assert calls == []


def test_ends_of_a_range_are_accepted():
    run(linear(), Scale(by=3), {"count_mispredictions": (None, 3)})
    with pytest.raises(PostconditionError, match="count_mispredictions is 3, accepted is at most 2"):
        run(linear(), Scale(by=3), {"count_mispredictions": (None, 2)})


def test_all_steps_are_held_to_the_range_at_the_end():
    with pytest.raises(PostconditionError, match="accuracy is"):
        run(linear(), [Scale(by=10), Rename()], {"accuracy": (0.9, None)}, mode="final")
    run(linear(), [Scale(by=10), Scale(by=0.1)], {"accuracy": (0.9, None)}, mode="final")


def test_a_pass_is_held_to_the_ranges_that_it_promises():
    class Careless(Scale):
        claims = ()

    claims.metric(accuracy=(0.9, None))(Careless)
    model, options = linear(), {"inputs": [ROWS], "verify": True}
    with pytest.raises(PostconditionError, match=r"accuracy is 0\.57.*accepted is at least 0\.9"):
        apply(model, Careless(by=10), **options | {"verify": _Lenient()})
    assert apply(model, Careless(by=10), verify=False).modified
    apply(model, Careless(by=1), **options)


class _Lenient:
    """Stands for a verification that finds nothing."""

    def __getattr__(self, name):
        return lambda *_: None


@pytest.mark.parametrize("mode", ["each", "final"])
def test_a_sequence_is_held_to_what_it_promises_at_its_end(mode):
    class Worse(ComposePass):
        passes = (Scale(by=10), Rename())

    class Undone(ComposePass):
        passes = (Scale(by=10), Scale(by=0.1))

    for cls in (Worse, Undone):
        claims.metric(accuracy=(0.9, None))(cls)
    options = {"dataset": [ROWS], "expect": [LABELS], "mode": mode}
    apply(linear(), Undone(), metrics=Measuring(**options), verify=_Lenient())
    with pytest.raises(PostconditionError, match="pass 'Worse' failed"):
        apply(linear(), Worse(), metrics=Measuring(**options), verify=_Lenient())


def test_a_promise_that_nobody_measures_is_noted():
    class Unmeasured(Scale):
        claims = ()

    claims.metric(accuracy=(0.9, None))(Unmeasured)
    outcome = Manager([Measuring({"psnr": None})]).run(plan(Unmeasured(by=10)), linear())
    assert "promises accuracy, which is not measured" in outcome.record.steps[0].notes[0]


@pytest.mark.parametrize(
    ("ranges", "message"),
    [({"acuracy": (0, 1)}, "did you mean 'accuracy'"), ({"accuracy": (1, 0)}, "is empty"), ({"psnr": 3}, "a range")],
)
def test_promises_are_checked_when_they_are_made(ranges, message):
    with pytest.raises(RegistrationError, match=message):
        claims.metric(**ranges)


# What cannot be measured


def test_models_that_cannot_run_are_not_measured_and_say_why():
    text = """
    <ir_version: 10, opset_import: ["": 20, "nobody": 1]>
    g (float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 1}> { [odd] a = nobody.Knows (x) y = Mul (a, w) }
    """
    result = run(ir.from_onnx_text(text), Second(), {"accuracy": None})
    assert result.record.metrics == {}
    assert result.record.metrics_note.startswith("not measured: ")
    assert "Knows" in result.record.metrics_note
    assert result.steps[0].metrics == {}
    with pytest.raises(VerificationError, match=r"accuracy cannot be measured, accepted is 0\.9 to 1"):
        run(ir.from_onnx_text(text), Second(), {"accuracy": (0.9, 1)})


def test_a_model_that_no_longer_runs_fails():
    with pytest.raises(PostconditionError, match="can no longer be measured"):
        run(linear(), RenameOutput(), {"accuracy": None})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expect": [LABELS[:5]]}, "7 samples of inputs, but expected outputs of shape"),
        ({"expect": [np.concatenate([LABELS, LABELS])]}, "7 samples of inputs, but"),
        ({"expect": ["absent.npy"]}, "no such file"),
        ({"dataset": ["absent.npy"]}, "no such file"),
        ({"dataset": [ROWS[:, :1]]}, "shape"),
        ({"dataset": []}, "no dataset"),
        ({"batch": 0}, "holds nothing"),
    ],
)
def test_wrong_data_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        run(linear(), Scale(by=2), {"accuracy": None}, batch=options.pop("batch", 3), **options)


def test_unknown_metrics_are_refused():
    with pytest.raises(UsageError, match="did you mean 'accuracy'"):
        Measuring({"acuracy": None})


# Real data


class Damage(Transformation):
    """Add noise to all weights of two or more dimensions."""

    amount: float = 0.0

    def call(self, model: ir.Model) -> PassResult:
        rng = np.random.default_rng(0)
        for value in model.graph.initializers.values():
            tensor = value.const_value
            if len(tensor.shape) >= 2:
                array = tensor.numpy()
                noise = self.amount * np.abs(array).max() * rng.standard_normal(array.shape)
                value.const_value = ir.Tensor((array + noise).astype(array.dtype), name=value.name)
        return PassResult(model, modified=True)


@pytest.mark.parametrize("name", examples.NAMES)
def test_accuracy_on_real_digits_is_that_of_qonnx_and_falls_with_damage(name: str):
    data = examples.digits()
    options = {"dataset": [data.image], "expect": [data.label]}
    passes = ["cleanup", Damage(amount=0.05), Damage(amount=0.3)]
    result = run(executable_digits(name), passes, {"accuracy": None}, **options)
    assert result.record.metrics["accuracy"] == pytest.approx(data.accuracy[name], abs=1e-9)
    values = [step.metrics["accuracy"] for step in result.steps if step.metrics]
    assert values[-1] < min(values[:-1])
    with pytest.raises(PostconditionError, match=r"accepted is at least 0\.95"):
        run(executable_digits(name), passes, {"accuracy": (0.95, None)}, **options)


IMAGE = """
<ir_version: 10, opset_import: ["": 20]>
g (float[N,2,3,4] x) => (float[N,2,3,4] y) { y = Neg (x) }
"""


def test_a_changed_interface_is_followed():
    images = np.random.default_rng(0).normal(size=(5, 2, 3, 4)).astype(np.float32)
    pipeline = "convert-layouts{inp=[NHWC>NCHW], out=[NCHW>NHWC]}, simplify, convert-layouts{out=[NHWC>NWHC]}"
    measuring = Measuring({"max_abs_error": (0, 0)}, dataset=[images])
    result = apply(ir.from_onnx_text(IMAGE), pipeline, metrics=measuring)
    measured = [step.metrics for step in result.steps if step.metrics]
    assert measured == [{"max_abs_error": 0.0}] * len(measured)
    assert len(measured) >= 2


def test_outputs_that_passes_rename_add_or_drop_are_measured_as_what_they_were():
    text = "rename-interface{y=v, x=rows}, add-outputs{names=[z]}, rename-interface{v=s}, drop-outputs{names=[u]}"
    model = ir.from_onnx_text(
        LINEAR.format(batch="N, ")
        .replace("float[N, 3] y)", "float[N, 3] y, float[N, 3] u)")
        .replace("{ y =", "{ z = Abs (x) u = MatMul (z, w) y =")
    )
    measuring = Measuring({"accuracy": (0.5, None), "max_abs_error": (None, 0)}, dataset=[ROWS], expect=[LABELS])
    result = apply(model, text, metrics=measuring, inputs=[{"x": ROWS}])
    measured = [step.metrics for step in result.steps if step.metrics]
    assert measured
    assert all(values == result.record.metrics for values in measured)
