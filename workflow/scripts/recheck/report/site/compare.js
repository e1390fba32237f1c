// Two rows side by side: paired differences per dataset, and the images that each retrieves.

/** The paired comparison of two rows on a metric, or the reason why there is none. */
function compareRows(data, a, b, metric) {
  const cells = [cellOf(a, metric), cellOf(b, metric)];
  if (cells.some((cell) => !cell || cell.mean === null))
    return { reason: "at least one of the two rows was not measured" };
  const [first, second] = cells.map(valuesOfSeeds);
  const shared = [...first.keys()].filter((seed) => second.has(seed));
  const splits = [a, b].map((row) => {
    const runs = data.runs[`${row.study}/${row.dataset}/${row.method}`]?.runs || [];
    return new Map(runs.map((run) => [run.seed, run.data.split]));
  });
  if (shared.some((seed) => splits[0].get(seed) !== splits[1].get(seed)))
    return { reason: "the two rows were measured on different splits" };
  if (shared.length < 2)
    return { reason: shared.length ? "the two rows share only one seed" : "the two rows share no seed" };
  return { tested: paired.compare(first, second, data.tails) };
}

/** Seed → the values of its folds, or its only value. */
function valuesOfSeeds(cell) {
  return new Map(Object.entries(cell.seeds).map(([seed, value]) => [Number(seed), cell.folds[seed] || [value]]));
}

/** The rows that correspond to two selected rows on every dataset that has both. */
function partners(data, a, b) {
  const find = (row, dataset) => data.byId.get(`${row.study}/${dataset}/${row.method}/${row.view}`);
  const datasets = [...new Set([a.dataset, b.dataset, ...Object.keys(data.titles.dataset)])];
  const pairs = datasets
    .map((dataset) => [dataset, find(a, dataset), find(b, dataset)])
    .filter(([, one, two]) => one && two);
  return pairs.length ? pairs : [[a.dataset, a, b]];
}

function showComparison(data, state, a, b, closed) {
  const metrics = shownMetrics(data, state).filter((metric) => cellOf(a, metric) || cellOf(b, metric));
  const name = (row, other) => row.label + (row.label === other.label ? ` (${[row.study, row.view].join(", ")})` : "");
  const names = [name(a, b), name(b, a)];
  const content = [
    h(
      "p",
      { class: "path" },
      `A: ${a.label} — ${a.study}, ${data.views[a.view]}`,
      h("br"),
      `B: ${b.label} — ${b.study}, ${data.views[b.view]}`,
    ),
  ];
  const reasons = new Map();
  for (const metric of metrics) {
    const digits = digitsOf(data, metric);
    const lines = partners(data, a, b).map(([dataset, one, two]) =>
      comparison(data, dataset, one, two, metric, digits),
    );
    content.push(
      h("h3", {}, data.metrics[metric]),
      plainTable(
        `Differences in ${metric}`,
        ["Dataset", "A", "B", "A − B", "Interval", "", "P(A > B)", "p", "Seeds"],
        withForest(lines, digits),
      ),
    );
    for (const { dataset, reason } of lines)
      if (reason) reasons.set(reason, [...new Set([...(reasons.get(reason) || []), dataset])]);
  }
  for (const [reason, datasets] of reasons)
    content.push(h("p", { class: "note" }, `No paired comparison on ${datasets.join(", ")}: ${reason}.`));
  content.push(
    h(
      "p",
      { class: "note" },
      "Values are paired by seed, and by fold where a view has folds; both rows must have the same split. The interval comes from a bootstrap over seeds; with few seeds, its confidence (in brackets) is below 95 %. P(A > B) is the share of pairs in which A is higher; ties count half. p comes from a sign-flip test over seeds; with few seeds it cannot be small.",
    ),
  );
  content.push(...galleriesOf(data, a, b, names));
  openPanel(`${names[0]} or ${names[1]}?`, content, closed);
}

function comparison(data, dataset, a, b, metric, digits) {
  const { tested = null, reason = "" } = compareRows(data, a, b, metric);
  const value = (row) => {
    const cell = cellOf(row, metric);
    if (!cell) return [null, MISSING];
    return cell.mean === null
      ? [cell.quotes[0].value, `${publishedText(cell, digits)} (published)`]
      : [cell.mean, oursText(row, metric, digits)];
  };
  const [[first, firstText], [second, secondText]] = [value(a), value(b)];
  const title = a.dataset === b.dataset ? data.titles.dataset[dataset] || dataset : `${a.dataset} / ${b.dataset}`;
  const difference = tested ? tested.difference : first === null || second === null ? null : first - second;
  return { dataset: title, texts: [firstText, secondText], difference, tested, reason };
}

/** The lines as cells; a small drawing shows each interval on one scale with a line at zero. */
function withForest(lines, digits) {
  const ends = lines
    .flatMap(({ tested, difference }) => (tested ? [tested.low, tested.high] : [difference ?? 0]))
    .map(Math.abs);
  const most = Math.max(...ends, 0.1) * 1.1;
  const x = (value) => 60 + (56 * value) / most;
  return lines.map(({ dataset, texts, difference, tested }) => {
    const drawing = s("svg", {
      viewBox: "0 0 120 18",
      class: "forest",
      role: "img",
      "aria-label": tested
        ? `${signed(tested.low, digits)} to ${signed(tested.high, digits)}`
        : signed(difference, digits),
    });
    drawing.append(s("line", { x1: 60, x2: 60, y1: 1, y2: 17, class: "zero" }));
    if (tested) drawing.append(s("line", { x1: x(tested.low), x2: x(tested.high), y1: 9, y2: 9, class: "whisker" }));
    if (difference !== null)
      drawing.append(s("circle", { cx: x(difference), cy: 9, r: 3.4, class: tested ? "ours" : "quote" }));
    if (!tested) return [dataset, ...texts, signed(difference, digits), MISSING, drawing, MISSING, MISSING, MISSING];
    const interval = `${signed(tested.low, digits)} to ${signed(tested.high, digits)} (${Number((100 * tested.confidence).toFixed(1))} %)`;
    return [
      dataset,
      ...texts,
      signed(difference, digits),
      interval,
      drawing,
      number(tested.probability),
      String(Number(tested.p.toPrecision(2))),
      String(tested.seeds),
    ];
  });
}

/** The galleries of both rows, query by query. */
function galleriesOf(data, a, b, names) {
  const galleries = [a, b].map((row) => data.galleries[`${row.study}/${row.dataset}`]);
  const neighbours = [a, b].map((row, place) => galleries[place]?.neighbours?.[row.method]);
  if (!neighbours.some(Boolean))
    return [
      h(
        "p",
        { class: "note" },
        "These rows have no retrieval galleries yet: “snakemake --cores 1 site” makes them, if their embeddings and images are on the disk.",
      ),
    ];
  const side = (place) => {
    const gallery = galleries[place];
    if (!neighbours[place])
      return h(
        "div",
        { class: "side" },
        h("h4", {}, names[place]),
        h("p", { class: "note" }, "No embeddings on this disk."),
      );
    return h(
      "div",
      { class: "side" },
      h("h4", {}, names[place]),
      gallery.queries.map((query, number) => galleryLine(gallery, query, neighbours[place][number])),
    );
  };
  return [
    h("h3", {}, "Retrieved images"),
    h(
      "p",
      { class: "note" },
      "The first image of a line is the query, the others are its nearest neighbours, nearest first (first seed, all folds together). ✓ and a solid frame: the query's class. ✗ and a dashed frame: another class.",
    ),
    h("div", { class: "sides" }, side(0), side(1)),
  ];
}

function galleryLine(gallery, query, neighbours) {
  const picture = (image, kind, sign) =>
    h(
      "figure",
      { class: kind },
      h("img", { src: gallery.thumbnails[image], alt: `${kind}: ${gallery.classes[image]}`, width: 64, height: 64 }),
      h("figcaption", { title: gallery.classes[image] }, sign, gallery.classes[image]),
    );
  return h(
    "div",
    { class: "line" },
    picture(query, "query", ""),
    neighbours.map((image) =>
      gallery.labels[image] === gallery.labels[query] ? picture(image, "right", "✓ ") : picture(image, "wrong", "✗ "),
    ),
  );
}
