"""Policies that ship with trajstore."""

from __future__ import annotations

from trajstore.rollouts.policies.endpoint import EndpointPolicy
from trajstore.rollouts.policies.endpoint_answer import Prices
from trajstore.rollouts.policies.sampling import Sampling
from trajstore.rollouts.policies.scripted import PROFILES, Fault, ScriptedPolicy
from trajstore.rollouts.policies.scripted_code import CODE_PROFILES, CodeFault, ScriptedCoder
from trajstore.rollouts.policies.scripted_play import Profile, ScriptPlayer
from trajstore.rollouts.policies.scripted_shop import SHOP_PROFILES, ScriptedShopper, ShopFault
from trajstore.rollouts.policies.transformers_policy import TransformersPolicy
from trajstore.rollouts.policies.vllm import VllmServerPolicy
from trajstore.rollouts.policies.vllm_engine import VllmEnginePolicy
from trajstore.rollouts.policies.vllm_server import VllmServer

__all__ = [
    "CODE_PROFILES",
    "PROFILES",
    "SHOP_PROFILES",
    "CodeFault",
    "EndpointPolicy",
    "Fault",
    "Prices",
    "Profile",
    "Sampling",
    "ScriptPlayer",
    "ScriptedCoder",
    "ScriptedPolicy",
    "ScriptedShopper",
    "ShopFault",
    "TransformersPolicy",
    "VllmEnginePolicy",
    "VllmServer",
    "VllmServerPolicy",
]
