# propose (one job per round) → trial (one job per trial and fold) → choose, for rows with a `space`; importance: how much
# each free setting matters; chosen: the values of all rows. The rounds are known when the workflow is planned; each round's
# file holds all finished trials of the rounds before it. Only propose and importance import Optuna.


rule propose:
    input:
        unpack(lambda wildcards: grid.round_files(run_of(wildcards), wildcards, int(wildcards.round) - 1)),
    output:
        f"<results>/{SEARCH}/round{{round}}.json",
    log:
        f"<logs>/{SEARCH}/round{{round}}.log",
    benchmark:
        f"<logs>/{SEARCH}/round{{round}}.tsv"
    localrule: True
    conda:
        "../../envs/tune.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        search=lambda wildcards: run_of(wildcards).search.settings,
        trials=lambda wildcards: list(run_of(wildcards).search.trials_of(int(wildcards.round))),
    message:
        "Proposing round {wildcards.round} of the search for {wildcards.method} on {wildcards.dataset}"
    script:
        "../scripts/propose.py"


use rule train as trial with:
    input:
        unpack(lambda wildcards: grid.trial_files(run_of(wildcards), wildcards)),
        index="<resources>/datasets/{dataset}/images.csv",
        split="<results>/{study}/{dataset}/split.json",
    output:
        history=f"<results>/{TRIAL}/history.csv",
        record=f"<results>/{TRIAL}/run.json",
    log:
        f"<logs>/{TRIAL}/train.log",
    benchmark:
        f"<logs>/{TRIAL}/train.tsv"
    params:
        configuration=lambda wildcards: run_of(wildcards).training,
        seed=lambda wildcards: run_of(wildcards).search.seed,
        state=f"{RESULTS}/state/{TRIAL}",
    message:
        "Training trial {wildcards.trial} of {wildcards.method} on {wildcards.dataset}, fold {wildcards.fold}"


rule choose:
    input:
        unpack(
            lambda wildcards: grid.round_files(
                run_of(wildcards), wildcards, run_of(wildcards).search.last_round
            )
        ),
    output:
        best=f"<results>/{SEARCH}/best.json",
        trials=f"<results>/{SEARCH}/trials.csv",
    log:
        f"<logs>/{SEARCH}/choose.log",
    benchmark:
        f"<logs>/{SEARCH}/choose.tsv"
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        search=lambda wildcards: run_of(wildcards).search.settings,
    message:
        "Choosing the best trial of {wildcards.method} on {wildcards.dataset}"
    script:
        "../scripts/choose.py"


rule importance:
    input:
        unpack(
            lambda wildcards: grid.round_files(
                run_of(wildcards), wildcards, run_of(wildcards).search.last_round
            )
        ),
    output:
        f"<results>/{SEARCH}/importance.json",
    log:
        f"<logs>/{SEARCH}/importance.log",
    benchmark:
        f"<logs>/{SEARCH}/importance.tsv"
    localrule: True
    conda:
        "../../envs/tune.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        search=lambda wildcards: run_of(wildcards).search.settings,
    message:
        "Measuring the importance of the settings of {wildcards.method} on {wildcards.dataset}"
    script:
        "../scripts/importance.py"


rule chosen:
    input:
        lambda wildcards: needed(wildcards.study, shown_study(wildcards.study).datasets, ["searches"])[
            "searches"
        ],
    output:
        f"<results>/{{study}}/{CHOSEN}",
    log:
        "<logs>/{study}/chosen.log",
    benchmark:
        "<logs>/{study}/chosen.tsv"
    wildcard_constraints:
        study="|".join(map(re.escape, REPORTS)),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        base=lambda wildcards: shown_study(wildcards.study).path.stem,
        blocks=lambda wildcards: dict(shown_study(wildcards.study).blocks),
    message:
        "Writing the chosen values of {wildcards.study}"
    script:
        "../scripts/chosen.py"
