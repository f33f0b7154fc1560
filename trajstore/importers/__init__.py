"""Importers: one file a format; records in, trajectories and labels out, problems collected."""

from __future__ import annotations

from trajstore.importers.importer import Importer
from trajstore.importers.items import ImportOptions, Item, Problem
from trajstore.importers.jsonl import read_jsonl_record, to_jsonl_record
from trajstore.importers.jsonl_values import read_json
from trajstore.importers.jsonl_values import time as read_time
from trajstore.importers.registry import detect, importer, importers
from trajstore.importers.sound import sound
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
    "read_json",
    "read_jsonl_record",
    "read_time",
    "sound",
    "sources",
    "to_jsonl_record",
]
