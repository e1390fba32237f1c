"""A part of a study, chosen by the config: some rows, other seeds, another variant or another search.

Its report has its own folder, so that it never replaces the report of the whole study. It shares the study's runs,
unless another variant or another search is chosen: they change runs, so their runs have their own folder too.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recheck.files import fingerprint
from recheck.study.model import Study
from recheck.study.summary import described

LONGEST = 60


@dataclass(frozen=True)
class Selection:
    """The choices of the config; None or empty where it leaves the choice to the study."""

    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    variant: str | None = None
    # changes to every search, such as {rounds: 2}
    tuning: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Selection":
        lists = {key: tuple(config.get(key) or ()) for key in ("methods", "seeds")}
        return cls(**lists, variant=config.get("variant"), tuning=config.get("tuning") or {})

    def of_runs(self) -> "Selection":
        """The choices that change runs."""
        return Selection(variant=self.variant, tuning=self.tuning)

    def __bool__(self) -> bool:
        return bool(self.methods or self.seeds or self.variant or self.tuning)

    def folder(self, study: str) -> str:
        """The name of the report's folder, which depends only on the study and the choices."""
        words = [*sorted(set(self.methods)), *([self.variant] if self.variant else [])]
        words += [f"{key}_{value}" for key, value in sorted(self.tuning.items())]
        words += ["seeds", *map(str, self.seeds)] if self.seeds else []
        slug = re.sub(r"[^a-z0-9_.-]", "-", "_".join(words).lower())
        if len(slug) > LONGEST:
            changes = [dict(self.tuning)] if self.tuning else []
            slug = fingerprint([sorted(set(self.methods)), list(self.seeds), self.variant, *changes])[:12]
        return f"{study}_selected_{slug}"

    @property
    def options(self) -> str:
        """The choices as command-line arguments."""
        words = [f"{key}=[{','.join(map(str, values))}]" for key, values in self._lists.items() if values]
        words += [f"variant={self.variant}"] if self.variant else []
        words += [f"tuning={{{self._changes}}}"] if self.tuning else []
        return " --config " + " ".join(map(shlex.quote, words)) if words else ""

    @property
    def _changes(self) -> str:
        return ", ".join(f"{key}: {value}" for key, value in self.tuning.items())

    @property
    def _lists(self) -> dict[str, tuple]:
        return {"methods": self.methods, "seeds": self.seeds}

    def applied(self, name: str, whole: Study, selected: Study) -> Study:
        """The ``selected`` part of the ``whole`` study, with title, description and command that name the choices."""
        rows = f"{len(selected.rows)} of {len(whole.rows)} rows" if len(selected.rows) < len(whole.rows) else ""
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}" if self.seeds else ""
        variant = f"variant {selected.variant}" if self.variant else ""
        tuning = f"search with {self._changes}" if self.tuning and selected.searches else ""
        chosen = ", ".join(filter(None, [rows, seeds, variant, tuning]))
        named = replace(selected, name=whole.name, options=self.options)
        facts = described(replace(named, description="")).description
        return replace(
            named,
            title=f"{whole.title} – {chosen}",
            description=f"Only a part of study {name}: {chosen}. {facts}",
        )
