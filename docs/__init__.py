"""The documentation; :mod:`docs.generate` writes the pages that the code already knows."""
