from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest

from trajstore.rollouts import Task, calculator_tasks
from trajstore.rollouts.environments.corpus import documents


def test_sixty_distinct_tasks_of_both_kinds_come_by_default() -> None:
    tasks = calculator_tasks()
    assert len({t.task_id for t in tasks}) == len({t.goal for t in tasks}) == 60
    assert Counter(t.task_id.split("/")[1] for t in tasks) == {"arithmetic": 30, "two-hop": 30}
    assert all(t.task_id.startswith("calculator/") for t in tasks)


def test_the_seed_decides_and_a_longer_list_starts_with_the_shorter() -> None:
    assert calculator_tasks(20, seed=7) == calculator_tasks(40, seed=7)[:20]
    assert calculator_tasks(20, seed=7) != calculator_tasks(20, seed=8)


def test_the_same_seed_gives_the_same_tasks_in_another_process() -> None:
    code = (
        "from trajstore.rollouts import calculator_tasks\n"
        "print([t.task_id for t in calculator_tasks(30, seed=5)])"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "77", "PYTHONPATH": ":".join(sys.path)},
    )
    assert other.stdout.strip() == str([t.task_id for t in calculator_tasks(30, seed=5)])


def test_equal_questions_have_equal_ids_under_any_seed() -> None:
    ids: dict[str, set[str]] = {}
    for seed in range(4):
        for task in calculator_tasks(150, seed=seed, kind="two-hop"):
            ids.setdefault(task.goal, set()).add(task.task_id)
    assert all(len(found) == 1 for found in ids.values())


def test_one_kind_alone_comes_until_it_runs_out() -> None:
    kinds = {t.metadata["kind"] for t in calculator_tasks(100, kind="arithmetic")}
    assert kinds == {"arithmetic"}
    with pytest.raises(ValueError, match="distinct tasks of kind 'two-hop' found, 500 wanted"):
        calculator_tasks(500, kind="two-hop")


def test_word_problems_fill_up_where_questions_run_out() -> None:
    tasks = calculator_tasks(600, seed=1)
    assert len({t.task_id for t in tasks}) == 600


def numbers(task: Task) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", task.goal)]


def of(template: str) -> list[Task]:
    found = [t for t in calculator_tasks(200, seed=2) if t.metadata["template"] == template]
    assert found
    return found


def test_answers_of_word_problems_follow_from_their_numbers() -> None:
    for task in of("sharing"):
        boxes, each, given, friends = numbers(task)
        assert int(str(task.answer)) * friends == boxes * each - given
    for task in of("journey"):
        fast, first, slow, second = numbers(task)
        assert int(str(task.answer)) == sum([fast] * first + [slow] * second)
    for task in of("tank"):
        full, leak, hours, more = numbers(task)
        assert int(str(task.answer)) == full + more - sum([leak] * hours)
    for task in of("discount"):
        price, percent, voucher = numbers(task)
        assert float(str(task.answer)) == pytest.approx(price - price * percent / 100 - voucher)


def test_answers_of_the_other_word_problems_follow_from_their_numbers() -> None:
    for task in of("sale"):
        red, blue, price = numbers(task)
        assert int(str(task.answer)) == red * price + blue * price
    for task in of("fence"):
        long, wide, price = numbers(task)
        assert int(str(task.answer)) == (long + wide + long + wide) * price
    for task in of("average"):
        one, two, three, bar = numbers(task)
        assert (int(str(task.answer)) + bar) * 3 == one + two + three
    for task in of("saving"):
        week, weeks, gift = numbers(task)
        assert int(str(task.answer)) * 2 == week * weeks + gift


def test_answers_of_questions_follow_from_the_documents_they_name() -> None:
    facts = {d.title: d.facts for d in documents()}
    for task in of("taller"):
        high, low = re.findall(r"higher is (.+) than (.+)\?", task.goal)[0]
        assert int(str(task.answer)) == facts[high]["height_m"] - facts[low]["height_m"] > 0
    for task in of("mean-height"):
        one, other = re.findall(r"height of (.+) and (.+) in metres", task.goal)[0]
        total = facts[one]["height_m"] + facts[other]["height_m"]
        assert float(str(task.answer)) * 2 == total


@pytest.mark.parametrize(
    ("person", "years"),
    [("Gustave Eiffel", 1889 - 1832), ("C. Y. Lee", 2004 - 1938), ("Edward Whymper", 1865 - 1840)],
)
def test_questions_about_people_span_two_documents(person: str, years: int) -> None:
    tasks = calculator_tasks(190, seed=0, kind="two-hop")
    found = [t for t in tasks if f"after the birth of {person}" in t.goal]
    assert [t.answer for t in found] == [str(years)]


def test_no_answer_stands_in_its_question() -> None:
    leaked = [t for t in calculator_tasks(100) if t.answer in re.findall(r"[\d.]+", t.goal)]
    assert len(leaked) <= 2  # a number may come out by chance
