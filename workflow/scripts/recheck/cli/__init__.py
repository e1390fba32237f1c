"""The command ``recheck``: use trained models from a terminal. Each command is one module."""
