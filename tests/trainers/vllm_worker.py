"""Rollouts by a vLLM engine in this process: ``python -m tests.trainers.vllm_worker MODEL LORA``.

Runs in the Python that has vLLM. Prints, as one line of JSON, the tokens of every turn with their
log-probabilities: of the model, then of the model with the adapter.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.trainers.vllm_rollouts import SAMPLING, talk
from trajstore.rollouts import VllmEnginePolicy
from trajstore.rollouts.dialect import Dialect


def main(model: str, adapter: str) -> None:
    """Roll out twice."""
    import transformers
    import vllm

    llm = vllm.LLM(
        model=model,
        dtype="float32",
        max_model_len=512,
        enforce_eager=True,
        enable_lora=True,
        max_lora_rank=8,
        logprobs_mode="processed_logprobs",
        generation_config="vllm",
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    policy = VllmEnginePolicy(llm, Dialect(tokenizer), version="v0", sampling=SAMPLING)
    told = [_turns(policy)]
    policy.update(Path(adapter), "v1")
    told.append(_turns(policy))
    sys.stdout.write(f"\n{json.dumps(told)}\n")


def _turns(policy: VllmEnginePolicy) -> list[dict[str, Any]]:
    return [
        {
            "prompt": step.prompt_token_ids,
            "produced": step.completion_token_ids,
            "logprobs": step.logprobs,
            "version": json.loads(str(step.metadata))["policy_version"],
        }
        for run in talk(policy, attempts=2)
        for step in run.steps
        if step.actor == "agent"
    ]


if __name__ == "__main__":
    main(*sys.argv[1:])
