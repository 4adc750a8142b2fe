import type { Constant } from "../data/contract";
import { numberText } from "../data/words";

export function Histogram({ of }: { of: NonNullable<Constant["histogram"]> }) {
  const most = Math.max(1, ...of.counts);
  const width = 240 / of.counts.length;
  return (
    <figure class="plot">
      <svg viewBox="0 0 240 56" role="img" aria-label={`Histogram from ${numberText(of.from)} to ${numberText(of.to)}`}>
        {of.counts.map((count, index) => (
          <rect key={index} class="bar" x={index * width + 0.5} width={Math.max(1, width - 1)} y={56 - (54 * count) / most} height={(54 * count) / most}>
            <title>{`${numberText(of.from + ((of.to - of.from) * index) / of.counts.length)} …: ${count}`}</title>
          </rect>
        ))}
        <path class="axis" d="M0 55.5H240" />
      </svg>
      <figcaption>
        <span>{numberText(of.from)}</span>
        <span>{numberText(of.to)}</span>
      </figcaption>
    </figure>
  );
}
