// Where a cell comes from: its seeds, runs, settings, sources, verdict, and the command that makes it again.

function showProvenance(data, row, metric, closed) {
  const cell = metric ? cellOf(row, metric) : null;
  const name = metric ? nameOf(row, metric) : "";
  const study = data.studies.find((each) => each.name === row.study);
  const dataset = data.titles.dataset[row.dataset] || row.dataset;
  const known = data.runs[`${row.study}/${row.dataset}/${row.method}`];
  const content = [
    h(
      "p",
      { class: "path" },
      [dataset, data.views[row.view] || row.view, row.dim && `${row.dim}-d`, row.backbone].filter(Boolean).join(" · "),
    ),
    h("p", {}, "Study ", link(row.study, study.link), ", row ", h("code", {}, row.method), "."),
    ...(metric ? valueSection(data, row, name, cell) : allValues(data, row)),
    ...(row.warned.length ? [h("p", { class: "alert" }, `⚠ ${warningsOf(row)}`)] : []),
    ...seedSection(data, row, name, cell),
    ...commandSection(data, row, cell, known),
    ...(known ? runSection(data, known) : []),
    ...paperSection(data, row),
  ];
  openPanel(metric ? `${row.label}: ${name}` : row.label, content, closed);
}

function valueSection(data, row, metric, cell) {
  const digits = digitsOf(data, metric);
  const unit = data.plain.includes(metric) ? "" : " %";
  const facts = [];
  if (cell.mean !== null) {
    const count = Object.keys(cell.seeds).length;
    facts.push([
      "Measured here",
      `${oursText(row, metric, digits)}${unit}`,
      cell.interval === null
        ? `${plural(count, "seed")}, no interval`
        : `mean and 95 % t-interval over ${plural(count, "seed")}`,
    ]);
  } else facts.push(["Measured here", oursText(row, metric, digits), ""]);
  for (const quote of cell.quotes) {
    const source = data.sources[quote.source] || {};
    facts.push([
      "Published",
      `${quoted(quote, digits)}${unit}`,
      h(
        "span",
        {},
        link(quote.source, source.link),
        quote.approximate ? " (read off a plot)" : "",
        quote === cell.quotes[0] ? runsText(cell, digits) : "",
        quote.note ? `. ${quote.note}` : "",
      ),
    ]);
  }
  if (cell.difference !== null)
    facts.push(["Difference", differenceText(cell, digits), "measured here − published (first source)"]);
  if (cell.verdict) facts.push(["Verdict", badge(cell), verdictSentence(cell, digits)]);
  return [
    h(
      "dl",
      { class: "values" },
      facts.map(([title, value, note]) => [
        h("dt", {}, title),
        h("dd", {}, h("strong", {}, value), note ? " " : "", note),
      ]),
    ),
  ];
}

/** What is known about the runs behind the first published value. */
function runsText(cell, digits) {
  if (!cell.published_runs) return "";
  const runs = cell.published_runs === 1 ? "counted as a single run" : `mean of ${cell.published_runs} runs`;
  const spread = cell.published_spread ? `, standard deviation ${number(cell.published_spread, digits)}` : "";
  const error = cell.quotes[0].approximate ? `, reading error at most ${cell.reading_error}` : "";
  return `, ${runs}${spread}${error}`;
}

/** The verdict in words, with the numbers that decide it. */
function verdictSentence(cell, digits) {
  const bounds =
    cell.low === undefined
      ? ""
      : `The prediction interval for the published value is ${number(cell.low, digits)} to ${number(cell.high, digits)}`;
  const rule = cell.alpha === undefined ? "" : ` Rule: α = ${cell.alpha}, δ = ${cell.delta}.`;
  const tests =
    cell.p === undefined
      ? ""
      : ` Standard deviation over seeds: ${number(cell.sd, digits)}. Test of equal means: ${pText(cell.p)} (adjusted for all tests of the study: ${pText(cell.p_adjusted)}). Test of equivalence within δ: ${pText(cell.p_equivalence)}.`;
  const within = isWithin(cell) ? " The means differ by less than δ." : "";
  const ends = {
    reproduced: "; the value lies inside, and the means differ by less than δ.",
    lower: `; the value lies above it.${within}`,
    higher: `; the value lies below it.${within}`,
    undecided: `; the value lies inside, but a difference of δ cannot be excluded. It would take ${cell.seeds_needed || "more"} seeds to decide.`,
    "one seed": "One seed has no spread, so there is no verdict.",
    "not run": "No seed has been measured here.",
  };
  return `${bounds}${ends[cell.verdict] || ""}${rule}${tests}`;
}

function pText(p) {
  return p < 0.0001 ? "p < 0.0001" : `p = ${Number(p.toPrecision(2))}`;
}

function allValues(data, row) {
  const rows = Object.entries(row.cells).map(([metric, cell]) => {
    const digits = digitsOf(data, metric);
    return [
      metric,
      oursText(row, metric, digits),
      publishedText(cell, digits),
      differenceText(cell, digits),
      badge(cell),
    ];
  });
  return [plainTable("All metrics of this row", ["Metric", "ours", "published", "Δ", "verdict"], rows)];
}

/** The value of every seed, and of its folds where the view has them. */
function seedSection(data, row, metric, cell) {
  const cells = cell ? { [metric]: cell } : row.cells;
  const measured = Object.entries(cells).filter(([, each]) => each.mean !== null);
  const seeds = [...new Set(measured.flatMap(([, each]) => Object.keys(each.seeds)))].sort((a, b) => a - b);
  if (!seeds.length) return [];
  const withFolds = cell && Object.keys(cell.folds).length;
  const head = ["Seed", ...measured.map(([name]) => name), ...(withFolds ? ["single folds"] : [])];
  const rows = seeds.map((seed) => [
    seed,
    ...measured.map(([name, each]) => number(each.seeds[seed], 4)),
    ...(withFolds ? [(cell.folds[seed] || []).map((value) => number(value)).join(", ")] : []),
  ]);
  return [h("h3", {}, "Seeds"), plainTable("Values of single seeds", head, rows)];
}

/** The command that measures a row again, or for the first time. */
function commandOf(data, row, known) {
  const folder = `${data.results}/${row.study}/${row.dataset}/${row.method}`;
  if (!known) return `snakemake --cores all ${row.study} --config "methods=[${row.method}]"`;
  const view = row.view === "validation" ? null : row.view;
  const seeds = [...new Set(known.runs.map((run) => run.seed))];
  const folds = [...new Set(known.runs.map((run) => run.fold))];
  const listed = (values) => (values.length > 1 ? `{${values.join(",")}}` : values[0]);
  const whole = known.runs.length === seeds.length * folds.length;
  const models = whole
    ? `${folder}/seed${listed(seeds)}/fold${listed(folds)}/model.safetensors`
    : known.runs.map((run) => `${folder}/seed${run.seed}/fold${run.fold}/model.safetensors`).join(" ");
  const targets = view ? `${folder}/seed${listed(seeds)}/${view}.json` : models;
  return `snakemake --cores all ${targets} --forcerun ${models} --config reuse=false`;
}

function commandSection(data, row, cell, known) {
  const measured = known && (cell ? cell.mean !== null : kindOf(row) === "measured here");
  return [
    h("h3", {}, measured ? "Measure it again" : "Measure it"),
    copyable(commandOf(data, row, measured ? known : null)),
  ];
}

function runSection(data, known) {
  const short = (hash) => h("code", { title: hash || "" }, (hash || MISSING).slice(0, 12));
  const rows = known.runs.map((run) => [
    `${run.seed} / ${run.fold}`,
    short(run.fingerprint),
    short(run.data.pixels),
    short(run.data.split),
    [run.device, run.device_name !== run.device && run.device_name].filter(Boolean).join(", "),
    run.best_epoch ?? MISSING,
    duration(run.wall_seconds),
    h("code", {}, run.log),
  ]);
  const versions = [...new Set(known.runs.map((run) => run.versions))].map((place) => data.versions[place]);
  const owned = Object.entries(known.runs[0].own_files);
  return [
    h("h3", {}, "Runs"),
    h(
      "p",
      { class: "note" },
      "The fingerprint is a hash of everything that determines a run. “Data” is the hash of the pixels, “split” the hash of the split.",
    ),
    plainTable("Runs", ["Seed / fold", "Fingerprint", "Data", "Split", "Device", "Epoch", "Time", "Log"], rows),
    h("h3", {}, "Versions"),
    ...versions.map((each) =>
      h(
        "p",
        { class: "versions" },
        Object.entries(each)
          .map(([name, version]) => `${name} ${version}`)
          .join(", "),
      ),
    ),
    ...(owned.length
      ? [
          h(
            "p",
            { class: "versions" },
            "Your files: ",
            owned.map(([name, hash]) => `${name} (${hash.slice(0, 12)})`).join(", "),
          ),
        ]
      : []),
    h("details", {}, h("summary", {}, "Settings"), copyable(indented(known.settings))),
  ];
}

function paperSection(data, row) {
  const paper = row.paper && data.papers[row.paper];
  return paper ? [h("h3", {}, "Method"), h("p", {}, link(paper.reference || row.paper, paper.link))] : [];
}
