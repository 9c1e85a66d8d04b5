"""The audit as a benchmark of evalscope, `token_law`: whether completions of a chat endpoint follow the reported distributions.

`python examples/evalscope_token_law.py eval --model NAME --api-url URL --api-key KEY --datasets token_law` is evalscope's command with
this benchmark (evalscope loads no plugins); or import this module before `evalscope.run_task`. Tested with evalscope 1.14.1.

evalscope sends the requests and keeps the responses with their log-probabilities; `ot_draft.verify.server` tests them afterwards. Requests
have the configuration of this module only: a temperature, seeds or stops of the task would change the distribution, and retries of
evalscope and of the client of `openai` would hide responses that were sampled and lost.
"""

from __future__ import annotations

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

from ot_draft.verify.outcome import Status
from ot_draft.verify.server import Audit, CannotAudit
from ot_draft.verify.server.client import DIALECTS, is_busy, may_have_sampled
from ot_draft.verify.server.recorded import RecordedAnswer, audit_recorded, plan_of, sentence
from ot_draft.verify.server.server import PROMPTS, RequestPlan

NAME, SUBSET, METRIC = "token_law", "default", "log10_e_value"
DESCRIPTION = """
## Overview

Emitted tokens are compared with the distributions that the endpoint reports for them (log-probabilities), by anytime-valid e-values.

## Task Description

- **Metric**: `log10_e_value`, the logarithm of the largest e-value: 6 or more is *biased*. A correct endpoint reaches 6 with probability
  at most 1e-6.
- **No score**: *cannot be decided*; the log has the reason. Failed or refused requests are never a verdict.
- The report's analysis states what was tried, and the bias that would have been detected.
"""


def spec(kind: str, description: str, value: Any, **more: Any) -> dict[str, Any]:
    """Return a parameter in evalscope's format."""
    return {"type": kind, "description": description, "value": value, **more}


@register_benchmark(
    BenchmarkMeta(
        name=NAME,
        pretty_name="Distribution of tokens",
        description=DESCRIPTION,
        dataset_id=NAME,
        metric_list=[METRIC],
        subset_list=[SUBSET],
        few_shot_num=0,
        few_shot_mode="disabled",
        eval_split="test",
        prompt_template="{question}",
        extra_params={
            "requests": spec("int", "Number of requests; --limit reduces it.", 2_000),
            "prompts": spec("list", "Prompts, used in rotation; empty: sixteen built-in ones.", []),
            "length": spec("int", "max_tokens of a request.", 24),
            "listed": spec("int", "Number of most probable tokens to request (top_logprobs).", 20),
            "engine": spec("str", "Engine whose request fields are sent.", "openai", choices=list(DIALECTS)),
            "ignore_eos": spec("bool", "Ask the server to continue after the end-of-sequence token.", False),
        },
    )
)
class TokenLaw(DefaultDataAdapter):
    """The benchmark: its samples are the requests of a `RequestPlan`, in its order."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.add_overall_metric = False
        self._asked = self._benchmark_meta.get_extra_params()
        self._answers: dict[int, RecordedAnswer] = {}
        self._analysis = ""

    def load(self) -> tuple[DatasetDict, None]:
        """Return the requests of the plan; nothing is downloaded."""
        plan = self.plan(int(self._asked["requests"]))
        ((together, _),) = plan.shapes
        rows = [{"input": plan.prompt(i, i // together)} for i in range(plan.requests)]
        found = DictDataLoader(rows, limit=self.limit, repeats=1, sample_fields=self.record_to_sample).load()
        self._answers.clear()
        return DatasetDict({SUBSET: found}), None

    def plan(self, requests: int) -> RequestPlan:
        """Return the plan of this number of requests. Raises CannotAudit if it has none."""
        together = self._task_config.eval_batch_size
        return plan_of(requests, together, self._asked["length"], self._asked["prompts"] or PROMPTS)

    def record_to_sample(self, record: dict[str, Any]) -> Sample:
        """Return a request."""
        return Sample(input=record["input"], target="")

    def request(self, given: GenerateConfig) -> GenerateConfig:
        """Return the configuration of every request. given: the task's; its timeout and additional fields are used."""
        fields = DIALECTS[self._asked["engine"]].request("")
        standard = ("temperature", "top_p", "presence_penalty", "frequency_penalty")  # of OpenAI
        body = {name: value for name, value in fields.items() if name not in (*standard, "model")}
        body |= {"ignore_eos": True} if self._asked["ignore_eos"] else {}
        return GenerateConfig(
            **{name: fields[name] for name in standard},
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
        """Return the response, or an output with the reason why there is none.

        After a busy server or a broken connection, the request is repeated up to the task's `retries`; tokens that may have been sampled
        are counted as lost.
        """
        given, charged = model.config, 0
        if getattr(getattr(model.api, "client", None), "max_retries", 0):
            model.api.client = model.api.client.with_options(max_retries=0)
        for left in reversed(range(max(1, given.retries or 1))):
            try:
                output = model.api.generate(sample.input, [], "none", self.request(given))
            except Exception as error:  # after any error of the client, the run continues without this response
                status = getattr(error, "status_code", 0)
                broken = isinstance(error, APIConnectionError) and not isinstance(error, APITimeoutError)
                busy = broken or is_busy(status)
                reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                output = ModelOutput.from_content(model.name, "", error=reason)
                if not (busy and left):
                    break
                charged += self._asked["length"] if may_have_sampled(status) else 0
                time.sleep(given.retry_interval or 0)
                continue
            break
        output.metadata = {"charged": charged}
        return output

    def calculate_metrics(self, task_state: Any) -> SampleScore:
        """Keep the response until all are there. Its own score is its number of tokens."""
        output = task_state.output
        self._answers[task_state.sample_id] = answer = recorded(output)
        tokens = len(answer.found["choices"][0]["logprobs"]["content"]) if isinstance(answer.found, dict) else 0
        return SampleScore(score=Score(value={"tokens": tokens}), sample_id=task_state.sample_id)

    def aggregate_scores(self, sample_scores: list[SampleScore]) -> list[AggScore]:
        """Return one number for all responses; none if it cannot be decided."""
        count = len(self.test_dataset[SUBSET])
        plan = self.plan(count)
        none = RecordedAnswer("evalscope has no answer to it")
        answers = [self._answers.get(i, none) for i in range(count)]
        try:
            if len(self._answers) < len(sample_scores):
                raise CannotAudit("reviews of an earlier run have no responses. Add --rerun-review to --use-cache.")
            found = audit_recorded(answers, plan, self._asked["listed"], Audit())
        except CannotAudit as error:
            get_logger().warning(f"{NAME}: cannot be decided: {error}")
            return []
        self._analysis = sentence(found, plan)
        (get_logger().info if found.passed else get_logger().warning)(f"{NAME}: {self._analysis}")
        if found.status == Status.UNDECIDED:
            return []
        number = max(0.0, found.evidence.log_largest) / log(10)
        return [AggScore(metric_name=METRIC, score=number, num=count, metadata={"report": found.record})]

    def _on_generate_report_end(self, report: Any, output_dir: str, **named: Any) -> None:
        report.analysis = self._analysis


def recorded(output: ModelOutput) -> RecordedAnswer:
    """Return an output of evalscope as a response of the server: its first choice, or the reason why it has none."""
    charged = int((output.metadata or {}).get("charged", 0))
    if output.error or not output.choices:
        return RecordedAnswer(output.error or "the output has no choice", charged)
    choice = output.choices[0]
    if choice.logprobs is None and output.usage is None:  # a refused request, in evalscope's format
        return RecordedAnswer(f"refused: {output.completion[:200]}", charged)
    logprobs = None if choice.logprobs is None else choice.logprobs.model_dump(exclude_none=True)
    finish = "length" if choice.stop_reason == "max_tokens" else choice.stop_reason
    found: dict[str, Any] = {"choices": [{"logprobs": logprobs, "finish_reason": finish}]}
    if output.usage is not None:
        found["usage"] = {"completion_tokens": output.usage.output_tokens}
    return RecordedAnswer(found, charged)


if __name__ == "__main__":
    from evalscope.cli.cli import run_cmd

    run_cmd()
