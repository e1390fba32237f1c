"""All metrics of an experiment's folds, in two views."""

import faiss

from recheck.data.index import read_index
from recheck.data.splits import read_split
from recheck.evaluation.embeddings import read_test_set
from recheck.evaluation.search import search_device
from recheck.evaluation.views import evaluate_view
from recheck.files import write_json
from recheck.job import job
from recheck.names import BEST_ON_TEST

with job(snakemake):
    wildcards, configuration = snakemake.wildcards, snakemake.params.configuration
    faiss.omp_set_num_threads(snakemake.threads)
    split = read_split(snakemake.input.split, 0)
    labels = read_index(snakemake.input.index)["label"].to_numpy()
    for view, path in snakemake.output.items():
        found = [read_test_set(file, split, view == BEST_ON_TEST) for file in snakemake.input.embeddings]
        result = evaluate_view(
            view,
            [own.embeddings for own in found],
            labels[found[0].images],
            configuration["metrics"],
            reduction=configuration["reduction"],
            device=search_device(snakemake.config["device"]),
            seed=int(wildcards.seed),
            select=configuration.get("select"),
            gallery=found[0].gallery,
            unit=configuration.get("normalise", True),
            clusters=configuration.get("clustering"),
        )
        write_json(
            path,
            {
                **{key: wildcards[key] for key in ("study", "dataset", "method")},
                "seed": int(wildcards.seed),
                "view": view,
                **result,
            },
        )
