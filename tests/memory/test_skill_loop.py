"""The Voyager loop, end to end: a scripted model behind a real HTTP endpoint, a real sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.memory.conftest import draft
from tests.pipeline.chat_server import Reply, Request, chat_server, says
from trajstore import Label, Trajectory
from trajstore.errors import SkillError
from trajstore.memory import (
    Chat,
    LoopOptions,
    SkillLibrary,
    SkillTask,
    propose_skills,
    propose_tasks,
    voyager_loop,
)
from trajstore.pipeline import ChatEndpoint

PROPOSALS = [
    {"name": "vowels", "goal": "Count the vowels of a text.", "check": "assert vowels('eau') == 3"},
    {
        "name": "most_vowels",
        "goal": "Of several texts the one with the most vowels.",
        "check": "assert most_vowels(['a', 'eau']) == 'eau'",
    },
]
WRONG = "def vowels(text):\n    return len(text) - 1\n"
RIGHT = (
    'def vowels(text):\n    """Number of vowels."""\n    return sum(c in "aeiou" for c in text)\n'
)
ON_TOP = "def most_vowels(texts):\n    return max(texts, key=vowels)\n"


class Model:
    """Answers as a model would: a plan, code that is wrong, code that is right."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.planned = 0

    def __call__(self, request: Request) -> Reply:
        self.prompts.append(request.prompt)
        system = request.body["messages"][0]["content"]
        if system.startswith("You plan"):
            self.planned += 1
            return says(f"Here:\n```json\n{json.dumps([PROPOSALS[self.planned - 1]])}\n```")
        if system.startswith("You mend"):
            return says(f"Of course.\n```python\n{RIGHT}```\nNow it counts.")
        code = ON_TOP if "`most_vowels`" in request.prompt else WRONG
        return says(f"```python\n{code}```")


def asking(url: str) -> Chat:
    endpoint = ChatEndpoint(base_url=url, model="scripted")
    return lambda messages: endpoint.complete(messages).text


def test_a_library_grows_by_what_a_model_writes_and_mends(library: SkillLibrary) -> None:
    model = Model()
    with chat_server(model) as server:
        options = LoopOptions(about="words", model="scripted")
        first, second = voyager_loop(library, asking(server.url), rounds=2, options=options)
    assert [len(r.added.attempts) for r in (first, second)] == [2, 1]
    assert "AssertionError" in model.prompts[2]
    assert [h.skill.name for h in second.given] == ["vowels"]
    assert RIGHT in model.prompts[4]
    kept = second.added.skill
    assert kept is not None
    assert kept.dependencies == (library.resolve("vowels").skill_id,)
    assert library.run(["most_vowels"], "print(most_vowels(['bcd', 'io', 'a']))").stdout == "io\n"


def test_each_round_is_a_run_in_the_store_with_what_it_was_given(library: SkillLibrary) -> None:
    with chat_server(Model()) as server:
        rounds = list(voyager_loop(library, asking(server.url), rounds=2))
    query = """
        SELECT t.task_id, t.success, t.n_tool_calls, t.n_tool_errors, u.item_id
        FROM trajectories t LEFT JOIN uses u USING (trajectory_id) ORDER BY t.started_at"""
    vowels = library.resolve("vowels").skill_id
    assert library.store.sql(query).fetchall() == [
        ("voyager-loop/vowels", True, 2, 1, None),
        ("voyager-loop/most_vowels", True, 1, 0, vowels),
    ]
    run = library.store.get(rounds[0].trajectory_id)
    assert run is not None
    assert [s.actor for s in run.steps] == ["user", "agent", "agent"]
    assert json.loads(run.steps[1].tool_calls[0].arguments or "")["code"] == WRONG
    assert library.usage()[vowels][:2] == (1, 1)


def test_a_task_that_is_given_up_is_stored_as_a_failure(library: SkillLibrary) -> None:
    task = SkillTask(**PROPOSALS[0])
    chat: Chat = lambda _: f"```python\n{WRONG}```"  # noqa: E731
    options = LoopOptions(attempts=2)
    (only,) = voyager_loop(library, chat, rounds=9, tasks=[task], options=options)
    assert not only.added.ok
    assert library.skills() == []
    assert library.store.sql("SELECT success, reward FROM trajectories").fetchall() == [
        (False, 0.0)
    ]


def test_the_planner_is_told_what_is_there_and_what_was_given_up(library: SkillLibrary) -> None:
    library.add(draft("base", "1", says="the base of all"))
    failed = SkillTask(name="hard", goal="Too hard.", check="pass")
    seen: list[str] = []
    (task,) = propose_skills(library, remembering(seen, PROPOSALS), failed=[failed])
    assert task.name == "vowels"
    assert "def base(): the base of all" in seen[0]
    assert "hard: Too hard." in seen[0]


def test_a_proposal_of_what_is_there_is_none(library: SkillLibrary) -> None:
    library.add(draft("vowels", "1"))
    (task,) = propose_skills(library, remembering([], PROPOSALS))
    assert task.name == "most_vowels"


@pytest.mark.parametrize("answer", ["no idea", "[", '[{"name": "f"}]', "[1]", '{"name": 1}'])
def test_an_answer_without_a_proposal_is_said(answer: str, library: SkillLibrary) -> None:
    with pytest.raises(SkillError, match="proposed no new skill"):
        propose_skills(library, lambda _: answer)


def remembering(seen: list[str], proposals: object) -> Callable[..., str]:
    def chat(messages: list[dict[str, str]]) -> str:
        seen.append(messages[-1]["content"])
        return json.dumps(proposals)

    return chat


def test_tasks_to_try_again_are_those_half_solved(library: SkillLibrary) -> None:
    outcomes: dict[str, list[bool | None]] = {
        "half": [True, False],
        "never": [False, False],
        "mostly": [True, True, True, False],
        "always": [True, True],
        "unknown": [None],
    }
    library.store.append(
        Trajectory(trajectory_id=f"{task}{n}", task_id=task, source="x", success=good, attempt=n)
        for task, all_ in outcomes.items()
        for n, good in enumerate(all_)
    )
    found = propose_tasks(library.store)
    # p (1 - p) with p = (s + 1) / (n + 2): 1/2, 2/3, 1/4.
    weights = [(t.task_id, t.weight) for t in found]
    assert weights == [("half", 0.25), ("mostly", pytest.approx(2 / 9)), ("never", 0.1875)]


def test_a_late_verdict_counts_for_the_next_proposal(library: SkillLibrary) -> None:
    run = Trajectory(trajectory_id="r", task_id="t", source="x", success=False)
    library.store.append(run)
    assert [t.task_id for t in propose_tasks(library.store)] == ["t"]
    library.store.label([Label(trajectory_id="r", name="outcome", success=True, evaluator="e")])
    assert propose_tasks(library.store) == []
