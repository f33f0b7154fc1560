"""The trainers that read prompts: TRL, verl and OpenRLHF."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from trajstore.errors import ExportError
from trajstore.exports.conversation import Unfit
from trajstore.exports.files import Format, Kind
from trajstore.exports.rl.prompts import PromptOptions, PromptRow, refused
from trajstore.exports.target import Described, Record
from trajstore.exports.writing import Refused

_BESIDE: Mapping[str, Kind] = {
    "environment": "string",
    "task_id": "string",
    "trajectory_id": "string",
    "attempts": "int",
}


class PromptTarget(Described, ABC):
    """One trainer. It turns a row into what it reads, or refuses it."""

    @abstractmethod
    def columns(self, options: PromptOptions) -> Mapping[str, Kind]:
        """Columns of a record, in order."""

    @abstractmethod
    def record(self, row: PromptRow, index: int, options: PromptOptions) -> Record:
        """The row as the target reads it.

        Raises:
            Unfit: it cannot; the reason is among :attr:`refusals`.
        """

    def record_or_refusal(
        self, row: PromptRow, index: int, options: PromptOptions
    ) -> Record | Refused:
        """The row as the target reads it, or why it cannot."""
        try:
            return self.record(row, index, options)
        except Unfit as unfit:
            return refused(row.task_id, unfit, self.refusals)


class TrlPrompts(PromptTarget):
    """``prompt``; every other column reaches the reward functions."""

    name: ClassVar[str] = "trl"
    title: ClassVar[str] = "TRL `GRPOTrainer` and `RLOOTrainer`"
    formats: ClassVar[tuple[Format, ...]] = ("parquet", "jsonl")
    usage: ClassVar[str] = """```python
from datasets import load_dataset
from trl import GRPOTrainer

rows = load_dataset("path/to/this/folder", split="train")
GRPOTrainer("model", reward_funcs=reward, train_dataset=rows).train()
```

TRL gives the other columns to `reward` by name. It shows the model the tools that it is given as
functions (`tools=`), not those of the column, which says what runs were offered.
"""

    def columns(self, options: PromptOptions) -> Mapping[str, Kind]:
        """Messages; the answer only where it was asked for."""
        answer: dict[str, Kind] = {"ground_truth": "string"} if options.ground_truth else {}
        return {"prompt": "json-list", "tools": "string", **answer, **_BESIDE}

    def record(self, row: PromptRow, index: int, options: PromptOptions) -> Record:
        """The row as it is."""
        del index
        return Record(values={n: getattr(row, n) for n in self.columns(options)})


class OpenRlhfPrompts(TrlPrompts):
    """``prompt`` as ``--data.input_key``, the answer as ``--data.label_key``."""

    name: ClassVar[str] = "openrlhf"
    title: ClassVar[str] = "OpenRLHF `train_ppo_ray`"
    formats: ClassVar[tuple[Format, ...]] = ("jsonl", "parquet")
    usage: ClassVar[str] = """```sh
python -m openrlhf.cli.train_ppo_ray --data.prompt_dataset path/to/this/folder \\
  --data.input_key prompt --data.apply_chat_template --train.agent_func_path agent.py
```

With a column `ground_truth` add `--data.label_key ground_truth`. Give the folder and not the file.
OpenRLHF does not show tools to the template; an agent function can read them from the column.
"""
    rules: ClassVar[Mapping[str, str]] = {
        "tools-not-shown": "the runs offered tools, and OpenRLHF renders prompts without them",
    }

    def record(self, row: PromptRow, index: int, options: PromptOptions) -> Record:
        """The row as it is."""
        values = super().record(row, index, options).values
        return Record(values=values, applied={"tools-not-shown": int(row.tools is not None)})


class VerlPrompts(PromptTarget):
    """verl's columns: ``prompt``, ``reward_model``, ``extra_info`` and their kin."""

    name: ClassVar[str] = "verl"
    title: ClassVar[str] = "verl RL data (`RLHFDataset`)"
    formats: ClassVar[tuple[Format, ...]] = ("parquet",)
    usage: ClassVar[str] = """```sh
python -m verl.trainer.main_ppo data.train_files=path/to/this/folder/train.parquet \\
  data.return_raw_chat=True actor_rollout_ref.rollout.multi_turn.tool_config_path=tools.yaml
```

`agent_name` is `tool_agent` where runs had tools, else `single_turn_agent`. verl shows the tools
of its configuration; those that runs were offered stand in `extra_info.tools` as JSON text.
`reward_model.ground_truth` is empty unless the export was told where the answer is: then a reward
function must judge by other means. `data.max_prompt_length` is 1024 unless set, and longer prompts
are left out.
"""
    refusals: ClassVar[Mapping[str, str]] = {
        "agent-in-prompt": "the prompt holds turns of an agent (copied context), which "
        "verl's prompt cannot hold; export to trl",
    }

    def columns(self, options: PromptOptions) -> Mapping[str, Kind]:
        """Those of verl, as plain Arrow structs."""
        del options
        return {
            "prompt": "said-list",
            "data_source": "string",
            "ability": "string",
            "reward_model": "reward-model",
            "extra_info": "extra-info",
            "agent_name": "string",
        }

    def record(self, row: PromptRow, index: int, options: PromptOptions) -> Record:
        """A prompt of system and user messages."""
        if any(set(m) != {"role", "content"} or m["role"] == "assistant" for m in row.prompt):
            raise Unfit("agent-in-prompt", f"run {row.trajectory_id}")
        values = {
            "prompt": row.prompt,
            "data_source": options.data_source or row.environment,
            "ability": options.ability,
            "reward_model": {"style": "rule", "ground_truth": row.ground_truth or ""},
            "extra_info": {
                "index": index,
                "split": options.split,
                "need_tools_kwargs": False,
                "tools": row.tools or "",
                "task_id": row.task_id,
                "trajectory_id": row.trajectory_id,
            },
            "agent_name": "tool_agent" if row.uses_tools else "single_turn_agent",
        }
        return Record(values=values)


PROMPT_TARGETS: Mapping[str, PromptTarget] = {
    t.name: t for t in (TrlPrompts(), VerlPrompts(), OpenRlhfPrompts())
}
"""Name -> target."""


def prompt_target(name: str) -> PromptTarget:
    """The target of that name.

    Raises:
        ExportError: there is none.
    """
    if name not in PROMPT_TARGETS:
        known = ", ".join(PROMPT_TARGETS)
        raise ExportError(f"there is no prompts export to {name!r}; known are {known}")
    return PROMPT_TARGETS[name]
