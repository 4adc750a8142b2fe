import { useMemo } from "preact/hooks";
import type { Status } from "../data/diff";
import type { Grouping } from "../graph/groups";
import { numberText } from "../data/words";
import { moreHops } from "../state/keys";
import { HOPS, type Shown } from "../state/store";
import { useStore } from "./context";
import { Icon } from "./Icon";

const VIEWS: [Shown, string, string][] = [
  ["diff", "Diff", "d"],
  ["before", "Before", "b"],
  ["after", "After", "a"],
  ["both", "Side by side", "s"],
];
const LEGEND: [Status, string, string][] = [
  ["removed", "−", "removed"],
  ["added", "+", "added"],
  ["changed", "~", "changed"],
  ["rewired", "⇄", "other inputs"],
  ["annotated", "i", "annotated"],
];

export function GraphToolbar({ fit }: { fit: () => void }) {
  const store = useStore();
  const hops = store.hops.value;
  const diff = store.diff.value;
  const graph = store.graph.value;
  const total = useMemo(() => store.history.nodesAt(diff.to, graph).length, [diff, graph]);
  return (
    <div class="toolbar" role="toolbar" aria-label="Graph">
      <div class="segments" role="radiogroup" aria-label="What is drawn">
        {VIEWS.map(([shown, text, key]) => (
          <button
            type="button"
            key={shown}
            role="radio"
            aria-checked={store.shown.value === shown}
            title={`${text} (${key})`}
            onClick={() => (store.shown.value = shown)}
          >
            {text}
          </button>
        ))}
      </div>
      <div class="segments" title="How far around the changes (+ and −)">
        <button type="button" aria-label="Fewer neighbours" disabled={hops === 0} onClick={() => moreHops(store, -1)}>
          −
        </button>
        <span class="hops" aria-live="polite">
          {hops === Infinity ? "all" : `${hops} hop${hops === 1 ? "" : "s"}`}
        </span>
        <button type="button" aria-label="More neighbours" disabled={hops === Infinity || hops === HOPS.at(-1)} onClick={() => moreHops(store, 1)}>
          +
        </button>
      </div>
      <button type="button" aria-pressed={hops === Infinity} title="Whole graph (w)" onClick={() => (store.hops.value = hops === Infinity ? 2 : Infinity)}>
        Whole graph
      </button>
      {hops === Infinity && (
        <>
          <select
            aria-label="Group nodes"
            value={store.grouping.value}
            onChange={(event) => {
              store.expanded.value = new Set();
              store.chosenGrouping.value = (event.target as HTMLSelectElement).value as Grouping;
            }}
          >
            <option value="none">every node</option>
            <option value="modules">by module</option>
            <option value="repeats">by repetition</option>
          </select>
          {store.expanded.value.size > 0 && store.grouping.value !== "none" && (
            <button type="button" title="Close all groups" onClick={() => (store.expanded.value = new Set())}>
              Close groups
            </button>
          )}
        </>
      )}
      <button type="button" class="icon-button" aria-label="Fit" title="Fit (f)" onClick={fit}>
        <Icon name="fit" />
      </button>
      <Breadcrumbs />
      <ul class="legend" aria-label="Changes">
        {LEGEND.map(([status, mark, text]) => {
          const count = diff.count(status);
          return count ? (
            <li key={status} class={`mark-${status}`} title={`${count} ${text}`}>
              <b aria-hidden="true">{mark}</b> {count} <span class="spacious">{text}</span>
            </li>
          ) : null;
        })}
        {!diff.changed.length && <li>no change</li>}
        <li class="quiet" title="Nodes of this graph, after">
          of {numberText(total)} <span class="spacious">nodes</span>
        </li>
      </ul>
    </div>
  );
}

/** Where a subgraph lies, the ways out of it, and the other graphs in which something changed. */
function Breadcrumbs() {
  const store = useStore();
  const { graphs } = store.report;
  const path: number[] = [];
  for (let at: number | undefined = store.graph.value; at !== undefined; at = graphs[at]?.parent) path.unshift(at);
  const others = store.diff.value.graphs.filter((graph) => !path.includes(graph));
  if (store.graph.value === 0 && !others.length) return null;
  if (path[0] !== 0) path.unshift(0);
  const name = (graph: number): string => (graph === 0 ? "main" : (graphs[graph]?.attribute ?? graphs[graph]?.name ?? "subgraph"));
  return (
    <nav class="crumbs" aria-label="Graph">
      {path.map((graph) => (
        <button type="button" key={graph} aria-current={graph === store.graph.value} onClick={() => store.openGraph(graph)}>
          {name(graph)}
        </button>
      ))}
      {others.length > 0 && (
        <select aria-label="Other graphs with changes" value="" onChange={(event) => store.openGraph(Number((event.target as HTMLSelectElement).value))}>
          <option value="" disabled>
            changes in {others.length} more
          </option>
          {others.map((graph) => (
            <option key={graph} value={graph}>
              {name(graph)}
              {graphs[graph]?.node ? ` of ${graphs[graph].node}` : ""}
            </option>
          ))}
        </select>
      )}
    </nav>
  );
}
