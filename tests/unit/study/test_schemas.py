"""The schemas document every key, and config/README.md explains it."""

from recheck.study.yaml import read_yaml
from support.project import ROOT


def test_every_key_of_every_schema_has_a_description():
    """Keys without a description would be missing from the documentation."""

    def check(schema, path):
        for name, child in schema.get("properties", {}).items():
            if "$ref" not in child and "allOf" not in child and name != "class":
                assert child.get("description"), f"{path}.{name} has no description"
            check(child, f"{path}.{name}")
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                check(schema[key], path)
        for name, definition in schema.get("$defs", {}).items():
            check(definition, f"{path}.{name}")

    for schema in (ROOT / "workflow/schemas").glob("*.schema.yaml"):
        check(read_yaml(schema), schema.stem)


def test_config_readme_explains_every_key():
    text = (ROOT / "config/README.md").read_text(encoding="utf-8")

    def keys(schema):
        for name, child in schema.get("properties", {}).items():
            yield name
            yield from keys(child)
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                yield from keys(schema[key])
        for definition in schema.get("$defs", {}).values():
            yield from keys(definition)

    for schema in sorted((ROOT / "workflow/schemas").glob("*.schema.yaml")):
        missing = {key for key in keys(read_yaml(schema)) if f"`{key}`" not in text}
        assert not missing, f"config/README.md does not explain {sorted(missing)} of {schema.name}"
