import { useStore } from "./context";

/** What failed, where, and how to repeat it. */
export function Failure() {
  const { report } = useStore();
  const { outcome } = report;
  if (outcome.status !== "failed") return null;
  const error = (outcome.details?.["error"] ?? outcome.details ?? {}) as Record<string, unknown>;
  const details = (error["details"] ?? {}) as Record<string, unknown>;
  const rows = Object.entries({ ...pick(error, ["where", "hint"]), ...details }).filter(([, value]) => value !== null && value !== "");
  return (
    <section class="failure" role="alert" aria-label="Failure">
      <p>{outcome.message ?? String(error["message"] ?? "The run failed.")}</p>
      {rows.length > 0 && (
        <dl class="pairs">
          {rows.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{typeof value === "string" || typeof value === "number" ? String(value) : <pre>{JSON.stringify(value, null, 1)}</pre>}</dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}

function pick(from: Record<string, unknown>, keys: string[]): Record<string, unknown> {
  return Object.fromEntries(keys.filter((key) => from[key] !== undefined).map((key) => [key, from[key]]));
}
