# evaluate: the metrics of both views from the folds' embeddings, in one job: starting it takes longer than a view


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
        concatenated="<results>/{study}/{dataset}/{method}/seed{seed}/concatenated.json",
        separated="<results>/{study}/{dataset}/{method}/seed{seed}/separated.json",
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/evaluate.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/evaluate.tsv"
    conda:
        "../../envs/evaluate.yaml"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=growing(20),
    params:
        configuration=evaluation_of,
    message:
        "Evaluating {wildcards.method} on {wildcards.dataset}, seed {wildcards.seed}"
    script:
        "../scripts/evaluate.py"
