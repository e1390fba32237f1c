# train (one job per run) or convert (a released checkpoint) → embed (one job per fold)


rule train:
    input:
        unpack(lambda wildcards: grid.packed_files(run_of(wildcards), wildcards.dataset)),
        unpack(lambda wildcards: grid.given_files(run_of(wildcards), wildcards)),
        index="<resources>/datasets/{dataset}/images.csv",
        split="<results>/{study}/{dataset}/split.json",
    output:
        model="<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/model.safetensors",
        history="<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/history.csv",
        record="<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/run.json",
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/train.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/train.tsv"
    wildcard_constraints:
        method=f"{ROW}(?<!{RELEASED})",
    conda:
        "../../envs/train.yaml"
    threads: RUN_THREADS
    resources:
        mem_mb=row_limit("megabytes"),
        runtime=row_limit("train_minutes", limits.LONGEST),
        gpu=1 if GPUS else 0,
    params:
        configuration=lambda wildcards: run_of(wildcards).training,
        state=STATE,
    message:
        "Training {wildcards.method} on {wildcards.dataset}, seed {wildcards.seed}, fold {wildcards.fold}"
    script:
        "../scripts/train.py"


rule convert:
    input:
        released="<resources>/released/{study}/{dataset}/{method}/released.json",
        split="<results>/{study}/{dataset}/split.json",
        pack=lambda wildcards: grid.packed_files(run_of(wildcards), wildcards.dataset)["pack"],
        user_files=lambda wildcards: run_of(wildcards).own_model_files,
    output:
        model="<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/model.safetensors",
        history="<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/history.csv",
        record="<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/run.json",
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/convert.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/convert.tsv"
    wildcard_constraints:
        method=f"{ROW}{RELEASED}",
    conda:
        "../../envs/train.yaml"
    threads: 1
    resources:
        mem_mb=growing(4000),
        runtime=30,
    params:
        configuration=lambda wildcards: run_of(wildcards).training,
    message:
        "Converting the released checkpoint of {wildcards.method} on {wildcards.dataset}, fold {wildcards.fold}"
    script:
        "../scripts/convert.py"


rule embed:
    input:
        unpack(lambda wildcards: grid.model_files(run_of(wildcards), wildcards)),
        index="<resources>/datasets/{dataset}/images.csv",
        split="<results>/{study}/{dataset}/split.json",
        model="<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/model.safetensors",
    output:
        "<results>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/embeddings.safetensors",
    log:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/embed.log",
    benchmark:
        "<logs>/{study}/{dataset}/{method}/seed{seed}/fold{fold}/embed.tsv"
    conda:
        "../../envs/train.yaml"
    threads: RUN_THREADS
    resources:
        mem_mb=row_limit("megabytes"),
        runtime=row_limit("embed_minutes", limits.LONGEST),
        gpu=1 if GPUS else 0,
    params:
        configuration=lambda wildcards: run_of(wildcards).embedding,
        state=STATE,
    message:
        "Embedding the test images of {wildcards.dataset} with {wildcards.method}, seed {wildcards.seed}, fold {wildcards.fold}"
    script:
        "../scripts/embed.py"
