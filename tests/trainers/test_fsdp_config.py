"""The configuration that ships is one that accelerate takes, and says what its page says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate")

FILE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "training" / "fsdp.yaml"


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What ``accelerate launch`` puts into the environment of each process on eight GPUs."""
    import torch
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    given = ["--config_file", str(FILE), "train.py"]
    arguments, *_ = _validate_launch_command(launch_command_parser().parse_args(given))
    assert arguments.use_fsdp
    made: dict[str, str] = prepare_multi_gpu_env(arguments)
    return made


def test_accelerates_own_loader_takes_every_key() -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(FILE))
    assert config.distributed_type == "FSDP"
    assert config.num_processes == 8
    assert config.mixed_precision == "bf16"


@pytest.mark.filterwarnings("ignore")
def test_processes_are_sharded_and_checkpoints_are_whole(
    launched: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plugin of a process reads these variables and nothing else."""
    from accelerate import FullyShardedDataParallelPlugin

    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    plugin: Any = FullyShardedDataParallelPlugin()
    assert launched["ACCELERATE_USE_FSDP"] == "true"
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is True
    assert plugin.activation_checkpointing is False
    assert "FULL_STATE_DICT" in str(plugin.state_dict_type)
    assert "transformer_auto_wrap_policy" in str(plugin.auto_wrap_policy)
