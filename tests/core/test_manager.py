"""The manager: order of hooks, vetoes, records, skipping, failures."""

import gc
import json

import onnx_ir as ir
import pytest

from onnx_passes import PassResult, RewriteRulePass
from onnx_passes.core.base import Analysis, Annotation, Transformation
from onnx_passes.core.compose import ComposePass, Fixpoint
from onnx_passes.core.errors import ExitCode, ModelError, PassFailedError, RewriteError
from onnx_passes.core.instruments import Instrument
from onnx_passes.core.manager import Manager, Outcome
from onnx_passes.core.options import option
from onnx_passes.core.plan import plan
from onnx_passes.core.records import RuleRecord, Status
from onnx_passes.core.registry import REGISTRY, Registry

CHAIN = """
<ir_version: 10, opset_import: ["" : 21]>
g (float[2] x) => (float[2] y) { a = Relu(x)  b = Relu(a)  y = Relu(b) }
"""


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    for name, value in vars(Registry()).items():
        monkeypatch.setattr(REGISTRY, name, value)


@pytest.fixture
def model() -> ir.Model:
    return ir.from_onnx_text(CHAIN)


class Change(Transformation):
    """Report a change, or none."""

    modified: bool = option(True)

    def call(self, model):
        return PassResult(model, self.modified)


class RemoveFirst(Transformation):
    """Remove the first node."""

    def call(self, model):
        first, second = model.graph[0], model.graph[1]
        second.replace_input_with(0, model.graph.inputs[0])
        model.graph.remove(first, safe=True)
        return PassResult(model, modified=True)


class Look(Analysis):
    def analyze(self, model):
        return {"nodes": len(model.graph)}


class Fails(Transformation):
    error: object = None

    def call(self, model):
        raise self.error


class ReluToAbs(Transformation, RewriteRulePass):
    def pattern(self, op, x):
        return op.Relu(x)

    def rewrite(self, op, x):
        return op.Abs(x)


class Watch(Instrument):
    """Write down every hook that is called, with the name of the instrument."""

    def __init__(self, name: str = "w", log: list[str] | None = None):
        self.name, self.log = name, [] if log is None else log
        self.models: dict[str, ir.Model] = {}
        self.errors: list[BaseException] = []

    def say(self, what: str, model: ir.Model | None = None) -> None:
        self.log.append(f"{self.name} {what}")
        if model is not None:
            self.models[what] = model

    def before_pipeline(self, run, model):
        self.say("before pipeline", model)

    def after_pipeline(self, run, model):
        self.say("after pipeline", model)

    def pipeline_failed(self, run, model, error):
        self.errors.append(error)
        self.say("pipeline failed", model)

    def before_pass(self, record, step, model):
        assert record.status is Status.RUNNING
        assert record.name == step.name
        self.say(f"before {step.name}", model)

    def after_pass(self, record, step, model):
        assert record.status is Status.DONE
        self.say(f"after {step.name}", model)

    def pass_failed(self, record, step, model, error):
        assert record.status is Status.FAILED
        self.errors.append(error)
        self.say(f"failed {step.name}", model)

    def before_rewrite(self, application):
        self.say(f"before rewrite {application.number}")

    def after_rewrite(self, application):
        self.say(f"after rewrite {application.number}")


def run(model: ir.Model, *passes, instruments=()) -> Outcome:
    return Manager(instruments).run(plan(passes), model)


def statuses(outcome: Outcome) -> list[tuple[str, str, str]]:
    return [(step.name, str(step.status), step.reason) for step in outcome.record.steps]


class TestHooks:
    """Instruments are wrapped around each other."""

    def test_before_hooks_run_in_order_and_after_hooks_in_reverse(self, model):
        log: list[str] = []
        run(model, ReluToAbs, Look, instruments=[Watch("1", log), Watch("2", log)])

        def around(what, inner=()):
            return [f"1 before {what}", f"2 before {what}", *inner, f"2 after {what}", f"1 after {what}"]

        rewrites = [line for number in (1, 2, 3) for line in around(f"rewrite {number}")]
        assert log == around("pipeline", [*around("relu-to-abs", rewrites), *around("look")])

    def test_members_are_inside_of_their_sequence(self, model):
        watch = Watch()
        run(model, Fixpoint(max=1, body=(Look(), Change())), instruments=[watch])
        assert [line.removeprefix("w ") for line in watch.log[1:-1]] == [
            "before fixpoint",
            "before look",
            "after look",
            "before change",
            "after change",
            "after fixpoint",
        ]

    def test_hooks_see_the_model_as_it_is_then(self, model):
        class Copy(Transformation):
            def call(self, model):
                return PassResult(model.clone(), modified=True)

        watch = Watch()
        outcome = run(model, Look, Copy, instruments=[watch])
        assert watch.models["before pipeline"] is watch.models["after look"] is watch.models["before copy"] is model
        assert watch.models["after copy"] is watch.models["after pipeline"] is outcome.model
        assert outcome.model is not model

    def test_a_rewrite_is_not_yet_done_before_and_done_after(self, model):
        seen = []

        class See(Instrument):
            def before_rewrite(self, application):
                seen.append((application.root.op_type, application.root.graph is model.graph))

            def after_rewrite(self, application):
                (added,) = application.added
                seen.append((added.op_type, added.graph is model.graph, application.root.graph is None))

        run(model, ReluToAbs, instruments=[See()])
        assert seen == [("Relu", True), ("Abs", True, True)] * 3

    def test_an_instrument_that_raises_ends_the_run(self, model):
        class Strict(Instrument):
            def after_pass(self, record, step, model):
                raise ModelError("not good enough")

        watch = Watch()
        with pytest.raises(ModelError, match="not good enough"):
            run(model, Change, Look, instruments=[Strict(), watch])
        assert watch.log[-2:] == ["w after change", "w pipeline failed"]


class TestVetoes:
    """A before hook may forbid what comes."""

    def test_a_pass_may_be_vetoed(self, model):
        class Veto(Instrument):
            def before_pass(self, record, step, model):
                return "not today" if step.name == "remove-first" else None

        first, last = Watch("1"), Watch("2")
        outcome = run(model, RemoveFirst, Look, instruments=[first, Veto(), last])
        assert statuses(outcome) == [("remove-first", "skipped", "not today"), ("look", "done", "")]
        assert len(model.graph) == 3
        assert not outcome.record.modified
        assert "1 before remove-first" in first.log
        assert "1 after remove-first" not in first.log
        assert "2 before remove-first" not in last.log

    def test_a_rewrite_may_be_vetoed(self, model):
        class Veto(Instrument):
            def before_rewrite(self, application):
                return "enough" if application.number > 2 else None

        last = Watch()
        outcome = run(model, ReluToAbs, instruments=[Veto(), last])
        (step,) = outcome.record.steps
        assert [node.op_type for node in model.graph].count("Abs") == 2
        assert (step.applications, outcome.record.applications, step.modified) == (2, 2, True)
        assert step.rules[0].refused == {"enough": 1}
        assert "w before rewrite 3" not in last.log

    def test_a_vetoed_pass_does_not_hold(self, model):
        class NeedsLook(Analysis):
            needs = ("look",)

            def analyze(self, model):
                return None

        class VetoOnce(Instrument):
            vetoes = 1

            def before_pass(self, record, step, model):
                if step.name == "look" and self.vetoes:
                    self.vetoes -= 1
                    return "not yet"
                return None

        REGISTRY.register(Look)
        REGISTRY.register(NeedsLook)
        outcome = run(model, "needs-look", Change(modified=False), "needs-look", instruments=[VetoOnce()])
        assert [status for name, status, _ in statuses(outcome) if name == "look"] == ["skipped", "done"]


class TestRecords:
    """What every step did, in numbers."""

    def test_steps_are_numbered_and_measured(self, model):
        outcome = run(model, Look, RemoveFirst, Change(modified=False), RemoveFirst)
        record = outcome.record
        assert [step.number for step in record.steps] == [1, 2, 3, 4]
        assert [(step.nodes_before, step.nodes_after) for step in record.steps] == [(3, 3), (3, 2), (2, 2), (2, 1)]
        assert [step.modified for step in record.steps] == [False, True, False, True]
        assert [step.text for step in record.steps] == [
            "look",
            "remove-first",
            "change{modified=false}",
            "remove-first",
        ]
        assert all(step.status is Status.DONE and step.why == "requested" for step in record.steps)
        assert all(step.wall > 0 for step in record.steps)
        assert record.wall >= sum(step.wall for step in record.steps)
        assert (record.before.nodes, record.after.nodes) == (3, 1)
        assert record.pipeline == "look, remove-first, change{modified=false}, remove-first"
        assert record.modified

    def test_the_finding_of_an_analysis_is_kept(self, model):
        assert run(model, Look).record.steps[0].result == {"nodes": 3}

    def test_applications_and_rules_are_counted(self, model):
        outcome = run(model, ReluToAbs)
        (step,) = outcome.record.steps
        assert (step.applications, outcome.record.applications) == (3, 3)
        assert [(rule.name, rule.matched, rule.applied) for rule in step.rules] == [("ReluToAbs", 3, 3)]

    def test_sequences_are_told_from_leaves(self, model):
        record = run(model, Fixpoint(max=1, body=(Look(), RemoveFirst()))).record
        assert [step.name for step in record.leaves()] == ["look", "remove-first"]
        assert [(step.depth, step.has_children) for step in record.steps] == [(0, True), (1, False), (1, False)]
        assert (record.steps[0].nodes_before, record.steps[0].nodes_after) == (3, 2)

    def test_a_pass_may_leave_notes_and_statistics(self, model):
        class Talks(Transformation):
            def call(self, model):
                raise AssertionError("run is what the manager calls")

            def run(self, model, context):
                context.note("nothing to do here")
                context.report_rules([RuleRecord("r", "file:1", tried=2)])
                return PassResult(model, modified=False)

        (step,) = run(model, Talks).record.steps
        assert step.notes == ["nothing to do here"]
        assert step.rules[0].tried == 2

    def test_records_are_plain_data(self, model):
        class Finding:
            def to_json(self):
                return {"found": True}

        class Find(Analysis):
            def analyze(self, model):
                return Finding()

        outcome = run(model, Find, Look, ReluToAbs)
        data = json.loads(json.dumps(outcome.record.to_json()))
        assert data["nodes"] == [3, 3]
        assert data["operators"] == [{"Relu": 3}, {"Abs": 3}]
        assert data["applications"] == 3
        assert [step["pass"] for step in data["steps"]] == ["find", "look", "relu-to-abs"]
        assert [step.get("result") for step in data["steps"]] == [{"found": True}, {"nodes": 3}, None]
        assert data["steps"][2]["rules"][0]["applied"] == 3
        assert "reason" not in data["steps"][0]
        assert "notes" not in data["steps"][0]

    def test_reasons_and_notes_are_plain_data_too(self, model):
        class Talks(Transformation):
            def run(self, model, context):
                context.note("a remark")
                return PassResult(model, modified=False)

            def call(self, model):
                raise NotImplementedError

        class Veto(Instrument):
            def before_pass(self, record, step, model):
                return "not today" if step.name == "look" else None

        talks, look = run(model, Talks, Look, instruments=[Veto()]).record.to_json()["steps"]
        assert (talks["status"], talks["notes"]) == ("done", ["a remark"])
        assert (look["status"], look["reason"]) == ("skipped", "not today")

    def test_two_runs_of_one_plan_do_not_mix(self, model):
        made = plan([ReluToAbs, Look])
        first, second = Manager().run(made, model), Manager().run(made, model)
        assert (first.record.applications, second.record.applications) == (3, 0)
        assert len(second.record.steps) == 2

    def test_an_empty_pipeline_returns_the_model(self, model):
        outcome = run(model)
        assert outcome.model is model
        assert (outcome.record.steps, outcome.record.modified, outcome.record.after.nodes) == ([], False, 3)


class TestSkipping:
    """The plan is cautious; the manager skips what turns out not to be necessary."""

    @pytest.fixture(autouse=True)
    def dependent(self, empty_registry):
        class Fact(Analysis):
            def analyze(self, model):
                return None

        class Uses(Transformation):
            needs = ("fact",)
            modified: bool = option(True)

            def call(self, model):
                return PassResult(model, self.modified)

        class Cleaned(Transformation):
            followed_by = ("clean",)
            modified: bool = option(True)

            def call(self, model):
                return PassResult(model, self.modified)

        class Clean(Transformation):
            followed_by = ("polish",)
            modified: bool = option(True)

            def call(self, model):
                return PassResult(model, self.modified)

        class Polish(Annotation):
            def call(self, model):
                return PassResult(model, modified=False)

        class NeedsClean(Analysis):
            needs = ("clean",)

            def analyze(self, model):
                return None

        for cls in (Fact, Uses, Cleaned, Clean, Polish, NeedsClean, Fixpoint):
            REGISTRY.register(cls)

    def test_what_still_holds_is_skipped(self, model):
        assert statuses(run(model, "uses{modified=false}, uses")) == [
            ("fact", "done", ""),
            ("uses", "done", ""),
            ("fact", "skipped", "still holds"),
            ("uses", "done", ""),
        ]

    def test_what_no_longer_holds_is_repeated(self, model):
        assert statuses(run(model, "uses, uses")) == [
            ("fact", "done", ""),
            ("uses", "done", ""),
            ("fact", "done", ""),
            ("uses", "done", ""),
        ]

    def test_what_is_asked_for_is_never_skipped(self, model):
        assert [status for _, status, _ in statuses(run(model, "fact, fact"))] == ["done", "done"]

    def test_followers_of_a_pass_that_changed_nothing_are_skipped(self, model):
        assert statuses(run(model, "cleaned{modified=false}")) == [
            ("cleaned", "done", ""),
            ("clean", "skipped", "cleaned changed nothing"),
            ("polish", "skipped", "clean changed nothing"),
        ]

    def test_followers_of_a_pass_that_changed_something_run(self, model):
        assert statuses(run(model, "cleaned")) == [
            ("cleaned", "done", ""),
            ("clean", "done", ""),
            ("polish", "done", ""),
        ]

    def test_each_mention_of_a_pass_has_its_own_followers(self, model):
        done = [
            (name, status)
            for name, status, _ in statuses(run(model, "cleaned, cleaned{modified=false}, cleaned"))
            if name == "clean"
        ]
        assert done == [("clean", "done"), ("clean", "skipped"), ("clean", "done")]

    def test_a_need_holds_even_if_the_follower_was_skipped(self, model):
        assert statuses(run(model, "cleaned{modified=false}, needs-clean")) == [
            ("cleaned", "done", ""),
            ("clean", "skipped", "cleaned changed nothing"),
            ("polish", "skipped", "clean changed nothing"),
            ("clean", "done", ""),
            ("polish", "done", ""),
            ("needs-clean", "done", ""),
        ]

    def test_a_need_that_a_follower_met_is_not_met_twice(self, model):
        result = statuses(run(model, "cleaned, needs-clean"))
        assert ("clean", "skipped", "still holds") in result
        assert result[-1] == ("needs-clean", "done", "")

    def test_each_round_of_a_fixpoint_has_what_it_needs(self, model):
        class Twice(Transformation):
            needs = ("fact",)
            runs = 0

            def call(self, model):
                type(self).runs += 1
                model.graph[0].op_type = {1: "Abs", 2: "Neg"}.get(self.runs, model.graph[0].op_type)
                return PassResult(model, modified=self.runs < 3)

        outcome = run(model, "fact", Fixpoint(body=(Twice(),)), "uses")
        assert [(step.name, str(step.status)) for step in outcome.record.leaves()] == [
            ("fact", "done"),
            ("fact", "skipped"),
            ("twice", "done"),
            ("fact", "done"),
            ("twice", "done"),
            ("fact", "done"),
            ("twice", "done"),
            ("fact", "skipped"),
            ("uses", "done"),
        ]

    def test_a_sequence_that_changed_nothing_has_no_followers(self, model):
        class Frame(ComposePass):
            passes = (Change(modified=False),)
            followed_by = ("clean",)

        assert statuses(run(model, Frame))[2] == ("clean", "skipped", "frame changed nothing")


class TestFailures:
    """The first error ends the run, and says which pass it was."""

    def test_an_exception_is_wrapped_and_names_the_pass(self, model):
        error = KeyError("x")
        with pytest.raises(PassFailedError) as raised:
            run(model, Look, Fails(error=error), Change)
        assert str(raised.value) == "pass 'fails': KeyError: 'x'; run with --debug for the traceback"
        assert raised.value.__cause__ is error
        assert raised.value.exit_code is ExitCode.PASS

    @pytest.mark.parametrize("cls", [ModelError, PassFailedError])
    def test_our_own_errors_pass_through_and_say_where(self, model, cls):
        error = cls("it is broken", hint="mend it")
        with pytest.raises(cls) as raised:
            run(model, Fails(error=error))
        assert raised.value is error
        assert str(error) == "pass 'fails': it is broken; mend it"

    def test_a_place_that_is_known_better_stays(self, model):
        with pytest.raises(ModelError, match=r"^node 'n': it is broken$"):
            run(model, Fixpoint(body=(Fails(error=ModelError("it is broken", where="node 'n'")),)))

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
    def test_interrupts_pass_through_and_are_seen(self, model, error):
        watch = Watch()
        with pytest.raises(type(error)) as raised:
            run(model, Fails(error=error), instruments=[watch])
        assert raised.value is error
        assert watch.errors == [error, error]

    @pytest.mark.parametrize("cls", [ir.passes.PreconditionError, ir.passes.PostconditionError])
    def test_invariants_of_onnx_ir_stay_what_they_are(self, model, cls):
        error = cls("broken promise")

        class Requires(Change):
            def requires(self, model):
                raise error

        class Ensures(Change):
            def ensures(self, model):
                raise error

        for pass_ in (Requires, Ensures, Fails(error=error)):
            with pytest.raises(cls) as raised:
                run(model, pass_)
            assert raised.value is error

    def test_conditions_are_checked_before_and_after(self, model):
        order = []

        class Careful(Transformation):
            def requires(self, model):
                order.append("requires")

            def call(self, model):
                order.append("call")
                return PassResult(model, modified=False)

            def ensures(self, model):
                order.append("ensures")

        run(model, Careful)
        assert order == ["requires", "call", "ensures"]

    def test_a_pass_that_returns_no_result_is_told_so(self, model):
        class Forgetful(Transformation):
            def call(self, model):
                return None

        with pytest.raises(PassFailedError) as raised:
            run(model, Forgetful)
        assert str(raised.value) == (
            "pass 'forgetful': returned NoneType, not a PassResult; return 'PassResult(model, modified=…)' from call"
        )

    def test_an_error_in_a_rule_names_rule_and_node(self, model):
        class Broken(Transformation, RewriteRulePass):
            def pattern(self, op, x):
                return op.Relu(x)

            def rewrite(self, op, x):
                raise ZeroDivisionError("oh")

        with pytest.raises(RewriteError, match=r"rewrite of rule 'Broken'.*ZeroDivisionError: oh") as raised:
            run(model, Broken)
        assert isinstance(raised.value.__cause__, ZeroDivisionError)

    def test_hooks_see_the_failure_innermost_first(self, model):
        log: list[str] = []
        watches = [Watch("1", log), Watch("2", log)]
        with pytest.raises(PassFailedError) as raised:
            run(model, Fixpoint(body=(Look(), Fails(error=ValueError("boom")))), Change, instruments=watches)
        assert log[log.index("1 before fails") :] == [
            "1 before fails",
            "2 before fails",
            "2 failed fails",
            "1 failed fails",
            "2 failed fixpoint",
            "1 failed fixpoint",
            "2 pipeline failed",
            "1 pipeline failed",
        ]
        assert watches[0].errors == [raised.value] * 3

    def test_records_of_a_failed_run_are_complete(self, model):
        class Keep(Instrument):
            def pipeline_failed(self, run, model, error):
                self.record = run

        keep = Keep()
        with pytest.raises(PassFailedError):
            run(model, RemoveFirst, Fails(error=ValueError("boom")), Change, instruments=[keep])
        record = keep.record
        assert [(step.name, step.status) for step in record.steps] == [
            ("remove-first", Status.DONE),
            ("fails", Status.FAILED),
        ]
        assert "boom" in record.steps[1].reason
        assert record.steps[1].wall > 0
        assert (record.before.nodes, record.after.nodes) == (3, 2)
        assert record.wall > 0
        json.dumps(record.to_json())

    def test_what_is_left_is_the_model_of_the_last_good_step(self, model):
        class Copy(Transformation):
            def call(self, model):
                copy = model.clone()
                copy.graph.name = "copy"
                return PassResult(copy, modified=True)

        watch = Watch()
        with pytest.raises(PassFailedError):
            run(model, Copy, Fixpoint(body=(Fails(error=ValueError("boom")),)), instruments=[watch])
        assert watch.models["failed fails"].graph.name == "copy"
        assert watch.models["pipeline failed"].graph.name == "copy"

    def test_failure_in_the_first_hook_is_a_failed_pipeline(self, model):
        class Refuses(Instrument):
            def before_pipeline(self, run, model):
                raise ModelError("not this model")

        watch = Watch()
        with pytest.raises(ModelError):
            run(model, Change, instruments=[watch, Refuses()])
        assert watch.log == ["w before pipeline", "w pipeline failed"]


class TestGarbageCollection:
    """Collection rests during a run, and only then."""

    class See(Transformation):
        error: object = None

        def call(self, model):
            model.metadata_props["gc"] = str(gc.isenabled())
            if self.error:
                raise self.error
            return PassResult(model, modified=False)

    @pytest.fixture(autouse=True, params=[True, False])
    def enabled(self, request):
        before = gc.isenabled()
        (gc.enable if request.param else gc.disable)()
        yield request.param
        (gc.enable if before else gc.disable)()

    def test_it_rests_and_is_restored(self, model, enabled):
        run(model, self.See)
        assert model.metadata_props["gc"] == "False"
        assert gc.isenabled() is enabled

    @pytest.mark.parametrize("error", [ValueError("boom"), KeyboardInterrupt()])
    def test_it_is_restored_after_an_error(self, model, enabled, error):
        with pytest.raises((PassFailedError, KeyboardInterrupt)):
            run(model, self.See(error=error))
        assert gc.isenabled() is enabled

    def test_it_is_restored_after_a_run_inside_a_run(self, model, enabled):
        class Inner(Transformation):
            def call(self, model):
                Fixpoint(body=(Look(),))(model)
                model.metadata_props["gc"] = str(gc.isenabled())
                return PassResult(model, modified=False)

        run(model, Inner)
        assert model.metadata_props["gc"] == "False"
        assert gc.isenabled() is enabled
