"""Memory: what is learnt from trajectories, kept in the store, and handed to later runs."""

from __future__ import annotations

from trajstore.memory.admission import AdmissionLimits, Admitted, Offer, StepLibrary, cluster_id
from trajstore.memory.bank import BankHits, BankOptions, SkillBank, by_embedding
from trajstore.memory.bank_scores import Candidate, MemRLOptions, memrl_rank, memrl_scores
from trajstore.memory.bank_upkeep import expire
from trajstore.memory.curriculum import SkillTask, TaskProposal, propose_skills, propose_tasks
from trajstore.memory.exemplars import exemplars, pin_exemplars
from trajstore.memory.insights import Insights
from trajstore.memory.insights_chat import RulesReport, update_rules
from trajstore.memory.insights_duplicates import near_duplicates
from trajstore.memory.insights_operations import Applied, Operation, Rule, apply_operations
from trajstore.memory.insights_row import StoredInsight
from trajstore.memory.lineage import Forgotten, Retracted, forget_runs, retract
from trajstore.memory.reasoning import ReasoningReport, recall_reasoning, update_reasoning
from trajstore.memory.reflections import Pruned, Reflections, StoredReflection
from trajstore.memory.reflexion import (
    ReflexionOptions,
    Trial,
    WriteReport,
    reflect,
    reflexion_loop,
    write_reflections,
)
from trajstore.memory.skill_import import SkillImport, import_voyager
from trajstore.memory.skill_loop import LoopOptions, Round, voyager_loop
from trajstore.memory.skill_row import SkillDraft, StoredSkill
from trajstore.memory.skill_search import SkillHit, SkillHits, by_index, by_words, search_skills
from trajstore.memory.skills import Added, SkillLibrary, Verified
from trajstore.memory.uses import WITH_AND_WITHOUT, record_uses
from trajstore.memory.utility import Learning, confidences, q_values, utilities
from trajstore.memory.verifying import Attempt, Chat, Repair, Verdict, chat_repair
from trajstore.memory.workflow_chat import ChatInduced, induce_by_chat
from trajstore.memory.workflow_rules import Induced, RuleOptions, induce_workflows
from trajstore.memory.workflows import StoredWorkflow, Workflows

__all__ = [
    "WITH_AND_WITHOUT",
    "Added",
    "AdmissionLimits",
    "Admitted",
    "Applied",
    "Attempt",
    "BankHits",
    "BankOptions",
    "Candidate",
    "Chat",
    "ChatInduced",
    "Forgotten",
    "Induced",
    "Insights",
    "Learning",
    "LoopOptions",
    "MemRLOptions",
    "Offer",
    "Operation",
    "Pruned",
    "ReasoningReport",
    "Reflections",
    "ReflexionOptions",
    "Repair",
    "Retracted",
    "Round",
    "Rule",
    "RuleOptions",
    "RulesReport",
    "SkillBank",
    "SkillDraft",
    "SkillHit",
    "SkillHits",
    "SkillImport",
    "SkillLibrary",
    "SkillTask",
    "StepLibrary",
    "StoredInsight",
    "StoredReflection",
    "StoredSkill",
    "StoredWorkflow",
    "TaskProposal",
    "Trial",
    "Verdict",
    "Verified",
    "Workflows",
    "WriteReport",
    "apply_operations",
    "by_embedding",
    "by_index",
    "by_words",
    "chat_repair",
    "cluster_id",
    "confidences",
    "exemplars",
    "expire",
    "forget_runs",
    "import_voyager",
    "induce_by_chat",
    "induce_workflows",
    "memrl_rank",
    "memrl_scores",
    "near_duplicates",
    "pin_exemplars",
    "propose_skills",
    "propose_tasks",
    "q_values",
    "recall_reasoning",
    "record_uses",
    "reflect",
    "reflexion_loop",
    "retract",
    "search_skills",
    "update_reasoning",
    "update_rules",
    "utilities",
    "voyager_loop",
    "write_reflections",
]
