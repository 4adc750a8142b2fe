import { useEffect, useRef } from "preact/hooks";
import { listenToKeys } from "../state/keys";
import type { Store } from "../state/store";
import { StoreContext } from "./context";
import { Details } from "./Details";
import { GraphPane } from "./GraphPane";
import { Header } from "./Header";
import { Help } from "./Help";
import { Overview } from "./Overview";
import { Search } from "./Search";
import { Splitter } from "./Splitter";
import { StepList } from "./StepList";
import { TextPane } from "./TextPane";

export function App({ store }: { store: Store }) {
  const fit = useRef(() => undefined as void);
  useEffect(() => listenToKeys(store, () => fit.current()), [store]);
  return (
    <StoreContext.Provider value={store}>
      <Header />
      {store.page.value === "overview" ? (
        <Overview />
      ) : (
        <div class="columns" id="panel-steps" role="tabpanel" aria-labelledby="tab-steps">
          <StepList />
          <Splitter name="left" from={180} to={560} side="right" />
          <section class="middle" aria-label="Graph and text">
            <GraphPane fit={fit} />
            <TextPane />
          </section>
          <Splitter name="right" from={220} to={620} side="left" />
          <Details />
        </div>
      )}
      {store.searching.value && <Search />}
      {store.helping.value && <Help />}
    </StoreContext.Provider>
  );
}
