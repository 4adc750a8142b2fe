import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Diff } from "../data/diff";
import { bounds, boxOf, type Drawing, firstChanged } from "../graph/drawing";
import { type Mode, type View, ViewBuilder } from "../graph/view";
import { Viewport } from "../graph/viewport";
import { layout } from "../layout/client";
import { useStore } from "./context";
import { GraphCanvas } from "./GraphCanvas";
import { GraphToolbar } from "./GraphToolbar";

/** The graph of the chosen step or rewrite, laid out and brought into view. */
export function GraphPane({ fit }: { fit: RefObject<() => void> }) {
  const store = useStore();
  const shown = store.shown.value;
  const diff = store.diff.value;
  const mode: Mode = shown === "both" ? "diff" : shown;
  const view = useMemo(
    () =>
      new ViewBuilder(diff, {
        mode,
        graph: store.graph.value,
        hops: store.hops.value,
        extra: [...store.extra.value],
        grouping: store.grouping.value,
        expanded: store.expanded.value,
      }).build(),
    [diff, mode, store.graph.value, store.hops.value, store.extra.value, store.grouping.value, store.expanded.value],
  );
  const viewport = useMemo(() => new Viewport(), []);
  const place = useRef<HTMLDivElement>(null);
  // The first layout wants to know its room before there is anything to draw.
  useLayoutEffect(() => {
    const { clientWidth: width, clientHeight: height } = place.current!;
    viewport.size.value = { width, height };
  }, []);
  const drawing = useDrawing(view, diff, viewport);
  useSelection(drawing, diff, viewport);
  fit.current = () => drawing && viewport.fit(bounds(drawing));
  const selected = drawing && selectedPlace(drawing.view, diff, store.selected.value);
  return (
    <div class="graph" id="graph">
      <GraphToolbar view={view} diff={diff} fit={() => fit.current()} />
      <div class="canvases" ref={place}>
        {!drawing ? (
          <p class="waiting">Laying out {view.nodes.length} nodes …</p>
        ) : shown === "both" ? (
          <>
            <GraphCanvas drawing={drawing} diff={diff} viewport={viewport} selected={selected} side="before" />
            <GraphCanvas drawing={drawing} diff={diff} viewport={viewport} selected={selected} side="after" />
          </>
        ) : (
          <GraphCanvas drawing={drawing} diff={diff} viewport={viewport} selected={selected} />
        )}
        {drawing && drawing.view !== view && <p class="waiting">Laying out {view.nodes.length} nodes …</p>}
        {drawing && !drawing.view.nodes.length && <p class="waiting">Nothing to draw here.</p>}
      </div>
    </div>
  );
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
      const anchor = before?.diff === diff ? held(before.drawing, fresh, store.selected.value, diff) : undefined;
      if (anchor) viewport.move(anchor.dx * viewport.at.value.k, anchor.dy * viewport.at.value.k);
      else open(fresh, viewport, selectedPlace(fresh.view, diff, store.selected.value));
      last.current = { drawing: fresh, diff };
      setDrawing(fresh);
    };
    if (done instanceof Promise) void done.then((placed) => use({ view, layout: placed }));
    else use({ view, layout: done });
    return () => {
      current = false;
    };
  }, [view]);
  return drawing;
}

function open(drawing: Drawing, viewport: Viewport, selected: number | undefined): void {
  if (!drawing.view.nodes.length) return;
  const at = selected ?? firstChanged(drawing.view);
  viewport.open(bounds(drawing), drawing.layout.x[at]!, drawing.layout.y[at]!);
}

/** How far a node that both drawings have must move to stay in its place. */
function held(before: Drawing, after: Drawing, selected: number | undefined, diff: Diff): { dx: number; dy: number } | undefined {
  const key = selected === undefined ? diff.changed[0]?.key : diff.cell(selected).key;
  if (key === undefined) return undefined;
  const [old, fresh] = [before.view.places.get(key), after.view.places.get(key)];
  if (old === undefined || fresh === undefined) return undefined;
  return { dx: before.layout.x[old]! - after.layout.x[fresh]!, dy: before.layout.y[old]! - after.layout.y[fresh]! };
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
