// Text and elements. Everything from the data reaches the page as text, never as HTML.

/** An element: h("td", {class: "number"}, "12", child). A function is a listener, true is an attribute without value. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element, like h. */
function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A link to a web page or to a page of this site; plain text if the address is missing or of another kind. */
function link(text, address) {
  const safe = /^https?:\/\//.test(address || "") || /^[\w./-]+\.html$/.test(address || "");
  return safe ? h("a", { href: address, rel: "noreferrer" }, text) : h("span", {}, text);
}

const MISSING = "—";

/** A number with a real minus sign; a dash if there is none. */
function number(value, digits = 2) {
  return value === null || value === undefined ? MISSING : value.toFixed(digits).replace("-", "−");
}

/** A difference with its sign; zero has none. */
function signed(value, digits = 2) {
  if (value === null || value === undefined) return MISSING;
  const text = number(value, digits);
  return Number(value.toFixed(digits)) > 0
    ? `+${text}`
    : Number(value.toFixed(digits)) === 0
      ? text.replace("−", "")
      : text;
}

/** A published value; one that was read off a plot is marked. */
function quoted(quote, digits = 2) {
  if (!quote.approximate) return number(quote.value, digits);
  const short = Math.round(quote.value * 10) / 10 === quote.value;
  return `≈ ${quote.value.toFixed(short ? 1 : 2)}`;
}

function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return MISSING;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** Nested settings as indented lines, like YAML. */
function indented(value) {
  const flat = (each) =>
    each === null ||
    typeof each !== "object" ||
    !Object.keys(each).length ||
    (Array.isArray(each) && each.every((one) => one === null || typeof one !== "object"));
  if (flat(value)) return JSON.stringify(value);
  return Object.entries(value)
    .map(([key, each]) => {
      const name = Array.isArray(value) ? "-" : `${key}:`;
      return flat(each) ? `${name} ${JSON.stringify(each)}` : `${name}\n  ${indented(each).replaceAll("\n", "\n  ")}`;
    })
    .join("\n");
}

/** A block of text with a button that copies it. */
function copyable(text) {
  const button = h(
    "button",
    {
      type: "button",
      class: "copy",
      click: async () => {
        await copyText(text);
        button.textContent = "Copied";
      },
    },
    "Copy",
  );
  return h("div", { class: "copyable" }, h("pre", { tabindex: "0" }, h("code", {}, text)), button);
}

/** Copy text; pages opened as a file may have no clipboard, so fall back to a selection. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "away", "aria-hidden": "true" });
    area.value = text;
    (document.querySelector("dialog[open]") || document.body).append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

/** A table element from texts or nodes; the first cell of a row is its header. */
function plainTable(caption, head, rows) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { class: "plain" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map(([first, ...cells]) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, first),
            cells.map((cell) => h("td", {}, cell)),
          ),
        ),
      ),
    ),
  );
}

/** The one dialog of the page, with a heading, a button that closes it, and this content. */
function openPanel(title, content, closed) {
  const dialog = document.querySelector("dialog");
  dialog.replaceChildren(
    h(
      "div",
      { class: "panel-head" },
      h("h2", { id: "panel-title" }, title),
      h("button", { type: "button", class: "close", click: () => dialog.close() }, "Close"),
    ),
    h("div", { class: "panel-body" }, content),
  );
  dialog.onclose = closed || null;
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}
