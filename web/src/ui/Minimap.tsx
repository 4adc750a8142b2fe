import { useLayoutEffect, useRef } from "preact/hooks";
import type { Drawing } from "../graph/drawing";
import { paint } from "../graph/paint";
import type { Viewport } from "../graph/viewport";
import { theme } from "../state/theme";

const WIDEST = 150;
const TALLEST = 170;
const THINNEST = 30;

/** The whole drawing in small; deep graphs are squeezed, so that they keep some width. */
export function Minimap({ drawing, viewport, selected }: { drawing: Drawing; viewport: Viewport; selected?: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width, height } = drawing.layout;
  const room = viewport.size.value;
  const [widest, tallest] = [Math.min(WIDEST, room.width * 0.15), Math.min(TALLEST, room.height * 0.32)];
  const k = Math.min(widest / Math.max(1, width), tallest / Math.max(1, height));
  const mapWidth = Math.max(THINNEST, width * k);
  const mapHeight = Math.max(THINNEST, height * k);
  const kx = mapWidth / Math.max(1, width);
  const ky = mapHeight / Math.max(1, height);
  useLayoutEffect(() => paint(canvas.current!, drawing, { x: 0, y: 0, kx, ky }, { edges: drawing.view.edges.length < 3000, selected }), [
    drawing,
    selected,
    kx,
    ky,
    theme.value,
  ]);
  const seen = viewport.seen();
  const all = seen.x <= 0 && seen.y <= 0 && seen.x + seen.width >= width && seen.y + seen.height >= height;
  const go = (event: PointerEvent): void => {
    if (!(event.buttons & 1)) return;
    event.stopPropagation();
    const box = canvas.current!.getBoundingClientRect();
    viewport.centre((event.clientX - box.left) / kx, (event.clientY - box.top) / ky);
  };
  const left = Math.max(0, seen.x * kx);
  const top = Math.max(0, seen.y * ky);
  return (
    <div class="minimap" hidden={all} aria-hidden="true" onPointerDown={go} onPointerMove={go}>
      <canvas ref={canvas} style={{ width: `${mapWidth}px`, height: `${mapHeight}px` }} />
      <div
        class="seen"
        style={{
          left: `${left}px`,
          top: `${top}px`,
          width: `${Math.max(3, Math.min(mapWidth, (seen.x + seen.width) * kx) - left)}px`,
          height: `${Math.max(3, Math.min(mapHeight, (seen.y + seen.height) * ky) - top)}px`,
        }}
      />
    </div>
  );
}
