"""The audit as one more benchmark of evalscope, `token_law`: do answers of a chat endpoint follow the law that it reports for them?

`python -m ot_draft.integrations.evalscope eval --model NAME --api-url URL --api-key KEY --datasets token_law` is evalscope's own command
with this benchmark in it (evalscope looks for no plugins); or import this module before `evalscope.run_task`. Written against evalscope
1.14.1, and run with it.

evalscope asks, and keeps the answers with their log-probabilities; `ot_draft.verify.server` judges them
once all are there. Requests are sent by the model's own API object with a configuration of this module alone:
what the task says of temperature, seeds or stops would shape the
law, and evalscope's retries (and those inside the client of `openai`) would hide answers that were drawn and lost. Both stay visible here.
"""

# ruff: noqa: E402  without evalscope the advice comes first
from __future__ import annotations

from ..optional import require

require("evalscope", extra="evalscope")

import time
from math import log
from typing import Any

from evalscope.api.benchmark import BenchmarkMeta, DefaultDataAdapter
from evalscope.api.dataset import DatasetDict, DictDataLoader, Sample
from evalscope.api.metric import AggScore, SampleScore, Score
from evalscope.api.model import GenerateConfig, ModelOutput
from evalscope.api.registry import register_benchmark
from evalscope.utils.logger import get_logger
from openai import APIConnectionError, APITimeoutError

from ..verify.outcome import Status
from ..verify.server import Audit, CannotAudit
from ..verify.server.client import BUSY, DIALECTS, REFUSED_AT_ONCE
from ..verify.server.recorded import RecordedAnswer, audit_recorded, plan_of, sentence
from ..verify.server.server import PROMPTS, RequestPlan

NAME, SUBSET, METRIC = "token_law", "default", "log10_e_value"
REQUESTS, LENGTH, LISTED = 2_000, 24, 20
LOG_10 = log(10)
CUT = "max_tokens"  # evalscope's word for an answer that is as long as was asked for
STANDARD = ("temperature", "top_p", "presence_penalty", "frequency_penalty")  # OpenAI's: others go into the body
AGAIN = "reviews of an earlier run hold no answers: add --rerun-review to --use-cache"
DESCRIPTION = """
## Overview

Emitted tokens against the laws that the endpoint reports for them (log-probabilities), by bets that are fair if the laws are true.

## Task Description

- **Metric**: `log10_e_value`, powers of ten of the largest e-value: 6 or more is *biased*. A right endpoint reaches 6 once in a million.
- **No score**: *cannot be decided*; the log says why. Failed or refused requests are never a verdict.
- What was tried and what bias would have been seen stands in the report's analysis.
"""


def spec(kind: str, description: str, value: Any, **more: Any) -> dict[str, Any]:
    """A parameter as evalscope describes it."""
    return {"type": kind, "description": description, "value": value, **more}


@register_benchmark(
    BenchmarkMeta(
        name=NAME,
        pretty_name="Law of the token",
        description=DESCRIPTION,
        dataset_id=NAME,
        metric_list=[METRIC],
        subset_list=[SUBSET],
        few_shot_num=0,
        few_shot_mode="disabled",
        eval_split="test",
        prompt_template="{question}",
        extra_params={
            "requests": spec("int", "How many; --limit takes fewer of them.", REQUESTS),
            "prompts": spec("list", "Texts to ask, in turn; empty: the audit's own sixteen.", []),
            "length": spec("int", "Tokens of an answer, at most.", LENGTH),
            "listed": spec("int", "Likeliest tokens to ask for at every place.", LISTED),
            "engine": spec("str", "Whose fields to send beside OpenAI's.", "openai", choices=list(DIALECTS)),
            "ignore_eos": spec("bool", "Ask the server to go on after the end of text.", False),
        },
    )
)
class TokenLaw(DefaultDataAdapter):
    """The benchmark: its samples are the requests of a plan of the audit, in its order."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.add_overall_metric = False
        self._asked = self._benchmark_meta.get_extra_params()
        self._answers: dict[int, RecordedAnswer] = {}
        self._said = ""

    def load(self) -> tuple[DatasetDict, None]:
        """The requests: from the plan, not from a hub."""
        plan = self.plan(int(self._asked["requests"]))
        ((together, _),) = plan.shapes
        rows = [{"input": plan.prompt(i, i // together)} for i in range(plan.requests)]
        found = DictDataLoader(rows, limit=self.limit, repeats=1, sample_fields=self.record_to_sample).load()
        self._answers.clear()
        return DatasetDict({SUBSET: found}), None

    def plan(self, requests: int) -> RequestPlan:
        """The plan of the audit's; CannotAudit where it asks for nothing."""
        together = self._task_config.eval_batch_size
        return plan_of(requests, together, self._asked["length"], self._asked["prompts"] or PROMPTS)

    def record_to_sample(self, record: dict[str, Any]) -> Sample:
        """A request."""
        return Sample(input=record["input"], target="")

    def request(self, given: GenerateConfig) -> GenerateConfig:
        """What is asked of every answer. given: the task's, of which the transport and fields of the server's own are taken."""
        fields = DIALECTS[self._asked["engine"]].asked("")
        body = {name: value for name, value in fields.items() if name not in (*STANDARD, "model")}
        body |= {"ignore_eos": True} if self._asked["ignore_eos"] else {}
        return GenerateConfig(
            **{name: fields[name] for name in STANDARD},
            max_tokens=self._asked["length"],
            logprobs=True,
            top_logprobs=self._asked["listed"],
            stream=False,
            retries=1,
            timeout=given.timeout,
            extra_body=(given.extra_body or {}) | body,
            extra_headers=given.extra_headers,
            extra_query=given.extra_query,
        )

    def _on_inference(self, model: Any, sample: Sample) -> ModelOutput:
        """The answer, or an output that says why there is none. After a busy server or a broken connection it is asked for again, as often
        as the task's `retries` say, and what may have been drawn is counted as lost."""
        given, charged = model.config, 0
        if getattr(getattr(model.api, "client", None), "max_retries", 0):
            model.api.client = model.api.client.with_options(max_retries=0)
        for left in reversed(range(max(1, given.retries or 1))):
            try:
                output = model.api.generate(sample.input, [], "none", self.request(given))
            except Exception as error:  # whatever the client raises: no answer came, which is no reason to end the run
                status = getattr(error, "status_code", 0)
                broken = isinstance(error, APIConnectionError) and not isinstance(error, APITimeoutError)
                busy = broken or status in BUSY or status >= 500
                said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                output = ModelOutput.from_content(model.name, "", error=said)
                if not (busy and left):
                    break
                charged += 0 if status in REFUSED_AT_ONCE else self._asked["length"]
                time.sleep(given.retry_interval or 0)
                continue
            break
        output.metadata = {"charged": charged}
        return output

    def calculate_metrics(self, task_state: Any) -> SampleScore:
        """Keep the answer until all are there. The score of one alone says how many tokens it has."""
        output = task_state.output
        self._answers[task_state.sample_id] = answer = recorded(output)
        tokens = len(answer.found["choices"][0]["logprobs"]["content"]) if isinstance(answer.found, dict) else 0
        return SampleScore(score=Score(value={"tokens": tokens}), sample_id=task_state.sample_id)

    def aggregate_scores(self, sample_scores: list[SampleScore]) -> list[AggScore]:
        """One number for all answers; none where it cannot be decided."""
        count = len(self.test_dataset[SUBSET])
        plan = self.plan(count)
        none = RecordedAnswer("evalscope has no answer to it")
        answers = [self._answers.get(i, none) for i in range(count)]
        try:
            if len(self._answers) < len(sample_scores):
                raise CannotAudit(AGAIN)
            found = audit_recorded(answers, plan, self._asked["listed"], Audit())
        except CannotAudit as error:
            get_logger().warning(f"{NAME}: cannot be decided: {error}")
            return []
        self._said = sentence(found, plan)
        (get_logger().info if found.passed else get_logger().warning)(f"{NAME}: {self._said}")
        if found.status == Status.UNDECIDED:
            return []
        number = max(0.0, found.evidence.log_largest) / LOG_10
        return [AggScore(metric_name=METRIC, score=number, num=count, metadata={"report": found.record})]

    def _on_generate_report_end(self, report: Any, output_dir: str, **named: Any) -> None:
        report.analysis = self._said


def recorded(output: ModelOutput) -> RecordedAnswer:
    """The output of evalscope as an answer of the server's: its first choice, or why it has none."""
    charged = int((output.metadata or {}).get("charged", 0))
    if output.error or not output.choices:
        return RecordedAnswer(output.error or "no choice is in it", charged)
    choice = output.choices[0]
    if choice.logprobs is None and output.usage is None:  # the text of a refusal, as evalscope keeps it
        return RecordedAnswer(f"refused: {output.completion[:200]}", charged)
    logprobs = None if choice.logprobs is None else choice.logprobs.model_dump(exclude_none=True)
    finish = "length" if choice.stop_reason == CUT else choice.stop_reason
    found: dict[str, Any] = {"choices": [{"logprobs": logprobs, "finish_reason": finish}]}
    if output.usage is not None:
        found["usage"] = {"completion_tokens": output.usage.output_tokens}
    return RecordedAnswer(found, charged)


if __name__ == "__main__":
    from evalscope.cli.cli import run_cmd

    run_cmd()
