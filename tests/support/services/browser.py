"""The installed Chromium, driven by Playwright. Nothing is downloaded, and pages cannot reach a network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.suite.hang import HANG_SECONDS
from support.suite.unavailable import unavailable

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator:
    """A browser."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if not program:
        unavailable(f"no browser: install Chromium (one of the programs {', '.join(NAMES)})")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # as root, as in most containers, Chromium starts only without its sandbox; it opens only our own files
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=1000 * HANG_SECONDS)
        yield browser
        browser.close()


class Tab:
    """A page of the site in its own window. Leaving the context fails if the page complained or requested anything."""

    def __init__(self, browser, path: Path, fragment: str = "", **options):
        self.context = browser.new_context(viewport={"width": 1300, "height": 900}, **options)
        self.context.set_default_timeout(1000 * HANG_SECONDS)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self._note(message.type, message.text))
        self.page.on("pageerror", lambda error: self._note("error", str(error)))
        self.page.on("request", lambda request: self._asked(request.url))
        self.page.on("dialog", lambda dialog: (self._note("dialog", dialog.message), dialog.dismiss()))
        self.url = path.as_uri()
        self.page.goto(self.url + fragment)

    def _note(self, kind: str, text: str) -> None:
        self.complaints.append(f"{kind}: {text}")

    def _asked(self, url: str) -> None:
        if url.partition("#")[0] != self.url and not url.startswith(("data:", "blob:")):
            self.complaints.append(f"request: {url}")

    def __enter__(self) -> "Tab":
        return self

    def __exit__(self, kind, *_) -> None:
        self.context.close()
        if kind is None:
            assert not self.complaints

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def column(self, key: str) -> list[str]:
        """The texts of the column with this sort key, row by row."""
        return self.page.evaluate(
            """(key) => {
              const heads = [...document.querySelectorAll('.board thead tr:last-child th')];
              const place = heads.findIndex((head) => head.querySelector(`[data-sort="${CSS.escape(key)}"]`));
              const rows = [...document.querySelectorAll('.board tbody tr')];
              return rows.map((row) => row.children[place].innerText.trim());
            }""",
            key,
        )

    def go_to(self, fragment: str) -> None:
        """Change the fragment of the address, and wait until the page has read it."""
        self.page.evaluate(
            """(fragment) => new Promise((done) => {
              addEventListener("hashchange", () => done(), { once: true });
              location.hash = fragment;
            })""",
            fragment,
        )

    def close_dialog(self) -> None:
        """Press Escape, and wait for the event with which the dialog tells the page that it is closed."""
        self.page.evaluate(
            """() => {
              const dialog = document.querySelector('dialog');
              window.closing = new Promise((done) => dialog.addEventListener('close', () => done(), { once: true }));
            }"""
        )
        self.page.keyboard.press("Escape")
        self.page.evaluate("() => window.closing")

    def fragment(self) -> str:
        return self.page.evaluate("location.hash")
