"""Statistics of results: whether a published value is reproduced, and how methods compare.

Only numbers come in; nothing here reads a file.
"""
