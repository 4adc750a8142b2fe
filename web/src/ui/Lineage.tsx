import { ancestors, chain, descendants, type Hop } from "../data/lineage";
import type { Moment } from "../data/history";
import { useStore } from "./context";
import { Section } from "./Section";

/** What a node was made of, and what became of it, through all steps. */
export function Lineage({ id }: { id: number }) {
  const store = useStore();
  const earlier = chain(store.history, id, ancestors);
  const later = chain(store.history, id, descendants);
  if (!earlier.length && !later.length) return <p class="quiet">A node of the original that no step touched.</p>;
  return (
    <Section title="Lineage">
      <ol class="lineage">
        <Steps id={id} hops={earlier} direction="from" />
        <li class="self">{store.history.node(id).op}</li>
        <Steps id={id} hops={later} direction="to" />
      </ol>
    </Section>
  );
}

/** Hops of one step stand together, in the order of the run. */
function Steps({ id, hops, direction }: { id: number; hops: Hop[]; direction: "from" | "to" }) {
  const store = useStore();
  const gone = new Set([id, ...hops.flatMap((hop) => hop.ids)]);
  const steps = new Map<number, Hop[]>();
  for (const hop of hops.toSorted((a, b) => a.event - b.event)) {
    const { step } = store.steps.event(hop.event)!;
    steps.set(step, [...(steps.get(step) ?? []), hop]);
  }
  return (
    <>
      {[...steps].map(([step, inside]) => (
        <StepHops key={step} step={step} hops={inside} direction={direction} gone={gone} />
      ))}
    </>
  );
}

const SHOWN = 10;

function StepHops({ step, hops, direction, gone }: { step: number; hops: Hop[]; direction: "from" | "to"; gone: Set<number> }) {
  const store = useStore();
  const rules = [...new Set(hops.map((hop) => store.steps.event(hop.event)!.rule ?? ""))].filter(Boolean);
  const nodes = hops.flatMap((hop) => hop.ids.map((id): [Moment, number] => [hop.event, id]));
  const constants = direction === "to" ? hops.flatMap((hop) => (store.steps.event(hop.event)!.made ?? []).filter(([, node]) => gone.has(node))) : [];
  return (
    <li>
      <p>
        {direction} step {step}{" "}
        <button type="button" class="link" onClick={() => store.selectEvent(hops[0]!.event, hops[0]!.ids[0])}>
          {store.steps.get(step)?.record.pass ?? "step"}
        </button>
        <span class="quiet"> {rules.join(", ")}</span>
      </p>
      {nodes.slice(0, SHOWN).map(([event, id]) => (
        <button type="button" class="chip" key={id} title={store.history.nameOf(id)} onClick={() => store.selectEvent(event, id)}>
          {store.history.node(id).op}
        </button>
      ))}
      {nodes.length > SHOWN && <span class="quiet">and {nodes.length - SHOWN} more</span>}
      {constants.map(([value]) => (
        <span class="quiet" key={value}>
          constant {store.report.values[value]!.name}
        </span>
      ))}
      {!nodes.length && !constants.length && <span class="quiet">{direction === "from" ? "made anew" : "nothing: removed"}</span>}
    </li>
  );
}
