"""The HTML of the site's pages: a template with the data, the styles and the scripts inside one file."""

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

FOLDER = Path(__file__).parent
# In this order, because each may use functions of the files before it.
SCRIPTS = (
    "text.js",
    "../../statistics/paired.js",
    "state.js",
    "table.js",
    "provenance.js",
    "compare.js",
    "export.js",
    "main.js",
)
VALUES = "values.js"


def page(
    data: Mapping[str, Any], *, title: str, description: str = "", headline: str = "", home: str | None = None
) -> str:
    """A page with the interactive table; ``home`` is the link to the page with all studies."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("site.html.j2").render(
        title=title, description=description, headline=headline, home=home, study=data["study"], parts=parts(data)
    )


def parts(data: Mapping[str, Any] | None, with_values: bool = False) -> dict[str, str]:
    """What a template inlines: data, styles, script, and the policy that allows only this script and no requests.

    ``with_values`` adds the script that shows the values of figures; without ``data`` that is the only script.
    """
    names = [*(SCRIPTS if data is not None else ()), *([VALUES] if with_values else [])]
    script = "\n".join(asset(name) for name in names)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {
        "data": embedded(data),
        "style": asset("site.css"),
        "script": script,
        "policy": f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'",
    }


def embedded(data: Any) -> str:
    """JSON for a script element. No text in it can end the element, because every < is escaped."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        text.replace("<", "\\u003c").replace(">", "\\u003e").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )


@cache
def asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
