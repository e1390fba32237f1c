"""The results site: static, self-contained pages with one interactive table over all studies on disk."""
