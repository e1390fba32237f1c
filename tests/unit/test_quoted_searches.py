"""Published searches: every trial is read, and the known facts about them are found by program."""

import shutil
import statistics

import pytest

from recheck import quoted_searches
from recheck.errors import UserError
from recheck.quoted_searches import QuotedSearch, QuotedTrial
from recheck.space import Parameter, get
from support.project import ROOT
from support.project.studies import shipped

FOLDER = ROOT / "resources/published/mlrc_searches"
# validation MAP@R of the selected trials: CUB, Cars, SOP, CUB with batches of 256
SELECTED = {
    "contrastive": (43.68, 22.08, 41.07, 43.32),
    "triplet": (42.44, 22.21, 38.46, 42.64),
    "nt_xent": (43.26, 22.87, 40.62, 44.60),
    "proxy_nca": (42.98, 22.65, 41.68, 43.48),
    "margin": (41.84, 21.43, 37.25, 42.05),
    "margin_class": (42.78, 21.79, 39.09, 42.53),
    "n_softmax": (43.99, 23.61, 42.29, 43.46),
    "cosface": (43.49, 22.32, 41.32, 44.12),
    "arcface": (44.76, 21.61, 41.93, 45.39),
    "snr": (43.46, 21.79, 40.99, 43.94),
    "ms": (43.64, 23.25, 41.59, 44.01),
    "ms_miner": (43.81, 23.29, 42.02, 44.29),
    "soft_triple": (44.11, 22.79, 41.66, 43.97),
    "fastap": (None, None, None, 44.70),
}
PLACES = (("cub200", 32), ("cars196", 32), ("sop", 32), ("cub200", 256))
LOWER, UPPER, WIDENED = "lower bound", "upper bound", ", later widened"
ON_BOUND = {
    ("cub200", "arcface", 32, "loss.scale", 100, UPPER + WIDENED),
    ("cub200", "cosface", 32, "loss.scale", 100, UPPER + WIDENED),
    ("sop", "cosface", 32, "loss.scale", 100, UPPER + WIDENED),
    ("sop", "soft_triple", 32, "loss.la", 100, UPPER + WIDENED),
    ("cub200", "contrastive", 32, "loss.pos_margin", -0.2, LOWER),
    ("cub200", "ms", 32, "loss.alpha", 0.01, LOWER + WIDENED),
    ("cub200", "ms", 256, "loss.alpha", 0.01, LOWER),
    ("cub200", "margin", 256, "optimisers.loss.lr", 1e-6, LOWER),
    ("cars196", "snr", 32, "loss.embedding_reg_weight", 0, LOWER),
    ("sop", "snr", 32, "loss.embedding_reg_weight", 0, LOWER),
}


@pytest.fixture(scope="module")
def searches():
    return quoted_searches.read(FOLDER)


def test_all_trials_are_read(searches):
    assert len(searches) == 53 and all(len(search.trials) == 50 for search in searches)
    assert {search.startup for search in searches} == {5}
    single = [search for search in searches if search.has_objectives]
    assert len(single) == 9 and sum(len(search.trials) for search in single) == 450
    assert {(s.dataset, s.row, s.batch) for s in single} == {
        (s.dataset, s.row, s.batch) for s in searches if len(s.space) == 1
    }
    for search in searches:
        assert search.best_so_far == sorted(search.best_so_far)
        for parameter in search.space:
            places = [parameter.place(trial.values[parameter.name]) for trial in search.trials]
            assert min(places) >= -1e-9 and max(places) <= 1 + 1e-9
    for search in single:
        objectives = [trial.objective for trial in search.trials]
        assert search.best_so_far == [max(objectives[: end + 1]) for end in range(50)]
        assert all(0 < trial.error_bar < 0.1 for trial in search.trials)


def test_the_selected_trials_have_the_published_values(searches):
    selected = {(s.row, s.dataset, s.batch): round(100 * s.best, 2) for s in searches}
    wanted = {
        (row, *place): value
        for row, values in SELECTED.items()
        for place, value in zip(PLACES, values, strict=True)
        if value is not None
    }
    assert selected == wanted


def test_ten_optima_lie_on_a_bound(searches):
    on_bound = {
        (s.dataset, s.row, s.batch, setting, round(s.selected.values[setting], 9), bound)
        for s in searches
        for setting, bound in s.on_bound.items()
    }
    assert on_bound == ON_BOUND


def search(values, best, **space):
    """A search of one setting with these values, selected at the last improvement of ``best``."""
    trials = [
        QuotedTrial(n, so_far, {"loss.margin": value})
        for n, (value, so_far) in enumerate(zip(values, best, strict=True))
    ]
    return QuotedSearch("cub200", "triplet", 32, 5, (Parameter("loss.margin", **space),), tuple(trials))


@pytest.mark.parametrize(
    ("values", "best", "bound"),
    [
        ((0.1, 0.5, 0.9), (0.3, 0.4, 0.4), None),
        ((0.1, 0.5, 1.0), (0.3, 0.35, 0.4), UPPER),
        ((0.1, 0.0, 1.0), (0.3, 0.35, 0.35), LOWER),
        ((0.5, 0.4, 0.5, 1.0), (0.3, 0.3, 0.4, 0.4), UPPER + WIDENED),
        ((0.5, 0.7, 0.5, 0.1), (0.3, 0.3, 0.4, 0.4), LOWER + WIDENED),
        ((0.1, 0.2, 0.5), (0.3, 0.3, 0.4), None),
        ((0.1, 0.2, 0.9, 0.2), (0.3, 0.3, 0.3, 0.4), None),
    ],
)
def test_a_bound_is_known_from_the_space_or_because_it_was_tried_before(values, best, bound):
    assert search(values, best, low=0, high=1).on_bound == ({"loss.margin": bound} if bound else {})


@pytest.mark.parametrize(
    ("best", "count"), [((0.4, 0.4, 0.4), 1), ((0.3, 0.396, 0.4), 2), ((0.3, 0.394, 0.4), 3), ((0.1,), 1)]
)
def test_trials_needed(best, count):
    assert quoted_searches.needed(best) == count


def test_easy_and_hard_methods(searches):
    medians = quoted_searches.median_needed(searches)
    assert list(medians.values()) == sorted(medians.values())
    assert medians["snr"] == 6 and medians["n_softmax"] == 35.5 and medians["fastap"] == 12


def test_our_studies_search_the_published_spaces_and_mlrc_has_the_selected_values(searches):
    studies = {32: shipped("mlrc_tuning"), 256: shipped("mlrc_tuning_256")}
    trained = shipped("mlrc")
    for published in searches:
        space = studies[published.batch].run(published.dataset, published.row).search.space
        bounds = {name: (e["low"], e["high"], e.get("log", False)) for name, e in space.items()}
        assert bounds == {p.name: (p.low, p.high, p.log) for p in published.space}, published.row
        if published.batch == 32:
            settings = trained.run(published.dataset, published.row).settings
            for name, value in published.selected.values.items():
                assert get(settings, name) == pytest.approx(value, rel=1e-6, abs=1e-9), (published.row, name)


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        ("spaces.tsv", "\tlow\t", "\tlo\t", "has no column 'low'. Add it."),
        ("spaces.tsv", "\t0.0001\t100\t", "\t100\t0.0001\t", "line 2: expected 'low' below 'high'"),
        ("spaces.tsv", "\ttrue\t", "\tyes\t", "'log' true or false"),
        ("spaces.tsv", "\t0.0001\t100\t", "\tx\t100\t", "line 2: 'low' must be a number, found 'x'"),
        (
            "spaces.tsv",
            "\tfalse\t5\t",
            "\tfalse\t4\t",
            "line 4: 'startup' must be the same in all lines of a search, found 4 and 5.",
        ),
        ("trials.tsv", "\t0.4206591913\t", "\tnan\t", "line 2: 'best_so_far' must be a number, found 'nan'"),
        (
            "trials.tsv",
            "cub200\tnt_xent\t32\t0\t",
            "cub200\tnt_xent\t32\t7\t",
            "line 2: expected trial 0 of this search",
        ),
        ("trials.tsv", "cub200\tnt_xent\t32\t0\t", "cub200\tother\t32\t0\t", "has no search cub200, other, 32"),
    ],
    ids=["column", "reversed", "log", "text", "startup", "nan", "order", "unknown"],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path, file, old, new, sentence):
    for name in ("spaces.tsv", "trials.tsv"):
        shutil.copy(FOLDER / name, tmp_path / name)
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(UserError) as caught:
        quoted_searches.read(tmp_path)
    assert sentence in str(caught.value) and file in str(caught.value)


def test_missing_files_and_searches_without_trials_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"spaces\.tsv does not exist"):
        quoted_searches.read(tmp_path / "nothing")
    shutil.copy(FOLDER / "spaces.tsv", tmp_path / "spaces.tsv")
    head = (FOLDER / "trials.tsv").read_text(encoding="utf-8").splitlines()[0]
    (tmp_path / "trials.tsv").write_text(f"{head}\n", encoding="utf-8")
    with pytest.raises(UserError, match="has no trial of the search cub200, nt_xent, 32"):
        quoted_searches.read(tmp_path)
    (tmp_path / "trials.tsv").write_text(f"{head}\ncub200\tnt_xent\n", encoding="utf-8")
    quoted_searches.read.cache_clear()
    with pytest.raises(UserError, match="line 2: expected 23 values separated by tabs, found 2"):
        quoted_searches.read(tmp_path)


def test_the_manual_has_the_numbers_of_trials_needed(searches):
    labels = {name: row.label for name, row in shipped("mlrc_tuning").rows.items()}
    counts = {(s.row, s.dataset, s.batch): str(s.needed) for s in searches}
    text = (ROOT / "docs/tuning.md").read_text(encoding="utf-8")
    lines = [
        f"| {labels[row]} | {median:g} | {', '.join(counts.get((row, *place), '–') for place in PLACES)} |"
        for row, median in quoted_searches.median_needed(searches).items()
    ]
    assert "\n".join(lines) in text
    needed = [s.needed for s in searches]
    assert statistics.median(needed) == 15 and sum(n > 25 for n in needed) == 10 and sum(n <= 5 for n in needed) == 5
    by_settings = {size: [s.needed for s in searches if len(s.space) == size] for size in (1, 3)}
    assert [statistics.median(counts) for counts in by_settings.values()] == [18, 13.5]
    after_ten = {
        row: [round(100 * (s.best - s.best_so_far[9]), 1) for s in searches if s.row == row]
        for row in ("n_softmax", "proxy_nca")
    }
    ends = {row: (min(values), max(values)) for row, values in after_ten.items()}
    assert ends == {"n_softmax": (1.7, 19.5), "proxy_nca": (0, 0.8)}
