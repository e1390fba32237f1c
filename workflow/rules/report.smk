# table → figures → page: what people look at, made where Snakemake runs


localrules:
    table,
    figure,
    page,


rule table:
    input:
        evaluations=evaluations,
        index="<resources>/datasets/{dataset}/images.csv",
        split="<results>/{study}/{dataset}/split.json",
    output:
        md=report(
            "<results>/{study}/{dataset}/table.md",
            caption="../report/table.rst",
            category="{study}",
            subcategory="{dataset}",
            labels={"what": "table"},
        ),
        csv="<results>/{study}/{dataset}/table.csv",
        tex="<results>/{study}/{dataset}/table.tex",
    log:
        "<logs>/{study}/{dataset}/table.log",
    benchmark:
        "<logs>/{study}/{dataset}/table.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        study=lambda wildcards: study_of(wildcards.study),
        published=lambda wildcards: published_of(wildcards.study),
    message:
        "Table of {wildcards.study} on {wildcards.dataset}"
    script:
        "../scripts/table.py"


rule figure:
    input:
        unpack(figure_inputs),
    output:
        png=report(
            "<results>/{study}/figures/{dataset}_{figure}.png",
            caption="../report/figure.rst",
            category="{study}",
            subcategory="{dataset}",
            labels={"what": "{figure}"},
        ),
        svg="<results>/{study}/figures/{dataset}_{figure}.svg",
    log:
        "<logs>/{study}/figures/{dataset}_{figure}.log",
    benchmark:
        "<logs>/{study}/figures/{dataset}_{figure}.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        study=lambda wildcards: study_of(wildcards.study),
        published=lambda wildcards: published_of(wildcards.study),
    message:
        "Figure '{wildcards.figure}' of {wildcards.study} on {wildcards.dataset}"
    script:
        "../scripts/figure.py"


rule page:
    input:
        tables=study_tables,
        figures=study_figures("png"),
        vectors=study_figures("svg"),
        runs=study_runs,
    output:
        report(
            "<results>/{study}/index.html",
            caption="../report/page.rst",
            category="{study}",
            labels={"what": "page"},
        ),
    log:
        "<logs>/{study}/page.log",
    benchmark:
        "<logs>/{study}/page.tsv"
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        study=lambda wildcards: study_of(wildcards.study),
    message:
        "Page of {wildcards.study}"
    script:
        "../scripts/page.py"
