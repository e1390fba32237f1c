"""The corridor from YAML to everything else: a study, its rows and its runs, composed and resolved once."""
