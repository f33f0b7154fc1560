"""Where a job's policy samples: which weights are on the server under which version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.chat_server import ChatServer, chat_server
from tests.rollouts.policies.test_vllm import FakeVllm, adapter, full
from tests.rollouts.policies.words import Words
from tests.trainers.jobs.conftest import MODEL, WriteJob
from trajstore.errors import TrainingError
from trajstore.trainers.jobs.acting import served
from trajstore.trainers.jobs.config import JobConfig, read_config
from trajstore.trainers.jobs.sft import SftTable

LORA = "[model.lora]\nrank = 2\n"


def config(write_job: WriteJob, server: ChatServer, model: str = MODEL) -> JobConfig:
    parts = (
        '[rollouts]\nenvironment = "calculator"\npolicy = "vllm"\nmodel = "policy"\n'
        f'url = "{server.url}"\n'
    )
    return read_config(write_job(parts, model=model), "sft", SftTable)


def test_whole_weights_are_sent_the_bases_too(write_job: WriteJob, tmp_path: Path) -> None:
    fake, base = FakeVllm(), full(tmp_path)
    with chat_server(fake.answer) as server:
        told = config(write_job, server)
        made = served(told, Words(), base, base, "s/base", None)  # type: ignore[arg-type]
        again = served(told, Words(), base, base, "s/next", made)  # type: ignore[arg-type]
    assert again is made
    assert made.version == "s/next"
    assert sum(call.startswith("/collective_rpc") for call in fake.calls) == 2


def test_adapters_stand_beside_the_base(write_job: WriteJob, tmp_path: Path) -> None:
    fake, base = FakeVllm(), full(tmp_path)
    with chat_server(fake.answer) as server:
        told = config(write_job, server, MODEL + LORA)
        made = served(told, Words(), base, base, "s/base", None)  # type: ignore[arg-type]
        assert (made.version, fake.loaded) == ("s/base", [])
        served(told, Words(), base, adapter(tmp_path, "a"), "s/1", made)  # type: ignore[arg-type]
    assert (made.version, fake.loaded) == ("s/1", ["s/1"])


def test_a_process_that_does_not_send_only_knows_the_version(
    write_job: WriteJob, tmp_path: Path
) -> None:
    fake, base = FakeVllm(), full(tmp_path)
    with chat_server(fake.answer) as server:
        told = config(write_job, server)
        made = served(told, Words(), base, base, "s/base", None, sends=False)  # type: ignore[arg-type]
    assert (made.version, fake.calls) == ("s/base", [])


def test_weights_in_memory_are_for_no_server(write_job: WriteJob, tmp_path: Path) -> None:
    with (
        chat_server(FakeVllm().answer) as server,
        pytest.raises(TrainingError, match="A server reads weights from folders"),
    ):
        served(config(write_job, server), Words(), tmp_path, None, "v", None)  # type: ignore[arg-type]
