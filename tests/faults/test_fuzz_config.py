"""Garbage in YAML gives a UserError or a study, never a traceback and never a hang."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from recheck.data import description
from recheck.errors import UserError
from recheck.files import fingerprint
from recheck.parts import own_files
from recheck.report.figures import all_figures
from recheck.resize import resize_slug
from recheck.study.catalogue import Catalogue
from recheck.study.compose import Files
from recheck.study.published import load_published
from recheck.study.toy import load_toy
from recheck.study.yaml import read_yaml
from support.faults.fuzz import answer, fuzz, mutated, within
from support.faults.kills import STUDY as SWEEP
from support.project import ROOT, small_study
from support.project.studies import FILES, own_study

STUDIES = {
    "letters": yaml.safe_load(small_study()),
    "sweep": yaml.safe_load(SWEEP),
    **{
        name: yaml.safe_load((ROOT / f"config/studies/{name}.yaml").read_text(encoding="utf-8"))
        for name in ("quickstart", "contextual_256")
    },
}
DATASET = yaml.safe_load((ROOT / "config/datasets/cars196.yaml").read_text(encoding="utf-8"))
WEIGHTS = yaml.safe_load(next((ROOT / "config/weights").glob("*.yaml")).read_text(encoding="utf-8"))
TOY = yaml.safe_load(next((ROOT / "config/toys").glob("*.yaml")).read_text(encoding="utf-8"))
PUBLISHED = {"documents": [{"source": "A", "values": {"glyphs": {"triplet": {"separated": {"P@1": 50.0}}}}}]}

WORDS = ["a", ":", " ", "\n", "- ", "&a ", "*a ", "{", "}", "[", "]", "? ", "!!", "!!set ", "!!python/object:x ", "<<"]
WORDS += ["|", ">", "'", '"', "\t", "#", "---\n", "%YAML 9.9\n", "2001-99-99", "0o9", "1e999", ".nan", "~", "\ufeff"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def write(folder: Path, name: str, value) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(value, allow_unicode=True), encoding="utf-8", errors="replace")
    return path


def plan(name: str, paths: dict[str, Path]) -> None:
    """Do everything that Snakemake does with a study before the first job."""
    catalogue = Catalogue(
        Files({**FILES.studies, **paths}, FILES.methods),
        [ROOT / "resources/published"],
        {},
        lambda settings, source: description.with_weights(settings, {}, "weights", source),
        lambda dataset, source: SimpleNamespace(title=dataset),
        lambda path: path,
    )
    study = catalogue.study(name)
    for target in (name, f"{name}_so_far"):
        fingerprint(catalogue.page_facts(target, all_figures()))
        for dataset in study.datasets:
            facts = catalogue.facts(target, dataset)
            fingerprint(facts)
            for figure in all_figures().values():
                figure.applies(facts)
    for dataset in study.datasets:
        fingerprint(study.split(dataset))
        for row in study.rows.values():
            run = study.run(dataset, row.name)
            fingerprint([run.training, run.embedding, run.evaluation, run.members])
            assert row.seeds
            own_files(run.training)
            assert "/" not in resize_slug(run.settings["transforms"].get("resize"))


@pytest.mark.parametrize("name", STUDIES)
def test_studies(folder, name, record_property):
    tried = []

    @fuzz(60)
    @given(mutated(STUDIES[name]))
    def garbage(study):
        tried.append(1)
        answer(plan, "mine", {"mine": write(folder, "mine", study)})

    garbage()
    record_property("tried", len(tried))


@pytest.mark.parametrize(
    ("tree", "load"),
    [
        (DATASET, lambda path: description.load_dataset("x", {"x": path}, "config").parser),
        (WEIGHTS, lambda path: description.load_weights({"x": path})),
        (TOY, lambda path: load_toy(path).content),
        (PUBLISHED, load_published),
    ],
    ids=["datasets", "weights", "toys", "published"],
)
def test_other_files(folder, tree, load, record_property):
    tried = []

    @fuzz(60)
    @given(mutated(tree))
    def garbage(value):
        tried.append(1)
        answer(lambda: fingerprint(str(load(write(folder, "other", value)))))

    garbage()
    record_property("tried", len(tried))


def test_any_text(folder, record_property):
    tried = []
    words = st.sampled_from(WORDS)

    @fuzz(200)
    @given(st.one_of(st.text(max_size=60).map(str.encode), st.binary(max_size=60), st.lists(words).map("".join)))
    def garbage(text):
        tried.append(1)
        path = folder / "text.yaml"
        path.write_bytes(text.encode(errors="replace") if isinstance(text, str) else text)
        result = answer(read_yaml, path)
        assert isinstance(result, (dict, UserError))

    garbage()
    record_property("tried", len(tried))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "head: {class: Linear,",
            "head: {class: Liner,",
            "unknown class 'Liner' in 'model.head'; did you mean 'Linear'?",
        ),
        (
            "backbone: {class: Adam,",
            "backbone: {class: Adm,",
            "unknown class 'Adm' in 'optimisers.backbone'; did you mean 'Adam'?",
        ),
        (
            "  schedule: {epochs: 2",
            "  lr_schedule: {class: StepLr, step_size: 1}\n  schedule: {epochs: 2",
            "unknown class 'StepLr' in 'lr_schedule'; did you mean 'StepLR'?",
        ),
        (
            "sampler: {class: MPerClass,",
            "sampler: {class: UserError,",
            "unknown class 'UserError' in 'sampler'; known: ",
        ),
        (
            "head: {class: Linear,",
            "pooling: {class: GM}\n    head: {class: Linear,",
            "'GM' in 'model.pooling'; did you mean",
        ),
        (
            "head: {class: Linear,",
            "projector: {class: Projector}\n    head: {class: Linear,",
            "unknown class 'Projector' in 'model.projector'; did you mean 'LinearProjector'?",
        ),
        ("margin: 0.1}", "margin: 0.1}\n    forward: {class: InTurn}", "in 'forward'; did you mean 'InTurns'?"),
        ("margin: 0.1}", "margin: 0.1}\n    relabel: {class: Meta, count: 2}", "'Meta' in 'relabel'; did you mean"),
        ("margin: 0.1}", "margin: 0.1}\n    miner: {class: HardMiner}", "'HardMiner' in 'miner'; did you mean"),
        (
            "margin: 0.1}",
            "margin: 0.1, distance: {class: LpDistanc}}",
            "unknown class 'LpDistanc' in 'loss.distance'; did you mean 'LpDistance'?",
        ),
        (
            "margin: 0.1}",
            "margin: 0.1, reducer: mean}",
            "'loss.reducer' must have the form {class: …}, found 'mean'.",
        ),
        ("margin: 0.1", "margin: .nan", "'methods.triplet.loss.margin' is nan, but numbers must be finite."),
        (
            "title: Letters",
            "title: Letters\nsweep: {label: x, methods: [triplet], values: {1: {los: {}}}}",
            "key 'los'",
        ),
        ("title: Letters", "title: Letters\nvariant: f\nvariants: {f: {protocol: {schedul: {}}}}", "'schedul'"),
    ],
)
def test_mistakes_are_reported_before_the_first_job(tmp_path, monkeypatch, old, new, sentence):
    monkeypatch.chdir(ROOT / "tests/support/project")  # the study's network is small_net.py
    assert old in small_study()
    with pytest.raises(UserError) as refused:
        own_study(tmp_path, small_study().replace(old, new, 1))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("margin: .nan", "'margin' is nan, but numbers must be finite"),
        ("a: {b: [1, -.inf]}", "'a.b.1' is -inf"),
        ("when: 2020-01-01", "'when' is the date 2020-01-01. Put it in quotes"),
        ("a: !!set {x}", "'a' is the set"),
        ("a: !!binary aGk=", "'a' is the bytes"),
        ("{a: 1}: 2", "not valid YAML"),
        ("? [1, 2]\n: 3", "not valid YAML"),
        ("a: {~: 2}", "a key in 'a' is "),
        ("a: &a [*a]", "nested too deeply"),
        ("a: &a {b: *a}", "nested too deeply"),
        ("when: 2020-99-99", "cannot be read"),
        ("a: !!python/object/apply:os.system [echo]", "not valid YAML"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20))]), "too"),
    ],
)
def test_unusable_values_are_reported_with_their_key(tmp_path, text, sentence):
    (tmp_path / "a.yaml").write_text(text)
    with within(), pytest.raises(UserError, match=r"a\.yaml") as refused:
        read_yaml(tmp_path / "a.yaml")
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 500
