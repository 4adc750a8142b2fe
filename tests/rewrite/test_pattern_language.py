"""The pattern language: what matches, what does not, and what a match binds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from onnxscript.rewriter import pattern
from onnxscript.rewriter.pattern import AttrVar, Constant

from onnx_passes.core.errors import RegistrationError
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.match import Partial
from onnx_passes.rewrite.patterns import ANY_VALUE, OrValue, PrefixPattern, Var
from onnx_passes.rewrite.refusal import no
from tests.rewrite.support import Watch, apply, node_of, operators, parse, rule

Bindings = dict[str, Any]


def matches(text: str | ir.Model, pattern_function: Callable[..., Any], **options: Any) -> list[Bindings]:
    """Return the bindings of every match, values by their names, without rewriting anything."""
    found: list[Bindings] = []

    def note(context: Any, **bindings: Any) -> bool:
        found.append({k: v.name if isinstance(v, ir.Value) else v for k, v in bindings.items()})
        return False

    model = parse(text) if isinstance(text, str) else text
    rewrite(model, [rule(pattern_function, lambda op, **_: None, note, **options)])
    return found


def body(lines: str, inputs: str = "float[2] x, float[2] y") -> str:
    return f"g ({inputs}) => (float[2] out) {{ {lines} }}"


class TestVariables:
    def test_bind_what_is_there(self) -> None:
        found = matches(body("out = Sub(x, y)"), lambda op, a, b: op.Sub(a, b))
        assert found == [{"a": "x", "b": "y"}]

    def test_repeated_variable_wants_the_same_value(self) -> None:
        def doubled(op: Any, a: Any) -> Any:
            return op.Sub(a, a)

        assert matches(body("out = Sub(x, x)"), doubled) == [{"a": "x"}]
        assert matches(body("out = Sub(x, y)"), doubled) == []

    def test_repeated_across_nodes(self) -> None:
        def both(op: Any, a: Any, b: Any) -> Any:
            return op.Sub(op.Div(a, b), a)

        assert matches(body("t = Div(x, y) out = Sub(t, x)"), both) == [{"a": "x", "b": "y"}]
        assert matches(body("t = Div(x, y) out = Sub(t, y)"), both) == []

    def test_equal_but_distinct_values_are_not_the_same(self) -> None:
        found = matches(body("t = Relu(x) u = Relu(x) out = Sub(t, u)"), lambda op, a: op.Sub(a, a))
        assert found == []

    def test_one_pattern_node_used_twice_is_one_node(self) -> None:
        def squared(op: Any, a: Any) -> Any:
            relu = op.Relu(a)
            return op.Sub(relu, relu)

        assert matches(body("t = Relu(x) out = Sub(t, t)"), squared) == [{"a": "x"}]
        assert matches(body("t = Relu(x) u = Relu(x) out = Sub(t, u)"), squared) == []

    def test_two_pattern_nodes_are_two_nodes(self) -> None:
        def two(op: Any, a: Any, b: Any) -> Any:
            return op.Sub(op.Relu(a), op.Relu(b))

        assert matches(body("t = Relu(x) u = Relu(y) out = Sub(t, u)"), two) == [{"a": "x", "b": "y"}]
        assert matches(body("t = Relu(x) out = Sub(t, t)"), two) == []

    def test_anything_matches_anything_and_binds_nothing(self) -> None:
        assert matches(body("out = Sub(x, y)"), lambda op, a: op.Sub(a, ANY_VALUE)) == [{"a": "x"}]

    def test_arithmetic_on_variables(self) -> None:
        found = matches(
            body("p = Add(x, y) q = Sub(p, y) r = Mul(q, x) s = Div(r, y) out = Pow(s, x)"),
            lambda op, a, b: ((((a + b) - b) * a) / b) ** a,
            commute=False,
        )
        assert found == [{"a": "x", "b": "y"}]

    def test_arithmetic_with_a_number_on_the_left(self) -> None:
        text = "g (float[2] x) => (float[2] out) <float one = {1}> { out = Sub(one, x) }"
        assert matches(text, lambda op, a: 1 - a) == [{"a": "x"}]

    def test_a_rule_that_names_what_the_pattern_does_not_bind_is_refused(self) -> None:
        with pytest.raises(RegistrationError, match=r"rewrite of rule 'rule' takes 'b'.*the pattern binds a"):
            rule(lambda op, a: op.Relu(a), lambda op, b: b)

    def test_a_parameter_with_a_default_need_not_be_bound(self) -> None:
        seen: list[int] = []

        def check(context: Any, a: Any, limit: int = 3) -> bool:
            seen.append(limit)
            return False

        rewrite(parse(body("out = Relu(x)")), [rule(lambda op, a: op.Relu(a), lambda op, a: a, check)])
        assert seen == [3]


class TestOptionalInputs:
    CLIP = "g (float[2] x, float lo, float hi) => (float[2] out) {{ out = Clip({}) }}"

    @staticmethod
    def trailing(op: Any, x: Any, lo: Any) -> Any:
        return op.Clip(x, lo, Var("hi", can_match_none=True))

    @staticmethod
    def middle(op: Any, x: Any, hi: Any) -> Any:
        return op.Clip(x, Var("lo", can_match_none=True), hi)

    def test_trailing_input_may_be_given_left_out_or_empty(self) -> None:
        assert matches(self.CLIP.format("x, lo, hi"), self.trailing) == [{"x": "x", "lo": "lo", "hi": "hi"}]
        assert matches(self.CLIP.format("x, lo"), self.trailing) == [{"x": "x", "lo": "lo", "hi": None}]

        empty = parse(self.CLIP.format("x, lo"))
        node_of(empty, "Clip").resize_inputs(3)
        assert matches(empty, self.trailing) == [{"x": "x", "lo": "lo", "hi": None}]

    def test_trailing_empty_input_counts_as_left_out(self) -> None:
        model = parse(self.CLIP.format("x, lo"))
        node_of(model, "Clip").resize_inputs(3)
        assert matches(model, lambda op, x, lo: op.Clip(x, lo)) == [{"x": "x", "lo": "lo"}]

    def test_input_in_the_middle_may_be_empty(self) -> None:
        found = matches(self.CLIP.format('x, "", hi'), self.middle)
        assert found == [{"x": "x", "hi": "hi", "lo": None}]
        assert matches(self.CLIP.format("x, lo, hi"), self.middle) == [{"x": "x", "hi": "hi", "lo": "lo"}]

    def test_plain_variable_does_not_match_a_missing_input(self) -> None:
        assert matches(self.CLIP.format('x, "", hi'), lambda op, x, lo, hi: op.Clip(x, lo, hi)) == []
        assert matches(self.CLIP.format("x, lo"), lambda op, x, lo, hi: op.Clip(x, lo, hi)) == []

    def test_none_wants_a_missing_input(self) -> None:
        assert matches(self.CLIP.format('x, "", hi'), lambda op, x, hi: op.Clip(x, None, hi)) == [
            {"x": "x", "hi": "hi"}
        ]
        assert matches(self.CLIP.format("x, lo, hi"), lambda op, x, hi: op.Clip(x, None, hi)) == []

    def test_more_inputs_than_written_do_not_match_unless_allowed(self) -> None:
        text = self.CLIP.format("x, lo, hi")
        assert matches(text, lambda op, x: op.Clip(x)) == []
        assert matches(text, lambda op, x: op.Clip(x, _allow_other_inputs=True)) == [{"x": "x"}]

    def test_other_inputs_of_a_commutative_operator_may_be_anywhere(self) -> None:
        found = matches(
            body("t = Relu(y) out = Sum(x, x, t)"), lambda op, a: op.Sum(op.Relu(a), _allow_other_inputs=True)
        )
        # Just one input is written down, so there is nothing to swap it with.
        assert found == []
        found = matches(
            body("t = Relu(y) out = Sum(x, x, t)"), lambda op, a, b: op.Sum(op.Relu(a), b, _allow_other_inputs=True)
        )
        assert found == [{"a": "y", "b": "x"}]


class TestAttributes:
    TRANSPOSE = "g (float[2, 3] x) => (float[3, 2] out) { out = Transpose<perm = [1, 0]>(x) }"
    PLAIN = "g (float[2, 3] x) => (float[3, 2] out) { out = Transpose(x) }"

    def test_variable_binds_the_attribute(self) -> None:
        [found] = matches(self.TRANSPOSE, lambda op, x, perm: op.Transpose(x, perm=perm))
        assert found["perm"].as_ints() == (1, 0)
        assert matches(self.PLAIN, lambda op, x, perm: op.Transpose(x, perm=perm)) == []

    def test_optional_variable(self) -> None:
        def optional(op: Any, x: Any) -> Any:
            return op.Transpose(x, perm=AttrVar("perm", can_match_none=True))

        [found] = matches(self.TRANSPOSE, optional)
        assert found["perm"].as_ints() == (1, 0)
        assert matches(self.PLAIN, optional) == [{"x": "x", "perm": None}]

    def test_constants(self) -> None:
        assert matches(self.TRANSPOSE, lambda op, x: op.Transpose(x, perm=[1, 0]))
        assert not matches(self.TRANSPOSE, lambda op, x: op.Transpose(x, perm=[0, 1]))
        assert not matches(self.TRANSPOSE, lambda op, x: op.Transpose(x, perm=[1]))
        softmax = body("out = Softmax<axis = -1>(x)")
        assert matches(softmax, lambda op, x: op.Softmax(x, axis=-1))
        assert not matches(softmax, lambda op, x: op.Softmax(x, axis=0))
        assert not matches(body("out = Softmax(x)"), lambda op, x: op.Softmax(x, axis=-1))

    def test_float_constants_are_compared_in_single_precision(self) -> None:
        leaky = body("out = LeakyRelu<alpha = 0.1>(x)")
        assert matches(leaky, lambda op, x: op.LeakyRelu(x, alpha=0.1))
        assert not matches(leaky, lambda op, x: op.LeakyRelu(x, alpha=0.10001))
        assert not matches(leaky, lambda op, x: op.LeakyRelu(x, alpha="0.1"))

    def test_text_constants(self) -> None:
        gelu = body('out = Gelu<approximate = "tanh">(x)')
        assert matches(gelu, lambda op, x: op.Gelu(x, approximate="tanh"))
        assert not matches(gelu, lambda op, x: op.Gelu(x, approximate="none"))

    @pytest.mark.parametrize("wanted", [1, 1.0, "1", [1.0, 2.0]])
    def test_a_constant_of_another_kind_does_not_match(self, wanted: Any) -> None:
        assert not matches(self.TRANSPOSE, lambda op, x: op.Transpose(x, perm=wanted))
        constant = "g () => (float[2] out) { out = Constant<value = float[2] {1, 2}>() }"
        assert not matches(constant, lambda op: op.Constant(value=wanted))

    def test_other_attributes_are_allowed_unless_forbidden(self) -> None:
        assert matches(self.TRANSPOSE, lambda op, x: op.Transpose(x))
        assert not matches(self.TRANSPOSE, lambda op, x: op.Transpose(x, _allow_other_attributes=False))
        assert matches(self.TRANSPOSE, lambda op, x: op.Transpose(x, perm=[1, 0], _allow_other_attributes=False))
        assert matches(self.PLAIN, lambda op, x: op.Transpose(x, _allow_other_attributes=False))

    def test_repeated_variable_wants_equal_values(self) -> None:
        def twice(op: Any, x: Any, a: Any) -> Any:
            return op.Softmax(op.LogSoftmax(x, axis=a), axis=a)

        same = "g (float[2, 2] x) => (float[2, 2] out) {{ t = LogSoftmax<axis = 0>(x) out = Softmax<axis = {}>(t) }}"
        assert matches(same.format(0), twice)
        assert not matches(same.format(1), twice)

    def test_references_to_attributes_of_a_function_match_variables_only(self) -> None:
        def function(lines: str) -> ir.Model:
            return parse(
                f"""
                g (float[2, 2] x) => (float[2, 2] out) {{ out = local.f<a = 0, b = 1>(x) }}
                <domain: "local", opset_import: ["": 20]>
                f<a, b>(x) => (y) {{ {lines} }}
                """,
                '<ir_version: 10, opset_import: ["": 20, "local": 1]>\n',
            )

        def find(model: ir.Model, pattern_function: Callable[..., Any]) -> int:
            seen: list[object] = []
            noting = rule(pattern_function, lambda op, **_: None, lambda context, **b: seen.append(b))
            rewrite(model, [noting], functions=True)
            return len(seen)

        single = "y = Softmax<axis: int = @a>(x)"
        assert find(function(single), lambda op, x, a: op.Softmax(x, axis=a)) == 1
        assert find(function(single), lambda op, x: op.Softmax(x, axis=0)) == 0
        double = "t = LogSoftmax<axis: int = @a>(x) y = Softmax<axis: int = @{}>(t)"

        def twice(op: Any, x: Any, a: Any) -> Any:
            return op.Softmax(op.LogSoftmax(x, axis=a), axis=a)

        assert find(function(double.format("a")), twice) == 1
        assert find(function(double.format("b")), twice) == 0


class TestConstants:
    @staticmethod
    def model(tensor: ir.TensorProtocol, kind: str = "initializer") -> ir.Model:
        model = parse("g (float[2] x, float[2] c) => (float[2] out) { out = Foo(x, c) }")
        c = model.graph.inputs[1]
        c.type, c.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape)
        if kind == "node":
            node = ir.Node("", "Constant", [], [ir.AttrTensor("value", tensor)])
            node.outputs[0].name = "held"
            model.graph.insert_before(model.graph[0], node)
            model.graph.inputs.pop()
            c.replace_all_uses_with(node.outputs[0])
            return model
        c.const_value = tensor
        model.graph.register_initializer(c)
        if kind == "initializer":
            model.graph.inputs.pop()
        return model

    def fits(self, tensor: Any, wanted: Any, kind: str = "initializer") -> bool:
        held = tensor if isinstance(tensor, ir.TensorProtocol) else ir.Tensor(np.asarray(tensor))
        return bool(matches(self.model(held, kind), lambda op, x: op.Foo(x, wanted)))

    def test_initializers_and_constant_nodes_are_constants(self) -> None:
        one = np.float32(1)
        assert self.fits(one, 1.0, "initializer")
        assert self.fits(one, 1.0, "node")

    def test_initializers_that_a_caller_can_override_are_not(self) -> None:
        assert not self.fits(np.float32(1), 1.0, "overridable")

    def test_inputs_are_not(self) -> None:
        assert not matches(body("out = Sub(x, y)"), lambda op, x: op.Sub(x, 1.0))

    def test_a_number_matches_rank_0_only(self) -> None:
        assert self.fits(np.float32(1), 1.0)
        assert not self.fits(np.ones(1, np.float32), 1.0)
        assert not self.fits(np.ones((1, 1), np.float32), 1.0)

    def test_a_list_matches_rank_1_of_its_length(self) -> None:
        assert self.fits(np.array([1, 2], np.int64), [1, 2])
        assert self.fits(np.array([1], np.int64), [1])
        assert self.fits(np.array([], np.int64), [])
        assert not self.fits(np.array([1, 2, 3], np.int64), [1, 2])
        assert not self.fits(np.array([[1, 2]], np.int64), [1, 2])
        assert not self.fits(np.array(1, np.int64), [1])
        assert not self.fits(np.array([2, 1], np.int64), [1, 2])

    @pytest.mark.parametrize(
        "dtype", [np.float16, np.float64, np.int8, np.uint8, np.int64, np.bool_, ml_dtypes.bfloat16, ml_dtypes.int4]
    )
    def test_element_type_does_not_matter(self, dtype: Any) -> None:
        assert self.fits(np.array(1, dtype), 1.0)
        assert self.fits(np.array(1, dtype), 1)
        assert not self.fits(np.array(0, dtype), 1)

    def test_floats_within_tolerance(self) -> None:
        assert self.fits(np.float32(1 + 5e-6), 1.0)
        assert not self.fits(np.float32(1.001), 1.0)
        assert self.fits(np.float32(1.001), Constant(1.0, rel_tol=0.01))
        assert not self.fits(np.float64(1 + 1e-9), Constant(1.0, rel_tol=0.0, abs_tol=0.0))
        assert self.fits(np.float32([0.1, 0.3]), [0.1, 0.3])

    def test_integers_have_none(self) -> None:
        assert not self.fits(np.int64(1_000_001), 1_000_000)
        assert not self.fits(np.int64(2**60 + 1), 2**60)
        assert self.fits(np.int64(2**60 + 1), 2**60 + 1)

    def test_nan_text_and_complex_numbers_match_nothing(self) -> None:
        assert not self.fits(np.float32("nan"), 1.0)
        assert not self.fits(ir.StringTensor([b"1"], shape=ir.Shape([])), 1.0)
        assert not self.fits(np.complex64(1), 1.0)

    def test_data_that_is_not_there_matches_nothing(self, tmp_path: Any) -> None:
        absent = ir.ExternalTensor("gone", 0, 4, ir.DataType.FLOAT, shape=ir.Shape([]), name="c", base_dir=tmp_path)
        assert not self.fits(absent, 1.0)

    def test_large_tensors_of_another_shape_are_not_read(self) -> None:
        def read() -> ir.TensorProtocol:
            raise AssertionError("read")

        lazy = ir.LazyTensor(read, dtype=ir.DataType.FLOAT, shape=ir.Shape([1000, 1000]))
        assert not self.fits(lazy, 1.0)

    def test_in_any_order_with_a_commutative_operator(self) -> None:
        text = "g (float[2] x) => (float[2] out) <float zero = {0}> { out = Add(zero, x) }"
        assert matches(text, lambda op, x: op.Add(x, 0)) == [{"x": "x"}]
        assert matches(text, lambda op, x: op.Add(x, 0), commute=False) == []


class TestAlternatives:
    @staticmethod
    def dispatched(op: Any, x: Any) -> Any:
        """Alternatives of different operators, of which onnxscript makes a table."""
        either = OrValue([op.Relu(x), op.Abs(x)], name="inner", tag_var="tag", tag_values=["relu", "abs"])
        return op.Neg(either)

    @staticmethod
    def tried(op: Any, x: Any) -> Any:
        """Alternatives that have to be tried one after the other."""
        either = OrValue([op.Relu(op.Exp(x)), op.Relu(x), x], name="inner", tag_var="tag", tag_values=[1, 2, 3])
        return op.Neg(either)

    def test_table_binds_name_and_tag(self) -> None:
        assert matches(body("t = Relu(x) out = Neg(t)"), self.dispatched) == [{"x": "x", "inner": "t", "tag": "relu"}]
        assert matches(body("t = Abs(x) out = Neg(t)"), self.dispatched) == [{"x": "x", "inner": "t", "tag": "abs"}]
        assert matches(body("t = Exp(x) out = Neg(t)"), self.dispatched) == []
        assert matches(body("out = Neg(x)"), self.dispatched) == []

    def test_all_that_fit_are_tried_in_order(self) -> None:
        found = matches(body("e = Exp(x) t = Relu(e) out = Neg(t)"), self.tried)
        assert found == [
            {"x": "x", "inner": "t", "tag": 1},
            {"x": "e", "inner": "t", "tag": 2},
            {"x": "t", "inner": "t", "tag": 3},
        ]

    def test_tags_are_numbers_unless_given(self) -> None:
        def numbered(op: Any, x: Any) -> Any:
            return op.Neg(OrValue([op.Relu(x), op.Abs(x)], tag_var="tag"))

        assert matches(body("t = Abs(x) out = Neg(t)"), numbered) == [{"x": "x", "tag": 1}]

    def test_names_of_an_alternative_that_was_not_taken_are_none(self) -> None:
        def named(op: Any, x: Any) -> Any:
            left = op.Relu(x, _outputs=["left"])
            right = op.LeakyRelu(x, alpha=AttrVar("slope"), _outputs=["right"])
            return op.Neg(OrValue([left, right]))

        [found] = matches(body("t = LeakyRelu<alpha = 0.5>(x) out = Neg(t)"), named)
        assert (found["left"], found["right"], found["slope"].as_float()) == (None, "t", 0.5)
        assert matches(body("t = Relu(x) out = Neg(t)"), named) == [
            {"x": "x", "left": "t", "right": None, "slope": None}
        ]

    def test_nested(self) -> None:
        def nested(op: Any, x: Any) -> Any:
            inner = OrValue([op.Exp(x), op.Log(x)], name="inner", tag_var="first")
            return op.Neg(OrValue([op.Relu(inner), inner], name="outer", tag_var="second"))

        assert matches(body("l = Log(x) t = Relu(l) out = Neg(t)"), nested) == [
            {"x": "x", "inner": "l", "first": 1, "outer": "t", "second": 0}
        ]
        assert matches(body("l = Log(x) out = Neg(l)"), nested) == [
            {"x": "x", "inner": "l", "first": 1, "outer": "l", "second": 1}
        ]

    def test_names_inside_nested_alternatives_may_be_used_by_a_rule(self) -> None:
        def nested(op: Any, x: Any) -> Any:
            choice = OrValue([Var("deep"), op.Relu(x)], tag_var="inner_tag")
            return op.Neg(OrValue([op.Exp(x), choice], tag_var="outer_tag"))

        rule(nested, lambda op, deep, inner_tag, outer_tag: None)

    def test_one_alternative_used_twice_stands_for_one_value(self) -> None:
        def shared(op: Any, x: Any) -> Any:
            either = OrValue([op.Relu(x), op.Neg(x)])
            return op.Sub(either, either)

        assert matches(body("t = Relu(x) out = Sub(t, t)"), shared) == [{"x": "x"}]
        assert matches(body("t = Relu(x) u = Neg(x) out = Sub(t, u)"), shared) == []

    def test_may_be_an_output_of_the_pattern(self) -> None:
        def returned(op: Any, x: Any) -> Any:
            either = OrValue([op.Relu(x), op.Abs(x)])
            return op.Neg(either), either

        model = parse("g (float[2] x) => (float[2] out, float[2] t) { t = Abs(x) out = Neg(t) }")
        twice = rule(returned, lambda op, x: (op.Min(x, op.Neg(x)), op.Max(x, op.Neg(x))))
        assert apply(model, twice) == 1
        assert sorted(operators(model)) == ["Max", "Min", "Neg", "Neg"]

    @pytest.mark.parametrize("kind", ["dispatched", "tried"])
    def test_checks_inside_are_called(self, kind: str) -> None:
        asked: list[str] = []

        def no_relu(context: Any, node: ir.Node) -> bool:
            asked.append(node.op_type)
            return False

        def checked(op: Any, x: Any) -> Any:
            second = op.Abs(x) if kind == "dispatched" else op.Relu(op.Abs(x))
            return op.Neg(OrValue([op.Relu(x, _check=no_relu), second]))

        assert matches(body("t = Relu(x) out = Neg(t)"), checked) == []
        assert asked == ["Relu"]

    def test_a_failed_check_inside_leads_to_the_next_alternative(self) -> None:
        def checked(op: Any, x: Any) -> Any:
            first = op.Relu(x, _check=lambda context, node: False)
            return op.Neg(OrValue([first, op.Relu(x)], tag_var="tag"))

        assert matches(body("t = Relu(x) out = Neg(t)"), checked) == [{"x": "x", "tag": 1}]

    def test_an_optional_input_may_be_an_alternative(self) -> None:
        def optional(op: Any, x: Any) -> Any:
            return op.Clip(x, OrValue([op.Exp(ANY_VALUE), Var("lo", can_match_none=True)], tag_var="tag"))

        text = "g (float[2] x, float lo) => (float[2] out) {{ {} }}"
        assert matches(text.format("out = Clip(x)"), optional) == [{"x": "x", "lo": None, "tag": 1}]
        assert matches(text.format("e = Exp(lo) out = Clip(x, e)"), optional) == [
            {"x": "x", "lo": None, "tag": 0},
            {"x": "x", "lo": "e", "tag": 1},
        ]


class TestAlternativesOfOnnxscript(TestAlternatives):
    """The same with the classes of onnxscript for the parts of a pattern."""

    @pytest.fixture(autouse=True)
    def _theirs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("ANY_VALUE", "OrValue", "Var"):
            monkeypatch.setitem(globals(), name, getattr(pattern, name))


class TestChecks:
    def test_of_a_node_gets_the_match_and_the_node(self) -> None:
        seen: list[tuple[str, str | None]] = []

        def look(context: Any, node: ir.Node) -> bool:
            seen.append((context.root.op_type, node.outputs[0].name))
            return True

        assert matches(body("t = Relu(x) out = Neg(t)"), lambda op, x: op.Neg(op.Relu(x, _check=look)))
        assert seen == [("Neg", "t")]

    def test_a_callable_stands_for_a_value_that_it_accepts(self) -> None:
        def is_y(context: Any, candidate: ir.Value) -> bool:
            return candidate.name == "y"

        assert matches(body("out = Sub(x, y)"), lambda op, a: op.Sub(a, is_y)) == [{"a": "x"}]
        assert matches(body("out = Sub(y, x)"), lambda op, a: op.Sub(a, is_y)) == []

    def test_of_named_variables_are_called_each(self) -> None:
        asked: list[str] = []

        def first(context: Any, candidate: ir.Value) -> bool:
            asked.append("first")
            return True

        def second(context: Any, candidate: ir.Value) -> bool:
            asked.append("second")
            return False

        def checked(op: Any) -> Any:
            return op.Sub(Var("a", check=first), Var("a", check=second))

        assert matches(body("out = Sub(x, x)"), checked) == []
        assert asked == ["first", "second"]

    def test_swapped_inputs_are_tried_until_the_check_agrees(self) -> None:
        orders: list[str] = []

        def wants_y_first(context: Any, a: ir.Value, b: ir.Value) -> bool:
            orders.append(f"{a.name}{b.name}")
            return a.name == "y"

        model = parse(body("out = Add(x, y)"))
        assert apply(model, rule(lambda op, a, b: op.Add(a, b), lambda op, a, b: op.Sum(a, b), wants_y_first)) == 1
        assert orders == ["xy", "yx"]
        assert [i.name for i in node_of(model, "Sum").inputs if i is not None] == ["y", "x"]

    def test_swaps_deep_inside_are_tried_too(self) -> None:
        def wants(context: Any, a: ir.Value, c: ir.Value, **_: Any) -> bool:
            return (a.name, c.name) == ("z", "y")

        model = parse(body("s = Add(y, z) out = Mul(x, s)", "float[2] x, float[2] y, float[2] z"))
        deep = rule(lambda op, a, b, c: op.Mul(op.Add(a, c), b), lambda op, a, b, c: op.Mul(op.Sum(a, c), b), wants)
        assert apply(model, deep) == 1
        assert [i.name for i in node_of(model, "Sum").inputs if i is not None] == ["z", "y"]

    def test_a_refusal_names_reason_and_place(self) -> None:
        model = parse(body("out = Neg(x)"))
        refusing = rule(lambda op, x: op.Neg(x), lambda op, x: x, lambda op, x: no("not today", at=x))
        reasons: list[str] = []
        best = Partial()
        assert refusing.find(model, model.graph, model.graph[0], refused=reasons.append, partial=best) is None
        assert (reasons, best.reason, best.at) == (["not today"], "not today", model.graph.inputs[0])


class TestOutputs:
    SPLIT = """
    g (float[4] x) => (float[2] p, float[2] q) {
      a, b = Split<num_outputs = 2>(x)
      p = Neg(a)
      q = Neg(b)
    }
    """

    def test_several_outputs_of_one_node_are_replaced_each(self) -> None:
        model = parse(self.SPLIT)

        def halves(op: Any, x: Any) -> Any:
            first, second = op.Split(x, num_outputs=2, _outputs=2)
            return first, second

        def sliced(op: Any, x: Any) -> Any:
            return op.Slice(x, [0], [2]), op.Slice(x, [2], [4])

        assert apply(model, rule(halves, sliced)) == 1
        assert sorted(operators(model)) == ["Neg", "Neg", "Slice", "Slice"]

    def test_the_output_that_is_used_counts(self) -> None:
        def second(op: Any, x: Any) -> Any:
            _, b = op.Split(x, _outputs=2)
            return op.Neg(b)

        assert [found["x"] for found in matches(self.SPLIT, second, forks="duplicate")] == ["x"]
        model = parse(self.SPLIT)
        assert rewrite(model, [rule(second, lambda op, x: op.Relu(op.Slice(x, [2], [4])), forks="duplicate")]) == 1
        assert node_of(model, "Relu").outputs[0].name == "q"

    def test_named_values_inside_are_bound(self) -> None:
        def named(op: Any, x: Any) -> Any:
            return op.Neg(op.Relu(x, _outputs=["t"]), _outputs=["top"])

        assert matches(body("t0 = Relu(x) out = Neg(t0)"), named) == [{"x": "x", "t": "t0", "top": "out"}]

    def test_an_output_inside_another_is_one_root(self) -> None:
        model = parse("g (float[2] x, float[2] y) => (float[2] t, float[2] out) { t = Add(x, y) out = Relu(t) }")

        def both(op: Any, x: Any, y: Any) -> Any:
            total = op.Add(x, y)
            return total, op.Relu(total)

        inner_first = rule(both, lambda op, x, y: (op.Sum(x, y), op.Max(op.Sum(x, y), 0.0)))
        assert len(inner_first.roots) == 1
        assert apply(model, inner_first) == 1
        assert sorted(operators(model)) == ["Max", "Sum", "Sum"]

    def test_unused_outputs_do_not_hinder(self) -> None:
        model = parse("g (float[4] x) => (float[2] p) { a, b = Split<num_outputs = 2>(x) p = Neg(a) }")

        def first(op: Any, x: Any) -> Any:
            return op.Neg(op.Split(x, num_outputs=2))

        assert apply(model, rule(first, lambda op, x: op.Neg(op.Slice(x, [0], [2])))) == 1
        assert operators(model) == ["Slice", "Neg"]


class TestRoots:
    def test_sharing_an_input(self) -> None:
        text = """
        g (float[2] x, float[2] a, float[2] b) => (float[2] p, float[2] q) {
          p = Sub(x, a)
          q = Div(x, b)
        }
        """
        found = matches(text, lambda op, x, a, b: (op.Sub(x, a), op.Div(x, b)))
        # Once from each of the roots.
        assert found == [{"x": "x", "a": "a", "b": "b"}] * 2

    def test_sharing_something_further_down(self) -> None:
        text = """
        g (float[2] x) => (float[2] p, float[2] q) {
          a = Relu(x)
          b = Exp(a)
          p = Neg(b)
          c = Abs(x)
          q = Log(c)
        }
        """

        def two(op: Any, x: Any) -> Any:
            return op.Neg(op.Exp(op.Relu(x))), op.Log(op.Abs(x))

        assert matches(text, two) == [{"x": "x"}] * 2

    def test_sharing_nothing(self) -> None:
        text = "g (float[2] x, float[2] y) => (float[2] p, float[2] q) { p = Neg(x) q = Abs(y) }"
        assert matches(text, lambda op, a, b: (op.Neg(a), op.Abs(b))) == [{"a": "x", "b": "y"}] * 2

    def test_three(self) -> None:
        text = """
        g (float[2] x, float[2] y) => (float[2] p, float[2] q, float[2] r) {
          p = Neg(x)
          q = Sub(x, y)
          r = Exp(y)
        }
        """
        found = matches(text, lambda op, a, b: (op.Exp(b), op.Neg(a), op.Sub(a, b)))
        assert found == [{"a": "x", "b": "y"}] * 3

    def test_same_operator_twice_binds_different_nodes_in_both_ways(self) -> None:
        text = "g (float[2] x, float[2] y) => (float[2] p, float[2] q) { p = Neg(x) q = Neg(y) }"
        found = matches(text, lambda op, a, b: (op.Neg(a), op.Neg(b)))
        assert {(f["a"], f["b"]) for f in found} == {("x", "y"), ("y", "x")}

    def test_first_root_is_the_root_whichever_was_found_first(self) -> None:
        roots: list[str] = []

        def note(context: Any, x: Any) -> bool:
            roots.append(context.root.op_type)
            return False

        model = parse("g (float[2] x) => (float[2] p, float[2] q) { p = Neg(x) q = Abs(x) }")
        rewrite(model, [rule(lambda op, x: (op.Abs(x), op.Neg(x)), lambda op, x: None, note)])
        assert roots == ["Abs", "Abs"]

    def test_shared_value_may_be_missing(self) -> None:
        def optional(op: Any, x: Any, y: Any) -> Any:
            lo = Var("lo", can_match_none=True)
            return op.Clip(x, lo), op.Clip(y, lo)

        text = "g (float[2] x, float[2] y) => (float[2] p, float[2] q) { p = Clip(x) q = Clip(y) }"
        assert {(f["x"], f["y"]) for f in matches(text, optional)} == {("x", "y"), ("y", "x")}


class TestOperators:
    def test_prefix_of_the_type(self) -> None:
        model = parse("g (float[2] x) => (float[2] out) { out = ReluSix(x) }")
        assert matches(model, lambda op, x: op.submodule("Relu")(x)) == [{"x": "x"}]
        assert matches(model, lambda op, x: op.submodule("Sigm")(x)) == []

    def test_prefix_inside_the_pattern(self) -> None:
        text = body("t = Relu(x) out = Neg(t)")
        assert matches(text, lambda op, x: op.Neg(op.submodule("Re")(x))) == [{"x": "x"}]
        assert matches(text, lambda op, x: op.Neg(op.submodule("Xe")(x))) == []

    def test_domain(self) -> None:
        header = '<ir_version: 10, opset_import: ["": 20, "mine": 1]>\n'
        model = parse("g (float[2] x) => (float[2] out) { out = mine.Relu(x) }", header)
        assert matches(model, lambda op, x: op.Relu(x)) == []
        assert matches(model, lambda op, x: op.Relu(x, _domain="mine")) == [{"x": "x"}]
        assert matches(model, lambda op, x: op.Relu(x, _domain="other")) == []

    def test_prefix_of_the_domain(self) -> None:
        header = '<ir_version: 10, opset_import: ["": 20, "pkg.torch.nn": 1]>\n'
        model = parse("g (float[2] x) => (float[2] out) { t = Relu(x) out = pkg.torch.nn.Elu<alpha = 2.0>(t) }", header)
        torch = PrefixPattern("pkg.torch")
        [found] = matches(model, lambda op, x, alpha: op.Elu(op.Relu(x), alpha=alpha, _domain=torch))
        assert (found["x"], found["alpha"].as_float()) == ("x", 2.0)
        assert matches(model, lambda op, x: op.Relu(x, _domain=torch)) == []


class TestCommutativity:
    def test_inputs_of_commutative_operators_match_in_any_order(self) -> None:
        for op_type in ("Add", "Mul", "Max", "Min", "Sum", "Mean"):
            text = body(f"t = Relu(y) out = {op_type}(x, t)")

            relu_first = partial(self.relu_first, op_type)
            assert matches(text, relu_first) == [{"a": "y", "b": "x"}], op_type
            assert matches(text, relu_first, commute=False) == [], op_type

    @staticmethod
    def relu_first(op_type: str, op: Any, a: Any, b: Any) -> Any:
        return getattr(op, op_type)(op.Relu(a), b)

    def test_inputs_of_others_do_not(self) -> None:
        assert matches(body("t = Relu(y) out = Sub(x, t)"), lambda op, a, b: op.Sub(op.Relu(a), b)) == []

    def test_operators_of_other_domains_do_not(self) -> None:
        header = '<ir_version: 10, opset_import: ["": 20, "mine": 1]>\n'
        model = parse("g (float[2] x) => (float[2] out) { t = Relu(x) out = mine.Add(x, t) }", header)
        assert matches(model, lambda op, a, b: op.Add(op.Relu(a), b, _domain="mine")) == []

    def test_both_orders_of_two_variables_are_offered(self) -> None:
        assert matches(body("out = Add(x, y)"), lambda op, a, b: op.Add(a, b)) == [
            {"a": "x", "b": "y"},
            {"a": "y", "b": "x"},
        ]

    def test_one_value_twice_is_offered_once(self) -> None:
        assert matches(body("out = Add(x, x)"), lambda op, a, b: op.Add(a, b)) == [{"a": "x", "b": "x"}]

    def test_all_orders_of_three(self) -> None:
        inputs = "float[2] x, float[2] y, float[2] z"
        found = matches(body("out = Sum(x, y, z)", inputs), lambda op, a, b, c: op.Sum(a, b, c))
        assert ["".join(f.values()) for f in found] == ["xyz", "xzy", "yxz", "yzx", "zxy", "zyx"]

    def test_one_of_many(self) -> None:
        inputs = ", ".join(f"float[2] x{i}" for i in range(7))
        model = parse(body("t = Relu(x3) out = Max(x0, x1, x2, t, x4, x5, x6)", inputs))
        found = matches(model, lambda op, r, a, b: op.Max(a, b, op.Relu(r), _allow_other_inputs=True))
        assert found[0] == {"r": "x3", "a": "x0", "b": "x1"}
        assert len(found) == 6 * 5

    def test_one_input(self) -> None:
        assert matches(body("out = Sum(x)"), lambda op, a: op.Sum(a)) == [{"a": "x"}]

    def test_nested_orders(self) -> None:
        text = body("t = Relu(x) s = Add(y, t) out = Mul(y, s)")
        found = matches(text, lambda op, a, b: op.Mul(op.Add(op.Relu(a), b), b))
        assert found == [{"a": "x", "b": "y"}]

    def test_cost_of_a_wide_operator_stays_small(self) -> None:
        # 12! orders exist; the first input that does not fit ends each branch.
        inputs = ", ".join(f"float[2] x{i}" for i in range(12))
        model = parse(body(f"out = Sum({', '.join(f'x{i}' for i in range(12))})", inputs))

        def all_relus(op: Any) -> Any:
            return op.Sum(*(op.Relu(ANY_VALUE) for _ in range(12)))

        watch = Watch()
        rewrite(model, [rule(all_relus, lambda op: None)], watch)
        assert watch.rules["rule"].matched == 0


class TestScopes:
    def test_computed_values_of_an_outer_graph_do_not_match_but_variables_do(self) -> None:
        model = parse(
            """
            g (float[2] x, bool c) => (float[2] out) {
              t = Relu(x)
              out = If (c) <
                then_branch = a () => (float[2] p) { p = Neg(t) },
                else_branch = b () => (float[2] q) { u = Relu(x) q = Neg(u) }
              >
            }
            """
        )
        assert matches(model, lambda op, a: op.Neg(op.Relu(a))) == [{"a": "x"}]
        assert [f["a"] for f in matches(model, lambda op, a: op.Neg(a))] == ["t", "u"]

    def test_constants_of_an_outer_graph_match(self) -> None:
        model = parse(
            """
            g (float[2] x, bool c) => (float[2] out) <float one = {1}> {
              two = Constant<value_float = 2.0>()
              out = If (c) <
                then_branch = a () => (float[2] p) { p = Mul(x, one) },
                else_branch = b () => (float[2] q) { q = Mul(x, two) }
              >
            }
            """
        )
        assert matches(model, lambda op, a: op.Mul(a, 1.0)) == [{"a": "x"}]
        assert matches(model, lambda op, a: op.Mul(a, 2.0)) == [{"a": "x"}]


class TestBadPatterns:
    def test_that_cannot_be_built_is_refused_with_its_place(self) -> None:
        with pytest.raises(RegistrationError, match=r"test_pattern_language.py:\d+: the pattern of rule 'rule'"):
            rule(lambda op, x: op.Neg(object()), lambda op, x: x)

    @pytest.mark.parametrize("bad", [lambda op, x: x, lambda op, x: (op.Neg(x), x), lambda op, x: [op.Neg(x), 1.0]])
    def test_that_returns_what_it_does_not_compute_is_refused(self, bad: Any) -> None:
        with pytest.raises(RegistrationError, match=r"test_pattern_language.py:\d+: the pattern of rule 'rule'"):
            rule(bad, lambda op, x: x)

    def test_an_alternative_that_is_no_part_of_the_match_cannot_be_replaced(self) -> None:
        def returned(op: Any, x: Any) -> Any:
            either = OrValue([op.Relu(x), x])
            return op.Neg(either), either

        model, watch = parse(body("out = Neg(x)")), Watch()
        assert rewrite(model, [rule(returned, lambda op, x: (op.Abs(x), op.Exp(x)))], watch) == 0
        assert watch.rules["rule"].refused == {"an output of the pattern is not computed by the match": 1}
        assert [item.name for item in model.graph.inputs] == ["x", "y"]
