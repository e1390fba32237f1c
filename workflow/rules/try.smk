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
        tried=for_users(
            lambda wildcards: grid.tried(study_of(config["study"]), dataset_of, workflow.pathvars.apply)
        ),
    message:
        "Trying the rows of {config[study]}"
    script:
        "../scripts/try.py"
