"""English endings and accents: the published examples, and LanceDB's index as another oracle."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.retrieval.conftest import GOALS, Fill, run
from trajstore.retrieval.stemming import plain_form, stem
from trajstore.retrieval.view import searcher

PUBLISHED = (
    "consign consign consigned consign consigning consign consignment consign consist consist "
    "consisted consist consistency consist consistently consist consolation consol consolatory "
    "consolatori consoled consol consolidate consolid consolingly consol conspicuous conspicu "
    "conspiracy conspiraci conspirator conspir constable constabl constancy constanc knack knack "
    "knackeries knackeri knaves knave knavish knavish kneaded knead kneeling kneel knightly "
    "knight knocked knock knolls knoll"
)
"""Words and stems of the sample vocabulary on the page of the Snowball English stemmer."""

HARD = (
    "skis skies dying lying ties tying idly gently ugly early only singly sky news howe atlas "
    "cosmos bias andes innings outing canning herring earrings proceed exceeds succeeded generate "
    "general generously communism commune arsenal arsenic youth boy boyish enjoy by say cry cries "
    "gas this gaps kiwis tied luxuriated hopping hopped falling hissing fizzed hoped filing bed "
    "shed bead embed rap trap entrap happily apology geologi knightly relational conditional "
    "rationalize electricity formative native adoption adjustment effective rate cease controll "
    "roll size tokens embeddings indexes queries yes saying fluently vexed being a is es s"
)


def test_published_examples() -> None:
    words = PUBLISHED.split()
    assert [stem(w) for w in words[::2]] == words[1::2]


def test_the_index_of_lancedb_takes_the_same_words_as_one(tmp_path: Path) -> None:
    """Each word finds in LanceDB's index those, and only those, that have its plain form here."""
    lancedb = pytest.importorskip("lancedb")
    from lancedb.query import MatchQuery

    from trajstore.retrieval.index_table import _full_text

    words = sorted(
        {
            *PUBLISHED.split(),
            *HARD.split(),
            "café",
            "cafes",
            "résumés",
            "łódź",
            "lodz",
            "øre",
            "ore",
        }
    )
    table = lancedb.connect(str(tmp_path)).create_table("t", pa.table({"words": words}))
    table.create_index("words", config=_full_text(lancedb.index))
    for word in words:
        asked = table.search(MatchQuery(word, "words"), query_type="fts").select(
            ["words", "_score"]
        )
        found = asked.limit(len(words)).to_arrow().column("words").to_pylist()
        assert sorted(found) == [w for w in words if plain_form(w) == plain_form(word)]


def test_scores_in_memory_are_those_of_the_index(fill: Fill) -> None:
    """Also where several rows have one text, which are counted as often as they are there."""
    runs = [run(n, g) for n, g in GOALS.items()]
    twice = [run(f"{n}-2", g, task_id=n) for n, g in list(GOALS.items())[:2]]
    store = fill(*runs, *twice, levels=["trajectory"])
    rows = searcher(store).view(store.reader(), "trajectory", need_index=True).rows
    assert rows.index is not None
    assert rows.word_scan is not None
    for words in (["cancel"], ["the", "station"], ["failing", "tests", "nothing"]):
        asked = rows.index.by_words(words, 99)
        at = rows.places(asked.column("_rowid").to_numpy().astype("int64"))
        expected = dict(zip(at.tolist(), asked.column("_score").to_pylist(), strict=True))
        scores = rows.word_scan.scores(words)[rows.text_of]
        found = {i: s for i, s in enumerate(scores.tolist()) if s > 0}
        assert found == pytest.approx(expected, abs=1e-5)
