"""What a row of a table trains with: losses, miners, samplers, optimisers."""

from recheck.imports import COMPILER, later

later("scipy.stats", "scipy.special", COMPILER)
