"""Studies: from YAML files to resolved rows and runs. All other code uses only the result."""
