// What is shown, as CSV, LaTeX and BibTeX.

function csvOf(data, state, rows) {
  const metrics = shownMetrics(data, state);
  const kinds = ["ours", "interval", "seeds", "published", "approximate", "source", "also published", "difference", "verdict"];
  const head = [
    "study",
    "dataset",
    "method",
    "label",
    "family",
    "backbone",
    "view",
    "dim",
    "warnings",
    ...metrics.flatMap((metric) => kinds.map((kind) => `${metric} ${kind}`)),
  ];
  const lines = rows.map((row) => [
    row.study,
    row.dataset,
    row.method,
    row.label,
    row.family,
    row.backbone,
    row.view,
    row.dim,
    warningsOf(row),
    ...metrics.flatMap((metric) => {
      const cell = cellOf(row, metric);
      if (!cell) return kinds.map(() => null);
      const [first, ...others] = cell.quotes;
      return [
        cell.mean,
        cell.interval,
        cell.mean === null ? null : Object.keys(cell.seeds).length,
        first?.value,
        first && (first.approximate ? "yes" : "no"),
        first?.source,
        others.map((quote) => `${quote.value} (${quote.source})`).join("; "),
        cell.difference,
        cell.verdict,
      ];
    }),
  ]);
  return [head, ...lines].map((line) => line.map(csvField).join(",")).join("\r\n") + "\r\n";
}

/** A field of a CSV file. A text that a spreadsheet would take for a formula begins with an apostrophe. */
function csvField(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const TEX = {
  "\\": "\\textbackslash{}",
  "{": "\\{",
  "}": "\\}",
  $: "\\$",
  "&": "\\&",
  "%": "\\%",
  "#": "\\#",
  _: "\\_",
  "~": "\\textasciitilde{}",
  "^": "\\textasciicircum{}",
  "<": "\\textless{}",
  ">": "\\textgreater{}",
  "|": "\\textbar{}",
  '"': "''",
  "°": "$^\\circ$",
  "²": "$^2$",
  "³": "$^3$",
  "·": "$\\cdot$",
  µ: "$\\mu$",
  ε: "$\\epsilon$",
  η: "$\\eta$",
  θ: "$\\theta$",
  ρ: "$\\rho$",
  φ: "$\\phi$",
  ω: "$\\omega$",
  "∞": "$\\infty$",
  "†": "$\\dagger$",
  "±": "$\\pm$",
  "−": "$-$",
  "—": "---",
  "–": "--",
  "×": "$\\times$",
  "≈": "$\\approx$",
  Δ: "$\\Delta$",
  "≥": "$\\geq$",
  "≤": "$\\leq$",
  "→": "$\\to$",
  α: "$\\alpha$",
  β: "$\\beta$",
  γ: "$\\gamma$",
  δ: "$\\delta$",
  λ: "$\\lambda$",
  μ: "$\\mu$",
  σ: "$\\sigma$",
  τ: "$\\tau$",
  "“": "``",
  "”": "''",
  "’": "'",
  "…": "\\dots{}",
  "\u00a0": "~",
  "\n": " ",
  "\r": " ",
  "\t": " ",
};

// Letters between U+00C0 and U+017F that the usual fonts of LaTeX lack.
const NOT_TEX = new Set("×÷ÐðÞþĄąĐđĘęĦħĮįĸĿŀŉŊŋŦŧŲųſ");

/** Text for LaTeX. A character that pdfLaTeX does not know becomes its code point, so that the file compiles. */
function tex(text) {
  return [...String(text).normalize("NFC")]
    .map((character) => {
      if (TEX[character]) return TEX[character];
      const code = character.codePointAt(0);
      const known = (code >= 32 && code < 127) || (code >= 0xc0 && code <= 0x17f && !NOT_TEX.has(character));
      return known ? character : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
    })
    .join("");
}

/** A line of a table. Without {}, the end of the previous line would take a [ or * as its option. */
function texLine(cells) {
  const line = `${cells.join(" & ")} \\\\`;
  return /^[[*]/.test(line) ? `{}${line}` : line;
}

function latexOf(data, state, rows) {
  // the caption names the datasets; a column with the same study in every row says nothing
  const same = (column) => rows.every((row) => column.value(row) === column.value(rows[0]));
  const columns = columnsOf(data, state).filter(
    (column) =>
      !column.plot && column.key !== "backbone" && !(["dataset", "study"].includes(column.key) && same(column)),
  );
  const groups = groupsOf(columns);
  let start = 1;
  const top = [],
    rules = [];
  for (const { title, span } of groups) {
    top.push(title ? `\\multicolumn{${span}}{c}{${tex(title)}}` : "");
    if (title) rules.push(`\\cmidrule(lr){${start}-${start + span - 1}}`);
    start += span;
  }
  const cited = citedKeys(data, state, rows);
  const lines = rows.map((row) =>
    texLine(
      columns.map((column) => {
        const text = tex(column.text ? column.text(row) : (column.value(row) ?? MISSING));
        const mark = column.head && row.warned.length ? "\\textsuperscript{$\\dagger$}" : "";
        return text + mark + (column.head && row.paper ? `~\\cite{${row.paper}}` : "");
      }),
    ),
  );
  const sources = cited.sources.length ? ` Sources of published values: \\cite{${cited.sources.join(",")}}.` : "";
  return [
    "% Needs \\usepackage{booktabs,graphicx}. The BibTeX export has the entries.",
    "\\begin{table*}",
    "\\centering",
    "\\small",
    "\\resizebox{\\ifdim\\width>\\textwidth\\textwidth\\else\\width\\fi}{!}{%",
    `\\begin{tabular}{${columns.map((column) => (column.number ? "r" : "l")).join("")}}`,
    "\\toprule",
    texLine(top),
    rules.join(" "),
    texLine(columns.map((column) => tex(column.title))),
    "\\midrule",
    ...lines,
    "\\bottomrule",
    "\\end{tabular}%",
    "}",
    `\\caption{${tex(captionOf(data, state, rows))}${sources}}`,
    "\\label{tab:recheck}",
    "\\end{table*}",
    "",
  ].join("\n");
}

/** The caption of the exported table: units, marks and rules, one sentence each. */
function captionOf(data, state, rows) {
  const metrics = shownMetrics(data, state).map((metric) => data.metrics[metric]);
  const datasets = [...new Set(rows.map((row) => data.titles.dataset[row.dataset] || row.dataset))];
  const cells = rows.flatMap((row) => shownMetrics(data, state).map((metric) => cellOf(row, metric))).filter(Boolean);
  const some = (test) => cells.some(test);
  const sentences = [`${metrics.join(", ")} in percent on ${datasets.join(", ")}.`];
  if (data.plain.some((metric) => shownMetrics(data, state).includes(metric)))
    sentences[0] = `${metrics.join(", ")} on ${datasets.join(", ")}; distances are cosine distances, all other values are in percent.`;
  if (some((cell) => cell.mean !== null)) sentences.push("“ours”: measured with Recheck.");
  if (some((cell) => cell.interval !== null)) sentences.push("±: 95 % t-interval over seeds.");
  if (some((cell) => cell.quotes.length)) sentences.push("“published”: quoted, not measured here.");
  if (some((cell) => cell.difference !== null)) sentences.push("Δ: ours − published.");
  if (rows.some((row) => row.warned.length)) sentences.push("†: row with a warning.");
  if (some(isTested)) sentences.push(ruleOf(cells.filter(isTested)));
  if (some((cell) => cell.quotes.some((quote) => quote.approximate))) sentences.push("≈: read off a plot.");
  if (some((cell) => cell.quotes.some((quote) => quote.note))) sentences.push("*: see the notes of the study.");
  return sentences.join(" ");
}

function isTested(cell) {
  return cell.p !== undefined;
}

/** What the verdicts mean, with the values of α and δ that were used. */
function ruleOf(cells) {
  const used = (name) => [...new Set(cells.map((cell) => cell[name]))].join(" or ");
  return `Verdicts (α = ${used("alpha")}, δ = ${used("delta")}): “not reproduced”: the published value lies outside the prediction interval of our seeds; “reproduced”: inside, and the means differ by less than δ (two one-sided tests); “undecided”: neither.`;
}

/** The keys of the papers of the methods and of the sources of the values shown. */
function citedKeys(data, state, rows) {
  const methods = new Set(),
    sources = new Set();
  for (const row of rows) {
    if (row.paper) methods.add(row.paper);
    for (const metric of shownMetrics(data, state))
      for (const quote of cellOf(row, metric)?.quotes || []) {
        const key = data.sources[quote.source]?.paper;
        if (key) sources.add(key);
      }
  }
  return { methods: [...methods], sources: [...sources] };
}

function bibtexOf(data, state, rows) {
  const { methods, sources } = citedKeys(data, state, rows);
  const entries = [...new Set([...methods, ...sources])].map((key) => data.papers[key]?.bibtex).filter(Boolean);
  return entries.length ? `${entries.join("\n\n")}\n` : "% The rows shown cite no paper.\n";
}

const FORMATS = {
  CSV: { file: "recheck.csv", type: "text/csv", of: csvOf },
  LaTeX: { file: "recheck.tex", type: "text/x-tex", of: latexOf },
  BibTeX: { file: "recheck.bib", type: "text/x-bibtex", of: bibtexOf },
};

function showExport(data, state, rows, format, closed) {
  const { file, type, of } = FORMATS[format];
  const text = of(data, state, rows);
  const save = h(
    "a",
    { class: "button", download: file, href: `data:${type};charset=utf-8,${encodeURIComponent(text)}` },
    `Save ${file}`,
  );
  openPanel(`${plural(rows.length, "row")} as ${format}`, [h("p", {}, save), copyable(text)], closed);
}
