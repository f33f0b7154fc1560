"""One process of ``test_distributed``: ``python -m tests.trainers.jobs.distributed_jobs FILE...``.

Does the jobs of the files, one after the other, as ``trajstore train`` does. Where the name of a
file ends in ``acting``, the scripted agent ``hasty``, half of whose runs are right,
samples in place of the model.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from trajstore_cli.main import app

from trajstore.rollouts import FreshSeeds, Message, Response, ScriptedPolicy, Tool
from trajstore.trainers.jobs import JobRun

FROM_MODELS = JobRun.policy


class Acting:
    """The scripted agent under a version of the job."""

    model: str | None = None
    asked: ClassVar[Counter[str]] = Counter()

    def __init__(self, version: str) -> None:
        self._policy = FreshSeeds(ScriptedPolicy("hasty"))
        self.agent = self._policy.agent
        self.version: str | None = version

    def act(self, messages: Sequence[Message], tools: Sequence[Tool], *, seed: int) -> Response:
        """Act as the agent does."""
        self.asked[self.agent] += 1
        return self._policy.act(messages, tools, seed=seed)


def _policy(job: JobRun, model: Any, version: str) -> Any:
    del model
    return Acting(job.version(version))


def main(files: Sequence[Path]) -> None:
    """Do the jobs, up to the first that fails; beside them stands how often the agent was asked."""
    for file in files:
        policy = _policy if file.stem.endswith("acting") else FROM_MODELS
        JobRun.policy = policy  # type: ignore[method-assign]
        kind = file.stem.partition("-")[0]
        if code := app(["train", kind, str(file)], standalone_mode=False):
            sys.exit(code)
    told = files[0].parent / f"asked-{os.environ.get('RANK', '0')}"
    told.write_text(str(Acting.asked.total()), encoding="utf-8")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
