"""Code of authors as it was written for version 0.4."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import onnx_passes
from onnx_passes import passes
from onnx_passes.core.errors import RegistrationError
from onnx_passes.passes.base import Analysis, RewriteRulePass, RewriteRuleSetPass, Transformation
from onnx_passes.passes.cleanup.remove_unused_nodes import RemoveUnusedNodes
from onnx_passes.passes.compose import ComposePass
from onnx_passes.passes.util import is_constant
from onnx_passes.passes.verify import VerificationError
from tests.passes.tools import operators

CONFIG = {"verify": {}, "mine": {"factor": 3.0}}


def model(body: str) -> ir.Model:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) <float two = {{2}}> {{ {body} }}'
    return ir.from_onnx_text(text)


class FuseRelu(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(op.Relu(x))

    def rewrite(self, op, x):
        return op.Relu(x)


class TestRules:
    def test_are_made_with_configuration_and_state(self):
        made = FuseRelu({"a": 1}, {"b": 2})
        assert (made.config, made.state_dict) == ({"a": 1}, {"b": 2})
        made = FuseRelu(config={}, state={})
        assert (made.config, made.state_dict) == ({}, {})
        assert operators(made(model("a = Relu (x) y = Relu (a)")).model.graph) == ["Relu"]

    def test_match_inputs_in_order_unless_they_say_otherwise(self):
        class Halve(Transformation, RewriteRulePass):
            def pattern(self, op, x, c):
                return op.Mul(c, x)

            def check(self, op, x, c):
                return is_constant(c)

            def rewrite(self, op, x, c):
                return op.Add(x, x)

        class HalveBoth(Halve):
            @property
            def commute(self):
                return True

        assert not Halve({}, {})(model("y = Mul (x, two)")).modified
        assert Halve({}, {})(model("y = Mul (two, x)")).modified
        assert HalveBoth({}, {})(model("y = Mul (x, two)")).modified

    def test_bind_attributes_and_make_operators_of_other_domains(self):
        class Export(Transformation, RewriteRulePass):
            def pattern(self, op, x, axis):
                return op.Softmax(x, axis=axis)

            def rewrite(self, op, x, axis):
                scale = op.Constant(value=ir.tensor(np.ones(2, np.float32)))
                return op.Scaled(x, scale, along=axis.as_int(), _domain="my.domain")

        result = Export(config={}, state={})(model("y = Softmax <axis = -1> (x)")).model
        *_, node = result.graph
        assert (node.domain, node.op_type, node.attributes["along"].as_int()) == ("my.domain", "Scaled", -1)


class TestRuleSets:
    class Fuse(Transformation, RewriteRuleSetPass):
        def pattern(self):
            return [lambda op, x: op.Relu(op.Relu(x)), lambda op, x, c: op.Mul(x, c)]

        def check(self):
            return [lambda op, x: True, lambda op, x, c: is_constant(c)]

        def rewrite(self):
            return [lambda op, x: op.Relu(x), lambda op, x, c: op.Div(x, op.Reciprocal(c))]

    def test_return_lists_of_functions(self):
        result = self.Fuse({}, {})(model("a = Relu (x) b = Relu (a) y = Mul (b, two)"))
        assert operators(result.model.graph) == ["Relu", "Reciprocal", "Div"]

    def test_need_no_checks(self):
        class Unchecked(self.Fuse):
            def check(self):
                return []

        assert Unchecked({}, {})(model("y = Mul (x, x)")).modified
        assert not self.Fuse({}, {})(model("y = Mul (x, x)")).modified

    def test_of_different_lengths_are_refused(self):
        class Uneven(self.Fuse):
            def rewrite(self):
                return [lambda op, x: op.Relu(x)]

        with pytest.raises(RegistrationError, match="2 patterns, 2 checks and 1 rewrites"):
            Uneven({}, {})(model("y = Relu (x)"))


class TestSequences:
    def test_name_members_in_passes(self):
        class Both(ComposePass, Transformation):
            __passes__ = ["remove-unused-nodes", FuseRelu]  # noqa: RUF012

        result = Both({}, {})(model("a = Relu (x) b = Relu (a) c = Relu (b) unused = Abs (x) y = Relu (c)"))
        assert operators(result.model.graph) == ["Relu"]

    def test_annotated_and_in_the_other_order(self):
        class Both(Transformation, ComposePass):
            __passes__: list = [FuseRelu]  # noqa: RUF012
            __exhaustive__: bool = True

        assert Both.exhaustive
        assert Both.kind == "sequence"
        assert Both({}, {})(model("a = Relu (x) y = Relu (a)")).modified

    def test_run_once_unless_exhaustive(self):
        class PeelOne(Transformation):
            def call(self, model):
                node = next((node for node in model.graph if node.op_type == "Abs"), None)
                if node is not None:
                    node.op_type = "Relu"
                return ir.passes.PassResult(model, node is not None)

        class Once(ComposePass):
            __passes__ = [PeelOne]  # noqa: RUF012

        class ToTheEnd(Once):
            __exhaustive__ = True

        body = "a = Abs (x) b = Abs (a) y = Abs (b)"
        assert operators(Once({}, {})(model(body)).model.graph).count("Abs") == 2
        assert operators(ToTheEnd({}, {})(model(body)).model.graph).count("Abs") == 0


@passes.register("remember")
class Remember(Analysis):
    def call(self, model):
        self.state_dict["seen"] = [*self.state_dict.get("seen", ()), self.config["mine"]["factor"]]
        return ir.passes.PassResult(model, False)


class TestConfigurationAndState:
    def test_reach_members_of_sequences(self):
        class Twice(ComposePass):
            __passes__ = [Remember, "remember"]  # noqa: RUF012

        state = {}
        Twice(CONFIG, state)(model("y = Relu (x)"))
        assert state == {"seen": [3.0, 3.0]}

    def test_reach_passes_of_a_manager_of_onnx_ir(self):
        assert passes.collect(["remember", FuseRelu]) == [Remember, FuseRelu]
        state = {}
        made = [cls(CONFIG, state) for cls in passes.collect(["remember", "cleanup", "remember"])]
        ir.passes.PassManager(made, steps=1)(model("y = Relu (x)"))
        assert state == {"seen": [3.0, 3.0]}

    def test_classes_of_now_are_made_with_them_too(self):
        [cls] = passes.collect([RemoveUnusedNodes])
        assert operators(cls(CONFIG, {})(model("a = Abs (x) y = Relu (x)")).model.graph) == ["Relu"]

    def test_reach_passes_with_an_init_of_their_own(self):
        class Own(Remember):
            def __init__(self, config, state):
                super().__init__(config, state)
                self.more = 1

        made = Own(CONFIG, {})
        assert (made.config, made.more) == (CONFIG, 1)
        assert Own().config is None


def wrong(promise):
    @promise
    class Wrong(Transformation, RewriteRulePass):
        def pattern(self, op, x):
            return op.Relu(x)

        def rewrite(self, op, x):
            return op.Abs(x)

    return Wrong


class TestVerification:
    @pytest.mark.parametrize("promise", [passes.verify.equality, passes.verify.tolerance])
    def test_follows_the_configuration(self, promise):
        Wrong = wrong(promise)
        assert Wrong({"verify": {}}, {})(model("y = Relu (x)")).modified
        assert Wrong({}, {})(model("y = Relu (x)")).modified
        with pytest.raises(ir.passes.PostconditionError) as raised:
            Wrong({"verify": {"tolerance": {"atol": 1e-4}}}, {})(model("y = Relu (x)"))
        assert isinstance(raised.value.__cause__, VerificationError)

    def test_uses_the_reference_data(self, tmp_path: Path):
        Wrong = wrong(passes.verify.equality)
        np.save(tmp_path / "inp.npy", np.ones(2, np.float32))
        config = {
            "verify": {"tolerance": {"atol": 1e-6}},
            "reference": {"inp": [str(tmp_path / "inp.npy")], "out": [None]},
            "onnxruntime": {"providers": [["CPUExecutionProvider", {}]], "full_context_dump": False},
        }
        assert Wrong(config, {})(model("y = Relu (x)")).modified

    def test_bare_metric_takes_the_ranges_of_the_configuration(self, tmp_path: Path):
        Wrong = wrong(passes.verify.metric)
        np.save(tmp_path / "inp.npy", -np.ones(2, np.float32))
        config = {
            "verify": {"metrics": {"max_abs_error": [0.0, 0.01]}},
            "reference": {"inp": [str(tmp_path / "inp.npy")], "out": [None]},
        }
        with pytest.raises(onnx_passes.core.errors.OnnxPassesError, match="max_abs_error"):
            Wrong(config, {})(model("y = Relu (x)"))


AUTHOR = """
from onnx_passes import passes
from onnx_passes.passes.base import Transformation, RewriteRulePass

@passes.verify.equality
@passes.register("scale-by-factor")
class ScaleByFactor(Transformation, RewriteRulePass):
    @property
    def commute(self):
        return True
    def pattern(self, op, x, c):
        return op.Mul(x, c)
    def check(self, op, x, c):
        return self.config["mine"]["on"] and "done" not in self.state_dict
    def rewrite(self, op, x, c):
        self.state_dict["done"] = True
        return op.Mul(c, x)
"""
