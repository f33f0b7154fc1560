"""The judge at work: a bounded number of requests, verdicts written as they come."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trajstore.errors import EndpointError, JudgeError
from trajstore.pipeline.chat_endpoint import ChatEndpoint, HopelessEndpointError
from trajstore.pipeline.judge_report import JudgeOptions, JudgeReport, Unjudged
from trajstore.pipeline.rubrics import Rubric
from trajstore.pipeline.transcripts import Transcript, quote_run
from trajstore.pipeline.verdicts import Verdict, read_verdict
from trajstore.schema import OUTCOME, Label, Trajectory, json_text
from trajstore.store import Store

JUDGE_LABEL = "judge"
"""Name of the label with the total; the criteria are ``judge/CRITERION``."""

DIGEST = 16
"""Characters of a run's content hash that a label keeps, to tell a run that has grown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What became of one run."""

    run_id: str
    digest: str
    transcript: Transcript
    verdict: Verdict | None = None
    fault: Exception | None = None
    model: str = ""
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Bench:
    """The judge at work: a bounded number of requests, verdicts written as they come."""

    def __init__(
        self,
        store: Store,
        rubric: Rubric,
        endpoint: ChatEndpoint,
        options: JudgeOptions,
        report: JudgeReport,
    ) -> None:
        self._store = store
        self._rubric = rubric
        self._endpoint = endpoint
        self._options = options
        self._report = report
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(options.concurrency, "judge")
        self._asked: set[Future[Judged]] = set()
        self._waiting: list[Label] = []
        self._verdicts = 0
        self._failed_in_a_row = 0

    def judged(self, runs: Iterator[Trajectory]) -> Iterator[Judged]:
        """Judge runs as they come; only as many as are asked about at once are in memory."""
        for run in runs:
            quoted = quote_run(run, budget=self._options.budget, cut=self._options.cut)
            digest = (run.source_digest or "")[:DIGEST]
            self._asked.add(self._pool.submit(self._ask, run.trajectory_id, digest, quoted))
            if len(self._asked) >= self._options.concurrency:
                yield from self._some()
        while self._asked:
            yield from self._some()

    def _some(self) -> Iterator[Judged]:
        for future in wait(self._asked, return_when=FIRST_COMPLETED).done:
            self._asked.discard(future)
            yield future.result()

    def _ask(self, run_id: str, digest: str, transcript: Transcript) -> Judged:
        """Put one run to the judge until its answer can be read."""
        requests = prompt = completion = 0
        extra: list[dict[str, str]] = []
        verdict: Verdict | None = None
        fault: Exception | None = None
        model = self._endpoint.model
        for _ in range(self._options.asks):
            messages = self._rubric.messages(transcript.text, *extra)
            try:
                answer = self._endpoint.complete(messages, stop=self._stop)
                requests += answer.tries
                prompt += answer.prompt_tokens
                completion += answer.completion_tokens
                model = answer.model
                verdict, fault = read_verdict(answer.text, self._rubric), None
                break
            except JudgeError as error:
                fault = error
                extra = _corrected(answer.text, error)
            except EndpointError as error:
                fault = error
                break
        return Judged(
            run_id=run_id,
            digest=digest,
            transcript=transcript,
            verdict=verdict,
            fault=fault,
            model=model,
            requests=requests,
            prompt_tokens=prompt,
            completion_tokens=completion,
        )

    def take(self, judged: Judged) -> None:
        """Count one run and keep its labels.

        Raises:
            EndpointError: it makes no sense to go on.
        """
        self._report.requests += judged.requests
        self._report.prompt_tokens += judged.prompt_tokens
        self._report.completion_tokens += judged.completion_tokens
        if judged.verdict is not None:
            self._failed_in_a_row = 0
            self._keep(judged, judged.verdict)
            if self._verdicts >= self._options.write_every:
                self._write()
            return
        self._failed_in_a_row += 1
        unjudged = Unjudged(trajectory_id=judged.run_id, reason=str(judged.fault))
        self._report.unjudged.append(unjudged)
        if isinstance(judged.fault, HopelessEndpointError):
            raise self._stopped(judged.fault) from judged.fault
        if self._failed_in_a_row >= self._options.give_up_after:
            raise self._stopped(
                f"{self._failed_in_a_row} runs in a row could not be judged, the last one "
                f"because: {judged.fault}"
            ) from judged.fault

    def _keep(self, judged: Judged, verdict: Verdict) -> None:
        self._report.judged += 1
        self._waiting.extend(self._labels(judged, verdict))
        self._verdicts += 1

    def _stopped(self, reason: object) -> EndpointError:
        return EndpointError(
            f"{reason}. What was judged before is stored; put it right and judge again to go on "
            "from there."
        )

    def _labels(self, judged: Judged, verdict: Verdict) -> Iterator[Label]:
        total = self._rubric.total(verdict.scores)
        pass_at = self._rubric.pass_at
        shown = judged.transcript
        told = {
            "rubric": self._rubric.label,
            "model": judged.model,
            "scores": verdict.scores,
            "why": verdict.why,
            "content": judged.digest,
            "cut": f"{self._options.cut}:{self._options.budget}" if shown.is_cut else None,
            "characters": shown.characters,
            "of_characters": shown.whole,
        }
        now = datetime.now(UTC)
        common: dict[str, Any] = {
            "trajectory_id": judged.run_id,
            "evaluator": self._report.evaluator,
            "evaluator_version": self._report.evaluator_version,
        }
        yield Label(
            **common,
            name=OUTCOME if self._options.as_outcome else JUDGE_LABEL,
            value=total,
            success=None if pass_at is None else total >= pass_at,
            rationale=json_text({k: v for k, v in told.items() if v is not None}),
            created_at=now,
        )
        brief = {k: told[k] for k in ("rubric", "model", "content")}
        for name, score in verdict.scores.items():
            yield Label(
                **common,
                name=f"{JUDGE_LABEL}/{name}",
                value=score,
                rationale=json_text(brief),
                created_at=now,
            )

    def _write(self) -> None:
        if self._waiting:
            self._report.labels += self._store.label(self._waiting).labels
        self._waiting = []
        self._verdicts = 0

    def close(self) -> None:
        """Ask nothing more, wait for requests that are out, and keep every verdict."""
        self._stop.set()
        try:
            self._write()
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
        for future in self._asked:
            late = None if future.cancelled() or future.exception() else future.result()
            if late is not None and late.verdict is not None:
                self._keep(late, late.verdict)
        self._write()


def _corrected(answer: str, error: JudgeError) -> list[dict[str, str]]:
    told = f"{error} Answer again, with one JSON object in the shape asked for and nothing else."
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": told}]
