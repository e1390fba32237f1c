"""Facts, drawn figures, pages and sites for tests of reports and of the manual."""
