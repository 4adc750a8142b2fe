import type { Charts } from "../data/contract";
import { plural } from "../data/words";

const WIDEST = 760;
const HEIGHT = 200;

/** How many nodes of which operator there are after every step that changed the model. */
export function OperatorsChart({ series, name, go }: { series: Charts["operators"]; name: (step: number) => string; go: (step: number) => void }) {
  const operators = names(series);
  const most = Math.max(1, ...series.map(({ counts }) => total(counts)));
  const slot = Math.min(110, WIDEST / series.length);
  const width = Math.max(240, slot * series.length);
  const bar = Math.min(64, slot * 0.72);
  return (
    <div class="operators-chart">
      <svg viewBox={`0 0 ${width} ${HEIGHT + 22}`} style={{ maxWidth: `${width}px` }} role="img" aria-label="Operators over steps">
        {series.map(({ step, counts }, index) => {
          let top = HEIGHT;
          return (
            <g key={`${step} ${index}`} class="stack" onClick={() => step && go(step)}>
              <title>{`${name(step)}: ${plural(total(counts), "node")}\n${Object.entries(counts).map(([op, count]) => `${short(op)} ${count}`).join("\n")}`}</title>
              {operators.map((op, at) => {
                const height = (HEIGHT * 0.92 * (counts[op] ?? 0)) / most;
                top -= height;
                return height ? <rect key={op} class={`series-${at % 11}`} x={index * slot + (slot - bar) / 2} width={bar} y={top} height={Math.max(0.5, height - 0.7)} /> : null;
              })}
              <text x={index * slot + slot / 2} y={top - 5} text-anchor="middle">
                {slot > 26 || index === 0 || index === series.length - 1 ? total(counts) : ""}
              </text>
              <text class="tick" x={index * slot + slot / 2} y={HEIGHT + 15} text-anchor="middle">
                {slot > 22 || index % Math.ceil(26 / slot) === 0 ? (step ? step : "start") : ""}
              </text>
            </g>
          );
        })}
        <path class="axis" d={`M0 ${HEIGHT + 0.5}H${width}`} />
      </svg>
      <ul class="key">
        {operators.toReversed().map((op) => (
          <li key={op}>
            <i class={`series-${operators.indexOf(op) % 11}`} /> {short(op)}
          </li>
        ))}
      </ul>
    </div>
  );
}

function names(series: Charts["operators"]): string[] {
  const sums = new Map<string, number>();
  for (const { counts } of series) for (const [op, count] of Object.entries(counts)) sums.set(op, (sums.get(op) ?? 0) + count);
  const rank = (op: string): number => (op === "others" ? -1 : sums.get(op)!);
  return [...sums.keys()].sort((a, b) => rank(b) - rank(a));
}

function total(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

export function short(op: string): string {
  return op.split("::").at(-1)!;
}
