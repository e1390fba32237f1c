// The interactive table: which rows and columns are shown, in which order, and how they are drawn.

const SHOWN_AT_FIRST = 200;
// Two names of one metric: the share of queries whose nearest neighbour has the right class.
const SAME = { "P@1": "R@1" };
const VERDICTS = {
  reproduced: { sign: "✓", text: "reproduced" },
  lower: { sign: "↓", text: "not reproduced: lower" },
  higher: { sign: "↑", text: "not reproduced: higher" },
  undecided: { sign: "?", text: "undecided" },
  "one seed": { sign: "1", text: "one seed, no verdict" },
  "not run": { sign: "·", text: "not run" },
};
const FACETS = [
  { name: "study", title: "Study", of: (row) => row.study, text: (value, data) => data.titles.study[value] || value },
  {
    name: "dataset",
    title: "Dataset",
    of: (row) => row.dataset,
    text: (value, data) => data.titles.dataset[value] || value,
  },
  { name: "family", title: "Loss family", of: (row) => row.family || NO_FAMILY, text: (value) => value },
  { name: "view", title: "View", of: (row) => row.view, text: (value, data) => data.views[value] || value },
  { name: "kind", title: "Origin", of: kindOf, text: (value) => value },
];

function kindOf(row) {
  const cells = Object.values(row.cells);
  return cells.some((cell) => cell.mean !== null) ? "measured here" : cells.length ? "quoted only" : "no value";
}

/** The cell of a row, under either name of the metric. */
function cellOf(row, metric) {
  return row.cells[metric] || row.cells[SAME[metric]] || null;
}

/** The name under which the row's study has this metric. */
function nameOf(row, metric) {
  return row.cells[metric] ? metric : row.cells[SAME[metric]] ? SAME[metric] : metric;
}

/** Add to the data what all parts of the page need: titles, search texts, one list of metrics. */
function prepare(data) {
  data.titles = { study: {}, dataset: {} };
  for (const study of data.studies) {
    data.titles.study[study.name] = study.name;
    Object.assign(data.titles.dataset, study.datasets);
  }
  data.byId = new Map();
  const counts = new Map(Object.keys(data.metrics).map((metric) => [metric, 0]));
  for (const row of data.rows) {
    data.byId.set(row.id, row);
    for (const metric of Object.keys(row.cells)) counts.set(metric, counts.get(metric) + 1);
    const words = [
      row.label,
      row.method,
      row.study,
      row.dataset,
      data.titles.dataset[row.dataset],
      row.family,
      row.backbone,
      row.view,
    ];
    row.words = words.filter(Boolean).join(" \u0000 ").toLowerCase();
  }
  for (const [kept, other] of Object.entries(SAME)) {
    if (counts.has(kept) && counts.has(other)) {
      counts.set(kept, data.rows.filter((row) => cellOf(row, kept)).length);
      counts.delete(other);
      data.metrics[kept] = `${data.metrics[kept]} = ${data.metrics[other]}`;
    }
  }
  data.metricNames = [...counts.keys()];
  const most = [...counts].sort((a, b) => b[1] - a[1]).map(([metric]) => metric);
  data.firstMetrics = data.metricNames.filter((metric) => most.slice(0, data.study ? 3 : 1).includes(metric));
  return data;
}

function digitsOf(data, metric) {
  return data.plain.includes(metric) ? 3 : 2;
}

/** The metrics that the view shows. */
function shownMetrics(data, state) {
  const known = state.metrics.filter((metric) => data.metricNames.includes(metric));
  return known.length ? known : data.firstMetrics;
}

/** The rows that pass all filters, in the order of the view. Rows without a value come last in any order. */
function shownRows(data, state) {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const facets = FACETS.filter((facet) => state[facet.name].length);
  const metrics = shownMetrics(data, state);
  const rows = data.rows.filter(
    (row) =>
      facets.every((facet) => state[facet.name].includes(facet.of(row))) &&
      words.every((word) => row.words.includes(word)) &&
      (!state.complete || metrics.every((metric) => cellOf(row, metric))) &&
      (!state.verdict.length || metrics.some((metric) => state.verdict.includes(cellOf(row, metric)?.verdict))),
  );
  const column = state.sort && columnsOf(data, state).find((each) => each.key === state.sort);
  if (!column) return rows;
  const keyed = rows.map((row, place) => ({ row, place, value: column.value(row) }));
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const sign = state.down ? -1 : 1;
  const absent = (value) => value === null || value === undefined || value === "";
  keyed.sort((a, b) => {
    if (absent(a.value) || absent(b.value)) return absent(a.value) - absent(b.value) || a.place - b.place;
    const order = typeof a.value === "number" ? a.value - b.value : compare(a.value, b.value);
    return sign * order || a.place - b.place;
  });
  return keyed.map((each) => each.row);
}

/** The columns of the view. Columns that would be empty or the same in all rows of the page are left out. */
function columnsOf(data, state) {
  const varies = (of) => data.rows.length > 1 && data.rows.some((row) => of(row) !== of(data.rows[0]));
  const dataset = (row) => data.titles.dataset[row.dataset] || row.dataset;
  const before = [
    { key: "dataset", title: "Dataset", value: dataset, text: (row) => dataset(row).replace(/ \(.*\)$/, "") },
    { key: "study", title: "Study", value: (row) => row.study },
    { key: "view", title: "View", value: (row) => data.views[row.view] || row.view },
    { key: "dim", title: "Dim.", value: (row) => row.dim, number: true },
  ];
  const after = [
    { key: "family", title: "Family", value: (row) => row.family },
    { key: "backbone", title: "Backbone", value: (row) => row.backbone },
  ];
  const places = before.filter((column) => varies(column.value));
  const metrics = shownMetrics(data, state);
  return [
    { key: "label", title: "Method", head: true, value: (row) => row.label, node: (row) => labelOf(row, places) },
    ...places,
    ...metrics.flatMap((metric) => metricColumns(data, metric)),
    { key: "plot", title: data.metrics[metrics[0]] || "", plot: metrics[0] },
    ...after.filter((column) => varies(column.value)),
  ];
}

function metricColumns(data, metric) {
  const digits = digitsOf(data, metric);
  const has = (test) =>
    data.rows.some((row) => {
      const cell = cellOf(row, metric);
      return cell && test(cell);
    });
  const shared = { metric, group: data.metrics[metric], number: true };
  const columns = [];
  if (has((cell) => cell.mean !== null)) {
    columns.push({
      ...shared,
      key: `${metric}:ours`,
      title: "ours",
      kind: "ours",
      value: (row) => cellOf(row, metric)?.mean,
      text: (row) => oursText(row, metric, digits),
    });
  }
  if (has((cell) => cell.quotes.length)) {
    columns.push({
      ...shared,
      key: `${metric}:published`,
      title: "published",
      kind: "published",
      value: (row) => cellOf(row, metric)?.quotes[0]?.value,
      text: (row) => publishedText(cellOf(row, metric), digits),
    });
  }
  if (has((cell) => cell.difference !== null)) {
    columns.push({
      ...shared,
      key: `${metric}:difference`,
      title: "Δ",
      kind: "difference",
      value: (row) => cellOf(row, metric)?.difference,
      text: (row) => differenceText(cellOf(row, metric), digits),
    });
  }
  if (has((cell) => cell.verdict && cell.verdict !== "not run")) {
    const order = Object.keys(VERDICTS);
    columns.push({
      ...shared,
      key: `${metric}:verdict`,
      title: "verdict",
      kind: "verdict",
      number: false,
      value: (row) => {
        const place = order.indexOf(cellOf(row, metric)?.verdict);
        return place < 0 ? null : place;
      },
      text: (row) => verdictText(cellOf(row, metric)),
      node: (row) => badge(cellOf(row, metric)),
    });
  }
  if (columns.length) columns[0].first = true;
  return columns;
}

function oursText(row, metric, digits) {
  const cell = cellOf(row, metric);
  if (cell && cell.mean !== null) {
    return number(cell.mean, digits) + (cell.interval === null ? "" : ` ± ${number(cell.interval, digits)}`);
  }
  const expected = row.planned && [metric, SAME[metric]].some((name) => row.metrics.includes(name));
  return !expected ? MISSING : row.failed ? "failed" : "not run";
}

/** Published values; those that agree are shown once. */
function publishedText(cell, digits) {
  if (!cell) return MISSING;
  return (
    [...new Set(cell.quotes.map((quote) => quoted(quote, digits) + (quote.note ? "*" : "")))].join(" / ") || MISSING
  );
}

/** The difference from the first published value; one that was read off a plot has one decimal. */
function differenceText(cell, digits) {
  return signed(cell?.difference, cell?.quotes[0]?.approximate ? 1 : digits);
}

/** Whether our mean differs from the published one, but by less than δ. */
function isWithin(cell) {
  return ["lower", "higher"].includes(cell.verdict) && cell.p_equivalence < cell.alpha;
}

function verdictText(cell) {
  return cell?.verdict ? VERDICTS[cell.verdict].text + (isWithin(cell) ? ", within δ" : "") : MISSING;
}

function badge(cell) {
  if (!cell?.verdict) return MISSING;
  const { sign } = VERDICTS[cell.verdict];
  const text = verdictText(cell);
  const short = text.replace("not reproduced: ", "");
  return h(
    "span",
    { class: "badge", "data-verdict": cell.verdict, title: text },
    h("span", { class: "sign", "aria-hidden": "true" }, sign),
    short,
  );
}

/** The warnings about a row's runs, as sentences. */
function warningsOf(row) {
  return row.warned.map((text) => `${text[0].toUpperCase()}${text.slice(1).replace(/\.$/, "")}.`).join(" ");
}

/** The name of a row. On narrow screens the columns ``places`` are hidden, and their texts stand below the name. */
function labelOf(row, places) {
  const mark = row.warned.length ? ["\u00a0", h("abbr", { title: warningsOf(row) }, "⚠")] : null;
  const where = places
    .map((column) => (column.text || column.value)(row))
    .filter(Boolean)
    .join(" · ");
  return [h("span", { class: "name" }, row.label, mark), h("span", { class: "where" }, where)];
}

/** Our value (filled, with its interval) and the published one (hollow) on the scale of the shown rows. */
function strip(row, metric, scale) {
  const cell = cellOf(row, metric);
  const [least, most] = scale;
  const x = (value) => 4 + (92 * (Math.min(Math.max(value, least), most) - least)) / (most - least || 1);
  const svg = s("svg", { viewBox: "0 0 100 16", class: "strip", "aria-hidden": "true", preserveAspectRatio: "none" });
  svg.append(s("line", { x1: 2, x2: 98, y1: 8, y2: 8, class: "rail" }));
  for (const quote of cell?.quotes || []) {
    svg.append(s("rect", { x: x(quote.value) - 1.6, y: 4, width: 3.2, height: 8, class: "quote" }));
  }
  if (cell && cell.mean !== null) {
    if (cell.interval !== null) {
      svg.append(
        s("line", {
          x1: x(cell.mean - cell.interval),
          x2: x(cell.mean + cell.interval),
          y1: 8,
          y2: 8,
          class: "whisker",
        }),
      );
    }
    svg.append(s("ellipse", { cx: x(cell.mean), cy: 8, rx: 2, ry: 4.5, class: "ours" }));
  }
  return svg;
}

/** The ends of the drawings' axis. The lowest tenth of the values is drawn at its left end, so that others differ visibly. */
function scaleOf(rows, metric) {
  const values = rows
    .flatMap((row) => {
      const cell = cellOf(row, metric);
      return cell ? [...cell.quotes.map((quote) => quote.value), ...(cell.mean === null ? [] : [cell.mean])] : [];
    })
    .sort((a, b) => a - b);
  return values.length ? [values[Math.floor(values.length / 10)], values.at(-1)] : [0, 1];
}

/** Draw the table into an element. ``events`` are: sort(key), select(id) and open(id, metric). */
function drawTable(root, data, state, rows, limit, events) {
  const columns = columnsOf(data, state);
  const scale = scaleOf(rows, shownMetrics(data, state)[0]);
  const head = [
    h(
      "tr",
      { class: "groups" },
      h("td", { class: "tick" }),
      groupsOf(columns).map(({ title, span, column }) =>
        title
          ? h("th", { scope: "colgroup", colspan: span, class: "first" }, title)
          : h("td", { class: column.plot ? "plot" : classesOf(column) }),
      ),
    ),
    h(
      "tr",
      {},
      h("th", { scope: "col", class: "tick" }, h("span", { class: "away" }, "Compare")),
      columns.map((column) => heading(column, state, events)),
    ),
  ];
  const body = rows.slice(0, limit).map((row) => {
    const chosen = state.rows.includes(row.id);
    const name = `Compare ${row.label}, ${row.dataset}, ${row.view}, ${row.study}`;
    return h(
      "tr",
      { class: chosen ? "chosen" : null, "data-id": row.id },
      h(
        "td",
        { class: "tick" },
        h("input", {
          type: "checkbox",
          tabindex: "-1",
          checked: chosen,
          "aria-label": name,
          change: () => events.select(row.id),
        }),
      ),
      columns.map((column) =>
        column.plot ? h("td", { class: "plot" }, strip(row, column.plot, scale)) : tableCell(row, column, events),
      ),
    );
  });
  const table = h("table", { class: "board" }, h("thead", {}, head), h("tbody", { keydown: moveFocus }, body));
  root.replaceChildren(table);
  const first = table.querySelector("tbody input");
  if (first) first.tabIndex = 0;
}

function heading(column, state, events) {
  if (column.plot)
    return h("th", { scope: "col", class: "plot" }, column.title, h("span", { class: "away" }, " as a plot"));
  const sorted = state.sort === column.key;
  const arrow = sorted ? (state.down ? "▼" : "▲") : "";
  return h(
    "th",
    {
      scope: "col",
      class: classesOf(column),
      "aria-sort": sorted ? (state.down ? "descending" : "ascending") : "none",
    },
    h(
      "button",
      { type: "button", "data-sort": column.key, click: () => events.sort(column.key) },
      column.title,
      h("span", { class: "arrow", "aria-hidden": "true" }, arrow),
    ),
  );
}

function tableCell(row, column, events) {
  const content = column.node ? column.node(row) : column.text ? column.text(row) : (column.value(row) ?? MISSING);
  if (column.head) {
    return h(
      "th",
      { scope: "row", class: classesOf(column) },
      h(
        "button",
        {
          type: "button",
          tabindex: "-1",
          class: "cell",
          title: "Where this row comes from",
          click: () => events.open(row.id, ""),
        },
        content,
      ),
    );
  }
  if (!column.metric || !cellOf(row, column.metric)) return h("td", { class: classesOf(column) }, content);
  return h(
    "td",
    { class: classesOf(column) },
    h(
      "button",
      {
        type: "button",
        tabindex: "-1",
        class: "cell",
        "data-metric": column.metric,
        click: () => events.open(row.id, column.metric),
      },
      content,
    ),
  );
}

function classesOf(column) {
  return [
    column.kind,
    column.number && "number",
    column.first && "first",
    !column.metric && !column.head && "place",
    column.head && "label",
    column.key === "backbone" && "backbone",
  ]
    .filter(Boolean)
    .join(" ");
}

/** The headings above the columns: the metric over its columns, nothing over the others. */
function groupsOf(columns) {
  const groups = [];
  for (const column of columns) {
    const last = groups.at(-1);
    if (column.metric && last?.column.metric === column.metric) last.span += 1;
    else groups.push({ title: column.group, span: 1, column });
  }
  return groups;
}

/** Arrow keys, Home and End move between the cells of the table; the Tab key reaches one of them. */
function moveFocus(event) {
  const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  if (!step && event.key !== "Home" && event.key !== "End") return;
  const row = event.target.closest("tr");
  const stops = (tr) => [...tr.querySelectorAll("input, button")];
  const here = stops(row).indexOf(event.target);
  let next;
  if (!step) next = stops(row).at(event.key === "Home" ? 0 : -1);
  else if (step[1]) next = stops(row)[here + step[1]];
  else {
    const other = step[0] > 0 ? row.nextElementSibling : row.previousElementSibling;
    next = other && (stops(other)[here] || stops(other).at(-1));
  }
  if (!next) return;
  event.preventDefault();
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
