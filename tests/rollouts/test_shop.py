"""The web shop: pages, purchases and what they are worth."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from trajstore.rollouts import Action, Task, Transition, run_rollouts
from trajstore.rollouts.environments.shop_catalogue import KINDS, Product, catalogue
from trajstore.rollouts.environments.shop_tasks import Wish, shop_tasks, worth
from trajstore.rollouts.environments.web_shop import WebShopEnvironment
from trajstore.rollouts.policies.scripted_shop import SHOP_PROFILES, ScriptedShopper
from trajstore.schema import ToolCall

WISH = Wish(
    catalogue_seed=0,
    product_id="P1",
    kind="running shoes",
    category="shoes",
    attributes=("waterproof", "recycled"),
    options={"color": "red", "size": "9"},
    price_upper=100.0,
)
SHOES = Product(
    product_id="P1",
    title="Alder waterproof running shoes 1",
    kind="running shoes",
    category="shoes",
    attributes=("waterproof", "recycled", "insulated"),
    options={"color": ("red", "navy"), "size": ("9", "10")},
    price=99.99,
)
CHOSEN = {"color": "red", "size": "9"}


def other(**changed: Any) -> Product:
    fields = {name: getattr(SHOES, name) for name in SHOES.__slots__}
    return Product(**{**fields, **changed})


# --- worth -----------------------------------------------------------------------------------


def test_everything_right_is_worth_one() -> None:
    assert worth(WISH, SHOES, CHOSEN).reward == 1.0


@pytest.mark.parametrize(
    ("product", "chosen", "reward"),
    [
        (SHOES, {"color": "red"}, 4 / 5),
        (SHOES, {"color": "navy", "size": "10"}, 3 / 5),
        (SHOES, {}, 3 / 5),
        (other(price=100.0), CHOSEN, 1.0),
        (other(price=100.99), CHOSEN, 4 / 5),
        (other(attributes=("recycled",)), CHOSEN, 4 / 5),
        (other(attributes=(), price=200.0), {}, 0.0),
        (other(kind="running shirt", category="clothing"), CHOSEN, 1.0),  # half the name: over 0.2
        (other(kind="hiking boots"), CHOSEN, 0.0),  # no word in common, the same category or not
        (other(kind="office chair", category="furniture"), CHOSEN, 0.0),
    ],
)
def test_worth_is_the_formula_of_webshop(
    product: Product, chosen: dict[str, str], reward: float
) -> None:
    """(attributes + options + price that match) / (2 + 2 + 1), by hand, times the type."""
    assert worth(WISH, product, chosen).reward == pytest.approx(reward)


@pytest.mark.parametrize(
    ("words", "category", "factor"),
    [(5, "toys", 0.5), (5, "shoes", 1.0), (4, "toys", 1.0), (11, "shoes", 0.1)],
)
def test_the_type_counts_by_the_share_of_words(words: int, category: str, factor: float) -> None:
    """One word of so many is shared: 1/5 is not above 0.2, 1/4 is, 1/11 is below 0.1."""
    kind = " ".join(["shoes", *(f"w{n}" for n in range(words - 1))])
    wish = Wish.from_text(WISH.to_text().replace('"running shoes"', f'"{kind}"'))
    product = other(kind="shoes", category=category)
    assert worth(wish, product, CHOSEN).type_match == factor


# --- the catalogue and the wishes ------------------------------------------------------------


def test_the_catalogue_holds_hundreds_and_is_the_same_every_time() -> None:
    shop = catalogue(0)
    assert len(shop.products) == 320
    assert Counter(p.kind for p in shop.products) == {k.name: 20 for k in KINDS}
    assert catalogue.__wrapped__(0) == shop
    assert catalogue(1).products != shop.products


def test_search_puts_what_has_every_word_first() -> None:
    found = catalogue(0).search("Desk Lamp foldable compact")
    assert {"foldable", "compact"} <= set(found[0].attributes)
    assert found[0].kind == "desk lamp"
    assert catalogue(0).search("zeppelin") == []


def test_every_wish_is_fulfilled_by_its_product() -> None:
    for task in shop_tasks(300, seed=3):
        wish = Wish.from_text(str(task.answer))
        product = catalogue(wish.catalogue_seed).by_id[wish.product_id]
        assert worth(wish, product, wish.options).reward == 1.0


def test_wishes_are_seeded_distinct_and_do_not_name_the_product() -> None:
    tasks = shop_tasks(300, seed=3)
    assert tasks[:50] == shop_tasks(50, seed=3)
    assert tasks[:50] != shop_tasks(50, seed=4)
    assert len({t.task_id for t in tasks}) == 300
    assert not any("P0" in t.goal or "P0" in str(t.metadata) for t in tasks)


# --- pages -----------------------------------------------------------------------------------

TASK = Task(
    task_id="web-shop/1",
    goal="I am looking for a desk lamp.",
    answer=Wish(
        catalogue_seed=0,
        product_id=catalogue(0).search("desk lamp")[0].product_id,
        kind="desk lamp",
        category="electronics",
        attributes=catalogue(0).search("desk lamp")[0].attributes,
        options={"color": catalogue(0).search("desk lamp")[0].options["color"][0]},
        price_upper=500.0,
    ).to_text(),
)
FIRST = catalogue(0).search("desk lamp")[0]


def started() -> WebShopEnvironment:
    environment = WebShopEnvironment()
    environment.reset(TASK)
    return environment


def do(environment: WebShopEnvironment, *calls: tuple[str, dict[str, str]]) -> Transition:
    for name, given in calls:
        last = environment.step(Action(tool_calls=(ToolCall.of(name, given, "c"),)))
    return last


SEARCH = ("search", {"query": "desk lamp"})
OPEN = ("click", {"target": FIRST.product_id})


def text(transition: Transition) -> str:
    return str(transition.observation.results[0].text)


def test_results_come_in_pages() -> None:
    environment = started()
    first = do(environment, SEARCH)
    second = do(environment, ("click", {"target": "Next Page"}))
    assert text(first).startswith("Page 1 of")
    assert f"[{FIRST.product_id}] {FIRST.title}, ${FIRST.price:.2f}" in text(first)
    assert text(second).startswith("Page 2 of")
    assert text(do(environment, ("click", {"target": "previous page"}))) == text(first)


def test_the_description_says_what_the_title_does_not() -> None:
    environment = started()
    page = text(do(environment, SEARCH, OPEN))
    details = text(do(environment, ("click", {"target": "[description]"})))
    assert FIRST.attributes[2] not in page
    assert all(attribute in details for attribute in FIRST.attributes)


def test_buying_with_the_option_is_a_success_and_the_end() -> None:
    environment = started()
    color = ("click", {"target": f"color: {FIRST.options['color'][0]}"})
    last = do(environment, SEARCH, OPEN, color, ("buy", {}))
    assert (last.reward, last.terminated) == (1.0, True)
    assert environment.outcome().success is True
    again = do(environment, ("buy", {}))
    assert "the task has ended" in text(again)


def test_buying_without_the_option_is_worth_less_and_says_which_part() -> None:
    environment = started()
    last = do(environment, SEARCH, OPEN, ("buy", {}))
    assert last.reward == pytest.approx(4 / 5)
    assert environment.outcome().success is False
    assert environment.outcome().rewards["options"] == 0.0


def test_who_buys_nothing_gets_nothing() -> None:
    environment = started()
    do(environment, SEARCH, OPEN)
    assert (environment.outcome().success, environment.outcome().reward) == (False, 0.0)


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("buy", {}, "no product is open"),
        ("click", {"target": "P0001"}, "the page offers: nothing; search first"),
        ("click", {}, "'target' is missing"),
        ("pay", {}, "there is no tool 'pay'; the tools are search, click, buy"),
    ],
)
def test_a_bad_call_is_answered_and_the_page_stays(
    name: str, given: dict[str, str], reason: str
) -> None:
    environment = started()
    last = do(environment, (name, given))
    assert last.observation.results[0].is_error
    assert reason in text(last)
    assert last.observation.state is not None
    assert last.observation.state["page"] == "start"


def test_the_state_lists_what_can_be_done_and_all_of_it_can() -> None:
    environment = started()
    state = do(environment, SEARCH, OPEN).observation.state
    assert state is not None
    for action in state["actions"]:
        fresh = started()
        name, _, target = action.rstrip("]").partition("[")
        given = {"click": {"target": target}, "search": {"query": "lamp"}}.get(name, {})
        assert not do(fresh, SEARCH, OPEN, (name, given)).observation.results[0].is_error


def test_one_page_has_one_key_whatever_the_way_there() -> None:
    direct = do(started(), SEARCH, OPEN).observation
    back = ("click", {"target": "back"})
    detour = do(started(), ("search", {"query": "x"}), SEARCH, OPEN, back, OPEN).observation
    red = do(started(), SEARCH, OPEN, ("click", {"target": f"color: {FIRST.options['color'][0]}"}))
    assert direct.state_key == detour.state_key
    assert direct.state_key != red.observation.state_key


def test_the_key_reaches_the_steps_of_a_run() -> None:
    tasks = shop_tasks(1, seed=1)
    one, two = run_rollouts(WebShopEnvironment, ScriptedShopper(), tasks, attempts=2)
    keys = [[s.state_key for s in run.steps if s.actor == "agent"] for run in (one, two)]
    assert keys[0] == keys[1]
    assert None not in keys[0]


# --- the scripted customer -------------------------------------------------------------------


def test_the_oracle_always_gets_what_is_wanted() -> None:
    runs = list(run_rollouts(WebShopEnvironment, ScriptedShopper(), shop_tasks(150, seed=8)))
    assert [run.goal for run in runs if run.reward != 1.0] == []
    assert all(run.n_tool_errors == 0 for run in runs)


def test_profiles_succeed_as_often_as_they_are_careful() -> None:
    policies = [ScriptedShopper(name) for name in SHOP_PROFILES]
    runs = run_rollouts(WebShopEnvironment, policies, shop_tasks(150, seed=8))
    share = {k: v / 150 for k, v in Counter(r.policy_version for r in runs if r.success).items()}
    assert share["oracle"] == 1.0
    assert 0.7 < share["careful"] < 0.95
    assert 0.5 < share["hasty"] < 0.78
    assert 0.3 < share["careless"] < 0.55
