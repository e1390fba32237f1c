"""All metrics of an experiment's folds, in both views."""

import faiss

from recheck.data.index import read_index
from recheck.data.splits import read_split
from recheck.evaluation.embeddings import read_embeddings
from recheck.evaluation.search import search_device
from recheck.evaluation.views import evaluate_view
from recheck.files import write_json
from recheck.job import job

with job(snakemake):
    wildcards, params = snakemake.wildcards, snakemake.params
    faiss.omp_set_num_threads(snakemake.threads)
    indices = read_split(snakemake.input.split, 0)["test"]
    labels = read_index(snakemake.input.index)["label"].to_numpy()[indices]
    embeddings = [read_embeddings(path)["test"] for path in snakemake.input.embeddings]
    for view, path in snakemake.output.items():
        result = evaluate_view(
            view,
            embeddings,
            labels,
            params.configuration["metrics"],
            reduction=params.configuration["reduction"],
            device=search_device(snakemake.config["device"]),
            seed=int(wildcards.seed),
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
