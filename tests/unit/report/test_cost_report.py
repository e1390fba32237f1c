"""The cost report: ranges, unknown rows, finished runs, assumptions."""

import csv
import json
import re
from pathlib import Path

import pytest

from recheck.cost.counts import stored
from recheck.cost.finished import read_finished
from recheck.cost.gpus import load_gpu
from recheck.cost.plan import plan
from recheck.cost.tally import tally
from recheck.report.cost import between, markdown, number, table_csv
from recheck.report.cost_figure import draw
from recheck.study.model import load_study
from support.project import ROOT
from support.project.studies import FILES, dataset_of

A100 = load_gpu("a100_40gb", ROOT / "config/gpus.yaml")


def planned(study, plain_limit=100e9, **options):
    return plan(load_study(study, FILES), dataset_of, lambda path: f"/nowhere/{path}", A100, plain_limit, **options)


def row_of(document, dataset, row):
    (matching,) = (line for line in document["rows"] if (line["dataset"], line["row"]) == (dataset, row))
    return matching


@pytest.fixture
def finish(tmp_path):
    """Write the files of finished runs; returns them as the workflow lists them."""
    files = {"runs": [], "histories": [], "measurements": []}

    def write(facts, dataset, row, seed, speed, device="NVIDIA A100-SXM4-40GB", **record):
        settings = load_study(facts["study"], FILES).run(dataset, row).training
        place = f"{facts['study']}/{dataset}/{row}/seed{seed}/fold0"
        content = {"dataset": dataset, "method": row, "configuration": settings, "device": "cuda"}
        content |= {"device_name": device, "wall_seconds": 900.0, **record}
        history = f"epoch,step,loss,images_per_second\n0,0,,\n1,100,1.0,{speed}\n2,200,1.0,{speed}\n"
        for kind, folder, name, text in (
            ("runs", "results", "run.json", json.dumps(content)),
            ("histories", "results", "history.csv", history),
            ("measurements", "logs", "train.tsv", "s\th:m:s\tmax_rss\n900\t0:15:00\t3210.5\n"),
        ):
            path = Path(tmp_path, folder, place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            files[kind].append(str(path))
        return files

    return write


def test_the_report_has_ranges_sums_and_assumptions():
    document = tally(planned("mlrc", also=["mlrc_pretrained"]), stored, [])
    text = markdown(document)
    assert "2,190 runs take 179–7,788 hours on NVIDIA A100 40 GB, " in text
    assert re.search(r"\| Triplet +\| +40 \| 1,000–100,000 \| .* \| +≥ 2\.0 GiB \| +0\.64–59\.3 \| ", text)
    assert re.search(r"\| all datasets +\| 2,190 \| .* \| +≥ 11\.5 GiB \| +179–7,788 \| .* \| +4,956 \|", text)
    for sentence in (
        "- Hours are for NVIDIA A100 40 GB at 40 % of 19.5 TFLOP/s in float32 (config/gpus.yaml; a guess",
        "- The lower end of a range is a run that never improves, so that early stopping ends it",
        "also builds mlrc_pretrained; their cost is in their own reports.",
        "Images per fold: about 4,398 train, 1,466 val, 5,924 test. Downloads: 1.15 GB. Packed images: shorter256 "
        "about 3.09 GB.",
    ):
        assert sentence in text
    lines = list(csv.DictReader(table_csv(document).splitlines()))
    assert len(lines) == 57 and {line["unknown"] for line in lines} == {""}
    assert sum(float(line["hours_most"]) for line in lines) == pytest.approx(7788, abs=1)


@pytest.mark.slow
def test_the_report_for_a_cpu_says_cpu(tmp_path):
    facts = planned("mlrc", only=["cub200"]) | {"gpu": vars(load_gpu("cpu", ROOT / "config/gpus.yaml"))}
    document = tally(facts, stored, [])
    text = markdown(document)
    assert (
        re.search(r"\| CPU memory \| +CPU hours \|", text) and "CPU memory is a lower bound: 0.5 GiB for Python" in text
    )
    assert "GPU" not in text
    figure = draw(document, tmp_path / "cost.png", tmp_path / "cost.svg")
    assert {axis.get_xlabel() for axis in figure.axes} == {"hours on one CPU core"}


def test_only_the_chosen_datasets_are_counted():
    document = tally(planned("mlrc", only=["cub200"]), stored, [])
    assert {row["dataset"] for row in document["rows"]} == {"cub200"}
    assert "Left out by config 'datasets': cars196, sop." in markdown(document)
    nothing = markdown(tally(planned("mlrc", only=["emoji"]), stored, []))
    assert "Config 'datasets' leaves out every dataset of the study: cub200, cars196, sop." in nothing
    assert "hours" not in nothing


@pytest.mark.parametrize(
    ("study", "dataset", "limit", "size"),
    [
        ("contextual_256", "inat_mini", 100e9, "shorter288jpeg75 about 11.6 GB (encoded)."),
        ("contextual_256", "inat_mini", 200e9, "shorter288jpeg75 about 166 GB."),
        ("mlrc", "cub200", 3e9, "shorter256 about 1.24 GB (encoded)."),
    ],
)
def test_packs_beyond_the_limit_are_counted_as_encoded(study, dataset, limit, size):
    document = tally(planned(study, plain_limit=limit, only=[dataset]), stored, [])
    assert f"Packed images: {size}" in markdown(document)


def test_rows_of_unknown_cost_say_why():
    facts = planned("unbiased")
    facts["datasets"][0]["sizes"] = None
    facts["datasets"][1]["rows"][0]["settings"]["sampler"] = {"class": "mine:Sampler", "batch": 8}
    facts["datasets"][1]["rows"][1]["settings"]["model"]["backbone"]["name"] = "mine:net"
    document = tally(facts, stored, [])
    assert (
        "the number of images of cub200 is unknown until `snakemake" in row_of(document, "cub200", "npair")["unknown"]
    )
    assert (
        "the number of steps of the sampler 'mine:Sampler' is unknown"
        in row_of(document, "cars196", "triplet")["unknown"]
    )
    assert "the FLOPs of the network 'mine:net' cannot be counted" in row_of(document, "cars196", "lifted")["unknown"]
    assert "The hours and the disk space leave out 16 of 42 rows: " in markdown(document)
    assert ",the FLOPs of the network 'mine:net' cannot be counted" in table_csv(document)


def test_finished_runs_replace_the_assumed_speed_and_are_compared_with_it(finish):
    facts = planned("mlrc")
    assumed = tally(facts, stored, [])
    for seed, speed in enumerate((300.0, 320.0, 310.0)):
        files = finish(facts, "cub200", "triplet", seed, speed)
    files = finish(facts, "cub200", "ms", 0, 1000.0, device="NVIDIA H100 80GB HBM3")
    files = finish(facts, "cub200", "arcface", 0, 999.0, reused_from="results/other")
    files = finish(facts, "cub200", "snr", 0, 1.0, configuration={"sampler": {"batch": 32}, "changed": "since"})
    document = tally(facts, stored, read_finished(files))
    measured = row_of(document, "cub200", "triplet")
    assert measured["speed"] == pytest.approx(310 * measured["step_flops"] / 32)
    assert measured["speed_from"] == "row"
    # the others of the same precision get the median; runs on other devices, copies and old settings do not count
    assert {row["speed_from"] for row in document["rows"]} == {"row", "study"}
    assert row_of(document, "sop", "ms")["speed"] == measured["speed"]
    before = row_of(assumed, "cub200", "triplet")
    assert measured["hours"][1] * measured["speed"] == pytest.approx(before["hours"][1] * before["speed"])
    actual = measured["actual"]
    assert actual["steps"] == [200, 200]
    assert actual["hours"] == pytest.approx(sum(200 * 32 / speed for speed in (300, 320, 310)) / 3600)
    assert actual["assumed_hours"] == pytest.approx(3 * 200 * measured["step_flops"] / 7.8e12 / 3600)
    assert actual["memory_mb"] == 3210.5
    text = markdown(document)
    assert re.search(r"\| Triplet +\| cub200 +\| +3 of 40 \| +200 \| +0\.017 \| +0\.0082 \| +2\.09 \| ", text)
    assert (
        "The hours of 57 of 57 rows use the speed of finished runs instead: that of the row's own runs (1), or the "
        "median of all runs of the same precision (56). "
    ) in text
    assert "Runs on devices other than NVIDIA A100 40 GB are not compared" in text
    assert "Runs that were copied from another finished run have no hours." in text
    assert row_of(document, "cub200", "snr")["finished"] == 0


def test_trials_of_a_search_are_trained_too():
    facts = planned("mlrc", only=["cub200"])
    unsearched = row_of(tally(facts, stored, []), "cub200", "triplet")
    facts["datasets"][0]["rows"][-1]["trials"] = 60
    facts["datasets"][0]["rows"][-1]["fingerprint"] = None
    document = tally(facts, stored, [])
    searched = row_of(document, "cub200", facts["datasets"][0]["rows"][-1]["name"])
    assert searched["parts"]["training"][1] == pytest.approx(
        unsearched["parts"]["training"][1] * 100 / 40 * searched["step_flops"] / unsearched["step_flops"]
    )
    assert searched["parts"]["embedding"] == pytest.approx(unsearched["parts"]["embedding"])
    assert searched["jobs"] == unsearched["jobs"] + 60
    text = markdown(document)
    assert (
        re.search(r"\| MS \+ within-pair +\| +40 \+ 60 \|", text)
        and "trials of the search" in text
        and "is one SLURM job" in text
    )


def test_rows_that_do_not_fit_are_listed():
    facts = planned("mlrc")
    facts["gpu"]["memory"] = 8
    text = markdown(tally(facts, stored, []))
    assert (
        "They need more than the 8 GiB of NVIDIA A100 40 GB: Contrastive + within-pair on cub200 (11.5 GiB), " in text
    )
    facts["gpu"]["share"] = 4
    text = markdown(tally(facts, stored, []))
    assert "They need more than the 2 GiB that each of 4 jobs has on NVIDIA A100 40 GB: " in text


@pytest.mark.slow
def test_the_figure_stacks_datasets_or_kinds_of_work(tmp_path):
    files = {"png": tmp_path / "cost.png", "svg": tmp_path / "cost.svg"}
    several = draw(tally(planned("mlrc"), stored, []), **files)
    assert [axis.get_title() for axis in several.axes] == [
        "If no run improves (early stopping)",
        "If runs take all steps",
    ]
    assert len(several.axes[0].patches) >= 19 * 3
    assert len({patch.get_hatch() for patch in several.legends[0].get_patches()}) == 3
    one = draw(tally(planned("calibration"), stored, []), **files)
    assert [text.get_text() for text in one.legends[0].get_texts()] == ["training", "evaluating", "embedding"]
    assert files["png"].stat().st_size > 5000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (8.9e-5, "<0.001"),
        (0.00857, "0.0086"),
        (0.996, "1.00"),
        (4.364, "4.36"),
        (59.24, "59.2"),
        (7787.4, "7,787"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_a_range_whose_ends_look_the_same_is_one_number():
    assert (between(1, 1.001), between(1, 2)) == ("1.00", "1.00–2.00")
