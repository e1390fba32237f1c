# table → figures → page: what people look at, made where Snakemake runs


localrules:
    table,
    figure,
    page,


rule table:
    input:
        unpack(needed(table_files)),
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
    wildcard_constraints:
        study="|".join(TARGETS),
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        study=lambda wildcards: study_of(wildcards.study),
        published=lambda wildcards: published_of(wildcards.study),
        found=found(table_files),
    message:
        "Table of {wildcards.study} on {wildcards.dataset}"
    script:
        "../scripts/table.py"


rule figure:
    input:
        unpack(needed(figure_files)),
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
    wildcard_constraints:
        study="|".join(TARGETS),
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        study=lambda wildcards: study_of(wildcards.study),
        published=lambda wildcards: published_of(wildcards.study),
        found=found(figure_files),
    message:
        "Figure '{wildcards.figure}' of {wildcards.study} on {wildcards.dataset}"
    script:
        "../scripts/figure.py"


rule page:
    input:
        unpack(needed(page_files)),
        tables=study_tables,
        figures=study_figures("png"),
        vectors=study_figures("svg"),
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
    wildcard_constraints:
        study="|".join(TARGETS),
    conda:
        "../../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        study=lambda wildcards: study_of(wildcards.study),
        found=found(page_files),
    message:
        "Page of {wildcards.study}"
    script:
        "../scripts/page.py"
