import { path } from "../graph/drawing";
import type { ViewEdge } from "../graph/view";

export function GraphEdge({ edge, index, points, touched }: { edge: ViewEdge; index: number; points: number[]; touched: boolean }) {
  const line = path(points);
  const [x, y] = [points.at(-2)!, points.at(-1)!];
  return (
    <g class={`edge edge-${edge.status}${touched ? " touched" : ""}`}>
      <path d={line} />
      <path class="head" d={`M${x - 3.5} ${y - 6}L${x} ${y}L${x + 3.5} ${y - 6}`} />
      <path class="wide" d={line} data-edge={index} />
    </g>
  );
}
