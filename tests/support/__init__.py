"""Helpers for tests: data, projects, studies, services, faults and stored results."""
