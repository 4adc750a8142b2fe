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
        <Steps hops={earlier} direction="from" />
        <li class="self">{store.history.node(id).op}</li>
        <Steps hops={later} direction="to" />
      </ol>
    </Section>
  );
}

/** Hops of one step stand together, in the order of the run. */
function Steps({ hops, direction }: { hops: Hop[]; direction: "from" | "to" }) {
  const store = useStore();
  const steps = new Map<number, Hop[]>();
  for (const hop of hops.toSorted((a, b) => a.event - b.event)) {
    const { step } = store.steps.event(hop.event)!;
    steps.set(step, [...(steps.get(step) ?? []), hop]);
  }
  return (
    <>
      {[...steps].map(([step, inside]) => (
        <StepHops key={step} step={step} hops={inside} direction={direction} />
      ))}
    </>
  );
}

const SHOWN = 10;

function StepHops({ step, hops, direction }: { step: number; hops: Hop[]; direction: "from" | "to" }) {
  const store = useStore();
  const rules = [...new Set(hops.map((hop) => store.steps.event(hop.event)!.rule ?? ""))].filter(Boolean);
  const nodes = hops.flatMap((hop) => hop.ids.map((id): [Moment, number] => [hop.event, id]));
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
      {!nodes.length && <span class="quiet">{direction === "from" ? "made anew" : "nothing: removed"}</span>}
    </li>
  );
}
