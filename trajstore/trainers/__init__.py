"""Training: rows from trajectories, masked losses, one trainer over both.

Rows are made by :func:`tokenise`, log-probabilities are stored with them by :func:`with_logprobs`,
and :func:`make_trainer` trains on them under an objective: :class:`Sft`, :class:`Dpo`,
:class:`Kto`, :class:`Grpo` or :class:`Reinforce`. Using it needs ``pip install
'trajstore[train]'``, importing it does not.
"""

from __future__ import annotations

from trajstore.rollouts.templates import CHATML, ChatTemplate, template_of
from trajstore.trainers.collate import collate
from trajstore.trainers.logprobs import score, token_logprobs, with_logprobs
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.objectives import (
    Dpo,
    Grpo,
    Judged,
    Kto,
    Objective,
    Pair,
    Reinforce,
    Sft,
)
from trajstore.trainers.rows import TokenRow
from trajstore.trainers.tokenise import Facts, Refused, RowOptions, tokenise, tokenise_all
from trajstore.trainers.trainer import METRICS_FILE, Lora, make_trainer, with_lora

__all__ = [
    "CHATML",
    "METRICS_FILE",
    "ChatTemplate",
    "Dpo",
    "Facts",
    "Grpo",
    "Judged",
    "Kto",
    "Lora",
    "Objective",
    "Pair",
    "Refused",
    "Reinforce",
    "RowOptions",
    "Sft",
    "TokenRow",
    "collate",
    "make_trainer",
    "read_metrics",
    "score",
    "template_of",
    "token_logprobs",
    "tokenise",
    "tokenise_all",
    "with_logprobs",
    "with_lora",
]
