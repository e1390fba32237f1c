"""Networks: backbones with their own input normalisation, and heads."""
