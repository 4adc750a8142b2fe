import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Diff } from "../data/diff";
import { bounds, boxOf, changedBounds, drawn, type Drawing, firstChanged, overlaps } from "../graph/drawing";
import { type Mode, type View, ViewBuilder } from "../graph/view";
import { type Box, Viewport } from "../graph/viewport";
import { layout } from "../layout/client";
import type { Store } from "../state/store";
import { useStore } from "./context";
import { GraphCanvas } from "./GraphCanvas";
import { usePanZoom } from "./usePanZoom";

/** One side of a difference, or both merged: built, laid out and brought into view. */
export function GraphView({ mode, titled = false, fits }: { mode: Mode; titled?: boolean; fits: Map<string, () => void> }) {
  const store = useStore();
  const diff = store.diff.value;
  const view = useMemo(() => viewOf(store, diff, mode), [
    diff,
    mode,
    store.graph.value,
    store.hops.value,
    store.extra.value,
    store.grouping.value,
    store.expanded.value,
  ]);
  const viewport = useMemo(() => new Viewport(), []);
  const box = useRef<HTMLDivElement>(null);
  usePanZoom(box, viewport);
  const drawing = useDrawing(view, diff, viewport);
  useSelection(drawing, diff, viewport);
  const name = titled ? mode : "one";
  useLayoutEffect(() => {
    fits.set(name, () => drawing && viewport.fit(bounds(drawing)));
    return () => void fits.delete(name);
  }, [drawing]);
  const title = { diff: "Difference", before: "Before", after: "After" }[mode];
  return (
    <div ref={box} class="view" role="application" aria-roledescription="graph" aria-label={title} tabIndex={0}>
      {titled && <span class="side-name">{title}</span>}
      {drawing && <GraphCanvas drawing={drawing} diff={diff} viewport={viewport} selected={selectedPlace(drawing.view, diff, store.selected.value)} />}
      {drawing?.view !== view && <p class="waiting">Laying out {view.nodes.length} nodes …</p>}
      {drawing && drawing.view.left > 0 && (
        <p class="partial">
          The first changes; {drawing.view.left} more: step through the rewrites <kbd>J</kbd> or see the whole graph <kbd>w</kbd>
        </p>
      )}
      {drawing && !drawing.view.nodes.length && <p class="waiting">Nothing to draw here.</p>}
    </div>
  );
}

export function viewOf(store: Store, diff: Diff, mode: Mode): View {
  return new ViewBuilder(diff, {
    mode,
    graph: store.graph.value,
    hops: store.hops.value,
    extra: [...store.extra.value],
    grouping: store.grouping.value,
    expanded: store.expanded.value,
  }).build();
}

function selectedPlace(view: View, diff: Diff, id: number | undefined): number | undefined {
  return id === undefined ? undefined : view.places.get(diff.cell(id).key);
}

/** Lay out a view; what stays in it stays where it is on the screen. */
function useDrawing(view: View, diff: Diff, viewport: Viewport): Drawing | undefined {
  const store = useStore();
  const [drawing, setDrawing] = useState<Drawing | undefined>(undefined);
  const last = useRef<{ drawing: Drawing; diff: Diff } | undefined>(undefined);
  useEffect(() => {
    let current = true;
    const { width, height } = viewport.size.value;
    const done = layout({
      widths: view.nodes.map((node) => node.card.width),
      heights: view.nodes.map((node) => node.card.height),
      edges: view.edges.map((edge) => [edge.from, edge.to]),
      aspect: Math.max(0.6, (width || 4) / (height || 3)),
    });
    const use = (fresh: Drawing): void => {
      if (!current) return;
      const before = last.current;
      const anchor = before?.diff === diff ? held(before.drawing, fresh, viewport.seen()) : undefined;
      if (anchor) viewport.move(anchor.dx * viewport.at.value.k, anchor.dy * viewport.at.value.k);
      else open(fresh, viewport, selectedPlace(fresh.view, diff, store.selected.value));
      last.current = { drawing: fresh, diff };
      setDrawing(fresh);
    };
    if (done instanceof Promise) void done.then((placed) => use(drawn(view, placed)));
    else use(drawn(view, done));
    return () => {
      current = false;
    };
  }, [view]);
  return drawing;
}

/** All of it if that can be read, else all that changed, else the first thing that did. */
function open(drawing: Drawing, viewport: Viewport, selected: number | undefined): void {
  if (!drawing.view.nodes.length) return;
  const at = selected ?? firstChanged(drawing);
  viewport.open([bounds(drawing), changedBounds(drawing)], boxOf(drawing, at));
}

/** How far the node in the middle of the screen must move to stay there; nothing if the new drawing has it not. */
function held(before: Drawing, after: Drawing, seen: Box): { dx: number; dy: number } | undefined {
  let best: { dx: number; dy: number } | undefined;
  let nearest = Infinity;
  for (const [key, old] of before.view.places) {
    const fresh = after.view.places.get(key);
    if (fresh === undefined || !overlaps(seen, boxOf(before, old))) continue;
    const [x, y] = [before.layout.x[old]!, before.layout.y[old]!];
    const away = Math.hypot(x - seen.x - seen.width / 2, y - seen.y - seen.height / 2);
    if (away >= nearest) continue;
    nearest = away;
    best = { dx: x - after.layout.x[fresh]!, dy: y - after.layout.y[fresh]! };
  }
  return best;
}

/** Whatever is selected gets into the drawing, out of its group, and into view. */
function useSelection(drawing: Drawing | undefined, diff: Diff, viewport: Viewport): void {
  const store = useStore();
  const id = store.selected.value;
  useEffect(() => {
    if (!drawing || id === undefined) return;
    const place = selectedPlace(drawing.view, diff, id);
    if (place === undefined) {
      if (!store.extra.value.includes(id)) store.show(id);
      return;
    }
    const { group } = drawing.view.nodes[place]!;
    if (group) store.open(group.path);
    else viewport.reveal(boxOf(drawing, place));
  }, [id, drawing]);
}
