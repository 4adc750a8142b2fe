import type { Fact } from "../data/contract";
import { asNumber, numberText } from "../data/words";

/** Lowest and highest value of every channel, as upright strokes. */
export function RangePlot({ fact }: { fact: Fact }) {
  const low = (fact.low ?? []).map(asNumber);
  const high = (fact.high ?? []).map(asNumber);
  const finite = [...low, ...high].filter(Number.isFinite);
  if (!finite.length) return <p class="quiet">unbounded</p>;
  const [bottom, top] = [Math.min(0, ...finite), Math.max(0, ...finite)];
  const y = (value: number): number => 58 - (56 * (Math.min(top, Math.max(bottom, value)) - bottom)) / (top - bottom || 1);
  const step = 240 / low.length;
  if (low.length === 1) {
    return (
      <p class="range">
        {numberText(fact.low![0])} … {numberText(fact.high![0])}
      </p>
    );
  }
  return (
    <figure class="plot">
      <svg viewBox="0 0 240 60" role="img" aria-label={`Ranges of ${low.length} channels from ${numberText(bottom)} to ${numberText(top)}`}>
        {low.map((from, index) => (
          <rect key={index} class="bar" x={index * step + step * 0.12} width={Math.max(0.6, step * 0.76)} y={y(high[index]!)} height={Math.max(0.8, y(from) - y(high[index]!))}>
            <title>{`channel ${index}: ${numberText(fact.low![index])} … ${numberText(fact.high![index])}`}</title>
          </rect>
        ))}
        <path class="axis" d={`M0 ${y(0)}H240`} />
      </svg>
      <figcaption>
        <span>
          {numberText(Math.min(...finite))} … {numberText(Math.max(...finite))}
        </span>
        <span>{fact.channels ?? low.length} channels</span>
      </figcaption>
    </figure>
  );
}
