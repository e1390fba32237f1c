# cost: what a study will take (steps, FLOPs, memory, disk, hours), and what its finished runs took


rule cost:
    output:
        md="<results>/{study}/cost.md",
        csv="<results>/{study}/cost.csv",
        json="<results>/{study}/cost.json",
    log:
        "<logs>/{study}/cost.log",
    benchmark:
        "<logs>/{study}/cost.tsv"
    wildcard_constraints:
        study="|".join(map(re.escape, COST_REPORTS)),
    localrule: True
    conda:
        "../../envs/train.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        plan=lambda wildcards: cost_plan(wildcards.study),
        finished=lambda wildcards: finished_runs(wildcards.study),
    message:
        "Estimating the cost of {wildcards.study}"
    script:
        "../scripts/cost.py"


rule cost_figure:
    input:
        "<results>/{study}/cost.json",
    output:
        png="<results>/{study}/cost.png",
        svg="<results>/{study}/cost.svg",
    log:
        "<logs>/{study}/cost_figure.log",
    benchmark:
        "<logs>/{study}/cost_figure.tsv"
    wildcard_constraints:
        study="|".join(map(re.escape, COST_REPORTS)),
    localrule: True
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    message:
        "Drawing the cost of {wildcards.study}"
    script:
        "../scripts/cost_figure.py"
