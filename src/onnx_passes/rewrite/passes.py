"""Passes made of rules: pattern, check and rewrite as methods of the pass itself, or a list of rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import onnx_ir as ir

from onnx_passes.core.base import Context, Pass, PassResult, Transformation
from onnx_passes.core.options import format_options, internal
from onnx_passes.rewrite.driver import rewrite
from onnx_passes.rewrite.editor import Editor
from onnx_passes.rewrite.forks import Forks
from onnx_passes.rewrite.index import RuleIndex
from onnx_passes.rewrite.leftovers import Refusals, leftovers_of_rules
from onnx_passes.rewrite.rule import Rule


class RewriteRuleSetPass(Pass):
    """A pass that applies the rules of ``rules()`` until none matches.

    ``functions`` lets the rules also rewrite the bodies of model-local functions. The rules are compiled once and again
    only if an option changes. A conversion maps in ``converts`` its operators to the reason given if no pattern
    matches, or to an empty one if such nodes are not intended: remaining nodes are noted, with the reasons. Unless
    ``thorough``, rules are skipped if their requirements are plainly missing.
    """

    functions: ClassVar[bool] = False
    thorough: ClassVar[bool] = True
    converts: ClassVar[Mapping[str, str]] = MappingProxyType({})

    _compiled: tuple[str, RuleIndex] | None = internal(None)

    @classmethod
    def unwritten(cls) -> tuple[str, ...]:
        """Name ``rules``, unless it or all that calls it is there."""
        mine = RewriteRuleSetPass
        return ("rules",) if (cls.rules, cls.compile, cls.run) == (mine.rules, mine.compile, mine.run) else ()

    def rules(self) -> Sequence[Rule]:
        """Return the rules in priority order."""
        raise NotImplementedError(f"pass '{self.name}' has no rules")

    def compile(self) -> RuleIndex:
        """Make the rules ready to be looked up."""
        return RuleIndex(self.rules())

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Apply the rules to the model."""
        options = format_options(self)
        if self._compiled is None or self._compiled[0] != options:
            self._compiled = options, self.compile()
        refusals = Refusals() if self.converts else None
        applied = rewrite(
            model,
            self._compiled[1],
            context,
            functions=self.functions,
            refusals=refusals,
            thorough=self.thorough,
        )
        if refusals is not None:
            left = leftovers_of_rules(
                model, self.converts, refusals, is_wanted=self.is_wanted, functions=self.functions
            )
            for text in left.notes():
                context.note(text)
        return PassResult(model, modified=applied > 0)

    def is_wanted(self, node: ir.Node) -> bool:
        """Return whether a conversion should replace a node of one of its operators."""
        return True


class EditorPass(Transformation):
    """A transformation written by hand: implement ``edit``, and make every change through the editor.

    ``functions`` lets it also edit the bodies of model-local functions, each with an editor of its own.
    """

    functions: ClassVar[bool] = False

    @classmethod
    def unwritten(cls) -> tuple[str, ...]:
        """Name ``edit``, unless it or all that calls it is there."""
        return ("edit",) if (cls.edit, cls.run) == (EditorPass.edit, EditorPass.run) else ()

    def edit(self, model: ir.Model, editor: Editor) -> None:
        """Transform the model, rewrite by rewrite."""
        raise NotImplementedError(f"pass '{self.name}' has no edit method")

    def call(self, model: ir.Model) -> PassResult:
        """Run without a manager."""
        return self.run(model, Context())

    def run(self, model: ir.Model, context: Context) -> PassResult:
        """Edit the model."""
        modified = False
        for container in (model.graph, *(list(model.functions.values()) if self.functions else ())):
            with Editor(model, context, container) as editor:
                self.edit(model, editor)
            modified |= editor.applied > 0 or editor.annotated
            if editor.stopped:
                break
        return PassResult(model, modified)


class RewriteRulePass(RewriteRuleSetPass):
    """A pass that is one rule: methods ``pattern``, ``check`` (optional) and ``rewrite``.

    ``commute`` lets the inputs of commutative operators match in any order; ``forks`` says what to do when a
    value inside the match is used elsewhere: ``exclusive`` refuses, ``duplicate`` computes it twice,
    ``cheap`` does so only for cheap operators.
    """

    commute: ClassVar[bool] = True
    forks: ClassVar[Forks] = "exclusive"

    @classmethod
    def unwritten(cls) -> tuple[str, ...]:
        """Return the missing methods of a rule, unless the class has rules of another kind."""
        if cls.rules is not RewriteRulePass.rules:
            return ()
        return tuple(name for name in ("pattern", "rewrite") if getattr(cls, name) is getattr(RewriteRulePass, name))

    def pattern(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Define the pattern, in onnxscript's pattern language."""
        raise NotImplementedError(f"pass '{self.name}' has no pattern")

    def check(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Return whether a match may be rewritten; refuse with ``no("reason", at=value)``."""
        return True

    def rewrite(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the replacement with ``op``; return a value for each value of the pattern."""
        raise NotImplementedError(f"pass '{self.name}' has no rewrite")

    def rules(self) -> Sequence[Rule]:
        """Return the one rule."""
        checks = type(self).check is not RewriteRulePass.check
        return [
            Rule(
                self.pattern,
                self.rewrite,
                self.check if checks else None,
                name=type(self).__name__,
                commute=self.commute,
                forks=self.forks,
            )
        ]
