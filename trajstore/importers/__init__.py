"""Importers: one file a format; records in, trajectories and labels out, problems collected."""

from __future__ import annotations

from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.registry import detect, importer, importers
from trajstore.importers.source import Record, Source
from trajstore.importers.walk import sources

__all__ = [
    "ImportOptions",
    "Importer",
    "Item",
    "Problem",
    "Record",
    "Source",
    "detect",
    "importer",
    "importers",
    "sources",
]
