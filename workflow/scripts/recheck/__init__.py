"""How each thing of Recheck is computed; the workflow says what depends on what."""
