"""Measurements of trajstore beside its peers; each claim of the docs has a file here."""
