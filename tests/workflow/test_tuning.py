"""A search as a user runs it: the README's example, continued with more rounds, and with trials that fail."""

import csv
import json
import re

import pytest
import yaml

from support.project import ROOT
from support.project.tuned import ROWS, SEARCH

# a learning rate at which the loss is no longer a number
FAILING = """
base: letters
keep: [triplet]
tuning: {sampler: grid, rounds: 1, trials: 2}
methods:
  triplet:
    members: 1
    space: {optimisers.backbone.lr: {values: [0.001, 1.0e+30]}}
"""
CUB, LETTERS = "cub200\ttriplet\t32\t", "glyphs\ttriplet\t8\t"
PUBLISHED = """
documents:
  - source: A search
    searches: {folder: letters, batch: 8, metric: MAP@R}
"""


def read(project, path):
    return json.loads(project.read(path))


def trials(project, search=SEARCH):
    return list(csv.DictReader(project.read(f"{search}/tuning/trials.csv").splitlines()))


def test_the_final_runs_have_the_chosen_values_and_are_not_the_selected_trial(tuned):
    rows = trials(tuned)
    assert [(row["round"], row["trial"], row["state"]) for row in rows] == [
        ("0", "0", "finished"),
        ("1", "1", "finished"),
    ]
    best = read(tuned, f"{SEARCH}/tuning/best.json")
    assert best["objective"] == max(float(row["objective"]) for row in rows)
    selected = read(tuned, f"{SEARCH}/trial{best['trial']}/fold1/run.json")
    final = read(tuned, f"{SEARCH}/seed0/fold1/run.json")
    chosen = best["values"]["loss.temperature"]
    assert final["configuration"] == selected["configuration"]
    assert final["configuration"]["loss"]["temperature"] == chosen == float(rows[best["trial"]]["loss.temperature"])
    seeds = {read(tuned, f"{SEARCH}/trial{trial}/fold0/run.json")["seed"] for trial in range(2)}
    assert len(seeds) == 2 and final["seed"] == 0 and min(seeds) > 0
    assert final["fingerprint"] != selected["fingerprint"] and "reused_from" not in final
    folds = [read(tuned, f"{SEARCH}/trial0/fold{fold}/run.json")["best"]["val_MAP@R"] for fold in (0, 1)]
    assert float(rows[0]["objective"]) == sum(folds) / 2


def test_trials_leave_neither_weights_nor_state_nor_embeddings(tuned):
    files = {path.name for path in tuned.path(f"{SEARCH}/trial0/fold0").iterdir() if path.is_file()}
    assert files == {"history.csv", "run.json"}
    assert not list(tuned.path("results/state/my_study").glob("**/state.bin"))


def test_the_table_shows_the_winners_curse_and_the_price(tuned):
    table = tuned.read("results/my_study/glyphs/table.md")
    for title in ("Selected trial", "Reruns", "Trials", "On a bound"):
        assert f" {title} " in table.splitlines()[0]
    rows = {row["method"]: row for row in csv.DictReader(tuned.read("results/my_study/glyphs/table.csv").splitlines())}
    for row in ROWS:
        search = f"results/my_study/glyphs/{row}"
        best = read(tuned, f"{search}/tuning/best.json")
        again = [read(tuned, f"{search}/seed0/fold{fold}/run.json")["best"]["val_MAP@R"] for fold in (0, 1)]
        assert float(rows[row]["search_selected"]) == pytest.approx(100 * best["objective"])
        assert float(rows[row]["search_rerun"]) == pytest.approx(100 * sum(again) / 2)
        assert rows[row]["search_trials"] == "2"
    for figure in ("search", "slices"):
        assert tuned.path(f"results/my_study/figures/glyphs_{figure}.png").stat().st_size > 5000


def test_the_chosen_values_are_printed_and_are_a_study(tuned, tmp_path):
    chosen = tuned.read("results/my_study/chosen.yaml")
    assert chosen in tuned.read("printed.txt")
    content = yaml.safe_load(chosen)
    for row in ROWS:
        (values,) = read(tuned, f"results/my_study/glyphs/{row}/tuning/best.json")["values"].values()
        assert list(content["methods"][row]["datasets"]["glyphs"]["loss"].values()) == [values]
    project = tuned.copy(tmp_path / "project")
    project.write("config/studies/pasted.yaml", chosen)
    planned = project.planned("pasted")
    assert planned["train"] == 4 and not {"trial", "propose", "choose"} & set(planned)


def test_only_new_rounds_run_and_a_shorter_search_has_its_own_folder(tuned, tmp_path):
    assert tuned.planned("my_study") == {}
    shorter = tuned.planned("my_study", "--config", "tuning={rounds: 1}")
    assert shorter["trial"] == 4 and shorter["train"] == 4
    project = tuned.copy(tmp_path / "project")
    kept = {path: path.stat().st_mtime_ns for path in project.path(SEARCH).glob("trial*/fold*/run.json")}
    project.edit("config/studies/my_study.yaml", "rounds: 2", "rounds: 3")
    planned = project.planned("my_study")
    assert (planned["propose"], planned["trial"], planned["choose"]) == (2, 4, 2)
    before = read(project, f"{SEARCH}/tuning/best.json")
    models = [f"{SEARCH}/seed0/fold0/model.safetensors"]
    bits = project.path(models[0]).read_bytes()
    project.succeed("--cores", "2", *models)
    after, record = read(project, f"{SEARCH}/tuning/best.json"), read(project, f"{SEARCH}/seed0/fold0/run.json")
    assert after["trials"] == 3 and {path: path.stat().st_mtime_ns for path in kept} == kept
    same = before["values"] == after["values"]
    assert (project.path(models[0]).read_bytes() == bits) is same
    assert ("reused_from" in record) is same, "a final run with the same values is not trained again"


def test_our_trials_stand_beside_published_ones(tuned, tmp_path):
    """The published search of Triplet on CUB, as if it had been on these letters with batches of 8."""
    project = tuned.copy(tmp_path / "project")
    for name in ("spaces.tsv", "trials.tsv"):
        head, *lines = (ROOT / "resources/published/mlrc_searches" / name).read_text(encoding="utf-8").splitlines()
        kept = [line.replace(CUB, LETTERS) for line in lines if line.startswith(CUB)]
        project.write(f"resources/published/letters/{name}", "\n".join([head, *kept, ""]))
    project.write("resources/published/letters.yaml", PUBLISHED)
    project.edit("config/studies/my_study.yaml", "base: letters", "base: letters\npublished: letters.yaml")
    drawings = [f"results/my_study/figures/glyphs_{name}.svg" for name in ("best_so_far", "one_setting", "effort")]
    project.succeed("--cores", "2", "results/my_study/searches.csv", *drawings)
    assert all("<!-- our" in project.read(path) for path in drawings), "the legends name our trials"
    (line,) = csv.DictReader(project.read("results/my_study/searches.csv").splitlines())
    best = read(project, "results/my_study/glyphs/triplet/tuning/best.json")
    assert float(line["ours_selected"]) == best["values"]["loss.margin"] != float(line["selected"])
    assert float(line["ours_validation_MAP@R"]) == pytest.approx(100 * best["objective"])


def test_a_trial_that_diverges_is_recorded_and_does_not_end_the_study(project):
    project.write("config/studies/failing.yaml", FAILING)
    search = "results/failing/glyphs/triplet"
    project.succeed("--cores", "2", f"{search}/tuning/best.json")
    by_state = {row["state"]: row for row in trials(project, search)}
    assert float(by_state["finished"]["optimisers.backbone.lr"]) == 0.001
    failed = by_state["failed"]
    assert failed["objective"] == "" and re.match(r"fold 0: The (loss|model) (became|produced)", failed["reason"])
    best = read(project, f"{search}/tuning/best.json")
    assert (best["trials"], best["failed"], best["values"]) == (2, 1, {"optimisers.backbone.lr": 0.001})
    assert "failed" in read(project, f"{search}/trial{failed['trial']}/fold0/run.json")
    project.edit("config/studies/failing.yaml", "[0.001, 1.0e+30]", "[1.0e+29, 1.0e+30]")
    output = project.fail("--cores", "2", f"{search}/tuning/best.json")
    assert "All 2 trials failed; the first: fold 0: The" in output


def test_the_searches_of_the_reality_check_can_be_planned(fresh):
    """One of its 14 rows, because planning all takes half a minute (docs/performance.md)."""
    planned = fresh.add_shipped_studies().planned("mlrc_tuning", "--config", "methods=[triplet]", "seeds=[0]")
    assert planned["trial"] == 3 * 4 * 50 and planned["propose"] == 3 * 10
    assert planned["choose"] == 3 and planned["train"] == 3 * 4


def test_a_cluster_runs_trials_like_trainings_and_proposes_where_snakemake_runs():
    profile = yaml.safe_load((ROOT / "slurm/config.yaml").read_text(encoding="utf-8"))
    for key in ("set-resources", "set-threads"):
        assert profile[key]["trial"] == profile[key]["train"]
    rules = (ROOT / "workflow/rules/tune.smk").read_text(encoding="utf-8")
    bodies = {rule.partition(":")[0]: rule for rule in re.split(r"^rule ", rules, flags=re.MULTILINE)[1:]}
    assert all("localrule: True" in bodies[name] for name in ("propose", "choose", "importance", "chosen"))
