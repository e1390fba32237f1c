# evaluate: the metrics of a view (separated, concatenated) from the folds' embeddings


rule evaluate:
    input:
        index="<resources>/datasets/{dataset}/images.csv",
        split="<results>/{study}/{dataset}/split.json",
        embeddings=lambda wildcards: folds_of(
            wildcards.study,
            wildcards.dataset,
            wildcards.method,
            wildcards.seed,
            "<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/embeddings.safetensors",
        ),
    output:
        "<results>/{study}/{dataset}/{method}/seed{seed}/{view}.json",
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/{view}.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/{view}.tsv"
    conda:
        "../../envs/evaluate.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        configuration=evaluation_of,
    message:
        "Evaluating {wildcards.method} on {wildcards.dataset}, seed {wildcards.seed}, {wildcards.view}"
    script:
        "../scripts/evaluate.py"
