"""Write a trained model in the layout of another library, with a model card, to a new folder."""

import argparse
from pathlib import Path

from recheck.cli.text import YES, Skipped, add_model, check_output, found_images, load
from recheck.errors import UserError

HELP = "write a model for timm, ONNX Runtime or a model repository"
EXAMPLES = """\
  recheck export results/quickstart/emoji/triplet/seed0 --to huggingface -o triplet
  recheck export results/quickstart/emoji/triplet/seed0 --to onnx -o triplet_onnx --images photos
  recheck export results/my_study/emoji/triplet/seed0/fold0 --to timm -o triplet_timm
"""
NOTES = """\
layouts:
  huggingface  safetensors, recheck.json, config.json and README.md; `recheck.load` can read the folder
  onnx         model.onnx: uint8 images (batch, 3, height, width) in RGB → embeddings of length 1; kept only if ONNX
               Runtime agrees with PyTorch to 1e-4 on your --images or, without that option, on smooth noise
  timm         model.safetensors and config.json of the backbone, head.safetensors; only for backbones of timm

The model card (README.md) shows the model's row of the table, the hashes of the data, and the licences of weights
and images.
"""
MOST = 64  # images that the ONNX file is compared on


def add_arguments(command: argparse.ArgumentParser) -> None:
    add_model(command)
    command.add_argument("--to", required=True, choices=("timm", "onnx", "huggingface"), help="layout of the folder")
    command.add_argument("-o", "--output", required=True, metavar="FOLDER", help="folder to create")
    command.add_argument(
        "--images", metavar="FOLDER", help=f"images to test the ONNX file on (at most {MOST} are used)"
    )


def run(options: argparse.Namespace) -> int:
    from recheck.export.folder import export

    if options.images and options.to != "onnx":
        raise UserError(f"--images works only with `--to onnx`, found `--to {options.to}`: remove it.")
    check_output(Path(options.output))
    images = found_images([options.images])[0][:MOST] if options.images else None
    if images == []:
        raise UserError(f"There are no images in {options.images}: pass a folder of images, or remove --images.")
    skipped = Skipped()
    checked = export(load(options), options.to, options.output, images, skipped)
    skipped.report()
    written = ", ".join(sorted(path.name for path in Path(options.output).iterdir()))
    print(f"{options.output}: {written}. {checked}")
    return YES
