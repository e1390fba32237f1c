"""How the tests run: their order, their files, waiting, and what this machine lacks."""
