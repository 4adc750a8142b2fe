import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { find, type Hit } from "../data/find";
import { useStore } from "./context";
import { Dialog } from "./Dialog";

export function Search() {
  const store = useStore();
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const { from, to } = store.diff.value;
  const hits = useMemo(() => find(store.history, store.steps, query, [to, from]), [query, from, to]);
  useEffect(() => field.current!.focus(), []);
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);
  const close = (): void => {
    store.searching.value = false;
  };
  const go = (hit: Hit | undefined): void => {
    if (!hit) return;
    close();
    if (hit.kind === "step") store.selectStep(hit.number);
    else if (hit.here) {
      store.page.value = "steps";
      store.selectNode(hit.id);
    } else jump(hit.id);
  };
  const jump = (id: number): void => {
    const event = store.history.bornAt(id) >= 0 ? store.history.bornAt(id) : store.history.diedAt(id);
    if (event !== undefined) store.selectEvent(event, id);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key === "Enter") go(hits[at]);
    else if (event.key === "ArrowDown") setAt(Math.min(hits.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else return;
    event.preventDefault();
  };
  return (
    <Dialog label="Search" close={close}>
      <input
        ref={field}
        type="text"
        placeholder="Operator, node, value or pass"
        aria-label="Search"
        role="combobox"
        aria-expanded={hits.length > 0}
        aria-controls="hits"
        aria-activedescendant={hits.length ? `hit-${at}` : undefined}
        value={query}
        onInput={(event) => {
          setQuery((event.target as HTMLInputElement).value);
          setAt(0);
        }}
        onKeyDown={key}
      />
      <ul id="hits" role="listbox" ref={list} aria-label="Found">
        {hits.map((hit, index) => (
          <li id={`hit-${index}`} key={index} role="option" aria-selected={index === at} onClick={() => go(hit)} onPointerMove={() => setAt(index)}>
            <i class={`dot ${hit.kind === "node" ? `family-${store.history.operator(store.history.node(hit.id)).family}` : "dot-step"}`} />
            <b>{hit.title}</b>
            <span>{hit.detail}</span>
            {hit.kind === "node" && !hit.here && <small>in another step</small>}
          </li>
        ))}
      </ul>
      {query && !hits.length && <p class="quiet">Nothing has this name.</p>}
    </Dialog>
  );
}
