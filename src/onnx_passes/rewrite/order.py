"""Topological ranks that follow edits, so that a rewrite with several outputs can be refused if it closes a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir


class Order:
    """A rank per node of one graph such that no producer ranks above its consumers."""

    def __init__(self, graph: ir.Graph, owners: Mapping[ir.Graph, ir.Node]) -> None:
        self._graph = graph
        self._owners = owners
        self._ranks = {node: rank for rank, node in enumerate(graph)}

    def rank(self, node: ir.Node) -> int:
        """Return the rank; a node that appeared meanwhile ranks with its latest producer."""
        known = self._ranks.get(node)
        if known is None:
            known = max((self.rank(p) for p in node.predecessors() if p.graph is self._graph), default=0)
            self._ranks[node] = known
        return known

    def add(self, nodes: Iterable[ir.Node]) -> None:
        """Rank new nodes and lift whatever uses them."""
        waiting = list(nodes)
        for node in waiting:
            self._ranks.pop(node, None)
        while waiting:
            node = waiting.pop()
            rank = self.rank(node)
            for user in self.users(node):
                if self._ranks.get(user, -1) < rank:
                    self._ranks[user] = rank
                    waiting.append(user)

    def users(self, node: ir.Node) -> Iterable[ir.Node]:
        """Iterate over the nodes of this graph that use a node, through subgraphs too."""
        for user in node.successors():
            outer: ir.Node | None = user
            while outer is not None and outer.graph is not self._graph:
                outer = None if outer.graph is None else self._owners.get(outer.graph)
            if outer is not None:
                yield outer

    def would_close_cycle(self, matched: set[ir.Node]) -> bool:
        """Tell whether a value going out of the matched nodes comes back into them through others."""
        last = max(self.rank(node) for node in matched)
        waiting = [user for node in matched for user in self.users(node) if user not in matched]
        seen = set(waiting)
        while waiting:
            node = waiting.pop()
            if self.rank(node) > last:
                continue
            for user in self.users(node):
                if user in matched:
                    return True
                if user not in seen:
                    seen.add(user)
                    waiting.append(user)
        return False
