"""Hooks of MkDocs (mkdocs.yml) that turn the repository's Markdown, schemas and docstrings into the manual.

The files are written for a Git host. So links that leave docs/ get the address of the page in the manual, and lists
get the indentation that Python-Markdown needs. Comments in a page stand for generated text:

- ``<!-- keys: study -->``: the keys of a schema;
- ``<!-- api: recheck.api.model.load as recheck.load -->``: a docstring;
- ``<!-- members: recheck.losses -->``: the docstrings of all names that a module imports from this package.
"""

import ast
import posixpath
import re
from pathlib import Path

import yaml
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
SCHEMAS = ROOT / "workflow/schemas"
SCRIPTS = ROOT / "workflow/scripts"
# Files outside docs/ that become pages
PAGES = {
    "README.md": "index.md",
    "config/README.md": "configuration.md",
    "resources/published/README.md": "published.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
ITEM = re.compile(r"(?:[-*]|\d+\.) +")


def on_files(files, config):
    for source, page in PAGES.items():
        if (ROOT / source).is_file():
            files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown, page, **_):
    source = {uri: name for name, uri in PAGES.items()}.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    markdown = re.sub(r"^<!-- keys: (\w+) -->$", lambda match: keys(match[1]), markdown, flags=re.MULTILINE)
    markdown = re.sub(
        r"^<!-- api: (\S+) as (\S+) -->$", lambda match: documented(*match.groups()), markdown, flags=re.MULTILINE
    )
    markdown = re.sub(r"^<!-- members: (\S+) -->$", lambda match: members(match[1]), markdown, flags=re.MULTILINE)
    return nested(linked(markdown, source))


def linked(markdown: str, source: str) -> str:
    """The text with links that work in the manual. A link to a file that is not in the manual becomes its text."""

    def replaced(match):
        image, text, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"\w+:", target):
            return match[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if wanted in PAGES:
            page = PAGES[wanted]
        elif wanted.startswith("docs/"):
            page = wanted.removeprefix("docs/")
        else:
            return text
        here = posixpath.dirname(PAGES.get(source, source.removeprefix("docs/")))
        address = posixpath.relpath(page, here or ".")
        return f"{image}[{text}]({address}{'#' if anchor else ''}{anchor})"

    pieces = re.split(r"(^ *```.*?^ *```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(piece if index % 2 else LINK.sub(replaced, piece) for index, piece in enumerate(pieces))


def nested(markdown: str) -> str:
    """The text with its lists indented as Python-Markdown needs them.

    It needs four spaces per level, and an empty line before the next item if an item has several paragraphs.
    """
    lines, columns, fence = [], [], False
    loose = 0  # levels of lists in which an item has several paragraphs
    for line in markdown.split("\n"):
        if not line.strip():
            lines.append("")
            continue
        column = len(line) - len(line.lstrip())
        while columns and column < columns[-1] and not fence:
            columns.pop()
        start = columns[-1] if columns else 0
        text = line[min(start, column) :]
        item = None if fence else ITEM.match(text)
        if not item and not fence and lines and not lines[-1]:
            loose = len(columns)
        elif item and len(columns) < loose and lines[-1]:
            lines.append("")
        lines.append(" " * 4 * len(columns) + text)
        if item:
            columns.append(start + len(item[0]))
        fence ^= text.lstrip().startswith("```")
    return "\n".join(lines)


def documented(path: str, name: str) -> str:
    """A directive of mkdocstrings for an object, under its public name."""
    return f'::: {path}\n    options: {{heading: "{name}", heading_level: 4}}\n'


def members(module: str) -> str:
    """Directives for the classes of this package that a module imports, in the order of its ``__all__``."""
    tree = ast.parse((SCRIPTS / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module.startswith("recheck.")]
    sources = {alias.name: f"{node.module}.{alias.name}" for node in imports for alias in node.names}
    sources |= {node.name: f"{module}.{node.name}" for node in tree.body if isinstance(node, ast.ClassDef)}
    (names,) = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
    ]
    ours = [documented(sources[name], f"{module}.{name}") for name in names if name in sources]
    theirs = ", ".join(f"`{name}`" for name in names if name not in sources)
    return "\n".join([*ours, f"Unchanged from pytorch-metric-learning: {theirs}.\n"] if theirs else ours)


def keys(name: str) -> str:
    """The keys of a schema, as a list per mapping that it defines."""
    schema = yaml.safe_load((SCHEMAS / f"{name}.schema.yaml").read_text(encoding="utf-8"))
    sections = [f"## {schema['title']}", *listed(schema, name)]
    for key, definition in schema.get("$defs", {}).items():
        lines = list(listed(definition, name))
        if lines or f"#/$defs/{key}" in str(schema):
            sections += ["", f"### {heading(key)} {{#{name}-{key}}}", "", definition.get("description", ""), *lines]
    return "\n".join(sections)


def heading(key: str) -> str:
    return key.replace("_", " ").capitalize()


def listed(schema: dict, name: str, depth: int = 0):
    """Lines of a nested list, one entry per key."""
    if depth == 0:
        yield ""
    required = schema.get("required", [])
    children = {key: child for key, child in schema.get("properties", {}).items() if child.get("not") != {}}
    other = schema.get("additionalProperties")
    if isinstance(other, dict) and (other.get("properties") or "$ref" in other):
        children["<name>"] = other
    if isinstance(schema.get("items"), dict) and schema["items"].get("properties"):
        children |= schema["items"]["properties"]
        required = schema["items"].get("required", [])
    for key, child in children.items():
        facts = [*kinds(child, name), *(["required"] if key in required else [])]
        text = " ".join(child.get("description", "").split())
        noted = f" ({', '.join(facts)})" if facts else ""
        yield f"{'  ' * depth}- **`{key}`**{noted}{': ' if text else ''}{text}"
        yield from listed(child, name, depth + 1)


def kinds(child: dict, name: str):
    """What a value may be: its type, its allowed values, its bounds."""
    if "$ref" in child:
        file, _, path = child["$ref"].partition("#/$defs/")
        key = path.split("/")[0]
        yield f"[{heading(key).lower()}](#{file.split('.')[0] or name}-{key})"
    elif "enum" in child:
        yield " or ".join(f"`{value}`" for value in child["enum"])
    elif "type" in child:
        types = child["type"] if isinstance(child["type"], list) else [child["type"]]
        words = {"object": "mapping", "array": "list", "null": "empty", "string": "text", "boolean": "true or false"}
        yield " or ".join(words.get(one, one) for one in types)
    for bound, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<")):
        if bound in child:
            yield f"{sign} {child[bound]}"
