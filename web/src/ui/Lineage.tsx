import { ancestors, chain, descendants, type Hop } from "../data/lineage";
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
        {earlier.toSorted((a, b) => a.event - b.event).map((hop) => (
          <HopRow key={`from ${hop.event}`} hop={hop} direction="from" />
        ))}
        <li class="self">{store.history.node(id).op}</li>
        {later.toSorted((a, b) => a.event - b.event).map((hop) => (
          <HopRow key={`to ${hop.event}`} hop={hop} direction="to" />
        ))}
      </ol>
    </Section>
  );
}

function HopRow({ hop, direction }: { hop: Hop; direction: "from" | "to" }) {
  const store = useStore();
  const event = store.steps.event(hop.event)!;
  const step = store.steps.ofEvent(hop.event);
  return (
    <li>
      <p>
        {direction === "from" ? "from" : "to"} step {step?.record.number ?? event.step}{" "}
        <button type="button" class="link" onClick={() => store.selectEvent(hop.event, hop.ids[0])}>
          {step?.record.pass ?? "step"}
        </button>
        {event.rule && <span class="quiet"> {event.rule}</span>}
      </p>
      {hop.ids.slice(0, 8).map((id) => (
        <button type="button" class="chip" key={id} title={store.history.nameOf(id)} onClick={() => store.selectEvent(hop.event, id)}>
          {store.history.node(id).op}
        </button>
      ))}
      {hop.ids.length > 8 && <span class="quiet">and {hop.ids.length - 8} more</span>}
      {!hop.ids.length && <span class="quiet">{direction === "from" ? "made anew" : "nothing: removed"}</span>}
    </li>
  );
}
