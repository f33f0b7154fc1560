"""A small web shop, in the manner of WebShop: search, click, buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from trajstore.rollouts.environment import (
    Action,
    Observed,
    Outcome,
    Task,
    Tool,
    Transition,
    function_tool,
)
from trajstore.rollouts.environments.shop_catalogue import Catalogue, Product, catalogue
from trajstore.rollouts.environments.shop_tasks import Wish, worth
from trajstore.rollouts.environments.tool_calls import (
    BadCallError,
    call_arguments,
    text_argument,
)
from trajstore.schema import Observation, ToolCall, canonical_json, digest

PAGE_SIZE = 10
"""Results on one page."""

_SYSTEM = (
    "Buy what the customer wants. Find products with search, use click to open a product, choose "
    "its options and turn pages, and buy what is open with buy. There is one purchase."
)
_REMARK = "No tool was called. Search, click, or buy."
_TOOLS: tuple[Tool, ...] = (
    function_tool(
        "search",
        "Search the shop. Shows the first page of results.",
        {"query": {"type": "string", "description": "Words to look for."}},
    ),
    function_tool(
        "click",
        "Click on something that the page offers.",
        {"target": {"type": "string", "description": "As it stands in square brackets."}},
    ),
    function_tool("buy", "Buy the open product with the chosen options. Ends the task.", {}),
)

Page = Literal["start", "results", "product", "description", "bought"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """Where the customer is."""

    page: Page = "start"
    query: str = ""
    found: tuple[str, ...] = ()
    number: int = 1
    product: Product | None = None
    chosen: dict[str, str] = field(default_factory=dict)


class WebShopEnvironment:
    """One customer in the shop; see :func:`shop_tasks` for the wishes.

    The reward is that of WebShop, given with the purchase; success is a reward of 1. Who buys
    nothing gets 0. The state of an observation says where the customer is and what can be done, and
    its key is the same wherever the same page was reached for the same wish, on whatever way.
    """

    name = "web-shop"
    version = "1"
    system_prompt = _SYSTEM

    def __init__(self) -> None:
        """Start without a task."""
        self._wish: Wish | None = None
        self._task_id = ""
        self._shop: Catalogue | None = None
        self._view = _View()

    @property
    def tools(self) -> Sequence[Tool]:
        """search, click and buy."""
        return _TOOLS

    def reset(self, task: Task) -> Observed:
        """Enter the shop.

        Raises:
            ValueError: the answer of the task is no wish.
        """
        self._wish = Wish.from_text(task.answer or "")
        self._task_id = task.task_id
        self._shop = catalogue(self._wish.catalogue_seed)
        self._view = _View()
        return self._observed(text=task.goal)

    def step(self, action: Action) -> Transition:
        """Carry out the calls in order; those after ``buy`` are refused."""
        if not action.tool_calls:
            return Transition(observation=self._observed(text=_REMARK))
        results = tuple(self._result(call) for call in action.tool_calls)
        bought = self._view.page == "bought"
        reward = self.outcome().reward if bought else 0.0
        return Transition(
            observation=self._observed(results=results), reward=reward or 0.0, terminated=bought
        )

    def outcome(self) -> Outcome:
        """What was bought, by its worth; the parts are the named rewards."""
        if self._wish is None:
            return Outcome()
        product = self._view.product
        if self._view.page != "bought" or product is None:
            return Outcome(success=False, reward=0.0, rewards={"bought": 0.0})
        value = worth(self._wish, product, self._view.chosen)
        return Outcome(
            success=value.reward == 1.0,
            reward=value.reward,
            rewards={
                "bought": 1.0,
                "type": value.type_match,
                "attributes": value.attribute_match,
                "options": value.option_match,
                "price": value.price_match,
            },
        )

    def close(self) -> None:
        """Nothing to let go of."""

    def _observed(
        self, *, text: str | None = None, results: tuple[Observation, ...] = ()
    ) -> Observed:
        state = self._state()
        key = digest("web-shop", self._task_id, canonical_json(state))[:32]
        return Observed(text=text, results=results, state=state, state_key=key)

    def _state(self) -> dict[str, Any]:
        view = self._view
        product = None if view.product is None else view.product.product_id
        return {
            "page": view.page,
            "query": view.query,
            "number": view.number,
            "product": product,
            "chosen": dict(sorted(view.chosen.items())),
            "actions": self._actions(),
        }

    def _actions(self) -> list[str]:
        """What can be done, as a tool and its argument."""
        if self._view.page == "bought":
            return []
        clicks = [f"click[{target}]" for target in self._targets()]
        buy = ["buy"] if self._view.page == "product" else []
        return ["search[...]", *clicks, *buy]

    def _targets(self) -> list[str]:
        view = self._view
        if view.page == "results":
            turns = ["previous page"] if view.number > 1 else []
            turns += ["next page"] if view.number * PAGE_SIZE < len(view.found) else []
            return [*self._shown(), *turns]
        if view.page == "product" and view.product is not None:
            options = [f"{n}: {v}" for n, values in view.product.options.items() for v in values]
            return [*options, "description", "back"]
        return ["back"] if view.page == "description" else []

    def _shown(self) -> tuple[str, ...]:
        start = (self._view.number - 1) * PAGE_SIZE
        return self._view.found[start : start + PAGE_SIZE]

    def _result(self, call: ToolCall) -> Observation:
        try:
            self._call(call)
        except BadCallError as error:
            return Observation(call_id=call.call_id, text=f"error: {error}", is_error=True)
        return Observation(call_id=call.call_id, text=self._page(), is_error=False)

    def _call(self, call: ToolCall) -> None:
        assert self._shop is not None
        if self._view.page == "bought":
            raise BadCallError("the task has ended: buy was called before")
        arguments = call_arguments(call, _TOOLS)
        if call.name == "search":
            query = text_argument(arguments, "query").strip()
            found = tuple(p.product_id for p in self._shop.search(query))
            self._view = _View(page="results", query=query, found=found)
        elif call.name == "click":
            self._click(text_argument(arguments, "target"))
        elif self._view.page != "product":
            raise BadCallError("no product is open; open one with click first")
        else:
            self._view = replace(self._view, page="bought")

    def _click(self, wanted: str) -> None:
        assert self._shop is not None
        view = self._view
        targets = {target.casefold(): target for target in self._targets()}
        target = targets.get(wanted.strip().strip("[]").casefold())
        if target is None:
            offered = ", ".join(targets.values()) or "nothing; search first"
            raise BadCallError(f"there is no '{wanted}' here; the page offers: {offered}")
        if target in ("next page", "previous page"):
            self._view = replace(view, number=view.number + (1 if target == "next page" else -1))
        elif target == "description":
            self._view = replace(view, page="description")
        elif target == "back":
            back: Page = "product" if view.page == "description" else "results"
            stays = back == "product"
            product, chosen = (view.product, view.chosen) if stays else (None, {})
            self._view = replace(view, page=back, product=product, chosen=chosen)
        elif view.page == "results":
            self._view = replace(view, page="product", product=self._shop.by_id[target])
        else:
            name, _, value = target.partition(": ")
            self._view = replace(view, chosen={**view.chosen, name: value})

    def _page(self) -> str:
        """The page as text; what can be clicked stands in square brackets."""
        view = self._view
        if view.page == "results":
            return self._results_page()
        assert view.product is not None
        product = view.product
        if view.page == "bought":
            return f"You bought {product.title} for ${product.price:.2f}. Thank you!"
        if view.page == "description":
            return f"{product.title}\n{product.description}\n[back]"
        lines = [f"{product.title}\nPrice: ${product.price:.2f}"]
        for name, values in product.options.items():
            chosen = view.chosen.get(name)
            offered = " ".join(f"[{name}: {v}]{'*' if v == chosen else ''}" for v in values)
            lines.append(f"{name}: {offered}")
        return "\n".join([*lines, "[description] [back]"])

    def _results_page(self) -> str:
        assert self._shop is not None
        view = self._view
        if not view.found:
            return f"Nothing was found for '{view.query}'."
        pages = -(-len(view.found) // PAGE_SIZE)
        lines = [f"Page {view.number} of {pages}, {len(view.found)} results for '{view.query}'"]
        for product_id in self._shown():
            product = self._shop.by_id[product_id]
            lines.append(f"[{product_id}] {product.title}, ${product.price:.2f}")
        turns = [f"[{t}]" for t in self._targets() if t.endswith(" page")]
        return "\n".join([*lines, *([" ".join(turns)] if turns else [])])
