"""Retrieval: find the experience that helps, by meaning, by words, or both."""

from __future__ import annotations

from trajstore.retrieval.budget import ContextBudget
from trajstore.retrieval.compress import Compressed, compress_context
from trajstore.retrieval.compress_text import Rule, shorten
from trajstore.retrieval.embedder import DEFAULT_EMBEDDER, Embedder, embedder
from trajstore.retrieval.evaluate import EvaluationReport, Quality, evaluate
from trajstore.retrieval.few_shot import (
    DEFAULT_BUDGET,
    FewShot,
    FewShotOptions,
    LeftOut,
    Shown,
    build_few_shot,
    few_shot,
)
from trajstore.retrieval.fingerprint import Fingerprint
from trajstore.retrieval.forgetting import forget_deleted
from trajstore.retrieval.hits import LEVELS, Hit, Hits, Level, Mode, Weights, as_row
from trajstore.retrieval.index import IndexReport, LevelReport, build_index
from trajstore.retrieval.levels import step_query
from trajstore.retrieval.metrics import mrr, ndcg, recall_at_k
from trajstore.retrieval.query import Query, SearchOptions
from trajstore.retrieval.search import search
from trajstore.retrieval.tokens import Counter, Tokenizer, counter
from trajstore.retrieval.turns import next_turns

__all__ = [
    "DEFAULT_BUDGET",
    "DEFAULT_EMBEDDER",
    "LEVELS",
    "Compressed",
    "ContextBudget",
    "Counter",
    "Embedder",
    "EvaluationReport",
    "FewShot",
    "FewShotOptions",
    "Fingerprint",
    "Hit",
    "Hits",
    "IndexReport",
    "LeftOut",
    "Level",
    "LevelReport",
    "Mode",
    "Quality",
    "Query",
    "Rule",
    "SearchOptions",
    "Shown",
    "Tokenizer",
    "Weights",
    "as_row",
    "build_few_shot",
    "build_index",
    "compress_context",
    "counter",
    "embedder",
    "evaluate",
    "few_shot",
    "forget_deleted",
    "mrr",
    "ndcg",
    "next_turns",
    "recall_at_k",
    "search",
    "shorten",
    "step_query",
]
