"""Helpers for tests: projects, datasets, services, faults, reports, results of the originals, the suite itself."""
