import type { Charts } from "../data/contract";
import { shortName } from "../data/words";

const KINDS = ["weights", "inputs", "accumulator"] as const;

/** Bits of weights, inputs and sums of every layer. */
export function BitsChart({ bits }: { bits: Charts["bits"] }) {
  const most = Math.max(8, ...bits.flatMap((layer) => KINDS.map((kind) => layer[kind] ?? 0)));
  return (
    <div class="bits">
      <ul class="key">
        {KINDS.map((kind, index) => (
          <li key={kind}>
            <i class={`series-${index}`} /> {kind}
          </li>
        ))}
      </ul>
      {bits.map((layer) => (
        <div class="bits-row" key={layer.layer}>
          <span title={layer.layer}>{shortName(layer.layer, 26)}</span>
          <span class="bits-bars">
            {KINDS.map((kind, index) =>
              layer[kind] === undefined ? null : (
                <i key={kind} class={`series-${index}`} style={{ width: `${(100 * layer[kind]) / most}%` }} title={`${kind}: ${layer[kind]} bits`} />
              ),
            )}
          </span>
          <span class="amount">{KINDS.map((kind) => layer[kind] ?? "–").join(" / ")}</span>
        </div>
      ))}
    </div>
  );
}
