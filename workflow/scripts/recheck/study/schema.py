"""Validation against workflow/schemas. The most telling fault becomes one sentence: file, key and expected value."""

from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, relevance
from referencing import Registry, Resource

from recheck import shipped
from recheck.errors import UserError, nearest
from recheck.study.yaml import described, read_yaml

SCHEMAS = shipped.path("workflow/schemas")
# Renamed keys: old → new. The error mentions the new key only where the schema has it.
OLD_WORDS = {
    "compare_with": "baseline",
    "fidelities": "variants",
    "fidelity": "variant",
    "folds": "members",
    "from": "method",
    "includes": "also_build",
    "published_as": "compare_to",
    "scheduler": "lr_schedule",
    "tuned_as": "hyperparameters_of",
}

# Words that users write for a known value.
SYNONYMS = {"gpu": "cuda", "GPU": "cuda", "CUDA": "cuda", "MPS": "mps", "CPU": "cpu"}

# Name of the schema and repr of each valid value so far: studies share methods and bases.
_VALID: set[tuple[str, str]] = set()


def validate(value: dict[str, Any], schema_name: str, source: str | Path) -> None:
    """Raise a UserError of one sentence if ``value`` violates workflow/schemas/<schema_name>.schema.yaml."""
    text = repr(value)
    if (schema_name, text) in _VALID:
        return
    file = f"{schema_name}.schema.yaml"
    errors = list(Draft202012Validator(_schema(file).contents, registry=_REGISTRY).iter_errors(value))
    if errors:
        raise UserError(f"{source}: {_sentence(max(errors, key=_telling), file)}")
    _VALID.add((schema_name, text))


def validate_settings(settings: dict[str, Any], source: str | Path) -> None:
    """Raise a UserError of one sentence if run settings violate the schema of studies."""
    file = "study.schema.yaml"
    schema = {"$ref": f"{file}#/$defs/settings"}
    if errors := list(Draft202012Validator(schema, registry=_REGISTRY).iter_errors(settings)):
        raise UserError(f"{source}: {_sentence(max(errors, key=_telling), file)}")


def has_setting(name: str) -> bool:
    """Whether the schema of studies lists the run setting with this dotted name."""
    file = "study.schema.yaml"
    known = _known_keys({"$ref": "#/$defs/settings"}, file)
    *outer, last = name.split(".")
    for word in outer:
        known = _known_keys(known.get(word, {}), file)
    return last in known


@cache
def settings_used_by(reader: str | None = None) -> tuple[str, ...]:
    """The run settings that `reader` uses (default: all), from the annotation `used_by` of the study schema."""
    settings = _schema("study.schema.yaml").contents["$defs"]["settings"]["properties"]
    return tuple(name for name, schema in settings.items() if reader is None or reader in schema["used_by"])


@cache
def _schema(file: str) -> Resource:
    return Resource.from_contents(read_yaml(SCHEMAS / file))


_REGISTRY = Registry(retrieve=_schema)
# JSON schema's name of a type → words for a message
TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "empty",
    "number": "a number",
    "object": "a mapping of keys to values",
    "string": "text",
}
# Keyword of JSON schema → words for a message
LIMITS = {
    "minimum": "at least",
    "exclusiveMinimum": "greater than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}
_LENGTHS = ("minItems", "minLength", "minProperties")
_UNKNOWN_KEY = ("additionalProperties", "unevaluatedProperties")


def _telling(error: ValidationError) -> tuple:
    """Sort key for errors: a misspelt key explains more than the key that is missing because of it."""
    return error.validator in _UNKNOWN_KEY, relevance(error)


def _known_keys(schema: dict[str, Any], file: str) -> dict[str, Any]:
    """The properties of a schema, including those of the schemas that it refers to."""
    known = dict(schema.get("properties", {}))
    if "$ref" in schema:
        other, _, name = schema["$ref"].rpartition("#/$defs/")
        known = _known_keys(_schema(other or file).contents["$defs"][name], other or file) | known
    return known


def _sentence(error: ValidationError, file: str) -> str:
    while error.context:
        error = max(error.context, key=_telling)
    key = ".".join(map(str, error.absolute_path))
    inside = f" in '{key}'" if key else ""
    if error.validator in _UNKNOWN_KEY:
        known = _known_keys(error.schema, file)
        unknown = next(name for name in error.instance if name not in known)
        return f"unknown key '{unknown}'{inside}{_meant(unknown, known)}."
    if error.validator == "not":
        return f"'{key}' cannot be set here. {error.schema['description'].rstrip('.')}."
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return f"key '{missing}' is missing{inside}."
    if error.validator == "enum":
        word = SYNONYMS.get(str(error.instance), str(error.instance))
        if "propertyNames" in error.absolute_schema_path:
            return f"unknown key '{error.instance}'{inside}; {nearest(word, error.validator_value)}."
        return f"'{key}' is {described(error.instance)}; {nearest(word, map(str, error.validator_value))}."
    if error.validator == "type":
        types = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
        expected = " or ".join(TYPES[name] for name in types)
        return f"'{key}' must be {expected}, found {described(error.instance)}."
    if error.validator == "propertyNames" or "propertyNames" in error.absolute_schema_path:
        *others, last = (f"'{sign}'" for sign in "._-" if sign in str(error.validator_value).replace("a-z0-9", ""))
        allowed = f"contain only lower-case letters, digits{''.join(f', {sign}' for sign in others)} and {last}"
        return f"the name '{error.instance}'{inside} must begin with a lower-case letter or digit and {allowed}."
    if error.validator in LIMITS:
        return f"'{key}' must be {LIMITS[error.validator]} {error.validator_value}, found {described(error.instance)}."
    if error.validator in _LENGTHS and not len(error.instance):
        return f"'{key}' must not be empty."
    if error.validator == "uniqueItems":
        return f"'{key}' must not list a value twice, found {error.instance}."
    if error.validator == "minItems":
        return f"'{key}' must have at least {error.validator_value} values, found {error.instance}."
    return f"'{key}': {error.message}."


def _meant(unknown: str, known: dict[str, Any]) -> str:
    new = OLD_WORDS.get(unknown)
    if unknown == "rows" and "keep" in known:
        return "; name the rows of the base to take in 'keep', as in 'keep: [triplet]'"
    if new not in known:
        return f"; {nearest(str(unknown), known)}"
    if unknown == "from":
        return "; it was removed. Name the row's method instead, as in 'method: angular'"
    return f"; it was renamed to '{new}'"
