"""The site's table of 5,000 rows in Chromium: how long filtering and sorting take, compared with drawing all rows."""

import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from timing import goal, main, ratios

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow" / "scripts"), str(ROOT / "tests")]

ROWS = 5000
# The times of filtering and sorting include drawing the first rows.
MEASURE = """
(repeats) => {
  const clock = (action) => {
    const start = performance.now();
    action();
    document.querySelector('.board').getBoundingClientRect();
    return performance.now() - start;
  };
  const search = document.querySelector('#search');
  const filter = (word) => { search.value = word; search.dispatchEvent(new Event('input')); };
  const sort = () => document.querySelector('[data-sort="P@1:ours"]').click();
  const times = {filter: [], sort: [], all: []};
  for (let turn = 0; turn < repeats; turn += 1) {
    times.filter.push(clock(() => filter('row 7')));
    filter('');
    times.sort.push(clock(sort));
    times.all.push(clock(() => dispatchEvent(new Event('beforeprint'))));
    dispatchEvent(new Event('afterprint'));
  }
  return times;
}
"""


def section(quick: bool) -> str:
    from playwright.sync_api import sync_playwright

    from recheck.report.site.render import page
    from support.report.site import small_site

    repeats = 2 if quick else 15
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data = small_site(Path(folder)).data()
        measured = [row for row in data["rows"] if "proxy" in row["id"]]
        data["rows"] = [
            {**measured[number % 2], "id": f"row{number}", "label": f"Row {number}"} for number in range(ROWS)
        ]
        path = Path(folder) / "index.html"
        path.write_text(page(data, title="Many rows"), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(path.as_uri())
        times = tab.evaluate(MEASURE, repeats)
        browser.close()
    lines = [
        f"## Site\n\nA table of {ROWS:,} rows in Chromium. “All rows” draws all of them, as for printing; filtering "
        "and sorting draw the first 200.\n\n| action | median time |\n|---|---:|"
    ]
    titles = {"filter": "filter by a word", "sort": "sort by a number", "all": "draw all rows"}
    lines += [f"| {titles[name]} | {statistics.median(values):.0f} ms |" for name, values in times.items()]
    goals = [
        goal(f"time to {titles[name]} ÷ time to draw all rows", ratios(times[name], times["all"]), 0.25, at_least=False)
        for name in ("filter", "sort")
    ]
    return "\n".join(lines) + "\n\n" + "\n".join(goals)


if __name__ == "__main__":
    main(section, __doc__)
