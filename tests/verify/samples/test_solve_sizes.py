"""Sizes are solved from what operators require, without running the model."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import pytest

from onnx_passes import apply
from onnx_passes.verify.run.execute import Executor
from onnx_passes.verify.samples.coverage import run_samples
from onnx_passes.verify.samples.sizes import SizeSolver

HEAD = '<ir_version: 10, opset_import: ["": 20]>'
STRIDES = f"""{HEAD}
patches (float[batch, height, width] x) => (float[n, m] y) {{
    target = Constant <value_ints = [-1, 14]> ()
    [first] a = Reshape (x, target)
    two = Constant <value_ints = [0, 35, -1]> ()
    [second] b = Reshape (x, two)
    y = Abs (a)
}}"""
FAR = f"""{HEAD}
far (float[batch, time] x, float[other, time] w) => (float[batch, 3] y) {{
    a = Concat <axis = 0> (x, w)
    last = Constant <value_ints = [11]> ()
    [last] b = Gather <axis = 1> (a, last)
    c = Constant <value = float[12] {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}> ()
    [meets] d = Add (a, c)
    e = Neg (d)
    y = Neg (e)
}}"""


@pytest.mark.parametrize(
    ("text", "wanted", "fixed", "found"),
    [
        (FAR, {"batch": 1, "time": 2, "other": 3}, {}, {"batch": 1, "time": 12, "other": 3}),
        (FAR, {"batch": 1, "time": 2, "other": 3}, {"time": 2}, None),
        (STRIDES, {"batch": 1, "height": 2, "width": 2}, {"height": 2}, {"batch": 1, "height": 2, "width": 35}),
        (STRIDES, {"batch": 3, "height": 7, "width": 10}, {}, {"batch": 3, "height": 7, "width": 10}),
    ],
    ids=["index and constant", "fixed", "multiples", "met already"],
)  # fmt: skip
def test_sizes_meet_all_requirements(
    text: str, wanted: Mapping[str, int], fixed: Mapping[str, int], found: Mapping[str, int] | None
):
    assert SizeSolver(ir.from_onnx_text(text), list(wanted)).solve(wanted, fixed) == found


def test_a_solver_names_what_is_not_met():
    solver = SizeSolver(ir.from_onnx_text(FAR), ["batch", "time", "other"])
    sizes = {"batch": 1, "time": 9, "other": 1}
    assert solver.unmet(sizes) == "Gather 'last' requires time ≥ 12"
    assert solver.unmet({**sizes, "time": 13}) == "Add 'meets' requires time = 12"
    assert solver.unmet({**sizes, "time": 12}) == ""


class Counted(Executor):
    """Counts the runs of models."""

    runs = 0

    def prepare(self, *args: object, **options: object):
        ready = super().prepare(*args, **options)  # type: ignore[arg-type]
        run = ready.run

        def counted(*given: object, **more: object):
            self.runs += 1
            return run(*given, **more)  # type: ignore[arg-type]

        ready.run = counted  # type: ignore[method-assign]
        return ready


@pytest.mark.parametrize("text", [FAR, STRIDES])
def test_few_runs_are_needed(text: str):
    model, executor = ir.from_onnx_text(text), Counted()
    samples, _ = run_samples(executor.prepare(model), model, (), 0)
    assert len(samples) >= 3
    # Three or four as usual, at most seven cut ones, one of the sizes that were solved, and all samples with those.
    assert executor.runs <= 4 + 7 + 1 + 4


def test_a_run_says_what_was_solved():
    record = apply(ir.from_onnx_text(FAR), "eliminate").record
    assert record.modified
    assert record.level != "unverified"
    notes = [note for step in record.steps for note in step.notes]
    assert "sizes of generated inputs meet time ≥ 12" in notes
