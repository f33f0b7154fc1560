"""Seeded tasks of the calculator environment: word problems, and questions over two documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Literal

from trajstore.rollouts.environment import Task
from trajstore.rollouts.environments.arithmetic import format_number
from trajstore.rollouts.environments.corpus import Document, documents
from trajstore.schema import digest

Kind = Literal["arithmetic", "two-hop"]
_TRIES = 200
_NAMES = ("Amina", "Boris", "Chen", "Dora", "Emil", "Farid", "Greta", "Hugo", "Ines", "Jonas")


@dataclass(frozen=True, slots=True)
class _Problem:
    """A kind of word problem: its text, what its numbers may be, and how it is solved."""

    name: str
    text: str
    numbers: Mapping[str, range]
    solve: Callable[..., Fraction | int]


_PROBLEMS: tuple[_Problem, ...] = (
    _Problem(
        "sharing",
        "{name} buys {boxes} boxes with {each} pencils each, gives {given} pencils away and shares "
        "the rest equally among {friends} friends. How many pencils does each friend get?",
        {
            "boxes": range(3, 20),
            "each": range(6, 30),
            "given": range(2, 18),
            "friends": range(2, 9),
        },
        lambda boxes, each, given, friends: Fraction(boxes * each - given, friends),
    ),
    _Problem(
        "journey",
        "A train goes {fast} km/h for {first} hours and then {slow} km/h for {second} hours. "
        "How many kilometres does it go in all?",
        {
            "fast": range(90, 240, 5),
            "first": range(2, 9),
            "slow": range(30, 90, 5),
            "second": range(2, 9),
        },
        lambda fast, first, slow, second: fast * first + slow * second,
    ),
    _Problem(
        "sale",
        "A shop sells {red} red and {blue} blue shirts at {price} euros each. "
        "How many euros does it take in?",
        {"red": range(3, 60), "blue": range(3, 60), "price": range(7, 45)},
        lambda red, blue, price: (red + blue) * price,
    ),
    _Problem(
        "tank",
        "A tank holds {full} litres and loses {leak} litres an hour. After {hours} hours, {more} "
        "litres are poured in. How many litres are in the tank then?",
        {
            "full": range(400, 900, 10),
            "leak": range(3, 25),
            "hours": range(3, 15),
            "more": range(15, 95, 5),
        },
        lambda full, leak, hours, more: full - leak * hours + more,
    ),
    _Problem(
        "fence",
        "A garden is {long} metres long and {wide} metres wide. A fence costs {price} euros a "
        "metre. How many euros does a fence all around the garden cost?",
        {"long": range(12, 60), "wide": range(5, 40), "price": range(6, 40)},
        lambda long, wide, price: 2 * (long + wide) * price,
    ),
    _Problem(
        "average",
        "{name} scores {one}, {two} and {three} points in three tests. By how many points is the "
        "average above {bar} points?",
        {
            "one": range(60, 101),
            "two": range(60, 101),
            "three": range(60, 101),
            "bar": range(30, 58),
        },
        lambda one, two, three, bar: Fraction(one + two + three, 3) - bar,
    ),
    _Problem(
        "saving",
        "{name} saves {week} euros a week for {weeks} weeks, gets {gift} euros as a gift and then "
        "spends half of everything. How many euros are left?",
        {"week": range(4, 40), "weeks": range(4, 30), "gift": range(10, 120, 2)},
        lambda week, weeks, gift: Fraction(week * weeks + gift, 2),
    ),
    _Problem(
        "discount",
        "A bicycle costs {price} euros. It is reduced by {percent} percent, and {name} has a "
        "voucher for another {voucher} euros. How many euros does {name} pay?",
        {
            "price": range(200, 1500, 20),
            "percent": range(5, 60, 5),
            "voucher": range(10, 80, 5),
        },
        lambda price, percent, voucher: Fraction(price * (100 - percent), 100) - voucher,
    ),
)


def calculator_tasks(count: int = 60, *, seed: int = 0, kind: Kind | None = None) -> list[Task]:
    """Distinct tasks with a checkable answer, the same for the same seed on every machine.

    A longer list starts with the shorter one. Equal questions have equal ids under any seed. Both
    kinds take turns; there are about 200 different two-hop questions, and after that word problems
    fill up.

    Args:
        count: how many tasks.
        seed: which ones.
        kind: only this kind.

    Raises:
        ValueError: there are not that many distinct tasks of that kind.
    """
    random = Random(seed)  # noqa: S311 - a seeded choice of tasks, no secret
    kinds: tuple[Kind, ...] = (kind,) if kind else ("arithmetic", "two-hop")
    tasks: dict[str, Task] = {}
    while len(tasks) < count:
        turn = kinds[len(tasks) % len(kinds)]
        task = _new(turn, random, tasks) or (None if kind else _new("arithmetic", random, tasks))
        if task is None:
            message = f"only {len(tasks)} distinct tasks of kind '{turn}' found, {count} wanted"
            raise ValueError(message)
        tasks[task.task_id] = task
    return list(tasks.values())


def _new(kind: Kind, random: Random, known: Mapping[str, Task]) -> Task | None:
    """A task that is not known yet, or None after many tries."""
    make = _arithmetic if kind == "arithmetic" else _two_hop
    for _ in range(_TRIES):
        template, goal, answer = make(random)
        task_id = f"calculator/{kind}/{digest(goal)[:12]}"
        if task_id not in known:
            metadata = {"kind": kind, "template": template}
            text = format_number(answer)
            return Task(task_id=task_id, goal=goal, answer=text, metadata=metadata)
    return None


def _arithmetic(random: Random) -> tuple[str, str, Fraction]:
    problem = random.choice(_PROBLEMS)
    while True:
        numbers = {name: random.choice(values) for name, values in problem.numbers.items()}
        answer = Fraction(problem.solve(**numbers))
        if answer.denominator == 1 and answer > 0:
            name = random.choice(_NAMES)
            return problem.name, problem.text.format(name=name, **numbers), answer


def _two_hop(random: Random) -> tuple[str, str, Fraction]:
    return random.choice(_QUESTIONS)(random)


def _linked(link: str) -> Iterator[tuple[Document, Document]]:
    """Documents with such a link, each with what it points at."""
    by_title = {d.title: d for d in documents()}
    return ((d, by_title[d.links[link]]) for d in documents() if link in d.links)


def _pair(random: Random, fact: str) -> tuple[Document, Document]:
    """Two documents with such a fact, the larger number first."""
    found = random.sample([d for d in documents() if fact in d.facts], 2)
    first, second = sorted(found, key=lambda d: -d.facts[fact])
    return first, second


def _element(random: Random) -> tuple[str, str, Fraction]:
    person, element = random.choice(list(_linked("element")))
    times = random.randrange(3, 13)
    goal = f"What is {times} times the atomic number of the element that {person.title} discovered?"
    return "element", goal, Fraction(times * element.facts["atomic_number"])


def _building_age(random: Random) -> tuple[str, str, Fraction]:
    person, building = random.choice(list(_linked("building")))
    goal = (
        f"How many years after the birth of {person.title} was the building completed that "
        f"{person.title} is known for?"
    )
    return "building-age", goal, Fraction(building.facts["completed"] - person.facts["born"])


def _climber_age(random: Random) -> tuple[str, str, Fraction]:
    person, mountain = random.choice(list(_linked("mountain")))
    goal = (
        f"How many years after the birth of {person.title} was the mountain first climbed that "
        f"{person.title} is known for?"
    )
    return "climber-age", goal, Fraction(mountain.facts["climbed"] - person.facts["born"])


def _taller(random: Random) -> tuple[str, str, Fraction]:
    first, second = _pair(random, "completed")
    high, low = sorted((first, second), key=lambda d: -d.facts["height_m"])
    goal = f"How many metres higher is {high.title} than {low.title}?"
    return "taller", goal, Fraction(high.facts["height_m"] - low.facts["height_m"])


def _taller_in_feet(random: Random) -> tuple[str, str, Fraction]:
    high, low = _pair(random, "climbed")
    high, low = sorted((high, low), key=lambda d: -d.facts["height_m"])
    goal = (
        f"A metre is 3.28 feet. How many feet higher is the summit of {high.title} than the "
        f"summit of {low.title}?"
    )
    return "feet", goal, (high.facts["height_m"] - low.facts["height_m"]) * Fraction(328, 100)


def _mean_height(random: Random) -> tuple[str, str, Fraction]:
    first, second = _pair(random, "climbed")
    goal = f"What is the average height of {first.title} and {second.title} in metres?"
    return "mean-height", goal, Fraction(first.facts["height_m"] + second.facts["height_m"], 2)


def _orbits(random: Random) -> tuple[str, str, Fraction]:
    slow, quick = _pair(random, "orbit_days")
    times = random.randrange(2, 10)
    goal = (
        f"How many days longer do {times} orbits of {slow.title} around the Sun take than {times} "
        f"orbits of {quick.title}?"
    )
    return "orbits", goal, Fraction(times * (slow.facts["orbit_days"] - quick.facts["orbit_days"]))


_QUESTIONS = (
    _element,
    _building_age,
    _climber_age,
    _taller,
    _taller_in_feet,
    _mean_height,
    _orbits,
)
