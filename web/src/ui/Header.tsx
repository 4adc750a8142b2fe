import { numberText, plural, secondsText, signed } from "../data/words";
import { theme, toggleTheme } from "../state/theme";
import type { Page } from "../state/store";
import { Badge } from "./Badge";
import { useStore } from "./context";
import { Icon } from "./Icon";

export function Header() {
  const store = useStore();
  const { report } = store;
  const { run, outcome } = report;
  const tab = (page: Page, text: string) => (
    <button
      type="button"
      role="tab"
      id={`tab-${page}`}
      aria-selected={store.page.value === page}
      aria-controls={`panel-${page}`}
      onClick={() => (store.page.value = page)}
    >
      {text}
    </button>
  );
  return (
    <header class="top">
      <h1 title={report.title}>{report.title || "report"}</h1>
      {outcome.status === "failed" ? (
        <span class="badge trust-failed">run failed</span>
      ) : (
        run.level && <Badge level={run.level} title={`Weakest evidence of the run: ${run.level}`} />
      )}
      <p class="sums">
        {run.nodes && (
          <span>
            {numberText(run.nodes[0])} → {numberText(run.nodes[1])} nodes <small>({signed(run.nodes[1] - run.nodes[0])})</small>
          </span>
        )}
        {run.applications ? <span class="roomy">{plural(run.applications, "rewrite")}</span> : null}
        {run.cpu_seconds ? <span class="roomy">{secondsText(run.cpu_seconds)} CPU</span> : null}
      </p>
      <div role="tablist" class="tabs" aria-label="Pages">
        {tab("steps", "Steps")}
        {tab("overview", "Overview")}
      </div>
      <button type="button" class="search-button" onClick={() => (store.searching.value = true)} aria-label="Search">
        <Icon name="search" />
        <span class="roomy">Search</span>
        <kbd>/</kbd>
      </button>
      <button
        type="button"
        class="icon-button"
        onClick={toggleTheme}
        aria-label={theme.value === "dark" ? "Switch to the light theme" : "Switch to the dark theme"}
        title="Light or dark"
      >
        <Icon name={theme.value === "dark" ? "sun" : "moon"} />
      </button>
      <button type="button" class="icon-button" onClick={() => (store.helping.value = true)} aria-label="Help" title="Keys (?)">
        ?
      </button>
    </header>
  );
}
