"""The editor: changes of transformations are built separately, announced, and then applied at once.

It serves hand-written passes as the driver serves rules, and the driver uses it as well::

    with Editor(model, context) as editor:
        for node in model.graph:
            with editor.rewrite("Relu of Relu", node, matched=[inner, node]) as r:
                if not is_known(node):
                    r.refuse("its type is not known", at=node.inputs[0])
                    continue
                r.replace(node.outputs[0], r.op.Relu(inner.inputs[0]))

Announced changes can be verified locally, counted, limited, explained and blamed; refused or vetoed changes leave no
trace.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Self

import onnx_ir as ir

from onnx_passes.core.base import Context, Pass, Refused
from onnx_passes.core.errors import OnnxPassesError
from onnx_passes.core.naming import fold
from onnx_passes.core.records import Application, NodeUpdate, RuleRecord
from onnx_passes.core.walk import all_nodes, holds_graphs
from onnx_passes.graph.builder import Builder
from onnx_passes.graph.constants import is_constant_node
from onnx_passes.graph.edits import remove_if_dead
from onnx_passes.graph.names import Container
from onnx_passes.rewrite.choice import Choice
from onnx_passes.rewrite.match import Match, describe_node
from onnx_passes.rewrite.nesting import Nesting, with_nested
from onnx_passes.rewrite.refusal import Refusal
from onnx_passes.rewrite.replacement import Replacement, check_replacement
from onnx_passes.rewrite.scope import Scope
from onnx_passes.rewrite.splice import Change, constant_for, put_constant, splice

SKIPPED = "the rule is skipped"
_INITIALIZERS_SINCE = 4
"""The IR version from which on initializers need not be inputs."""


class Editor:
    """Changes one graph of a model with its subgraphs, or one function, rewrite by rewrite.

    ``applied`` counts the rewrites; ``stopped`` is the reason of a veto by an instrument, after which no more are
    wanted. Passes that change annotations, which is not a rewrite, set ``annotated``.
    """

    def __init__(self, model: ir.Model, context: Context | None = None, container: Container | None = None) -> None:
        self.scope = Scope(model, model.graph if container is None else container)
        self.context = context or Context()
        self.nesting = Nesting(self.scope.container)
        self.applied = 0
        self.stopped = ""
        self.annotated = False
        self._choice = Choice(model)
        self._knows_graphs = False
        self._records: dict[str, RuleRecord] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.nesting.sort()
        self.context.report_rules(list(self._records.values()))

    @property
    def graph(self) -> ir.Graph:
        """Return the graph, or that of the function, that is changed with its subgraphs."""
        container = self.scope.container
        return container.graph if isinstance(container, ir.Function) else container

    @property
    def is_watched(self) -> bool:
        """Return whether the reasons of refusals are recorded node by node."""
        return self.context.refusals is not None

    def objection(self, nodes: Sequence[ir.Node]) -> str:
        """Return the reason why nodes must not be rewritten, as they are protected or not selected; empty if none."""
        return self._choice.refusal(nodes)

    def rewrite(self, rule: str, root: ir.Node, *, matched: Sequence[ir.Node] = (), many: bool = False) -> Rewrite:
        """Begin a rewrite of ``matched`` nodes, of which ``root`` is the last; new nodes are inserted after it.

        ``many`` marks one of many rewrites that change most of the model, see ``Application``.
        """
        if not self._knows_graphs:
            self.nesting.enter_all(all_nodes(self.scope.container))
            self._knows_graphs = True
        return Rewrite(self, self._record(rule), root, tuple(matched) or (root,), many=many)

    def refuse(self, rule: str, reason: str, node: ir.Node | None = None, at: ir.Value | ir.Node | None = None) -> None:
        """Count a refusal before any rewrite was begun."""
        record = self._record(rule)
        record.tried += 1
        self.count_refusal(record, reason, node, at)

    def count_refusal(
        self, record: RuleRecord, reason: str, node: ir.Node | None = None, at: ir.Value | ir.Node | None = None
    ) -> None:
        """Count the reason why a rule was refused, and record where."""
        record.refused[reason] += 1
        if self.context.refusals is not None:
            self.context.refusals.append(Refused(record.name, node, reason, at))

    def change(
        self,
        rule: str,
        nodes: Sequence[ir.Node],
        make: Callable[[], object],
        *,
        replaced: Sequence[tuple[ir.Value, ir.Value]] = (),
        added: Sequence[ir.Node] = (),
        initializers: Sequence[ir.Value] = (),
        settled: bool = False,
    ) -> bool:
        """Announce a change, applied by ``make``: of names, order, declarations, or unused parts.

        Replaced values are given in pairs; new values and their producers may be outside of any graph before. Pairs
        that are ``settled`` are known to be equal.
        """
        root = nodes[-1] if nodes else None
        if replaced and not added and not settled and self._is_refused(rule, nodes):
            return False
        application = self._application(self._record(rule), root, nodes, replaced, added, initializers)
        application.settled = settled
        done = self._make(application, make)
        self._knows_graphs = self._knows_graphs and not done
        return done

    def update(
        self,
        rule: str,
        node: ir.Node,
        *,
        domain: str | None = None,
        op_type: str | None = None,
        overload: str | None = None,
        attributes: Mapping[str, ir.Attr | None] = MappingProxyType({}),
    ) -> bool:
        """Change the operator of a node, or set attributes (None removes one); inputs and results stay.

        Returns False if that was vetoed.
        """
        wanted = {"domain": domain, "op_type": op_type, "overload": overload}
        fields = {name: text for name, text in wanted.items() if text is not None and text != getattr(node, name)}
        if not fields and not attributes:
            return True

        def make() -> None:
            for name, text in fields.items():
                setattr(node, name, text)
            for name, attribute in attributes.items():
                node.attributes.pop(name, None)
                if attribute is not None:
                    node.attributes.add(attribute)

        application = self._application(self._record(rule), node, [node], added=[node])
        application.update = NodeUpdate(fields, attributes)
        return self._make(application, make)

    def import_opsets(
        self, imports: MutableMapping[str, int], versions: Mapping[str, int], without: Collection[str] = ()
    ) -> bool:
        """Import operator sets in these versions, and some no longer; returns false if that was vetoed."""
        wanted = {domain: version for domain, version in ({**imports, **versions}).items() if domain not in without}

        def make() -> None:
            imports.clear()
            imports.update(wanted)

        if wanted == imports:
            return True
        application = self._application(self._record("imported operator sets"))
        application.versions = any(imports.get(domain, version) != version for domain, version in wanted.items())
        return self._make(application, make)

    def _make(self, application: Application, make: Callable[[], object]) -> bool:
        """Announce a change and make it, unless it is vetoed."""
        record = self._record(application.rule)
        record.tried += 1
        record.matched += 1
        if not self._is_wanted(application):
            self.count_refusal(record, self.stopped or SKIPPED, application.root)
            return False
        make()
        record.applied += 1
        self._conclude(application)
        return True

    def remove(self, rule: str, nodes: Sequence[ir.Node]) -> bool:
        """Remove unused nodes, and the nodes that only they used."""
        application = self._application(self._record(rule), nodes[-1] if nodes else None, nodes)
        return self._make(application, lambda: remove_if_dead(nodes, self.scope.keep))

    def store(
        self, rule: str, node: ir.Node, tensors: Mapping[ir.Value, ir.TensorProtocol], *, settled: bool = False
    ) -> bool:
        """Replace results of a node by constants, under their names; the node is removed if it is unused then.

        They are initializers, or Constant nodes if a graph cannot have or should not return an initializer.
        """
        # A Constant that becomes an initializer computes nothing else: nobody means to keep it by naming it.
        if not is_constant_node(node) and self._is_refused(rule, [node]):
            return False
        made = {
            old: constant_for(old, tensor, self.scope, as_node=not self._may_initialize or old.is_graph_output())
            for old, tensor in tensors.items()
        }
        nodes = [producer for new in made.values() if (producer := new.producer()) is not None]
        initializers = [new for new in made.values() if new.producer() is None]

        def put() -> None:
            for old, new in made.items():
                put_constant(old, new)
            remove_if_dead([node], self.scope.keep)

        application = self._application(self._record(rule), node, [node], tuple(made.items()), nodes, initializers)
        application.settled = settled
        return self._make(application, put)

    def builder(self) -> Builder:
        """Return a builder of nodes for this graph or function."""
        return Builder(
            self.scope.container.opset_imports,
            initializers_allowed=self._may_initialize,
            graphs_of_model=self.nesting.graphs,
        )

    def commit(
        self,
        record: RuleRecord,
        match: Match,
        builder: Builder,
        replacement: Replacement,
        owner: Pass | None = None,
        *,
        many: bool = False,
    ) -> Change | str:
        """Replace the matched nodes by the built ones.

        Returns the reason of a veto as text; then, and if an error is raised, the caller discards the built nodes.
        """
        if reason := self.objection(match.nodes):
            return reason
        replaced = tuple(zip(match.output_values, replacement.values, strict=True))
        application = self._application(record, match.root, match.nodes, replaced, builder.nodes, builder.initializers)
        application.owner, application.many = owner, many
        if not self._is_wanted(application):
            return self.stopped or SKIPPED
        change = splice(self.scope, builder, match, replacement.values)
        application.added = tuple(change.added)
        for node in change.added:
            for inner in with_nested(node):
                if holds_graphs(inner):
                    self.nesting.enter(inner)
        sources = [producer for value in replacement.values if (producer := value.producer()) is not None]
        self.nesting.changed([*change.added, *sources], replacement.unsorted)
        self._conclude(application)
        return change

    def _application(
        self,
        record: RuleRecord,
        root: ir.Node | None = None,
        matched: Sequence[ir.Node] = (),
        replaced: Sequence[tuple[ir.Value, ir.Value]] = (),
        added: Sequence[ir.Node] = (),
        initializers: Sequence[ir.Value] = (),
    ) -> Application:
        return Application(
            number=self.context.next_number(),
            step=self.context.record,
            rule=record.name,
            source=record.source,
            graph=(None if root is None else root.graph) or self.scope.container,
            root=root,
            matched=tuple(matched),
            added=tuple(added),
            replaced=tuple(replaced),
            initializers=tuple(initializers),
        )

    @property
    def _may_initialize(self) -> bool:
        return isinstance(self.scope.container, ir.Graph) and self.scope.model.ir_version >= _INITIALIZERS_SINCE

    def _is_refused(self, rule: str, nodes: Sequence[ir.Node]) -> bool:
        """Return whether nodes are protected or not selected, and count the refusal."""
        reason = self.objection(nodes)
        if reason:
            self.refuse(rule, reason, nodes[-1] if nodes else None)
        return bool(reason)

    def _is_wanted(self, application: Application) -> bool:
        if self.context.skipped and fold(application.rule) in self.context.skipped:
            return False
        self.stopped = self.stopped or self.context.before_rewrite(application) or ""
        return not self.stopped

    def _conclude(self, application: Application) -> None:
        self.applied += 1
        self._choice.follow(application.added)
        self.context.after_rewrite(application)

    def _record(self, rule: str) -> RuleRecord:
        if rule not in self._records:
            self._records[rule] = RuleRecord(rule, _caller())
        return self._records[rule]


class Rewrite:
    """A rewrite in the making: build with ``op``, then ``replace``, or ``refuse``; the end of the block applies it."""

    def __init__(
        self, editor: Editor, record: RuleRecord, root: ir.Node, matched: tuple[ir.Node, ...], *, many: bool = False
    ) -> None:
        self.op = editor.builder()
        self.applied = False
        self._editor, self._record, self._root, self._matched, self._many = editor, record, root, matched, many
        self._replaced: dict[ir.Value, ir.Value] = {}
        self._refusal: Refusal | None = None
        self._started = time.process_time()

    def replace(self, old: ir.Value, new: ir.Value) -> None:
        """Replace all uses of a value; the new value gets its name, annotations and position."""
        self._replaced[old] = new

    def replace_all(self, values: Mapping[ir.Value, ir.Value]) -> None:
        """Replace several values at once."""
        self._replaced.update(values)

    def refuse(self, reason: str, at: ir.Value | ir.Node | None = None) -> Refusal:
        """Refuse the rewrite with a reason."""
        self._refusal = Refusal(reason, at)
        return self._refusal

    def __enter__(self) -> Self:
        self._record.tried += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._abandon(error)
            return
        try:
            reason = self._refusal.reason if self._refusal is not None else self._apply() if self._replaced else None
        except BaseException as raised:
            self._abandon(raised)
            raise
        self.applied = reason is None and bool(self._replaced)
        if not self.applied:
            self.op.discard()
        if reason is not None:
            at = None if self._refusal is None else self._refusal.at
            self._editor.count_refusal(self._record, reason, self._root, at)
        self._record.matched += reason is not None or self.applied
        self._record.applied += self.applied
        self._record.seconds += time.process_time() - self._started

    def _abandon(self, error: BaseException) -> None:
        self.op.discard()
        if isinstance(error, OnnxPassesError) and error.where is None:
            error.where = f"rewrite '{self._record.name}' at {describe_node(self._root)}"

    def _apply(self) -> str | None:
        """Put everything in place; returns the reason if that is not wanted or not possible."""
        editor, outputs = self._editor, tuple(self._replaced)
        match = Match(editor.scope.model, editor.scope.container, self._root, self._matched, outputs)
        checked = check_replacement(match, list(self._replaced.values()), self.op, editor.scope, editor.nesting)
        if isinstance(checked, str):
            return checked
        done = editor.commit(self._record, match, self.op, checked, many=self._many)
        return done if isinstance(done, str) else None


def _caller() -> str:
    """Name the line outside of this file that began a rewrite."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return "built in" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
