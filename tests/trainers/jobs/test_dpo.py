from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.jobs.conftest import TRAINING, WriteJob
from tests.trainers.jobs.stand import ROLLOUTS, SHORT, Stand, pool
from trajstore.errors import TrainingError
from trajstore.pairs import RunRules
from trajstore.rollouts import Action, Response
from trajstore.schema import LABEL_SCHEMA, Label, Trajectory, labels_to_arrow
from trajstore.store import Store
from trajstore.trainers import Pair, read_metrics
from trajstore.trainers.jobs.dpo import run_dpo
from trajstore.trainers.jobs.preference import (
    DpoTable,
    Paired,
    pairs_of,
    step_values,
    with_reference,
)
from trajstore.trainers.jobs.start import open_job, run_job
from trajstore.trainers.jobs.stored import StoredRuns, runs_of_data, stored_runs

pytest.importorskip("torch")
pytest.importorskip("transformers")
np = pytest.importorskip("numpy")
__all__ = ["pool"]
pytestmark = pytest.mark.filterwarnings("ignore")

OFFLINE = '[dpo]\nmode = "offline"\nreference = "base"\n'
ONLINE = "[dpo]\nattempts = 4\niterations = 2\n"


@pytest.fixture
def online(write_job: WriteJob, pool: Path) -> Callable[..., Stand]:
    def opened(settings: str = ONLINE, **given: Any) -> Stand:
        file = write_job(SHORT, ROLLOUTS, settings, store=pool)
        return Stand(open_job("dpo", file, store=Store(pool, durable=False)), **given)

    return opened


def paired(job: Any, **changes: Any) -> tuple[StoredRuns, Paired]:
    stored = runs_of_data(job)
    settings = replace(job.config.settings, **changes)
    return stored, pairs_of(job, stored, LABEL_SCHEMA.empty_table(), settings)


def test_the_margin_rises_from_zero(write_job: WriteJob) -> None:
    report = run_job("dpo", write_job(TRAINING, OFFLINE))
    told = [m for m in read_metrics(report.output / "model" / "metrics.jsonl") if "loss" in m]
    assert told[0]["rewards/margins"] == pytest.approx(0.0, abs=1e-4)
    assert told[0]["loss"] == pytest.approx(np.log(2), abs=1e-4)
    assert told[-1]["rewards/margins"] > 0
    assert report.results["pairs/trajectory"] > 0


def test_whole_runs_are_paired_better_against_worse(write_job: WriteJob) -> None:
    job = open_job("dpo", write_job(TRAINING, OFFLINE))
    stored, found = paired(job, levels=("trajectory",))
    runs = {r.trajectory_id: r for r in stored.runs}
    assert found.counts["trajectory"] == len(found.pairs) > 0
    for pair in found.pairs:
        better, worse = runs[pair.chosen.trajectory_id], runs[pair.rejected.trajectory_id]
        assert better.task_id == worse.task_id
        assert (better.success, worse.success) == (True, False)


def test_the_sides_of_a_step_pair_share_their_prompt_and_are_one_turn(write_job: WriteJob) -> None:
    job = open_job("dpo", write_job(TRAINING, OFFLINE))
    _, found = paired(job, levels=("step",))
    assert found.pairs
    for pair in found.pairs:
        assert pair.chosen.step_from == pair.chosen.step_to
        assert prompt(pair.chosen) == prompt(pair.rejected)
        assert written(pair.chosen) != written(pair.rejected)
        end = job.dialect.end_of_turn
        assert written(pair.chosen).count(end) == written(pair.rejected).count(end) == 1


def prompt(row: Any) -> list[int]:
    return list(row.token_ids[: int(np.argmax(row.action_mask))])


def written(row: Any) -> list[int]:
    return list(row.token_ids[row.action_mask])


def test_pairs_of_a_task_weigh_one_together(write_job: WriteJob) -> None:
    job = open_job("dpo", write_job(TRAINING, OFFLINE))
    _, found = paired(job, levels=("trajectory",), pairing="all_margin")
    assert all(p.chosen.weight == p.rejected.weight == 1.0 for p in found.pairs)


def test_one_level_alone_leaves_the_other_out(write_job: WriteJob) -> None:
    job = open_job("dpo", write_job(TRAINING, OFFLINE))
    _, both = paired(job)
    _, whole = paired(job, levels=("trajectory",))
    assert "step" not in whole.counts
    assert len(both.pairs) == both.counts["trajectory"] + both.counts["step"] > len(whole.pairs)


def test_a_pair_of_which_a_side_is_cut_is_left_out_and_counted(write_job: WriteJob) -> None:
    whole = open_job("dpo", write_job(TRAINING, OFFLINE))
    _, every = paired(whole, levels=("trajectory",))
    lengths = sorted(len(r.token_ids) for p in every.pairs for r in (p.chosen, p.rejected))
    most = lengths[len(lengths) // 2]
    job = open_job("dpo", write_job(TRAINING, f"max_tokens = {most}\n", OFFLINE, name="short"))
    _, found = paired(job, levels=("trajectory",))
    fit = [
        p for p in every.pairs if max(map(len, (p.chosen.token_ids, p.rejected.token_ids))) <= most
    ]
    assert 0 < len(fit) == len(found.pairs) < len(every.pairs)
    assert found.counts["cut"] + found.counts["refused"] == len(every.pairs) - len(fit)
    assert found.counts["cut"] > 0
    assert not any(r.cut_steps for p in found.pairs for r in (p.chosen, p.rejected))


def test_where_every_pair_is_cut_the_job_says_so(write_job: WriteJob) -> None:
    file = write_job(TRAINING, "max_tokens = 90\n", OFFLINE + 'levels = ["trajectory"]\n')
    with pytest.raises(TrainingError, match=r"all \d+ pairs are left out.*raise max_tokens"):
        run_job("dpo", file)


def labels(*given: tuple[str, int, str, float]) -> Any:
    made = [
        Label(trajectory_id=t, step_index=s, name=n, value=v, evaluator="hand")
        for t, s, n, v in given
    ]
    return labels_to_arrow(made)


def test_values_are_blended_of_search_and_critic() -> None:
    """0.5 * 0.8 + 0.5 * 0.6 = 0.7, and 0.25 * 0.8 + 0.75 * 0.6 = 0.65."""
    told = labels(("t", 1, "q_search", 0.8), ("t", 1, "q_critic", 0.6))
    for alpha, expected in ((0.5, 0.7), (0.25, 0.65)):
        found = step_values(NOTHING, told, DpoTable(alpha=alpha), RunRules())
        assert found is not None
        assert found.column("value").to_pylist() == pytest.approx([expected])


NOTHING: Any = None


def test_a_search_alone_is_taken_as_it_is() -> None:
    found = step_values(NOTHING, labels(("t", 1, "q_search", 0.8)), DpoTable(), RunRules())
    assert found is not None
    assert found.column("value").to_pylist() == [0.8]


def test_a_critic_is_blended_with_the_mean_of_the_runs(write_job: WriteJob) -> None:
    """Half of 0.2, and half of the mean of the runs through the action: 1, or 1/2 if shared."""
    job = open_job("dpo", write_job(TRAINING, OFFLINE))
    stored = runs_of_data(job)
    run = next(r for r in stored.runs if r.policy_version == "careful")
    step = next(i for i, s in enumerate(run.steps) if s.actor == "agent")
    told = labels((run.trajectory_id, step, "judged", 0.2))
    settings = DpoTable(critic="judged", alpha=0.5)
    found = step_values(stored, told, settings, RunRules())
    assert found is not None
    assert found.num_rows == 1
    assert found.column("value")[0].as_py() in (pytest.approx(0.6), pytest.approx(0.35))


def test_stored_logprobs_are_the_reference_where_asked_for(write_job: WriteJob) -> None:
    job = open_job("dpo", write_job(TRAINING, OFFLINE))
    _, found = paired(job)
    given = [
        Pair(chosen=with_old(p.chosen, -1.0), rejected=with_old(p.rejected, -2.0))
        for p in found.pairs
    ]
    made = with_reference(job, given, None)
    for pair in made:
        assert pair.chosen.ref_logprobs is not None
        assert pair.rejected.ref_logprobs is not None
        assert (pair.chosen.ref_logprobs.min(), pair.rejected.ref_logprobs.min()) == (-1.0, -2.0)


def with_old(row: Any, value: float) -> Any:
    return replace(row, old_logprobs=np.where(row.action_mask, value, 0.0).astype(np.float32))


def test_a_stored_reference_that_is_not_stored_is_an_error(write_job: WriteJob) -> None:
    with pytest.raises(TrainingError, match=r"no stored log-probabilities.*reference = 'base'"):
        run_job("dpo", write_job(TRAINING, OFFLINE.replace("base", "stored")))


def test_each_round_goes_on_from_the_one_before(online: Callable[..., Stand]) -> None:
    stand = online()
    report = run_dpo(stand.job)
    assert stand.asked == ["iteration-0", "iteration-1", "iteration-2"]
    assert (report.results["iterations"], len(report.results["held_out"])) == (2, 3)
    lines = read_metrics(stand.job.folder / "metrics.jsonl")
    rounds = [m for m in lines if "iteration" in m]
    assert [(m["iteration"], m["runs"]) for m in rounds] == [(1, 24), (2, 24)]
    assert all(m["pairs/trajectory"] > 0 and m["pairs/step"] > 0 for m in rounds)


@pytest.mark.parametrize("lora", ["", "[model.lora]\nrank = 4\n"], ids=["all-weights", "lora"])
@pytest.mark.parametrize("reference", ["previous", "base"])
def test_the_reference_moves_or_stays(
    online: Callable[..., Stand], reference: str, lora: str
) -> None:
    """The second round starts with a margin of 0 only if it is its own reference."""
    stand = online(ONLINE + f'reference = "{reference}"\nbeta = 5.0\n' + lora)
    run_dpo(stand.job)
    told = read_metrics(stand.job.folder / "iteration-2" / "metrics.jsonl")
    assert (abs(told[0]["rewards/margins"]) < 1e-3) == (reference == "previous")


def test_later_rounds_may_pull_harder() -> None:
    table = DpoTable(beta=0.1, later_beta=0.5)
    assert [table.objective(n).beta for n in (1, 2, 3)] == [0.1, 0.5, 0.5]


def test_where_nothing_can_be_paired_the_job_ends(online: Callable[..., Stand]) -> None:
    report = run_dpo(online(profile="careful").job)
    assert (report.results["iterations"], report.results["ended"]) == (0, "no pairs")


def test_a_job_that_was_killed_ends_as_one_that_was_not(online: Callable[..., Stand]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_dpo(online(fails_at=2).job)
    again = online()
    report = run_dpo(again.job)
    assert (report.results["iterations"], len(report.results["held_out"])) == (2, 3)
    count = "SELECT count(*) AS n FROM trajectories WHERE list_contains(tags, 'train')"
    assert again.job.store.query(count).read_all().to_pylist() == [{"n": 48}]


def test_runs_of_a_search_are_paired_by_its_values(online: Callable[..., Stand]) -> None:
    """The trees of the search are in the store, with the value of each action."""
    stand = online(ONLINE.replace("iterations = 2", "iterations = 1") + "search = true\n")
    report = run_dpo(stand.job)
    found = stand.job.store.query(
        "SELECT count(*) AS n FROM labels WHERE name = 'q_search'"
    ).read_all()
    assert found.column("n")[0].as_py() > 0
    assert report.results["iterations"] == 1


class Judging(Stand):
    """Says that all is worth 7 of 10 where it is asked without tools, as a critic is."""

    def policy(self, model: Any, version: str, **given: Any) -> Any:
        made = super().policy(model, version, **given)
        act = made.act

        def judged(messages: Any, tools: Any, *, seed: int) -> Response:
            return act(messages, tools, seed=seed) if tools else Response(action=Action(text="7"))

        made.act = judged
        return made


@pytest.mark.parametrize(("margin", "pairs"), [(0.05, True), (0.26, False)])
def test_a_policy_that_judges_itself_is_weighed_against_the_search(
    write_job: WriteJob,
    pool: Path,
    margin: float,
    pairs: bool,  # noqa: FBT001 - what is expected
) -> None:
    """At alpha 0.25 two actions that are the same to it differ by a quarter at most."""
    own = ONLINE.replace("iterations = 2", "iterations = 1") + f"step_margin = {margin}\n"
    own += "levels = ['step']\nsearch = true\nself_critique = true\nalpha = 0.25\n"
    file = write_job(SHORT, ROLLOUTS, own, store=pool)
    stand = Judging(open_job("dpo", file, store=Store(pool, durable=False)))
    report = run_dpo(stand.job)
    query = "SELECT name, avg(value) AS mean FROM labels GROUP BY name ORDER BY name"
    critic, search = stand.job.store.query(query).read_all().to_pylist()
    assert (critic["name"], search["name"]) == ("q_critic", "q_search")
    assert critic["mean"] == pytest.approx(0.7)
    assert (report.results["ended"] == "iterations") == pairs


def test_a_choice_that_makes_no_sense_is_refused() -> None:
    wrong = {"attempts": 1}, {"levels": ()}, {"alpha": 1.5}, {"iterations": 0}
    for given in (*wrong, {"self_critique": True}):
        with pytest.raises(TrainingError):
            DpoTable(**given).check()


def test_runs_come_back_with_what_the_store_says(write_job: WriteJob) -> None:
    job = open_job("dpo", write_job(TRAINING, OFFLINE))
    runs: list[Trajectory] = list(job.runs())
    found = stored_runs(job.reader, runs)
    assert found.rows.num_rows == len(runs) == 24
    assert found.success_rate == pytest.approx(sum(bool(r.success) for r in runs) / 24)
    calls = [sum(len(s.tool_calls) for s in r.steps) for r in runs]
    assert found.tool_calls == pytest.approx(sum(calls) / 24)
