"""What a row of a table trains with: losses, miners, samplers, optimisers."""
