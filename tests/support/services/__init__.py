"""Services that a test starts or imitates: a web server, a SLURM cluster, GPUs, a clock."""
