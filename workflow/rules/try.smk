# try: one training step and one small evaluation of every chosen row, to see whether it works. Makes no files.


rule:
    name:
        "try"
    log:
        "<logs>/try.log",
    localrule: True
    conda:
        "../../envs/train.yaml"
    threads: 1
    params:
        tried=lambda wildcards: tried_rows(config["study"]),
    message:
        "Trying the rows of {config[study]}"
    script:
        "../scripts/try.py"
