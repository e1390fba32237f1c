"""Files against workflow/schemas: the first fault becomes one sentence that names the file, the key and what to do."""

from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, relevance
from referencing import Registry, Resource

from recheck.errors import UserError, nearest
from recheck.study.yaml import described, read_yaml

SCHEMAS = Path(__file__).resolve().parents[3] / "schemas"


def validate(value: dict[str, Any], schema_name: str, source: str | Path) -> None:
    """Check against workflow/schemas/<schema_name>.schema.yaml; the first fault becomes one sentence."""
    schema = _schema(f"{schema_name}.schema.yaml").contents
    errors = list(Draft202012Validator(schema, registry=Registry(retrieve=_schema)).iter_errors(value))
    if errors:
        raise UserError(f"{source}: {_sentence(max(errors, key=_telling))}")


@cache
def _schema(file: str) -> Resource:
    return Resource.from_contents(read_yaml(SCHEMAS / file))


def _telling(error: ValidationError) -> tuple:
    """A misspelt key explains more than the key that is missing because of it."""
    return error.validator == "additionalProperties", relevance(error)


def _sentence(error: ValidationError) -> str:
    while error.context:
        error = max(error.context, key=_telling)
    key = ".".join(str(part) for part in error.absolute_path)
    inside = f" in '{key}'" if key else ""
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        unknown = next(name for name in error.instance if name not in known)
        return f"unknown key '{unknown}'{inside}; {nearest(str(unknown), known)}."
    if error.validator == "required":
        missing = next(name for name in error.validator_value if name not in error.instance)
        return f"key '{missing}' is missing{inside}."
    if error.validator == "enum":
        return (
            f"'{key}' is {described(error.instance)}; {nearest(str(error.instance), map(str, error.validator_value))}."
        )
    if error.validator == "type":
        wanted = error.validator_value if isinstance(error.validator_value, str) else " or ".join(error.validator_value)
        return f"'{key}' must be of type {wanted}, found {described(error.instance)}."
    if error.validator == "propertyNames" or "propertyNames" in error.absolute_schema_path:
        return f"the name '{error.instance}'{inside} may only have lower-case letters, digits, '_' and '-'."
    return f"'{key}': {error.message}."
