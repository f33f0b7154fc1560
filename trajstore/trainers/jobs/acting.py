"""Policies of a job: the model in this process, or one on a vLLM server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trajstore.rollouts import Policy, Sampling, TransformersPolicy, VllmServerPolicy

if TYPE_CHECKING:
    from trajstore.rollouts.dialect import Dialect
    from trajstore.trainers.jobs.config import JobConfig


def local(config: JobConfig, dialect: Dialect, model: Any, version: str) -> Policy:
    """A policy that samples from a model in this process.

    Args:
        config: of the job.
        dialect: what it speaks.
        model: of transformers.
        version: whole policy version.
    """
    table = config.need_rollouts()
    return TransformersPolicy(
        model,
        dialect,
        name=config.name,
        version=version,
        temperature=table.temperature,
        max_tokens=table.max_tokens,
        max_batch=table.concurrency,
    )


def served(
    config: JobConfig,
    dialect: Dialect,
    base: Path,
    folder: Path | None,
    version: str,
    policy: VllmServerPolicy | None,
    *,
    sends: bool = True,
) -> VllmServerPolicy:
    """A policy on the server that the file names, with these weights.

    Whole weights are always sent, the base's too, as nobody knows what an earlier start of the job
    left there. Adapters stand beside the base, which is there under its own name.

    Args:
        config: of the job.
        dialect: what it speaks.
        base: folder that the server was started with.
        folder: of the weights; None are weights that no folder holds.
        version: whole policy version.
        policy: the one that this function gave last, which takes new weights.
        sends: whether this process talks to the server; else the policy only knows its version.

    Raises:
        TrainingError: the weights are in memory only.
        EndpointError: the server does not take them.
    """
    table = config.need_rollouts()
    if folder is None:
        message = "A server reads weights from folders; this job keeps them in memory."
        raise config.error(message, "rollouts", "policy")
    bare = config.model.lora is not None and folder == base
    if policy is None or bare or not sends:
        policy = VllmServerPolicy(
            table.url or "",
            dialect,
            model=table.model or str(base),
            name=config.name,
            version=version,
            sampling=Sampling(temperature=table.temperature, max_tokens=table.max_tokens),
        )
    if sends and not bare:
        policy.update(folder.resolve(), version)
    return policy
