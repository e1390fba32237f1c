"""Checks of a machine before a long run: each gives findings, with what to do if something is wrong."""
