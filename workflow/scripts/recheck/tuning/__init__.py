"""Searches for free settings: proposals, trials and the choice of the best one."""
