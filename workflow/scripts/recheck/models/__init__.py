"""Networks: backbones with their input normalisation, and heads."""
