"""A job in two processes that torchrun starts is the job in one: same runs, same weights."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.trainers.jobs.conftest import MODEL
from tests.trainers.jobs.stand import ROLLOUTS
from tests.trainers.test_distributed import start, torchrun
from trajstore.store import Store
from trajstore.trainers.metrics import read_metrics
from trajstore.trainers.trainer import METRICS_FILE

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")
safetensors = pytest.importorskip("safetensors.torch")
pytestmark = pytest.mark.slow

HEAD = """
[job]
store = "pool"
output = "{name}"
{model}
[training]
learning_rate = 1e-3
steps = 2
batch_size = {batch}
schedule = "constant"
warmup = 0
logging_steps = 1
"""
DATA = """
[data]
where = "policy_version in ('careful', 'hasty') and source = 'rollout' and len(tags) = 0"
"""
SHORT = "max_steps = 3\nmax_tokens = 12"
"""Of a model that was never trained, which really samples at the held-out tasks."""
JOBS = {
    "sft-1": DATA + ROLLOUTS.replace("max_steps = 5", SHORT) + "[sft]\nbefore = true\n",
    "star-acting": ROLLOUTS + "[star]\niterations = 2\ntolerance = -1\n",
    "rft-acting": DATA + ROLLOUTS + "[rft]\nkeep = 1\n",
    "grpo-acting": ROLLOUTS + '[grpo]\niterations = 2\nattempts = 4\nratio = "snapshot"\n',
    "dpo-acting": ROLLOUTS + "[dpo]\niterations = 2\nattempts = 4\n",
    "dpo-search-acting": ROLLOUTS + "[dpo]\niterations = 1\nsearch = true\nexpand = 2\n",
    "grpo-offline": DATA + '[grpo]\nmode = "offline"\nratio = "snapshot"\nkl_coef = 0.1\n',
    "dpo-offline": DATA + '[dpo]\nmode = "offline"\nreference = "base"\n',
}
LAST = {
    "sft-1": "model",
    "star-acting": "iteration-2",
    "rft-acting": "model",
    "grpo-acting": "iteration-2",
    "dpo-acting": "iteration-2",
    "dpo-search-acting": "iteration-1",
    "grpo-offline": "model",
    "dpo-offline": "model",
}


@dataclass(frozen=True)
class Side:
    """All jobs, done by so many processes."""

    folder: Path
    told: str


@pytest.fixture(scope="module")
def sides(scripted: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Side]:
    """Both start from the same pool and the same small model, which the first one makes."""
    root = tmp_path_factory.mktemp("distributed")
    made: dict[str, Side] = {}
    for side, batch, launcher in (("one", 64, []), ("two", 32, torchrun())):
        folder = root / side
        shutil.copytree(scripted, folder / "pool")
        files = []
        for name, own in JOBS.items():
            base = "sft-1/scratch" if side == "one" else "../one/sft-1/scratch"
            model = MODEL if (side, name) == ("one", "sft-1") else _starting_from(base)
            text = HEAD.format(name=name, batch=batch, model=model) + own
            files.append(folder / f"{name}.toml")
            files[-1].write_text(text, encoding="utf-8")
        told = start(launcher, "tests.trainers.jobs.distributed_jobs", *map(str, files))
        made[side] = Side(folder, told)
    return made


def _starting_from(base: str) -> str:
    return f'[model]\ntemplate = "bare"\nbase = "{base}"\n'


def test_runs_are_the_same_each_once(sides: dict[str, Side]) -> None:
    """Ids, verdicts, steps and words of every run that any of the jobs sampled."""
    query = """SELECT t.trajectory_id, policy_version, tags, status, success, attempt, parent_id,
            list(s.text ORDER BY step_index) AS said
        FROM trajectories t JOIN steps s USING (trajectory_id) WHERE len(tags) > 0
        GROUP BY ALL ORDER BY ALL"""
    one, two = (Store(s.folder / "pool").query(query).read_all() for s in sides.values())
    assert one.num_rows > 200
    assert one.equals(two)


def test_no_policy_is_asked_the_same_twice(sides: dict[str, Side]) -> None:
    """Each of two processes asked for its share, and both together as often as one alone."""
    one, two = (
        [int(file.read_text()) for file in sorted(side.folder.glob("asked-*"))]
        for side in sides.values()
    )
    assert (len(one), len(two)) == (1, 2)
    assert sum(two) == sum(one)
    assert min(two) > sum(one) / 4


@pytest.mark.parametrize("name", JOBS)
def test_weights_are_the_same(sides: dict[str, Side], name: str) -> None:
    places = [s.folder / name / LAST[name] / "model.safetensors" for s in sides.values()]
    one, two = (safetensors.load_file(place) for place in places)
    assert all(torch.allclose(one[key], two[key], atol=1e-5) for key in one)
    begun = safetensors.load_file(sides["one"].folder / "sft-1/scratch/model.safetensors")
    assert not all(torch.allclose(one[key], begun[key], atol=1e-4) for key in one)


@pytest.mark.parametrize("name", JOBS)
def test_metrics_are_written_once(sides: dict[str, Side], name: str) -> None:
    one, two = (read_metrics(s.folder / name / METRICS_FILE) for s in sides.values())
    assert one == two
    events = [len(list((s.folder / name).rglob("events.out.*"))) for s in sides.values()]
    assert events[0] == events[1] > 0


def test_the_first_process_alone_tells_what_came_of_it(sides: dict[str, Side]) -> None:
    assert [s.told.count("snapshot") for s in sides.values()] == [len(JOBS)] * 2
