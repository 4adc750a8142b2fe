import { failedEvent, failureOf } from "../data/failure";
import { sourceText } from "../data/words";
import { useStore } from "./context";

const ROWS: [string, string][] = [
  ["difference", "difference"],
  ["diverges", "diverges at"],
  ["application", "rewrite"],
  ["matched", "matched"],
  ["replacement", "replaced by"],
  ["source", "rule"],
  ["sample", "sample"],
  ["claim", "promise"],
  ["no_excuse", "not accepted"],
  ["where", "where"],
  ["hint", "hint"],
  ["reproducer", "reproducer"],
];
const ELSEWHERE = new Set(["step", "text", "number", "type", "message", "kind", "exit_code", "details"]);

/** What failed, where, and how to repeat it. */
export function Failure() {
  const store = useStore();
  const { outcome } = store.report;
  if (outcome.status !== "failed") return null;
  const known = failureOf(store.report);
  const rest = Object.keys(known).filter((key) => !ELSEWHERE.has(key) && !ROWS.some(([name]) => name === key));
  const rows = [...ROWS, ...rest.map((key): [string, string] => [key, key])].filter(([key]) => known[key] !== undefined && known[key] !== "");
  const event = failedEvent(store.report, store.steps);
  const show = (value: unknown): string => (typeof value === "object" ? JSON.stringify(value, null, 1) : String(value));
  return (
    <section class="failure" role="alert" aria-label="Failure">
      <p class="failure-message">{outcome.message ?? "The run failed."}</p>
      <dl class="pairs">
        {rows.map(([key, name]) => (
          <div key={key}>
            <dt>{name}</dt>
            <dd>{key === "source" ? sourceText(show(known[key])) : show(known[key])}</dd>
          </div>
        ))}
      </dl>
      {event !== undefined && event !== store.event.value && (
        <button type="button" class="link" onClick={() => store.selectEvent(event)}>
          Show the rewrite
        </button>
      )}
    </section>
  );
}
