import { plural } from "../data/words";
import { useStore } from "./context";
import { Icon } from "./Icon";
import { Lineage } from "./Lineage";
import { Section } from "./Section";
import { ValueDetails } from "./ValueDetails";

export function NodeDetails({ id }: { id: number }) {
  const store = useStore();
  const { history, report } = store;
  const diff = store.diff.value;
  const node = history.node(id);
  const moment = history.lives(id, diff.to) ? diff.to : diff.from;
  const cell = diff.cell(id);
  const other = cell.before === id ? cell.after : cell.before;
  const final = history.diedAt(id) === undefined;
  const blockers = final ? report.blockers.filter((each) => node.outputs.includes(each.node) || each.node === node.name) : [];
  const was = other !== undefined && other !== id ? history.node(other).attributes : undefined;
  return (
    <article class="node-details" aria-label="Node">
      <header>
        <i class={`dot family-${history.operator(node).family}`} />
        <h2>{node.op}</h2>
        {cell.status !== "kept" && <span class={`status-word mark-${cell.status}`}>{cell.status === "rewired" ? "other inputs" : cell.status}</span>}
        <button type="button" class="icon-button" aria-label="Let go of this node" title="Let go (Esc)" onClick={() => store.selectNode(undefined)}>
          <Icon name="close" />
        </button>
      </header>
      {node.name && <p class="full-name">{node.name}</p>}
      {node.domain && <p class="quiet">{node.domain}</p>}
      {blockers.map((blocker, index) => (
        <p class="blocker" key={index}>
          <b>{blocker.rule ?? blocker.pass}</b> {blocker.reason}
        </p>
      ))}
      {node.graphs?.map((graph) => (
        <button type="button" key={graph} class="chip" onClick={() => store.openGraph(graph)}>
          open {report.graphs[graph]?.attribute ?? report.graphs[graph]?.name}
          <span class="quiet">{plural(history.nodesAt(moment, graph).length, "node")}</span>
        </button>
      ))}
      <Lineage id={id} />
      {node.attributes && Object.keys(node.attributes).length > 0 && (
        <Section title="Attributes">
          <dl class="pairs">
            {Object.entries(node.attributes).map(([name, text]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>
                  {was && was[name] !== undefined && was[name] !== text && <del>{was[name]}</del>} {text}
                </dd>
              </div>
            ))}
          </dl>
        </Section>
      )}
      <Section title="Inputs" count={node.inputs.filter(Boolean).length}>
        {node.inputs.map((name, index) =>
          name ? <ValueDetails key={index} name={name} role={history.operator(node).inputs?.[index]} graph={node.graph ?? 0} moment={moment} maker /> : null,
        )}
      </Section>
      <Section title="Outputs" count={node.outputs.length}>
        {node.outputs.map((name, index) => (
          <ValueDetails key={index} name={name} graph={node.graph ?? 0} moment={moment} />
        ))}
      </Section>
    </article>
  );
}
