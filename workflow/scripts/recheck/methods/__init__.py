"""Training methods: losses, miners, samplers and optimisers."""
