"""An engine that is none: speculative sampling on the tiny pair in numpy, right, or wrong by `error`. An adapter for the suite's tests."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from ot_draft.verify.engine.kinds import DEPTH, Kind, ReferencePair

LACKS: dict[str, str] = {}
REPORTS = ""
REQUESTS = 4000
DRAFTS = 2
STATE: dict[str, Any] = {}
MEMOS: dict[str, Any] = {}  # by the folder of the target: laws are the same in every run
IGNORED = {
    "no top-p": "top_p", "no min-p": "min_p", "no bias": "logit_bias", "no min tokens": "min_tokens", "no grammar": "grammar",
    "no top-k": "top_k", "no stop": "stop_token_ids", "no allowed": "allowed_token_ids",
}  # fmt: skip
FEW = 6  # fewer requests are a small batch


def _shorter(requests: list[dict[str, Any]]) -> list[int]:
    longest = max(len(request["prompt"]) for request in requests)
    return [place for place, request in enumerate(requests) if len(request["prompt"]) < longest and len(requests) < FEW]


def _longest(requests: list[dict[str, Any]]) -> list[int]:
    lengths = [len(request["prompt"]) for request in requests]
    return [lengths.index(max(lengths))] if len({*lengths}) > 1 and len(requests) < FEW else []


PLACES = {  # errors, and the places of a batch whose texts are those of another prompt
    "first of three": lambda requests: [0] if len(requests) == 3 else [],
    "middle of three": lambda requests: [1] if len(requests) == 3 else [],
    "last of three": lambda requests: [2] if len(requests) == 3 else [],
    "all of three": lambda requests: range(3) if len(requests) == 3 else [],
    "alone": lambda requests: [0] if len(requests) == 1 else [],
    "second to last": lambda requests: [len(requests) - 2] if 1 < len(requests) < FEW else [],
    "second, from three": lambda requests: [1] if 2 < len(requests) < FEW else [],
    "shorter ones": _shorter,
    "longest": _longest,
    "all but plain": lambda requests: [i for i, each in enumerate(requests) if each["prompt"] != [1, 2, 3, 4, 5] and len(requests) < FEW],
    "the call after an aborted one": lambda requests: range(len(requests)) if STATE["after"] else [],
    "first after an aborted one": lambda requests: [0] if STATE["after"] and len(requests) == 2 else [],
}  # fmt: skip
LOGPROBS = {  # errors, and what is reported for log-probabilities
    "no log-probabilities": lambda own: [],
    "log-probabilities None": lambda own: None,
    "one log-probability": lambda own: own[:1],
    "log-probabilities NaN": lambda own: [float("nan")] * len(own),
    "log-probabilities of None": lambda own: [None] * len(own),
    "log-probability 0": lambda own: [own[0], 0.0, *own[2:]],
    "last log-probabilities 0": lambda own: [*own[:-2], 0.0, 0.0],
}
STEP = {  # errors of a step, and what a draft that is refused is replaced by: of p, q and the target's law one place before
    "residual is p": lambda p, q, before: p,
    "residual of |p - q|": lambda p, q, before: abs(p - q),
    "residual of the place before": lambda p, q, before: np.maximum(before - q, 0),
}
OTHER_LOGPROBS = {
    "log-probabilities of numpy": np.array,
    "a number for log-probabilities": lambda own: 0.5,
}  # right, and none
ANSWERS = {  # errors, and what the answers to a request are
    "one text of three": lambda request, own: own[:1],
    "stop token dropped": lambda request, own: [
        each | {"tokens": [token for token in each["tokens"] if token not in request.get("stop_token_ids", ())]} for each in own
    ],
    "nothing at top-k": lambda request, own: [] if "top_k" in request else own,
    "no key": lambda request, own: [{"tokens": each["tokens"]} for each in own],
    "too long": lambda request, own: [each | {"tokens": each["tokens"] + [1]} for each in own],
    "too short": lambda request, own: [each | {"tokens": each["tokens"][:-1]} for each in own],
    "on after the end": lambda request, own: (
        [each | {"tokens": [*each["tokens"], 1]} for each in own] if "stop_token_ids" in request else own
    ),
    "words for tokens": lambda request, own: [each | {"tokens": [*map(str, each["tokens"])]} for each in own],
    "numbers with a point": lambda request, own: [each | {"tokens": [*map(float, each["tokens"])]} for each in own],
    "a word for an answer": lambda request, own: ["a"] * len(own),
    "None for answers": lambda request, own: None,
    "None for tokens": lambda request, own: [each | {"tokens": None} for each in own],
    "a word for pieces": lambda request, own: [each | {"pieces": "two"} for each in own],
    "unknown tokens": lambda request, own: [each | {"tokens": [token or 9 for token in each["tokens"]]} for each in own],
}  # fmt: skip
COUNTS = {"a word for a counter": {"accepted drafts": "many"}, "no counters": None}  # errors, and what is counted
BEFORE = {  # errors of the order that settings are applied in, and what the wrong order amounts to in the right one, by the temperature
    "min-p before temperature": lambda asked, by: {"min_p": asked["min_p"] ** (1 / by)} if "min_p" in asked else {},
    "bias after temperature": lambda asked, by: {
        "logit_bias": {token: bias * by for token, bias in asked.get("logit_bias", {}).items()}
    },
}
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")


def start(target: str, draft: str, error: str = "", seed: str = "0", lacks: str = "", declared: str = "") -> Any:
    """error: one of those below. lacks: names of settings. declared: which log-probabilities it says that it reports."""
    globals().update(REPORTS=declared)
    LACKS.update(dict.fromkeys(lacks.split(), "it was asked not to"))
    if error == "no start":
        raise RuntimeError("the engine does not start")
    if error in ("death", "hang"):  # it answers no request, and needs no models
        STATE.update(error=error)
        return {"engine": "simulated"}
    STATE.update(
        models=ReferencePair.load(Path(target), Path(draft)),
        error=error,
        rng=np.random.default_rng(int(seed)),
        accepted=0,
        after=False,
    )
    STATE["memo"] = (
        MEMOS.setdefault(target + (error if error == "min-p of logits" else ""), {}) if STATE["models"].n < 100 else {}
    )
    return None if error == "no facts" else {"engine": "simulated"}


def complete(requests: list[dict[str, Any]]) -> Any:
    """Each kind of request together."""
    error = STATE["error"]
    if error == "death":
        os._exit(3)
    if error == "hang":
        time.sleep(1000)
    if error == "raises at top-p" and any("top_p" in request and "top_k" not in request for request in requests):
        raise RuntimeError("no top-p here")
    requests = _mixed_up(list(requests), error)
    STATE["after"] = any(request.get("abort") for request in requests)
    groups, answers = defaultdict(list), [[] for _ in requests]
    for place, request in enumerate(requests):
        settings = {
            name: value
            for name, value in request.items()
            if name not in ("prompt", "seed", "n", "stream", "abort", "logprobs")
        }
        groups[repr((request["prompt"], sorted(settings.items(), key=str)))].append((place, settings))
    for members in groups.values():
        settings = dict(members[0][1])
        settings.pop(IGNORED.get(error, ""), None)
        for name in PENALTIES if error == "no penalties" else ():
            settings.pop(name, None)
        if error in BEFORE and settings["temperature"]:
            settings |= BEFORE[error](settings, settings["temperature"])
        if error == "temperature ignored" and settings["temperature"]:
            settings["temperature"] = 1.0
        kind = Kind(tuple(requests[members[0][0]]["prompt"]), settings)
        copies = [place for place, _ in members for _ in range(requests[place].get("n", 1))]
        seeds = [requests[place].get("seed", place if error == "copies alike" else None) for place in copies]
        for place, text in zip(copies, _texts(kind, seeds, settings["max_tokens"]), strict=True):
            answers[place].append({"tokens": text, "pieces": len(text)})
            if requests[place].get("logprobs"):
                answers[place][-1]["logprobs"] = _logprobs(kind, text)
    if error in ANSWERS:
        answers = [ANSWERS[error](request, own) for request, own in zip(requests, answers, strict=True)]
    if error == "nothing returned":
        return None
    return answers[:-1] if error == "an answer missing" else answers


def _mixed_up(requests: list[dict[str, Any]], error: str) -> list[dict[str, Any]]:
    """What is answered in the place of the requests, by errors that go by the place in a batch."""
    if error == "last of a batch" and len(requests) > 2:
        requests[-1] = requests[-1] | {"prompt": requests[0]["prompt"]}
    for place in PLACES[error](requests) if error in PLACES else ():
        requests[place] = requests[place] | {"prompt": [6, 6, 6]}
    if error == "beside greedy" and len(requests) < FEW and any(request["temperature"] == 0 for request in requests):
        return [request | {"temperature": 0.0} for request in requests]
    return requests


def _logprobs(kind: Kind, text: list[int]) -> Any:
    models, error = STATE["models"], STATE["error"]
    model = models.draft if error == "log-probabilities of the draft" else models.target
    rows = models.logits(model, kind.prompt, np.array([text[:-1]], dtype=np.int64))[0]
    logs = rows - np.log(np.exp(rows).sum(-1, keepdims=True))
    own = [float(logs[place, token]) for place, token in enumerate(text)]
    made = LOGPROBS | OTHER_LOGPROBS
    return made[error](own) if error in made else own


def _laws(model: str, kind: Kind, texts: list[tuple[int, ...]], tail: int = 0) -> list[list[np.ndarray]]:
    """A model's law after each of the texts without its last `tail` tokens, and after every one of these.

    Only the first DEPTH tokens of a text are judged. Later tokens are drawn by the logits after the first DEPTH - 1 tokens.
    """
    memo = STATE["memo"].setdefault((model, repr(kind)), {})
    missing = defaultdict(list)
    for text in dict.fromkeys(texts):
        if any(text[: len(text) - less] not in memo for less in range(tail + 1)):
            missing[len(text)].append(text)
    for length, some in missing.items():
        ids = np.array(some, dtype=np.int64).reshape(len(some), length)
        logits = STATE["models"].logits(getattr(STATE["models"], model), kind.prompt, ids[:, : DEPTH - 1])
        for end in range(length - tail, length + 1):
            own = logits[:, min(end, DEPTH - 1)]
            laws, _ = kind.masses(own, ids[:, :end])
            if STATE["error"] == "min-p of logits" and "min_p" in kind.settings:
                left = own / kind.temperature
                most = left.max(-1, keepdims=True)
                left[(left < kind.settings["min_p"] * most) & (left < most)] = -np.inf
                laws = np.exp(left - left.max(-1, keepdims=True))
                laws /= laws.sum(-1, keepdims=True)
            memo.update(zip((text[:end] for text in some), laws, strict=True))
    return [[memo[text[:end]] for end in range(len(text) - tail, len(text) + 1)] for text in texts]


def _drawn(law: np.ndarray, u: float) -> int:
    return int(min((law.cumsum() <= u * law.sum()).sum(), np.flatnonzero(law)[-1]))


def _seed(asked: int | None, error: str) -> int:
    if asked is None and error == "one seed for all":
        return 7
    return int(STATE["rng"].integers(2**32)) if asked is None or error == "no seeds" else asked


def _texts(kind: Kind, seeds: list[int | None], most: int) -> list[list[int]]:
    error, ends = STATE["error"], kind.ends(STATE["models"].n)
    shared = np.random.default_rng(STATE["rng"].integers(2**32))
    streams = [np.random.default_rng(_seed(seed, error)) for seed in seeds]
    found: list[tuple[int, ...]] = [() for _ in seeds]
    while active := [row for row, text in enumerate(found) if len(text) < most and not (ends & {*text[-1:]})]:
        common = shared.random((DRAFTS + 1, 3))
        chances = {
            row: common if error == "one uniform a batch" else streams[row].random((DRAFTS + 1, 3)) for row in active
        }
        drafted = {row: list[int]() for row in active}
        laws: dict[int, list[Any]] = {row: [] for row in active}  # q and its noise
        for _ in range(DRAFTS):
            texts = [(*found[row], *drafted[row]) for row in active]
            for row, (q,) in zip(active, _laws("draft", kind, texts), strict=True):
                laws[row].append((q, noise := streams[row].exponential(size=len(q))))
                drawn_by = q ** (1 / 0.7) if error == "drafts at another temperature" else q
                drafted[row].append(int((drawn_by / noise).argmax()))
        targets = _laws("target", kind, [(*found[row], *drafted[row]) for row in active], DRAFTS)
        for row, ps in zip(active, targets, strict=True):
            emitted = _step(drafted[row], ps, laws[row], chances[row], error)
            found[row] = _cut((*found[row], *emitted), ends, most)
    return [list(text) for text in found]


def _cut(text: tuple[int, ...], ends: set[int], most: int) -> tuple[int, ...]:
    at = next((place for place, token in enumerate(text) if token in ends), most)
    return text[: min(at + 1, most)]


def _step(drafts: list[int], ps: list[np.ndarray], drafted: list[Any], u: np.ndarray, error: str) -> list[int]:
    emitted: list[int] = []
    factor = {"accepted at 1.15 p/q": 1.15, "accepted at 1.05 p/q": 1.05}.get(error, 1.0)
    tempered = [p ** (1 / 0.7) / (p ** (1 / 0.7)).sum() for p in ps]
    accepted_by = tempered if error == "the draft's temperature for the target" else ps
    for place, (draft, p, (q, noise)) in enumerate(zip(drafts, accepted_by, drafted, strict=False)):
        sure = p[draft] == p.max() if error == "greedy" else u[place, 0] * q[draft] < factor * p[draft]
        if error == "accepted where it is equal":  # no error
            sure = u[place, 0] * q[draft] <= p[draft]
        if sure:
            emitted.append(draft)
            STATE["accepted"] += 1
            continue
        if error in ("residual not clipped", "residual not normalised"):
            sums = (p - q if error == "residual not clipped" else np.maximum(p - q, 0)).cumsum()
            return [*emitted, int(min((sums <= u[place, 1]).sum(), np.flatnonzero(p)[-1]))]
        left = STEP[error](p, q, ps[max(place - 1, 0)]) if error in STEP else np.maximum(p - q, 0)
        left = p if left.sum() <= 0 else left
        if error == "noise used again":
            return [*emitted, int((left / noise).argmax())]
        return [*emitted, _drawn(left, u[place, 0] if error == "uniform used twice" else u[place, 1])]
    bonus = ps[DRAFTS - 1 if error == "bonus of the last draft" else DRAFTS]
    last = int(bonus.argmax()) if error == "greedy" else _drawn(bonus, u[DRAFTS, 2])
    return [*emitted, last, last] if error == "bonus twice" else [*emitted, last]


def counters() -> Any:
    """Accepted drafts."""
    return COUNTS.get(STATE["error"], {"accepted drafts": STATE["accepted"]})


def stop() -> None:
    """Nothing runs."""
