import type { Diff, Status } from "../data/diff";
import { LINE_HEIGHT, TITLE_HEIGHT } from "../graph/card";
import type { ViewNode } from "../graph/view";
import type { Box } from "../graph/viewport";
import { outputLabel } from "./tips";

const MARKS: Record<Status, string> = { kept: "", added: "+", removed: "−", changed: "~", rewired: "⇄", annotated: "i" };

export function GraphNode({ node, index, box, selected, diff }: { node: ViewNode; index: number; box: Box; selected: boolean; diff: Diff }) {
  const { card, status, kind } = node;
  const { width, height } = box;
  const end = kind === "input" || kind === "output";
  const label = node.cell && outputLabel(diff, node.cell);
  const mark = MARKS[status];
  return (
    <g
      class={`node kind-${kind} status-${status}${selected ? " selected" : ""}`}
      transform={`translate(${box.x} ${box.y})`}
      data-node={end ? undefined : index}
      role={end ? undefined : "button"}
      aria-label={`${card.title} ${card.lines[0]?.text ?? ""}${status === "kept" ? "" : `, ${status}`}`}
    >
      {kind === "group" && <rect class="behind" x="4" y="4" width={width} height={height} rx="7" />}
      {selected && <rect class="ring" x="-4" y="-4" width={width + 8} height={height + 8} rx={end ? 20 : 10} />}
      <rect class="body" width={width} height={height} rx={end ? Math.min(16, height / 2) : 7} />
      {!end && <path class={`band family-${card.family}`} d={`M7 0H5A5 5 0 0 0 0 5V${height - 5}A5 5 0 0 0 5 ${height}H7Z`} />}
      <text class="title" x={end ? width / 2 : 15} y="17" text-anchor={end ? "middle" : "start"}>
        {card.title}
      </text>
      {mark && (
        <g class="mark" transform={`translate(${width - 12} 12)`}>
          <circle r="7.5" />
          <text y="4" text-anchor="middle">
            {mark}
          </text>
        </g>
      )}
      {card.lines.map((line, at) => (
        <text key={at} class={`line line-${line.kind}`} x={end ? width / 2 : 15} y={TITLE_HEIGHT + 11 + at * LINE_HEIGHT} text-anchor={end ? "middle" : "start"}>
          {line.text}
        </text>
      ))}
      {label && (
        <text class={`carries${label.changed ? " carries-changed" : ""}`} x={width / 2 + (node.below.length ? 18 : 7)} y={height + 14}>
          {label.text}
        </text>
      )}
      <More cells={node.above.length} x={width / 2} y={0} up index={index} />
      <More cells={node.below.length} x={width / 2} y={height} index={index} />
    </g>
  );
}

/** A stub for neighbours that are not drawn; a click draws them. */
function More({ cells, x, y, up = false, index }: { cells: number; x: number; y: number; up?: boolean; index: number }) {
  if (!cells) return null;
  const sign = up ? -1 : 1;
  return (
    <g class="more" role="button" aria-label={`Show ${cells} more ${up ? "above" : "below"}`} data-more={`${index} ${up ? "above" : "below"}`}>
      <title>{`Show ${cells} more`}</title>
      <path d={`M${x} ${y}v${sign * 10}`} />
      <rect x={x - 13} y={up ? y - 25 : y + 10} width="26" height="15" rx="7.5" />
      <text x={x} y={up ? y - 14 : y + 21} text-anchor="middle">
        {`+${cells}`}
      </text>
    </g>
  );
}
