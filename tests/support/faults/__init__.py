"""Kills, full disks, crashes and garbage."""
