"""What a LoRA job leaves can be trained from and sampled from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from trajstore_cli.main import app
from typer.testing import CliRunner

from tests.trainers.conftest import make_tiny_model, make_tokenizer, tokenizer
from tests.trainers.jobs.conftest import TRAINING, WriteJob
from trajstore import open as open_store
from trajstore.errors import TrainingError
from trajstore.rollouts.policies.checkpoints import load_causal, load_words
from trajstore.trainers.jobs import preview_job, run_job
from trajstore.trainers.jobs.start import open_job
from trajstore.trainers.trainer import Lora, with_lora

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")
__all__ = ["make_tokenizer", "tokenizer"]
pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = '[model]\nbase = "adapter"\ntemplate = "bare"\n'
LORA = "[model.lora]\nrank = 2\n"
SHORT = TRAINING.replace("steps = 6", "steps = 1")
SERVER = """
[rollouts]
environment = "calculator"
policy = "vllm"
url = "http://localhost:1"
"""


@pytest.fixture
def adapter(tmp_path: Path, tokenizer: Any) -> Path:
    """An adapter that changes much, beside its base ``whole``."""
    make_tiny_model().save_pretrained(tmp_path / "whole")
    tokenizer.save_pretrained(tmp_path / "whole")
    model = with_lora(
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "whole"), Lora(rank=2)
    )
    torch.manual_seed(1)
    for name, weights in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.5)
    model.save_pretrained(tmp_path / "adapter")
    tokenizer.save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def logits(model: Any) -> Any:
    with torch.no_grad():
        return model.cpu().eval()(torch.arange(20, 30)[None]).logits


def adapted(adapter: Path) -> Any:
    """The logits that peft gives for the adapter over its base, not merged."""
    import peft

    whole = transformers.AutoModelForCausalLM.from_pretrained(adapter.parent / "whole")
    return logits(peft.PeftModel.from_pretrained(whole, str(adapter)))


def test_an_adapter_loads_with_its_base(adapter: Path) -> None:
    found = logits(load_causal(adapter))
    assert torch.allclose(found, adapted(adapter), atol=1e-4)
    assert not torch.allclose(found, logits(load_causal(adapter.parent / "whole")), atol=1e-1)


@pytest.mark.parametrize("lora", ["", LORA], ids=["all-weights", "lora"])
def test_a_job_starts_from_the_adapter_over_its_base(
    write_job: WriteJob, adapter: Path, lora: str
) -> None:
    job = open_job("sft", write_job(SHORT, model=MODEL + lora))
    assert torch.allclose(logits(job.fresh_model()), adapted(adapter), atol=1e-4)
    assert (job.base / "config.json").is_file()


def test_an_adapter_over_an_adapter_is_used_with_both(
    write_job: WriteJob, adapter: Path, tmp_path: Path
) -> None:
    done = run_job("sft", write_job(SHORT, model=MODEL + LORA))
    assert done.model is not None
    told = json.loads((done.model / "adapter_config.json").read_text())
    assert Path(told["base_model_name_or_path"]) == (done.output / "base").resolve()
    gap = (logits(load_causal(done.model)) - adapted(adapter)).abs().max()
    far = (logits(load_causal(tmp_path / "whole")) - adapted(adapter)).abs().max()
    assert 0 < gap < far / 2


def test_a_job_over_an_adapter_that_is_started_again_has_ended(
    write_job: WriteJob, adapter: Path
) -> None:
    file = write_job(SHORT, model=MODEL + LORA)
    first = run_job("sft", file)
    shutil.rmtree(adapter.parent / "whole")
    assert run_job("sft", file).model == first.model


def test_a_dry_run_merges_nothing(write_job: WriteJob, adapter: Path) -> None:
    shutil.rmtree(adapter.parent / "whole")
    assert preview_job("sft", write_job(SHORT, model=MODEL)).rows == 24


def test_an_adapter_whose_base_is_gone_is_refused_with_the_way_out(
    write_job: WriteJob, adapter: Path
) -> None:
    shutil.rmtree(adapter.parent / "whole")
    with pytest.raises(TrainingError, match=r"no model now; write .* base_model_name_or_path"):
        run_job("sft", write_job(SHORT, model=MODEL))


def test_an_adapter_without_a_tokenizer_takes_that_of_its_base(adapter: Path) -> None:
    for file in adapter.glob("tokenizer*"):
        file.unlink()
    assert load_words(adapter).get_vocab() == load_words(adapter.parent / "whole").get_vocab()


def test_a_server_is_not_asked_for_an_adapter_over_an_adapter(
    write_job: WriteJob, adapter: Path
) -> None:
    assert adapter.is_dir()
    with pytest.raises(TrainingError, match=r"job\.toml:\d+: .*puts no adapter over another"):
        open_job("sft", write_job(SHORT, SERVER, model=MODEL + LORA))


def test_an_adapter_in_a_folder_acts(tmp_path: Path, adapter: Path) -> None:
    options = ["--policy", "transformers", "--model", str(adapter), "--template", "bare", "--json"]
    more = ["--tasks", "1", "--max-steps", "1", "--max-tokens", "4", "--policy-version", "v0"]
    store = tmp_path / "pool"
    ran = CliRunner().invoke(app, ["rollout", str(store), "--env", "calculator", *options, *more])
    assert json.loads(ran.stdout)["policies"][0]["errors"] == 0
    ((tokens,),) = (
        open_store(store).sql("select sum(len(completion_token_ids)) from steps").fetchall()
    )
    assert tokens > 0
