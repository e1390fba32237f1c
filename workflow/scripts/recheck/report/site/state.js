// The view (filters, metrics, order, selected rows, open panel) and how it is written in the fragment of the address.

const LISTS = ["study", "dataset", "family", "view", "kind", "verdict", "metrics", "rows"];
const NO_FAMILY = "(none)";

function emptyState() {
  const lists = Object.fromEntries(LISTS.map((name) => [name, []]));
  return { ...lists, q: "", complete: false, sort: "", down: false, open: "" };
}

/** The state in a fragment; null for the anchor of a heading. */
function readState(fragment) {
  const text = fragment.replace(/^#/, "");
  if (text && !text.includes("=")) return null;
  const given = new URLSearchParams(text);
  const state = emptyState();
  for (const name of LISTS) state[name] = given.getAll(name);
  state.rows = state.rows.slice(0, 2);
  state.q = given.get("q") || "";
  state.complete = given.get("complete") === "1";
  state.sort = (given.get("sort") || "").replace(/^-/, "");
  state.down = (given.get("sort") || "").startsWith("-");
  state.open = given.get("open") || "";
  return state;
}

/** The fragment of a state, which has only what differs from the page's first view. */
function writeState(state) {
  const given = new URLSearchParams();
  for (const name of LISTS) for (const value of state[name]) given.append(name, value);
  if (state.q) given.set("q", state.q);
  if (state.complete) given.set("complete", "1");
  if (state.sort) given.set("sort", (state.down ? "-" : "") + state.sort);
  if (state.open) given.set("open", state.open);
  return String(given);
}
