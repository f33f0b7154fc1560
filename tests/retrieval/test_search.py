"""What a search finds, leaves out, and says of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.retrieval.conftest import GOALS, Fill, run
from trajstore import Label, Pool
from trajstore.errors import QueryError, RetrievalError
from trajstore.retrieval import Hits, Mode, Weights

MODES: list[Mode] = ["text", "vector", "hybrid"]
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def ids(hits: Hits) -> list[str]:
    return [hit.item_id for hit in hits]


@pytest.mark.parametrize("mode", MODES)
def test_the_run_that_fits_comes_first(small: Pool, mode: Mode) -> None:
    asked = {name: " ".join(goal.split()[:4]) for name, goal in GOALS.items()}
    found = {name: small.search(words, mode=mode)[0].item_id for name, words in asked.items()}
    assert found == {name: name for name in GOALS}


def test_hybrid_is_the_default_where_there_are_vectors(small: Pool) -> None:
    assert small.search("flight").mode == "hybrid"


def test_words_alone_where_there_are_none(fill: Fill) -> None:
    store = fill(run("a", "fix a test"), embedder="none")
    hits = store.search("test")
    assert (hits.mode, ids(hits)) == ("text", ["a"])
    with pytest.raises(RetrievalError, match="has no vectors, so mode='vector' cannot be"):
        store.search("test", mode="vector")


def test_every_part_of_the_score_comes_back(small: Pool) -> None:
    hit = small.search("cancel the flight", k=1)[0]
    weights = Weights()
    parts = {n: hit.parts[n] for n in ("similarity", "success", "recency", "efficiency", "utility")}
    assert hit.score == pytest.approx(sum(getattr(weights, n) * v for n, v in parts.items()))
    assert hit.ranks == {"vector": 1, "text": 1}
    assert 0 < hit.parts["cosine"] <= 1
    assert hit.parts["bm25"] > 0


def test_text_mode_finds_only_what_shares_a_word(small: Pool) -> None:
    hits = small.search("quiet", mode="text")
    assert ids(hits) == ["hotels"]
    assert hits.cuts == {"no_match": 4}
    assert "4 share no word with the query" in hits.explain()


@pytest.mark.parametrize("mode", MODES)
def test_no_query_is_syntax(small: Pool, mode: Mode) -> None:
    for text in ("", "   ", "?!", '"unclosed AND (', "a:b^2 -x", "'; DROP", "\x00"):
        found = len(small.search(text, mode=mode))
        assert found in ({0, 1, 2} if mode == "text" else {5})


LANGUAGES = {
    "zh": ("把文件移到垃圾箱里", "垃圾"),
    "ja": ("東京の天気を調べてください", "天気"),
    "de": ("Öffne die Straße für Fußgänger", "strasse"),
    "fr": ("commander un café crème", "cafe"),
    "ar": ("ابحث عن الطقس في القاهرة", "طقس"),
    "th": ("ค้นหาสภาพอากาศ", "อากาศ"),
    "emoji": ("launch the 🚀 on time", "🚀"),
}


def test_words_of_many_languages_are_found(fill: Fill) -> None:
    store = fill(*(run(name, goal) for name, (goal, _) in LANGUAGES.items()))
    found = {n: ids(store.search(words, mode="text")) for n, (_, words) in LANGUAGES.items()}
    assert found == {name: [name] for name in LANGUAGES}


def test_the_task_that_asks_is_left_out_with_its_near_duplicates(fill: Fill) -> None:
    long = (
        "please cancel the flight of order {} and refund the whole ticket to my credit card today"
    )
    store = fill(
        run("own", long.format(1), task_id="t1"),
        run("again", "another wording of it", task_id="t1"),
        run("case", long.format(1).upper(), task_id="t2"),
        run("near", long.format(1) + " thanks", task_id="t3"),
        run("other", "cancel the hotel", task_id="t4"),
    )
    hits = store.search(long.format(1), task_id="t1")
    assert ids(hits) == ["other"]
    assert hits.cuts == {"same_task": 2, "near_duplicate_task": 2}
    assert set(ids(store.search(long.format(1), task_id="t1", allow_same_task=True))) >= {"own"}
    assert len(store.search(long.format(1))) == 5


@pytest.mark.parametrize("embedder", ["hashing", "none"])
def test_a_task_that_is_not_in_the_store_is_known_by_its_text(fill: Fill, embedder: str) -> None:
    goal = "repair the date parser so that leap years of the gregorian calendar pass"
    store = fill(run("twin", goal), run("b", "repair a bicycle"), embedder=embedder)
    assert ids(store.search(goal, task_id="new/task")) == ["b"]


def test_filters_come_before_the_first_k(fill: Fill) -> None:
    runs = [run(f"r{n:03}", f"fix test {n}", success=n % 50 == 0) for n in range(300)]
    store = fill(*runs)
    for mode in MODES:
        hits = store.search("fix test", k=10, success_only=True, mode=mode)
        assert len(hits) == 6
        assert hits.cuts == {"outcome": 294}
        assert "there are no more that fit" in hits.explain()


def test_a_condition_is_sql_over_the_view(small: Pool) -> None:
    found = small.search("flight", where="environment IN ('wood', 'tests') OR n_steps > 100")
    assert set(ids(found)) == {"wood", "tests"}
    assert found.cuts == {"where": 3}


@pytest.mark.parametrize("where", ["nonsense = 1", "1; DROP TABLE x", "getenv('A') = ''"])
def test_a_condition_that_may_not_be_is_refused(small: Pool, where: str) -> None:
    with pytest.raises(QueryError):
        small.search("flight", where=where)


def test_environment_and_version_are_exact(fill: Fill) -> None:
    store = fill(
        run("a", "x one", environment="shop", environment_version="1"),
        run("b", "x two", environment="shop", environment_version="2"),
        run("c", "x three", environment="shop"),
        run("d", "x four"),
    )
    assert set(ids(store.search("x", environment="shop"))) == {"a", "b", "c"}
    assert ids(store.search("x", environment="shop", environment_version="2")) == ["b"]
    assert ids(store.search("x", environment="SHOP")) == []


def test_what_has_expired_is_not_served(fill: Fill) -> None:
    store = fill(
        run("now", "x", expires_at=NOW),
        run("past", "x", expires_at=NOW - timedelta(seconds=1)),
        run("never", "x"),
    )
    hits = store.search("x", now=NOW)
    assert set(ids(hits)) == {"now", "never"}
    assert hits.cuts == {"expired": 1}


def test_age_equal_to_the_bound_is_still_active(fill: Fill) -> None:
    """The worked case: a ttl of 7 days is 604,800 s; 604,801 s is too old."""
    store = fill(
        run("in", "x", ended_at=NOW - timedelta(seconds=604_800)),
        run("out", "x", ended_at=NOW - timedelta(seconds=604_801)),
    )
    assert ids(store.search("x", max_age=timedelta(days=7), now=NOW)) == ["in"]


def test_the_newest_of_equals_comes_first(fill: Fill) -> None:
    old, new = NOW - timedelta(days=30), NOW - timedelta(days=1)
    store = fill(run("a", "x", ended_at=old), run("b", "x", ended_at=new))
    assert ids(store.search("x", now=NOW)) == ["b", "a"]


def test_outcomes_are_those_of_the_labels_now(small: Pool) -> None:
    assert "flights" in ids(small.search("flight", success_only=True))
    label = Label(trajectory_id="flights", name="outcome", success=False, evaluator="late")
    small.label([label])
    assert "flights" not in ids(small.search("flight", success_only=True))
    assert {h.item_id: h.success for h in small.search("flight")}["flights"] is False


def test_min_score_is_inclusive_on_the_scale_that_is_returned(small: Pool) -> None:
    now = datetime.now(UTC)
    for mode in MODES:
        hits = small.search("cancel the flight now", mode=mode, now=now)
        for hit in hits:
            kept = small.search("cancel the flight now", mode=mode, min_score=hit.score, now=now)
            assert ids(kept) == [h.item_id for h in hits if h.score >= hit.score]


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_what_does_not_answer_the_query_is_cut_by_its_cosine(small: Pool, mode: Mode) -> None:
    """Unrelated words: the best places in both lists, and still nothing that answers."""
    unrelated = "photosynthesis of algae"
    assert small.search(unrelated, mode=mode)[0].parts["cosine"] < 0.2
    none = small.search(unrelated, mode=mode, min_similarity=0.3)
    assert (len(none), none.cuts) == (0, {"min_similarity": 5})
    assert "5 are less like the query than min_similarity" in none.explain()
    assert ids(small.search(GOALS["wood"], mode=mode, min_similarity=0.9)) == ["wood"]


def test_min_similarity_is_inclusive_and_also_of_what_only_words_found(fill: Fill) -> None:
    """The list of vectors ends before the run that words find; its cosine counts all the same."""
    long = "zebra " + " ".join(f"word{n}" for n in range(30))
    store = fill(*(run(f"r{n:04}", "alpha beta") for n in range(1100)), run("zebra", long))
    last = store.search("alpha beta zebra", mode="vector", k=1101)[-1]
    assert last.item_id == "zebra"
    cosine = last.parts["cosine"]
    kept = store.search("alpha beta zebra", k=2, min_similarity=cosine)
    assert kept.cuts == {"k": 1099}
    cut = store.search("alpha beta zebra", k=2, min_similarity=cosine + 1e-4)
    assert cut.cuts == {"min_similarity": 1, "k": 1098}
    none = store.search("alpha beta zebra", k=2, min_similarity=1.0)
    assert (len(none), none.cuts) == (0, {"min_similarity": 1101})


def test_each_bound_says_what_it_cut(small: Pool) -> None:
    assert small.search("flight", k=2).cuts == {"k": 3}
    assert small.search("flight", min_score=99).cuts == {"min_score": 5}
    hits = small.search("flight", k=3, token_budget=25)
    assert hits.cuts == {"k": 2, "token_budget": 3 - len(hits)}
    assert sum(h.n_tokens for h in hits) <= 25
    assert "did not fit into the token budget" in hits.explain()


def test_tokens_are_bytes_by_four_rounded_up(fill: Fill) -> None:
    store = fill(run("a", "abcde"), run("b", "字字字"))
    tokens = {h.item_id: h.n_tokens for h in store.search("x")}
    assert tokens == {"a": 2, "b": 3}


def test_mmr_prefers_what_differs(fill: Fill) -> None:
    same = [run(f"same{n}", "fix the failing test of the parser") for n in range(4)]
    store = fill(*same, run("unlike", "fix the parser by a rewrite of its grammar"))
    assert "unlike" not in ids(store.search("fix the failing test of the parser", k=2))
    assert ids(store.search("fix the failing test of the parser", k=2, mmr=0.5)) == [
        "same0",
        "unlike",
    ]


def test_equal_runs_come_in_order_of_their_ids(fill: Fill) -> None:
    at = NOW - timedelta(days=1)
    store = fill(*(run(n, "the same goal", ended_at=at) for n in "dbca"))
    for mode in MODES:
        assert ids(store.search("the same goal", mode=mode, now=NOW)) == list("abcd")


def test_the_cheapest_success_comes_before_dearer_ones(fill: Fill) -> None:
    """Costs in tool calls: 3, 1 and, of a failure, 1; efficiency 1/3, 1 and 0."""
    at = NOW - timedelta(days=1)
    runs = [
        run(n, "goal", task_id="t", ended_at=at, success=n != "fail") for n in ("a", "b", "fail")
    ]
    dear = replace(runs[0], steps=(*runs[0].steps, *runs[0].steps[1:2] * 2))
    hits = fill(dear, *runs[1:]).search("goal", now=NOW)
    found = [(h.item_id, round(h.parts["efficiency"], 6)) for h in hits]
    assert found == [("b", 1.0), ("a", 0.333333), ("fail", 0.0)]


WRONG = {
    "k": ({"k": 0}, "k is 1 or more"),
    "level": ({"level": "tools"}, "no level 'tools'. Levels: trajectory, step"),
    "mode": ({"mode": "fuzzy"}, "no mode 'fuzzy'"),
    "mmr": ({"mmr": 2.0}, "mmr is from 0 to 1"),
    "min_score": ({"min_score": float("nan")}, "min_score is a number"),
    "budget": ({"token_budget": -1}, "token_budget is 0 or more"),
    "min_similarity": ({"min_similarity": 1.5}, "min_similarity is from -1 to 1, not 1.5"),
    "min_similarity nan": ({"min_similarity": float("nan")}, "min_similarity is from -1 to 1"),
    "no vectors": ({"min_similarity": 0.5, "mode": "text"}, "min_similarity compares vectors"),
    "bytes": ({"environment": b"a"}, "environment is a text, not bytes: b'a'"),
    "half a character": ({"task_id": "caf\udcff"}, "task_id is not valid text: .* place 3"),
    "tools": ({"tools": ["a"]}, "tools and state are of steps"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arguments_that_make_no_sense_are_refused(small: Pool, name: str) -> None:
    asked, message = WRONG[name]
    with pytest.raises(RetrievalError, match=message):
        small.search("x", **asked)


@pytest.mark.parametrize("text", [7, None, b"flight", ["flight"], "caf\udcff"])
def test_a_query_that_is_no_text_is_refused(small: Pool, text: str) -> None:
    with pytest.raises(RetrievalError, match=r"^text is (a text, not|not valid text)"):
        small.search(text)


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("mode", MODES)
def test_tiny_stores_are_searched(fill: Fill, count: int, mode: Mode) -> None:
    store = fill(*(run(f"r{n}", "one goal") for n in range(count)))
    assert ids(store.search("goal", mode=mode)) == [f"r{n}" for n in range(count)]


def test_an_older_snapshot_is_searched_as_it_was(small: Pool) -> None:
    before = small.snapshot()
    small.append(run("late", "cancel the flight at once"))
    small.index()
    assert "late" in ids(small.search("flight"))
    assert "late" not in ids(small.search("flight", at=before))
