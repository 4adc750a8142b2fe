import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useComputed } from "@preact/signals";
import type { Diff } from "../data/diff";
import { boxOf, type Drawing, overlaps } from "../graph/drawing";
import { paint } from "../graph/paint";
import type { Viewport } from "../graph/viewport";
import { theme } from "../state/theme";
import { useStore } from "./context";
import { GraphEdge } from "./GraphEdge";
import { GraphNode } from "./GraphNode";
import { Minimap } from "./Minimap";
import { edgeTip } from "./tips";

/** With more than this in view no node can be read, and blocks of colour do. */
const READABLE = 450;
const SMALLEST = 0.26;

export interface CanvasProps {
  drawing: Drawing;
  diff: Diff;
  viewport: Viewport;
  selected?: number;
}

export function GraphCanvas({ drawing, diff, viewport, selected }: CanvasProps) {
  const store = useStore();
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [tip, setTip] = useState<{ x: number; y: number; text: string } | undefined>(undefined);
  const at = viewport.at.value;
  const margin = viewport.seen();
  const near = { x: margin.x - 40, y: margin.y - 40, width: margin.width + 80, height: margin.height + 80 };
  const visible = useMemo(() => within(drawing, near), [drawing, at, viewport.size.value]);
  const far = at.k < SMALLEST || visible.nodes.length > READABLE;
  useLayoutEffect(() => {
    if (far) paint(canvas.current!, drawing, { x: at.x, y: at.y, kx: at.k, ky: at.k }, { edges: true, seen: near, selected });
  }, [far, drawing, at, viewport.size.value, selected, theme.value]);
  const transform = useComputed(() => {
    const { x, y, k } = viewport.at.value;
    return `translate(${x} ${y}) scale(${k})`;
  });
  const pick = (index: number): void => {
    const node = drawing.view.nodes[index]!;
    if (node.group) store.open(node.group.path);
    else if (node.cell) store.selectNode((drawing.view.mode === "before" ? node.cell.before : node.cell.after) ?? node.cell.key);
  };
  const click = (event: MouseEvent): void => {
    const element = (event.target as Element).closest<SVGElement>("[data-node], [data-more]");
    const more = element?.dataset["more"];
    if (more) {
      const [index, where] = more.split(" ");
      const node = drawing.view.nodes[Number(index)]!;
      store.extra.value = [...store.extra.value, ...(where === "above" ? node.above : node.below).slice(0, 12).map((cell) => cell.key)];
    } else if (element) pick(Number(element.dataset["node"]));
    else if (far) pickFar(event);
  };
  const pickFar = (event: MouseEvent): void => {
    const frame = box.current!.getBoundingClientRect();
    const [x, y] = [(event.clientX - frame.left - at.x) / at.k, (event.clientY - frame.top - at.y) / at.k];
    const hit = visible.nodes.find((index) => overlaps(boxOf(drawing, index), { x, y, width: 0.01, height: 0.01 }));
    if (hit !== undefined) pick(hit);
  };
  const open = (event: MouseEvent): void => {
    const index = (event.target as Element).closest<SVGElement>("[data-node]")?.dataset["node"];
    const cell = index === undefined ? undefined : drawing.view.nodes[Number(index)]!.cell;
    const inner = cell && store.history.node(cell.key).graphs?.[0];
    if (inner !== undefined) store.openGraph(inner);
  };
  const hover = (event: PointerEvent): void => {
    const index = (event.target as Element).closest<SVGElement>("[data-edge]")?.dataset["edge"];
    const frame = box.current!.getBoundingClientRect();
    setTip(
      index === undefined || event.buttons
        ? undefined
        : { x: event.clientX - frame.left, y: event.clientY - frame.top, text: edgeTip(diff, store.graph.value, drawing.view.edges[Number(index)]!) },
    );
  };
  return (
    <div
      ref={box}
      class="canvas"
      onClick={click}
      onDblClick={open}
      onPointerMove={hover}
      onPointerLeave={() => setTip(undefined)}
    >
      <canvas ref={canvas} hidden={!far} />
      {!far && (
        <svg class="drawing">
          <g transform={transform}>
            {visible.edges.map((index) => {
              const edge = drawing.view.edges[index]!;
              const touched = selected !== undefined && (edge.from === selected || edge.to === selected);
              return <GraphEdge key={`${edge.from} ${edge.to}`} edge={edge} index={index} points={drawing.layout.routes[index]!} touched={touched} />;
            })}
            {visible.nodes.map((index) => {
              const node = drawing.view.nodes[index]!;
              return <GraphNode key={node.id} node={node} index={index} box={boxOf(drawing, index)} selected={index === selected} diff={diff} />;
            })}
          </g>
        </svg>
      )}
      <Minimap drawing={drawing} viewport={viewport} selected={selected} />
      {tip && (
        <pre class="tip" role="tooltip" style={{ left: `${tip.x + 14}px`, top: `${tip.y + 14}px` }}>
          {tip.text}
        </pre>
      )}
    </div>
  );
}

function within(drawing: Drawing, seen: { x: number; y: number; width: number; height: number }): { nodes: number[]; edges: number[] } {
  const nodes: number[] = [];
  const edges: number[] = [];
  drawing.boxes.forEach((box, index) => {
    if (overlaps(seen, box)) nodes.push(index);
  });
  if (nodes.length > READABLE) return { nodes, edges };
  drawing.routeBoxes.forEach((box, index) => {
    if (overlaps(seen, box)) edges.push(index);
  });
  return { nodes, edges };
}
