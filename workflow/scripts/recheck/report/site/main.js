// Starts the page: reads the data and the address, draws controls and table, and keeps them in step with the address.

function start() {
  const data = prepare(JSON.parse(document.getElementById("data").textContent));
  const root = document.getElementById("board");
  let state = readState(location.hash) || emptyState();
  let limit = SHOWN_AT_FIRST;
  let limitBeforePrint = limit;
  let rows = [];
  const controls = drawControls(data, { changed: (change) => update(change), open: (format) => openExport(format) });
  const status = h("p", { class: "status", role: "status" });
  const scroll = h("div", { class: "scroll board-scroll", role: "region", "aria-label": "Results" });
  const more = h("p", { class: "more" });
  const picked = h("div", { class: "picked", role: "region", "aria-label": "Rows to compare", hidden: true });
  root.replaceChildren(controls.element, status, scroll, more, picked);

  const events = {
    sort(key) {
      // largest first, then smallest first, then the order of the studies; texts the other way round
      const number = key.includes(":") || key === "dim";
      if (state.sort !== key) update({ sort: key, down: number });
      else if (state.down === number) update({ down: !number });
      else update({ sort: "", down: false });
      scroll.querySelector(`[data-sort="${CSS.escape(key)}"]`)?.focus();
    },
    select(id) {
      const chosen = state.rows.includes(id) ? state.rows.filter((each) => each !== id) : [...state.rows.slice(-1), id];
      update({ rows: chosen });
      scroll.querySelector(`[data-id="${CSS.escape(id)}"] input`)?.focus();
    },
    open: (id, metric) => update({ open: metric ? `${metric} ${id}` : id }),
  };

  function update(change, written = true) {
    const before = state;
    state = { ...state, ...change };
    if (Object.keys(change).some((key) => !["rows", "open", "sort", "down"].includes(key))) limit = SHOWN_AT_FIRST;
    if (written) history.replaceState(null, "", `${location.pathname}${location.search}#${writeState(state)}`);
    const onlyPanel = Object.keys(change).every((key) => key === "open");
    if (!onlyPanel || !written) draw();
    if (state.open !== before.open || !written) openFromState();
  }

  function draw() {
    rows = shownRows(data, state);
    controls.show(state);
    drawTable(scroll, data, state, rows, limit, events);
    status.textContent = statusOf(data, rows);
    drawMore();
    drawPicked();
  }

  function drawMore() {
    const left = rows.length - limit;
    const show = (count) => () => {
      limit += count;
      draw();
    };
    more.replaceChildren(
      ...(left > 0
        ? [
            `${plural(left, "more row")}: `,
            h("button", { type: "button", click: show(SHOWN_AT_FIRST) }, `show ${Math.min(left, SHOWN_AT_FIRST)}`),
            " ",
            h("button", { type: "button", click: show(left) }, "show all"),
          ]
        : []),
    );
  }

  function drawPicked() {
    const chosen = state.rows.map((id) => data.byId.get(id)).filter(Boolean);
    picked.hidden = !chosen.length;
    const text = chosen.map((row, place) => h("span", { class: "pick" }, `${"AB"[place]}: ${row.label}`));
    const hint = chosen.length < 2 ? h("span", { class: "note" }, "Select a second row to compare.") : null;
    picked.replaceChildren(
      ...[text, hint].flat().filter(Boolean),
      h(
        "button",
        { type: "button", class: "strong", disabled: chosen.length < 2, click: () => update({ open: "compare" }) },
        "Compare",
      ),
      h("button", { type: "button", click: () => update({ rows: [] }) }, "Clear"),
    );
  }

  function openFromState() {
    const closed = () => update({ open: "" });
    const dialog = document.querySelector("dialog");
    const [first, ...rest] = state.open.split(" ");
    const row = data.byId.get(rest.length ? rest.join(" ") : first);
    const chosen = state.rows.map((id) => data.byId.get(id)).filter(Boolean);
    if (state.open === "compare" && chosen.length === 2) showComparison(data, state, ...chosen, closed);
    else if (row && (!rest.length || cellOf(row, first))) showProvenance(data, row, rest.length ? first : "", closed);
    else if (dialog.open) dialog.close();
  }

  function openExport(format) {
    showExport(data, state, rows, format);
  }

  addEventListener("hashchange", () => {
    const given = readState(location.hash);
    if (given) update(given, false);
  });
  addEventListener("beforeprint", () => {
    limitBeforePrint = limit;
    limit = Infinity;
    draw();
  });
  addEventListener("afterprint", () => {
    limit = limitBeforePrint;
    draw();
  });
  addEventListener("keydown", (event) => {
    const typing = event.target.closest("input[type=search], textarea, dialog");
    if (event.key === "/" && !typing) {
      event.preventDefault();
      controls.search.focus();
    }
  });
  drawSummary(data);
  draw();
  openFromState();
}

function statusOf(data, rows) {
  const count = (kind) => rows.filter((row) => kindOf(row) === kind).length.toLocaleString("en");
  const none = count("no value") === "0" ? "" : `, ${count("no value")} without a value`;
  const all = data.rows.length.toLocaleString("en");
  return `${plural(rows.length, "row")} of ${all}: ${count("measured here")} measured here, ${count("quoted only")} quoted only${none}.`;
}

/** Search, filters, metrics and export. ``show(state)`` makes them show a state. */
function drawControls(data, { changed, open }) {
  const search = h("input", {
    type: "search",
    id: "search",
    placeholder: "Method, dataset, backbone …",
    autocomplete: "off",
    input: () => changed({ q: search.value }),
  });
  const complete = h("input", {
    type: "checkbox",
    id: "complete",
    change: () => changed({ complete: complete.checked }),
  });
  const menus = FACETS.map((facet) =>
    menuOf(facet.title, facet.name, valuesOf(data, facet), (values) => changed({ [facet.name]: values })),
  );
  const verdicts = Object.keys(VERDICTS).filter((name) =>
    data.rows.some((row) => Object.values(row.cells).some((cell) => cell.verdict === name)),
  );
  if (verdicts.length)
    menus.push(
      menuOf(
        "Verdict",
        "verdict",
        verdicts.map((name) => [name, VERDICTS[name].text]),
        (values) => changed({ verdict: values }),
      ),
    );
  const metrics = menuOf(
    "Metrics",
    "metrics",
    data.metricNames.map((metric) => [metric, data.metrics[metric]]),
    (values) => changed({ metrics: values }),
  );
  const shown = [...menus.filter((menu) => menu.count > 1), metrics];
  const reset = h("button", { type: "button", id: "reset", click: () => changed({ ...emptyState() }) }, "Reset");
  const element = h(
    "form",
    { class: "controls", role: "search", submit: (event) => event.preventDefault() },
    h("label", { class: "search", for: "search" }, h("span", { class: "away" }, "Search"), search),
    shown.map((menu) => menu.element),
    h("label", { class: "check", for: "complete" }, complete, "Hide rows without a value"),
    reset,
    h(
      "span",
      { class: "export", role: "group", "aria-label": "Export what is shown" },
      "Export ",
      Object.keys(FORMATS).map((format) =>
        h("button", { type: "button", "data-export": format, click: () => open(format) }, format),
      ),
    ),
  );
  document.addEventListener("click", (event) => {
    for (const menu of element.querySelectorAll("details[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  element.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest("details[open]");
    if (menu) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
  return {
    element,
    search,
    show(state) {
      if (search.value !== state.q) search.value = state.q;
      complete.checked = state.complete;
      for (const menu of shown)
        menu.show(menu.name === "metrics" ? shownMetrics(data, state) : state[menu.name], state[menu.name].length > 0);
    },
  };
}

/** The values of a facet with their names, in the order of the rows. */
function valuesOf(data, facet) {
  const counts = new Map();
  for (const row of data.rows) counts.set(facet.of(row), (counts.get(facet.of(row)) || 0) + 1);
  return [...counts].map(([value, count]) => [value, facet.text(value, data), count]);
}

/** A list of checkboxes that opens below its title. */
function menuOf(title, name, values, changed) {
  const boxes = values.map(([value, text, count]) => {
    const box = h("input", { type: "checkbox", value, name });
    return {
      box,
      element: h(
        "label",
        {},
        box,
        h("span", {}, text),
        count === undefined ? null : h("span", { class: "count" }, count),
      ),
    };
  });
  const summary = h("summary", {}, title);
  const list = h(
    "fieldset",
    { change: () => changed(boxes.filter(({ box }) => box.checked).map(({ box }) => box.value)) },
    h("legend", { class: "away" }, title),
    boxes.map(({ element }) => element),
  );
  return {
    name,
    count: values.length,
    element: h("details", { class: "menu", "data-menu": name }, summary, list),
    show(chosen, active) {
      for (const { box } of boxes) box.checked = chosen.includes(box.value);
      summary.textContent = active ? `${title} (${chosen.length})` : title;
      summary.classList.toggle("active", active);
    },
  };
}

/** The numbers at the top of the page and the list of studies below the table. */
function drawSummary(data) {
  const cells = data.rows.flatMap((row) => Object.values(row.cells));
  const count = (test) => cells.filter(test).length;
  const verdicts = count((cell) => cell.verdict && cell.verdict !== "not run");
  const values = (number) => (number === 1 ? "value" : "values");
  const measured = count((cell) => cell.mean !== null);
  const published = count((cell) => cell.quotes.length);
  const parts = [
    [measured, `${values(measured)} measured here`],
    [published, `published ${values(published)}`],
    ...(verdicts
      ? [
          [count((cell) => cell.verdict === "reproduced"), "reproduced"],
          [count((cell) => ["lower", "higher"].includes(cell.verdict)), "not reproduced"],
          [count((cell) => cell.verdict === "undecided"), "undecided"],
        ]
      : []),
  ];
  document
    .getElementById("summary")
    .replaceChildren(
      ...parts.map(([number, text]) => h("li", {}, h("strong", {}, number.toLocaleString("en")), ` ${text}`)),
    );
  const list = document.getElementById("studies");
  if (!list) return;
  const isMeasured = (study) => Object.keys(data.runs).some((place) => place.startsWith(`${study.name}/`));
  list.replaceChildren(
    ...data.studies.map((study) =>
      h(
        "li",
        {},
        link(study.title, study.link),
        " ",
        h("code", {}, study.name),
        h("span", { class: "note" }, `, ${plural(study.rows, "row")}`),
        study.page ? [" · ", link("report with figures", study.page)] : null,
        study.rows ? null : [" · ", h("code", {}, study.command)],
        isMeasured(study)
          ? [study.verdicts, study.alarms].filter(Boolean).map((sentence) => h("p", { class: "note" }, sentence))
          : null,
        study.failures.length
          ? h(
              "details",
              {},
              h("summary", {}, plural(study.failures.length, "failed job")),
              h(
                "ul",
                {},
                study.failures.map((line) => h("li", {}, line)),
              ),
            )
          : null,
      ),
    ),
  );
}

start();
