import { useState } from "preact/hooks";
import type { Fact } from "../data/contract";
import { numberText } from "../data/words";

/** A threshold function: what comes out over what goes in, one channel at a time. */
export function Staircase({ of }: { of: NonNullable<Fact["thresholds"]> }) {
  const [channel, setChannel] = useState(0);
  const row = of.rows[Math.min(channel, of.rows.length - 1)] ?? [];
  const finite = row.filter((each) => typeof each === "number" && Number.isFinite(each));
  if (!finite.length) return null;
  const all = of.rows.flat().filter((each) => typeof each === "number" && Number.isFinite(each));
  const margin = (Math.max(...all) - Math.min(...all)) * 0.06 || 1;
  const [from, to] = [Math.min(...all) - margin, Math.max(...all) + margin];
  const x = (value: number): number => (236 * (value - from)) / (to - from) + 2;
  const y = (level: number): number => 76 - (72 * level) / Math.max(1, row.length);
  const sorted = [...finite].sort((a, b) => a - b);
  const line = sorted.reduce((text, each, index) => `${text}H${x(each).toFixed(1)}V${y(index + 1).toFixed(1)}`, `M2 ${y(0)}`);
  const { scale = 1, bias = 0 } = of.out ?? {};
  return (
    <figure class="plot">
      <svg viewBox="0 0 240 80" role="img" aria-label={`${row.length} thresholds of channel ${channel}`}>
        {from < 0 && to > 0 && <path class="axis faint" d={`M${x(0)} 2V78`} />}
        <path class="axis" d="M0 78H240" />
        <path class="stairs" d={`${line}H238`} />
      </svg>
      <figcaption>
        <span>{numberText(sorted[0])}</span>
        <span>
          {row.length} steps, {numberText(bias)} … {numberText(bias + scale * row.length)}
        </span>
        <span>{numberText(sorted.at(-1))}</span>
      </figcaption>
      {of.rows.length > 1 && (
        <label class="channel">
          channel {channel}
          <input type="range" min="0" max={of.rows.length - 1} value={channel} onInput={(event) => setChannel(Number((event.target as HTMLInputElement).value))} />
        </label>
      )}
    </figure>
  );
}
