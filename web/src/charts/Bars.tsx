export interface Bar {
  name: string;
  value: number;
  text: string;
  title?: string;
  go?: () => void;
}

/** Named amounts, the largest first, as bars that one can read. */
export function Bars({ bars, most = Math.max(1e-12, ...bars.map((bar) => bar.value)) }: { bars: Bar[]; most?: number }) {
  return (
    <ul class="bars">
      {bars.map((bar) => (
        <li key={bar.name} title={bar.title}>
          {bar.go ? (
            <button type="button" class="link" onClick={bar.go}>
              {bar.name}
            </button>
          ) : (
            <span class="bar-name">{bar.name}</span>
          )}
          <span class="track">
            <i style={{ width: `${(100 * bar.value) / most}%` }} />
          </span>
          <span class="amount">{bar.text}</span>
        </li>
      ))}
    </ul>
  );
}
