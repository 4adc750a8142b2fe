import type { ValueVersion } from "../data/contract";
import type { Cell, Diff } from "../data/diff";
import type { Moment } from "../data/history";
import { fullType, shapeText, typeText } from "../data/words";
import type { ViewEdge } from "../graph/view";

/** What an edge carries, before and after where that differs. */
export function edgeTip(diff: Diff, graph: number, edge: ViewEdge): string {
  return edge.names
    .map((name) => {
      const [before, after] = [diff.from, diff.to].map((moment) => diff.history.value(graph, name, moment));
      const texts = [...new Set([before, after].flatMap((value) => (value ? [fullType(value)] : [])))];
      return `${name}\n${texts.join("  →  ") || "type unknown"}`;
    })
    .join("\n\n");
}

/** The type that a node hands on, in a few characters; with what it was before, if that is what changed. */
export function outputLabel(diff: Diff, cell: Cell): { text: string; changed: boolean } | undefined {
  const node = diff.history.node(cell.key);
  const name = node.outputs[0];
  if (node.outputs.length !== 1 || !name) return undefined;
  const at = (moment: Moment): ValueVersion | undefined => diff.history.value(node.graph ?? 0, name, moment);
  const before = cell.before === undefined ? undefined : at(diff.from);
  const after = cell.after === undefined ? undefined : at(diff.to);
  const now = typeText(after ?? before);
  if (!now) return undefined;
  if (!before || !after || typeText(before) === now) return { text: now, changed: false };
  const shape = shapeText(after.shape);
  const was = shapeText(before.shape) === shape ? typeText({ ...before, shape: undefined }) : typeText(before);
  return { text: was ? `${was} → ${now}` : now, changed: true };
}
