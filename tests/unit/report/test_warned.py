"""Warnings of runs and evaluations in tables and on the page."""

import io

import numpy as np
import pandas as pd

from recheck.files import write_json
from recheck.report import page, tables
from recheck.report.inputs import Inputs
from recheck.report.warned import Warned, of_rows
from recheck.sanity import CHECKS
from support.report.facts import facts

METHODS = {"pretrained": "Pretrained", "triplet": "Triplet & co", "ms": "MS"}


def run(method, seed=0, fold=0, checks=(), epochs=4, best_epoch=4):
    warnings = [{"check": check, "text": f"{check}, with details"} for check in checks]
    return {
        **{"method": method, "seed": seed, "fold": fold, "warnings": warnings},
        **{"epochs": epochs, "best_epoch": best_epoch},
    }


def evaluation(method, view="concatenated", seed=0, checks=()):
    return {"method": method, "seed": seed, "view": view, "warnings": [{"check": check} for check in checks]}


def test_a_check_of_all_runs_is_named_without_a_number():
    warned_rows = of_rows([run("triplet", fold=fold, checks=["zero_loss"]) for fold in range(4)], [])
    assert warned_rows == [Warned("triplet", "zero_loss")]


def test_a_check_of_some_runs_says_how_many():
    runs = [run("triplet", fold=fold, checks=["zero_loss"] * (fold == 2)) for fold in range(4)]
    assert of_rows(runs, []) == [Warned("triplet", "zero_loss", "1 of 4 runs")]


def test_epoch_0_is_a_warning_if_every_fold_of_a_seed_chose_it():
    chosen = [run("triplet", fold=fold, best_epoch=0) for fold in range(3)]
    assert of_rows(chosen, []) == [Warned("triplet", "epoch_0")]
    assert of_rows([*chosen, run("triplet", fold=3)], []) == []
    other = [run("triplet", seed=1, fold=fold) for fold in range(3)]
    assert of_rows([*chosen, *other], []) == [Warned("triplet", "epoch_0", "1 of 2 seeds")]


def test_rows_without_training_choose_epoch_0_by_design():
    released = {"method": "ms_released", "seed": 0, "fold": 0, "best_epoch": 0}
    assert of_rows([run("pretrained", epochs=0, best_epoch=0), released], []) == []


def test_records_of_older_versions_have_no_warnings():
    old = {key: value for key, value in run("triplet").items() if key != "warnings"}
    assert of_rows([old], [{"method": "triplet", "seed": 0, "view": "separated"}]) == []


def test_a_finding_in_some_views_or_seeds_names_them():
    views = [evaluation("ms"), evaluation("ms", "separated", checks=["collapsed"])]
    assert of_rows([], views) == [Warned("ms", "collapsed", "separated")]
    seeds = [*views, evaluation("ms", seed=1), evaluation("ms", "separated", seed=1)]
    assert of_rows([], seeds) == [Warned("ms", "collapsed", "separated, 1 of 2 seeds")]


def test_warnings_are_in_the_order_of_the_checks():
    warned_rows = of_rows([run("ms", checks=["zero_loss", "no_negative_pairs"])], [evaluation("ms", checks=["chance"])])
    assert [warned.check for warned in warned_rows] == ["no_negative_pairs", "zero_loss", "chance"]
    unknown = of_rows([run("ms", checks=["of_the_future"])], [])
    assert unknown[0].sentence == "of_the_future"


def write_results(folder, checks=("no_negative_pairs", "zero_loss"), seeds=(0, 1), measured=(0, 1)):
    """Files of two views, in which the row 'triplet' is best and has warnings."""
    files = {"evaluations": [], "runs": []}
    for place, method in enumerate(METHODS):
        for seed in seeds:
            home = folder / "results" / "quick" / "emoji" / method / f"seed{seed}"
            warnings = [{"check": check, "text": "…"} for check in checks] if method == "triplet" else []
            write_json(
                home / "fold0" / "run.json", {"warnings": warnings, "epochs": 2, "best_epoch": 2, "fingerprint": "f"}
            )
            files["runs"].append(home / "fold0" / "run.json")
            for view in ("concatenated", "separated") if seed in measured else ():
                value = (0.3, 0.9, 0.6)[place] + 0.001 * seed * place
                content = {"view": view, "dim": 8, "metrics": {"P@1": value, "MAP@R": value / 2}, "warnings": []}
                write_json(home / f"{view}.json", content)
                files["evaluations"].append(home / f"{view}.json")
    return files


def test_warnings_are_in_every_format_of_a_table(tmp_path):
    made = Inputs(facts(METHODS, seeds=2), write_results(tmp_path)).table
    assert made.alerts == [
        f"⚠ Triplet & co: {CHECKS['no_negative_pairs']}.",
        f"⚠ Triplet & co: {CHECKS['zero_loss']}.",
    ]
    text = made.markdown()
    row = next(line for line in text.splitlines() if line.startswith("| Triplet"))
    assert "Triplet & co ⚠" in row and "**" not in row and "90.05" in row
    assert f"- ⚠ Triplet & co: {CHECKS['zero_loss']}." in text.splitlines()
    latex = made.latex()
    assert latex.isascii()
    assert r"Triplet \& co \textsuperscript{$\dagger$} & 90.05" in latex
    assert rf"\par \textsuperscript{{$\dagger$}} Triplet \& co: {CHECKS['zero_loss']}." in latex
    wide = pd.read_csv(io.StringIO(made.csv())).set_index("method")
    assert wide.loc["triplet", "warnings"] == f"{CHECKS['no_negative_pairs']}; {CHECKS['zero_loss']}"
    assert np.isnan(wide.loc["ms", "warnings"])
    assert '<th scope="row">Triplet &amp; co ⚠</th>' in made.html()
    assert made.json()["warnings"][1] == {
        **{"method": "triplet", "check": "zero_loss", "where": "", "text": CHECKS["zero_loss"]}
    }
    assert [row["warned"] for row in made.json()["rows"]].count(True) == 4


def test_a_table_without_warnings_does_not_mention_them(tmp_path):
    made = Inputs(facts(METHODS, seeds=2), write_results(tmp_path, checks=())).table
    assert made.alerts == []
    for text in (made.markdown(), made.latex(), made.html(), made.csv()):
        assert "⚠" not in text and "dagger" not in text and "warning" not in text


def test_figures_show_the_best_row_without_warnings(tmp_path):
    assert Inputs(facts(METHODS, seeds=2), write_results(tmp_path)).best == "ms"
    assert Inputs(facts(METHODS, seeds=2), write_results(tmp_path, checks=())).best == "triplet"
    one = {"pretrained": "Pretrained", "triplet": "Triplet"}
    files = {
        kind: [path for path in paths if "/ms/" not in str(path)] for kind, paths in write_results(tmp_path).items()
    }
    assert Inputs(facts(one, seeds=2), files).best == "triplet", "the only trained row"


def test_a_table_with_warnings_can_be_loaded(tmp_path):
    made = Inputs(facts(METHODS, seeds=2), write_results(tmp_path)).table
    write_json(tmp_path / "table.json", made.json())
    again = tables.load(tmp_path / "table.json")
    assert again.json() == made.json()
    assert again.rows() == made.rows() and again.alerts == made.alerts


def test_a_seed_without_an_evaluation_does_not_warn(tmp_path):
    files = write_results(tmp_path, measured=())
    assert Inputs(facts(METHODS, seeds=2, scope="so_far"), files).table.alerts == []


def test_the_page_shows_warnings(tmp_path):
    made = Inputs(facts(METHODS, seeds=2), write_results(tmp_path)).table
    write_json(tmp_path / "table.json", made.json())
    about = {"study": "quick", "title": "Quick", "description": "", "datasets": ["emoji"], "rows": [], "command": "x"}
    about |= {"titles": {"emoji": "Emoji"}, "captions": {"emoji": {}}, "quoted": []}
    runs = [path for path in write_results(tmp_path)["runs"] if path.parent.parent.name == "seed0"]
    text = page.make(about, [tmp_path / "table.json"], [], runs)
    assert f"<li>⚠ Triplet &amp; co: {CHECKS['zero_loss']}.</li>" in text
    assert text.count('<th scope="row">Triplet &amp; co ⚠</th>') == 2, "in the table and in the list of runs"
    assert '<th scope="row">MS</th><td>Emoji</td>' in text
