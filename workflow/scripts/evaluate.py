"""Evaluate all metrics of one method and seed, over its folds, in every view."""

import faiss

from recheck.data.index import read_index
from recheck.data.splits import read_split
from recheck.evaluation.embeddings import read_test_set
from recheck.evaluation.views import evaluate_view
from recheck.files import write_json
from recheck.job import job
from recheck.training.gpus import hide_gpus

with job(snakemake) as log:
    hide_gpus()  # this job has reserved no GPU
    wildcards, configuration = snakemake.wildcards, snakemake.params.configuration
    faiss.omp_set_num_threads(snakemake.threads)
    split = read_split(snakemake.input.split, 0)
    labels = read_index(snakemake.input.index)["label"].to_numpy()
    for view, path in snakemake.output.items():
        test_sets = [read_test_set(file, split, view) for file in snakemake.input.embeddings]
        result = evaluate_view(
            view,
            [test_set.embeddings for test_set in test_sets],
            labels[test_sets[0].images],
            configuration["metrics"],
            reduction=configuration["reduction"],
            seed=int(wildcards.seed),
            select=configuration.get("select"),
            gallery=test_sets[0].gallery,
            unit=configuration.get("normalise", True),
            clusters=configuration.get("clustering"),
            curvature=configuration.get("curvature"),
        )
        for finding in result["warnings"]:
            log.warning("%s, seed %s: %s", wildcards.method, wildcards.seed, finding["text"])
        write_json(
            path,
            {
                **{key: wildcards[key] for key in ("study", "dataset", "method")},
                "seed": int(wildcards.seed),
                "view": view,
                **result,
            },
        )
