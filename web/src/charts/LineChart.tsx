import { numberText } from "../data/words";

const WIDTH = 320;
const HEIGHT = 120;
const LEFT = 46;

export interface Point {
  step: number;
  value: number;
}

/** A number over steps; in decades where it spans many. */
export function LineChart({ points, label, decades = false, name, go }: { points: Point[]; label: string; decades?: boolean; name: (step: number) => string; go: (step: number) => void }) {
  const floor = Math.min(...points.filter((each) => each.value > 0 && Number.isFinite(each.value)).map((each) => each.value), 1) / 10;
  const scale = (value: number): number => (decades ? Math.log10(Math.max(value, floor)) : value);
  const values = points.filter((each) => Number.isFinite(each.value)).map((each) => scale(each.value));
  if (!values.length) return null;
  if (decades && points.every((each) => each.value === 0)) return <p class="quiet">None: bit-equal after every step that was checked.</p>;
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (high - low < 1e-9) [low, high] = [low - (Math.abs(low) * 0.1 || 1), high + (Math.abs(high) * 0.1 || 1)];
  const x = (index: number): number => LEFT + ((WIDTH - LEFT - 12) * index) / Math.max(1, points.length - 1);
  const y = (value: number): number => HEIGHT - 14 - ((HEIGHT - 28) * (scale(value) - low)) / (high - low);
  const tick = (value: number): string => numberText(decades ? 10 ** value : value);
  const line = points.flatMap((point, index) => (Number.isFinite(point.value) ? [`${x(index).toFixed(1)} ${y(point.value).toFixed(1)}`] : []));
  return (
    <svg class="line-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT + 10}`} role="img" aria-label={label}>
      {[low, high].map((value) => (
        <g key={value}>
          <path class="axis faint" d={`M${LEFT} ${HEIGHT - 14 - ((HEIGHT - 28) * (value - low)) / (high - low)}H${WIDTH - 6}`} />
          <text class="tick" x={LEFT - 6} y={HEIGHT - 10 - ((HEIGHT - 28) * (value - low)) / (high - low)} text-anchor="end">
            {decades && value === Math.log10(floor) ? "0" : tick(value)}
          </text>
        </g>
      ))}
      <path class="curve" d={`M${line.join("L")}`} />
      {points.map((point, index) =>
        Number.isFinite(point.value) ? (
          <circle key={index} cx={x(index)} cy={y(point.value)} r="4" onClick={() => go(point.step)}>
            <title>{`${name(point.step)}: ${numberText(point.value)}`}</title>
          </circle>
        ) : (
          <text key={index} class="bad" x={x(index)} y={18} text-anchor="middle">
            !<title>{`${name(point.step)}: ${String(point.value)}`}</title>
          </text>
        ),
      )}
      {points.map((point, index) =>
        points.length <= 12 || index === 0 || index === points.length - 1 ? (
          <text key={`t${index}`} class="tick" x={x(index)} y={HEIGHT + 6} text-anchor="middle">
            {point.step || "start"}
          </text>
        ) : null,
      )}
    </svg>
  );
}
