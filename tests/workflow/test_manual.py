"""`make docs`: the manual builds without a warning, and a browser opens it from the disk without any other request."""

import importlib.util
import json
import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from support.project import ROOT
from support.services.browser import chromium
from support.suite.hang import HANG_SECONDS


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built manual. Every warning is an error: dead links, missing anchors, pages that are not in the menu."""
    folder = tmp_path_factory.mktemp("manual") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("manual_hooks", ROOT / "docs/manual.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_make_docs_builds_strictly():
    plan = subprocess.run(["make", "--dry-run", "docs"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "mkdocs build" in plan.stdout
    assert re.search(r"^strict: true$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def test_pages_of_the_repository_and_keys_of_the_schemas(site):
    keys = (site / "keys.html").read_text(encoding="utf-8")
    for schema in (ROOT / "workflow/schemas").glob("*.schema.yaml"):
        title = re.search(r"^title: (.+)$", schema.read_text(encoding="utf-8"), re.MULTILINE)[1]
        assert f">{title}<" in keys
    assert "hyperparameters_of</code>" in keys and "class_disjoint_folds</code>" in keys
    assert 'href="configuration.html#keys-of-a-dataset"' in (site / "own_images.html").read_text(encoding="utf-8")
    # a list inside a numbered item
    cluster = (site / "cluster.html").read_text(encoding="utf-8")
    assert re.search(r"<li>\s*<p><strong>The environment</strong>", cluster)
    assert not [page.name for page in site.glob("*.html") if "<!-- keys:" in page.read_text(encoding="utf-8")]


def test_docstrings_of_the_public_names(site):
    api = (site / "api.html").read_text(encoding="utf-8")
    public = re.findall(r"<!-- api: \S+ as (\S+) -->", (ROOT / "docs/api.md").read_text(encoding="utf-8"))
    assert "recheck.metrics" in public and "recheck.load" in public
    classes = ["recheck.losses.ContextualLoss", "recheck.miners.DistanceWeightedMiner", "recheck.samplers.Batches"]
    headings = re.sub(r"<[^>]+>", "", "\n".join(re.findall(r"<h4.*?</h4>", api, re.DOTALL)))
    assert [name for name in public + classes if name not in headings] == []
    assert "gallery_includes_queries" in api and "<!-- members:" not in api and "<!-- api:" not in api


def test_nothing_comes_from_another_host(site):
    """Scripts, fonts, styles and pictures are files of the manual. Links may lead elsewhere."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'src="(?:https?:)?//[^"]+"|<link[^>]+href="(?:https?:)?//[^"]+"', text), page
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\(\"?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_a_reader_opens_it_from_the_disk_and_searches(site):
    asked, complaints = [], []
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1300, "height": 900})
        context.set_default_timeout(1000 * HANG_SECONDS)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"{request.failure}: {request.url}"))
        page.goto((site / "index.html").as_uri())
        page.fill(".md-search__input", "distance threshold")  # at once: the first letters have other results
        page.press(".md-search__input", "End")  # the page listens to keys
        result = page.locator(".md-search-result__link").first
        result.wait_for()
        target = urlsplit(result.evaluate("link => link.href")).path
        assert not target.endswith("/index.html")
        result.click()
        page.wait_for_url(lambda url: urlsplit(url).path == target)
        assert "threshold" in page.inner_text("article").lower()
        # no page is wider than a phone; wide tables scroll
        page.set_viewport_size({"width": 390, "height": 800})
        for name in ("index", "first_table", "keys", "configuration", "performance"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
    # the next page may come while the browser still reads the icon of the last one
    assert not [each for each in complaints if not each.startswith("net::ERR_ABORTED: ")]
    assert {url.partition(":")[0] for url in asked} <= {"file", "data", "about"}


# --- hooks ----------------------------------------------------------------------------------------------------------


def test_links_follow_their_pages(hooks):
    text = "[a](docs/gpu.md#bits) [b](config/README.md) [c](slurm/config.yaml) [d](#here) ![e](docs/images/x.png)"
    assert hooks.linked(text, "README.md") == ("[a](gpu.md#bits) [b](configuration.md) c [d](#here) ![e](images/x.png)")
    assert (
        hooks.linked("[a](../README.md) [b](https://x.org/a.md)", "docs/gpu.md")
        == "[a](index.md) [b](https://x.org/a.md)"
    )
    assert hooks.linked("```text\n[a](docs/gpu.md)\n```", "README.md") == "```text\n[a](docs/gpu.md)\n```"


def test_lists_get_four_spaces(hooks):
    text = "1. one\n   - two\n     more\n\n   ```bash\n   three\n   ```\n2. four\n\nfive"
    assert hooks.nested(text) == (
        "1. one\n    - two\n        more\n\n    ```bash\n    three\n    ```\n\n2. four\n\nfive"
    )


def test_classes_of_a_library_are_listed_without_their_docstrings(hooks):
    lines = hooks.members("recheck.miners").splitlines()
    assert "::: recheck.methods.miners.distance_weighted_miner.DistanceWeightedMiner" in lines
    assert lines[-1] == "Unchanged from pytorch-metric-learning: `MultiSimilarityMiner`."
    assert "Unchanged" not in hooks.members("recheck.samplers")


def test_keys_of_a_schema(hooks, tmp_path, monkeypatch):
    schema = {
        "title": "config/x.yaml",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "minimum": 1, "description": "First."},
            "b": {"$ref": "#/$defs/part"},
            "c": {"not": {}},
        },
        "$defs": {"part": {"description": "A part.", "properties": {"d": {"enum": ["x", "y"]}}}},
    }
    (tmp_path / "x.schema.yaml").write_text(json.dumps(schema), encoding="utf-8")
    monkeypatch.setattr(hooks, "SCHEMAS", tmp_path)
    assert hooks.keys("x").splitlines() == [
        "## config/x.yaml",
        "",
        "- **`a`** (integer, ≥ 1, required): First.",
        "- **`b`** ([part](#x-part))",
        "",
        "### Part {#x-part}",
        "",
        "A part.",
        "",
        "- **`d`** (`x` or `y`)",
    ]
