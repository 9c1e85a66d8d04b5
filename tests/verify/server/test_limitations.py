"""The assumptions about formats that docs/audit.md lists: a right server that breaks one is never called biased."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from mutants.catalogue import TABLES
from slow import slow, slow_except

from ot_draft.arrays import Array
from ot_draft.cli import main
from ot_draft.verify.server import Audit, Token
from ot_draft.verify.server.blocks import stack
from ot_draft.verify.server.consistency import Ends
from ot_draft.verify.server.log_copies import Copies
from ot_draft.verify.server.recorded import RecordedAnswer, audit_recorded, plan_of
from ot_draft.verify.server.records import ListedMasses
from ot_draft.verify.server.reported import Reported

from .chains import inverse, random_pair, right, run
from .completions_server import evidence_of

N, COUNT, REQUESTS = 12, 2000, 60
Listing = Callable[[int, Array, int], list[int]]  # token number, distribution, emitted token -> ids
UNKNOWN = [
    -9999.0,
    -1000.0,
    -100.0,
    float(np.finfo(np.float32).min),
    -20.0,
    None,
]  # for log-probabilities that are not known


def top(p: Array, k: int) -> list[int]:
    return [int(x) for x in np.argsort(-p, kind="stable")[:k]]


def appended(k: Callable[[int], int], where: int = N) -> Listing:
    def listing(i: int, p: Array, token: int) -> list[int]:
        found = top(p, k(i))
        found[where:where] = [] if token in found else [token]
        return found

    return listing


def last(k: Callable[[int], int]) -> Listing:
    return lambda i, p, token: found if token in (found := top(p, k(i))) else [*found[:-1], token]


@cache
def drawn(heat: float = 1.0) -> tuple[Array, Array]:
    """Distributions (COUNT, N) and tokens (COUNT,), drawn at a temperature."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(N, 0.7), size=COUNT) + 1e-12
    p /= p.sum(1, keepdims=True)
    hot = p ** (1 / heat)
    return p, inverse(hot / hot.sum(1, keepdims=True), generator.random(COUNT))


def judged(listing: Listing, heat: float = 1.0) -> Audit:
    audit = Audit()
    for i, (p, token) in enumerate(zip(*drawn(heat), strict=True)):
        ids = listing(i, p, int(token))
        audit.add(Token.of_top(int(token), ids, p[ids], request=i // 50))
    return audit


LISTS = {
    "the last of ten and one": appended(lambda i: 10),
    "the first": appended(lambda i: 10, 0),
    "in the middle": appended(lambda i: 10, 3),
    "four and one": appended(lambda i: 4),
    "in the place of the last": last(lambda i: 10),
    "k changes with the request": appended(lambda i: 3 + i // 50 % 7),
    "k changes with the token": appended(lambda i: 7 + i % 3),
    "k is drawn": appended(lambda i: int(np.random.default_rng(i).integers(1, 9))),
    "k is drawn, in the place of the last": last(lambda i: int(np.random.default_rng(i).integers(1, 9))),
    "k grows": appended(lambda i: 1 + i * 10 // COUNT),
    "k shrinks": last(lambda i: 10 - i * 10 // COUNT),
}
SHORT: dict[str, Listing] = {
    "the emitted token alone": lambda i, p, token: [token],
    "one and the emitted token": appended(lambda i: 1),
    "all up to the emitted token": lambda i, p, token: top(p, int((p >= p[token]).sum())),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_completed_by_the_emitted_token(name: str) -> None:
    audit = judged(LISTS[name])
    assert not audit.biased and audit.log_e_value < 3, str(audit.report())
    assert "drawn" in name or judged(LISTS[name], heat=0.7).biased


@pytest.mark.parametrize("name", SHORT)
def test_lists_that_say_nothing_but_what_was_emitted(name: str) -> None:
    for heat in (1.0, 0.7):
        assert "not in the lists" in judged(SHORT[name], heat).report().evidence.reason


def test_the_factor_of_a_completed_list_has_mean_at_most_one() -> None:
    """Enumerated: after a past of lists of five, one token of each k under each way to complete its list, every token in turn."""
    p = np.array([0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05])
    for k in range(1, 8):
        for listing in (appended(lambda i, k=k: k), last(lambda i, k=k: k), lambda i, p, token, k=k: top(p, k)):
            mean = np.zeros(1)
            for token in range(len(p)):
                audit = Audit(tolerance=0)
                for _ in range(40):
                    audit.add(Token.of_top(0, range(5), p[:5]))
                before = audit._wealth._log.copy() if audit.log_e_value is not None else 0
                ids = listing(0, p, token)
                audit.add(Token.of_top(token, ids, p[ids]))
                assert audit.log_e_value is not None
                mean = mean + p[token] * np.exp(audit._wealth._log - before)
            assert np.all(mean <= 1 + 1e-9), (k, mean.max())


@pytest.mark.parametrize(
    ("unknown", "ranks"),
    slow_except(
        product(UNKNOWN, (20, 30)),
        *(f"{unknown}, 20" for unknown in UNKNOWN),
        "-9999.0, 30",
        "-20.0, 30",
        "None, 30",
        name=lambda case: f"{case[0]}, {case[1]}",
    ),
)
def test_a_log_probability_that_is_not_known(unknown: float | None, ranks: int) -> None:
    """The emitted token has its own log-probability up to a rank; beyond it a number, or null, that stands for unknown."""
    z, generator, plan = np.random.default_rng(0).normal(0, 1.6, (60, 60)), np.random.default_rng(1), plan_of(64, 8, 24)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    logs, orders, sums = np.log(p), [top(row, ranks) for row in p], p.cumsum(1)

    def answer(prompt: Any) -> RecordedAnswer:
        state, content = sum(map(ord, prompt)) % 60, []
        for _ in range(24):
            token, order = int((sums[state, :-1] <= generator.random()).sum()), orders[state]
            listed = [{"token": f"w{x}", "logprob": float(logs[state, x])} for x in order[:20]]
            own = float(logs[state, token]) if token in order else unknown
            content.append({"token": f"w{token}", "logprob": own, "top_logprobs": listed})
            state = token
        choice = {"finish_reason": "length", "logprobs": {"content": content}}
        return RecordedAnswer({"choices": [choice], "usage": {"completion_tokens": 24}})

    report = audit_recorded([answer(plan.prompt(i, i // 8)) for i in range(64)], plan, 20, Audit())
    assert report.word == "no bias found" and report.evidence.log_largest < 3, str(report)


def test_lists_of_the_tokens_that_were_not_emitted(tmp_path: Path) -> None:
    """Alternatives alone: which tokens are listed depends on the emitted one, so that nothing can be decided."""
    lines = []
    for p, token in zip(*drawn(), strict=True):
        ids = [x for x in top(p, 7) if x != token][:6]
        lines.append({"token": int(token), "ids": ids, "probabilities": p[ids].tolist(), "own": float(p[token])})
    found = [{"choices": [dict(each["choices"][0])]} for each in map(chat, texts())]
    for each in found:
        for one in each["choices"][0]["logprobs"]["content"]:
            one["top_logprobs"] = [other for other in one["top_logprobs"] if other["token"] != one["token"]]
    for log in (lines, found):
        done = audit(written(tmp_path / "log.jsonl", log))
        assert done.exit_code == 2 and "not in the list" in " ".join(done.output.split()), done.output


@pytest.mark.parametrize("own", [0.0, np.exp(-100.0)])
def test_an_unknown_probability_in_a_log(own: float) -> None:
    audit = Audit()
    for i, (p, token) in enumerate(zip(*drawn(), strict=True)):
        ids = top(p, 6)
        both = [*ids, int(token)] if token not in ids and i % 3 == 0 else ids
        audit.add(
            Token.of_top(int(token), both, [p[x] if x in ids else own for x in both], float(p[token]) if i % 2 else own)
        )
    assert not audit.biased and audit.log_e_value < 3


def orders(p: Array, temperature: float, top_p: float, top_k: int) -> dict[str, Array]:
    """The sampled distributions of engines that apply temperature, top-k and top-p in different orders: enumerated."""
    tempered = p ** (1 / temperature) / (p ** (1 / temperature)).sum()
    found, inside = {}, np.arange(len(p)) < top_k  # p descends
    for name, mass in (("temperature first", tempered), ("temperature last", p)):
        for of, share in (("the top k", mass[inside].sum()), ("all", 1.0)):
            kept = inside & ((np.cumsum(mass) - mass) / share < top_p)
            found[f"{name}, top-p of {of}"] = np.where(kept, tempered, 0) / tempered[kept].sum()
    return found


def test_orders_by_hand() -> None:
    """Logits 3, 2, 1 at temperature 1/2, top-p .8: one order keeps the first token alone, the other two tokens."""
    logits = np.array([3.0, 2.0, 1.0])
    logs = logits - np.log(np.exp(logits).sum())
    given: dict[str, Any] = {"temperature": 0.5, "top_p": 0.8, "top_k": 3, "listed": 3}
    first, second = (Reported(**given, temperature_last=last).distribution(logs) for last in (False, True))
    assert first is not None and second is not None
    assert first.tolist() == [1, 0, 0] and second.tolist() == pytest.approx([0.880797, 0.119203, 0], abs=1e-6)
    assert Reported(**given, temperature_last=None).distribution(logs) is None
    both = Reported(**given | {"top_p": 0.6}, temperature_last=None).distribution(logs)
    assert both is not None and both.tolist() == [1, 0, 0]


@pytest.mark.parametrize("mode", ["raw", "tempered"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.4])
def test_an_unknown_order_is_read_only_where_all_orders_agree(mode: str, temperature: float) -> None:
    generator, read = np.random.default_rng(3), 0
    reported = Reported(temperature, 6, 0.8, mode, 10, temperature_last=None)
    for _ in range(500):
        p = np.sort(generator.dirichlet(np.full(30, 0.05)))[::-1] + 1e-15
        p /= p.sum()
        laws = orders(p, temperature, 0.8, 6)
        shown = p if mode == "raw" else p ** (1 / temperature) / (p ** (1 / temperature)).sum()
        found = reported.distribution(np.log(shown[:10]))
        if found is not None:
            read += 1
            for name, law in laws.items():
                assert found == pytest.approx(law[:10], abs=1e-9), name
    assert read > 10


# Logs of API responses.


def audit(*words: str) -> Result:
    return CliRunner().invoke(main, ["audit", *words])


def entry(p: Array, token: int, listed: int = 10, name: Callable[[int], Any] = "t{}".format) -> dict[str, Any]:
    logs = np.log(p)
    others = [{"token": name(x), "logprob": float(logs[x]), "bytes": None} for x in top(p, listed)]
    return {"token": name(token), "logprob": float(logs[token]), "bytes": None, "top_logprobs": others}


@cache
def texts(
    heat: float = 1.0, length: int = 16, end: int = -1, requests: int = REQUESTS
) -> list[list[tuple[Array, int]]]:
    """Requests of a Markov model: distributions and tokens; end: a token that ends a text."""
    p, generator, found = random_pair(3, 24).p, np.random.default_rng(0), []
    hot = p ** (1 / heat)
    hot /= hot.sum(1, keepdims=True)
    for _ in range(requests):
        state, text = 0, []
        for _ in range(length):
            token = int(generator.choice(24, p=hot[state]))
            text.append((p[state], token))
            state = token
            if token == end:
                break
        found.append(text)
    return found


def chat(text: list[tuple[Array, int]], finish: str | None = "length") -> dict[str, Any]:
    content = [entry(p, token) for p, token in text]
    choice = {
        "index": 0,
        "finish_reason": finish,
        "logprobs": {"content": content, "refusal": None},
        "message": {"role": "assistant"},
    }
    return {"id": "c", "object": "chat.completion", "choices": [choice], "usage": {"completion_tokens": len(content)}}


def request_output(text: list[tuple[Array, int]]) -> dict[str, Any]:
    lists = []
    for p, token in text:
        ids = dict.fromkeys([token, *top(p, 10)])
        lists.append({str(x): {"logprob": float(np.log(p[x])), "rank": 1, "decoded_token": "t"} for x in ids})
    output = {"index": 0, "token_ids": [token for _, token in text], "logprobs": lists, "finish_reason": "length"}
    return {"request_id": "0", "prompt_token_ids": [1], "outputs": [output], "finished": True}


def completion(text: list[tuple[Array, int]]) -> dict[str, Any]:
    lists = [{f"token_id:{x}": float(np.log(p[x])) for x in dict.fromkeys([token, *top(p, 10)])} for p, token in text]
    columns = {"tokens": [f"token_id:{token}" for _, token in text], "top_logprobs": lists,
               "token_logprobs": [float(np.log(p[token])) for p, token in text]}  # fmt: skip
    return {"choices": [{"finish_reason": "length", "logprobs": columns}]}


def ending(text: list[tuple[Array, int]], end: int, style: Callable[..., Any]) -> Any:
    """A response without its end-of-sequence token."""
    return style(text[:-1], "stop") if text[-1][1] == end else style(text)


def written(path: Path, lines: list[Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


FORMATS: dict[str, Callable[[list[list[tuple[Array, int]]]], list[Any]]] = {
    "entries": lambda found: [entry(p, token) for text in found for p, token in text],
    "entries of ids": lambda found: [
        entry(p, token, name=int) | {"request": i} for i, text in enumerate(found) for p, token in text
    ],
    "chat completions": lambda found: [chat(text) for text in found],
    "chat completions of vLLM": lambda found: [  # token_ids is null unless requested
        {"choices": [chat(text)["choices"][0] | {"token_ids": ids}]}
        for text in found
        for ids in [[token for _, token in text] if len(text) % 2 else None]
    ],
    "completions": lambda found: [completion(text) for text in found],
    "several choices": lambda found: [chat(found[0]) | {"choices": [chat(text)["choices"][0] for text in found]}],
    "RequestOutput": lambda found: [request_output(text) for text in found],
    "CompletionOutput": lambda found: [request_output(text)["outputs"][0] for text in found],
    "choices": lambda found: [chat(text)["choices"][0] for text in found],
    "logprobs of chat completions": lambda found: [chat(text)["choices"][0]["logprobs"] for text in found],
    "logprobs of completions": lambda found: [completion(text)["choices"][0]["logprobs"] for text in found],
    "Batch API": lambda found: [
        {"custom_id": "a", "response": {"status_code": 200, "body": chat(text)}} for text in found
    ],
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_an_api_returns_is_read(name: str, tmp_path: Path) -> None:
    """Right: no bias. At temperature 0.7: undecided, or biased if the user states temperature 1."""
    right = audit(written(tmp_path / "right.jsonl", FORMATS[name](texts())), "--json", "-")
    assert right.exit_code == 0 and evidence_of(right.stdout)["tokens"] == REQUESTS * 16, right.output
    # Of logprobs alone, each end of a text may be missing, which the bound pays for.
    requests = 150 if name.startswith("logprobs") else 75
    log = written(tmp_path / "hot.jsonl", FORMATS[name](texts(heat=0.7, requests=requests)))
    unknown, stated = audit(log), audit(log, "--temperature", "1")
    assert unknown.exit_code == 2 and "state the temperature" in " ".join(unknown.output.split()), unknown.output
    assert stated.exit_code == 1, stated.output
    assert (
        stated.output.startswith("biased")
        and "event of the test" in stated.output
        and "A bound of" not in stated.output
    )


@pytest.mark.parametrize("name", ["chat completions", "RequestOutput", slow("entries of ids"), "lines"])
def test_logs_at_another_temperature(name: str, tmp_path: Path) -> None:
    """Raw distributions, tokens at 0.7: not biased if 0.7 and raw are stated; biased if tokens were sampled at 1 or 0.4."""
    lines = {"lines": lambda found: [{"token": x, "target_probs": p.tolist()} for text in found for p, x in text]}
    for heat, status in ((0.7, 0), (1.0, 1), (0.4, 1)):
        log = written(tmp_path / "log.jsonl", (FORMATS | lines)[name](texts(heat, requests=110)))
        done = audit(log, "--temperature", "0.7", "--logprobs", "raw", "--json", "-")
        found = evidence_of(done.stdout)
        assert done.exit_code == status and found["skipped"] < 25 and found["rounding"] < 0.1, (heat, found["reason"])
    assert audit(log, "--temperature", "0.7").exit_code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--temperature", "0.7"), "requires --logprobs"),
        (("--logprobs", "raw"), "requires --temperature"),
        (("--temperature", "1", "--top-p", "0.9"), "require --logprobs processed"),
        (("--temperature", "0", "--logprobs", "raw"), "must be above 0"),
        (("--temperature", "0"), "must be above 0, got 0. At temperature 0 every token is the most probable one"),
    ],
)
def test_statements_that_say_too_little(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = audit(written(tmp_path / "log.jsonl", [chat(texts(requests=1)[0])]), *words)
    assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output
    assert audit(str(tmp_path / "log.jsonl"), "--logprobs", "processed", "--top-p", "0.9").exit_code == 0


@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.3])
@pytest.mark.parametrize("listed", [5, 20, 40])
def test_the_error_at_another_temperature_is_stated(temperature: float, listed: int) -> None:
    p = np.sort(np.random.default_rng(0).dirichlet(np.full(40, 0.3), size=200))[:, ::-1] + 1e-12
    p /= p.sum(1, keepdims=True)
    true = p ** (1 / temperature)
    true /= true.sum(1, keepdims=True)
    rows = [Token.of_top(0, range(listed), row[:listed], whole=listed == 40) for row in p]
    found = stack(rows).at_temperature(temperature, 0.0)
    error = abs(true[:, :listed] - found.mass)
    assert np.all(error <= found.relative[:, None] * found.mass * (1 + 1e-9) + 1e-12)
    assert listed < 40 or found.relative.max() < 1e-9
    cold = stack(rows).at_temperature(1e-4, 0.0)
    assert np.all(cold.mass.max(1) + cold.relative > 0.49)
    gap = [ListedMasses.of_top(np.arange(1, 5), row[1:5], False, 0.0, gaps=True) for row in p]
    found = stack([rows[0]._replace(law=law) for law in gap]).at_temperature(temperature, 0.0)
    assert np.all(abs(true[:, 1:5] - found.mass) <= found.relative[:, None] * found.mass * (1 + 1e-9) + 1e-12)


def test_tokens_of_unreadable_responses_are_counted(tmp_path: Path) -> None:
    """All of them, by their lists or by the usage; a response of 16 tokens is not one."""
    columns, output = completion(texts()[0]), request_output(texts()[0])
    columns["choices"][0]["logprobs"]["token_logprobs"][3] = "x"
    output["outputs"][0]["logprobs"][3] = {"x": 1}
    output["outputs"][0]["logprobs"][4] = {str(output["outputs"][0]["token_ids"][4]): {}}
    counted = {"choices": [{"logprobs": None}], "usage": {"completion_tokens": 16}}
    log = tmp_path / "log.jsonl"
    cut = json.dumps(chat(texts()[0]))[:-20]  # not JSON
    log.write_text("\n".join([*map(json.dumps, [*map(chat, texts()), columns, output, counted]), cut]))
    done = audit(str(log), "--json", "-")
    assert evidence_of(done.stdout)["unreadable"] == 4 * 16, done.output


@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_that_is_one_json_value(indent: int | None, tmp_path: Path) -> None:
    """A list of responses, on one line or on many; and a single response on many lines."""
    found, log = [chat(text) for text in texts()[:20]], tmp_path / "log.json"
    for items in (found, found[0]):
        log.write_text(json.dumps(items, indent=indent))
        done = audit(str(log), "--json", "-")
        assert done.exit_code == 0 and evidence_of(done.stdout)["tokens"] == (20 * 16 if items is found else 16), (
            done.output
        )
    log.write_text(json.dumps(found, indent=indent)[:-9])
    assert audit(str(log)).exit_code == 2


@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_tokens_that_are_reported_with_0_are_allowed_for_at_another_temperature(temperature: float) -> None:
    """1,000 tokens that are rounded to 0 in four decimals, or set to 0 because they are below a threshold."""
    for small, decimals in ((2e-8, 4), (8e-7, 15)):
        generator, judge = np.random.default_rng(0), Audit(temperature=temperature)
        for i, head in enumerate(np.tile([[0.4, 0.3, 0.2, 0.1], [0.7001, 0.1, 0.1, 0.0999]], (600, 1))):
            p = np.append(head - 1000 * small * (np.arange(4) == 0), np.full(1000, small))
            true = p ** (1 / temperature)
            token = int(generator.choice(1004, p=true / true.sum()))
            judge.add(Token.of_law(token, np.where(p > 1e-4, p, 0).round(decimals), request=i))
        assert judge.log_e_value < 3 and not judge.biased


def test_parts_of_a_stream_do_not_end(tmp_path: Path) -> None:
    """One token per line, with a delta, and a finish reason that is null. A whole response without a finish reason may end."""
    parts = [{"choices": [chat([pair], None)["choices"][0] | {"delta": {}}]} for text in texts() for pair in text]
    for found, least, most in ((parts, 0, 0), ([chat(text, None) for text in texts()], REQUESTS, 80)):
        done = audit(written(tmp_path / "log.jsonl", found), "--json", "-")
        assert done.exit_code == 0 and least <= evidence_of(done.stdout)["charged"] <= most, done.output[-500:]


def test_ends_that_responses_do_not_report(tmp_path: Path) -> None:
    """A right server passes, with the ends in its bound; a wrong one is biased. Ends that are reported cost nothing."""
    for heat, status in ((0.6, 1), (1.0, 0)):
        found = texts(heat, length=64, end=7, requests=150)
        ended = sum(text[-1][1] == 7 for text in found)
        log = written(tmp_path / "log.jsonl", [ending(text, 7, chat) for text in found])
        done = audit(log, "--temperature", "1", "--json", "-")
        hidden = evidence_of(done.stdout)
        assert done.exit_code == status and hidden["charged"] == ended > 40, done.output
    assert "without a reported end-of-sequence token" in hidden["remarks"][0]
    shown = [chat(text, "stop" if text[-1][1] == 7 else "length") for text in texts(length=64, end=7, requests=150)]
    done = audit(written(tmp_path / "log.jsonl", shown), "--json", "-")
    reported = evidence_of(done.stdout)
    assert done.exit_code == 0 and reported["charged"] == 2 and reported["bound"] < hidden["bound"], done.output


@pytest.mark.parametrize("wrong", [None, "every draft taken", slow("greedy drafts"), slow("residual is p")])
def test_bugs_are_found_without_reported_ends(wrong: str | None, tmp_path: Path) -> None:
    """Token 7 ends a response and is not in the log: 1 to 2 % of the tokens."""
    pair, length = random_pair(1), 1000 if wrong in ("greedy drafts", "residual is p") else 500
    emitted = run(pair, right(pair) if wrong is None else TABLES[wrong](pair), 1.0, 8, length, np.random.default_rng(2))
    found: list[Any] = []
    for tokens, last in zip(emitted.token, emitted.last, strict=True):
        ends = [-1, *np.flatnonzero(tokens == 7).tolist()]
        found += [chat([(pair.p[last[i]], int(tokens[i])) for i in range(start + 1, end)], "stop")
                  for start, end in pairwise(ends)]  # fmt: skip
    done = audit(written(tmp_path / "log.jsonl", found), "--temperature", "1", "--json", "-")
    assert done.exit_code == (wrong is not None) and evidence_of(done.stdout)["charged"] > 25, done.output[-500:]


@pytest.mark.parametrize("option", ["--ignore-eos", "--model", "--tokens", "--lengths", "--engine"])
def test_options_of_servers_are_errors_with_a_log(option: str, tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", [chat(texts()[0])])
    value = {"--ignore-eos": [], "--engine": ["vllm"]}.get(option, ["9"])
    done = audit(log, option, *value)
    assert done.exit_code == 2 and f"{option} requires a server" in " ".join(done.output.split()), done.output


@pytest.mark.parametrize(("rate", "seeds"), [(0.05, 1), *(slow(rate, 20) for rate in (0.002, 0.01, 0.05))])
def test_right_servers_without_reported_ends_win_no_bet(rate: float, seeds: int) -> None:
    """End-of-sequence tokens are this share of all tokens. By Ville, the e-value reaches 1000 once in 1000 servers."""
    for seed in range(seeds):
        generator, pair, judge, ends = np.random.default_rng(seed), random_pair(seed, 24), Audit(), Ends()
        end = np.minimum(24 * rate * generator.dirichlet(np.full(24, 0.3)), 0.95)[:, None]  # by the token before
        p = np.hstack([pair.p * (1 - end), end])
        for request in range(int(4000 * rate)):
            text = [int(generator.integers(24))]
            while text[-1] < 24 and len(text) < 500:
                text.append(int((p[text[-1]].cumsum() <= generator.random()).sum()))
            shown = [token for token in text[1:] if token < 24]
            answer = SimpleNamespace(tokens=[SimpleNamespace(token=token) for token in shown],
                                     finish="stop" if text[-1] == 24 else "length")  # fmt: skip
            judge.charge(*ends.add(answer))  # type: ignore[arg-type]
            judge.add(*Token.of_arrays(shown, p[text[: len(shown)]], request=[request] * len(shown)) if shown else ())
        report = judge.report()
        assert ends.hidden > 0 and report.word == "no bias found", str(report)
        assert report.evidence.log_largest < np.log(1000), (seed, report.evidence.log_largest)


def test_ends_after_a_token_that_is_followed_later_are_in_the_bound(tmp_path: Path) -> None:
    """A token ends 30 responses and is then followed: it is no end-of-sequence token, and 30 tokens are missing."""
    p, bounds = np.array([0.5, 0.3, 0.15, 0.05]), []
    for followed in (0, 1):
        found = [chat([(p, 0), (p, 1)] * 20) for _ in range(60)] + [chat([(p, 0), (p, 2)], "stop") for _ in range(30)]
        log = written(tmp_path / "log.jsonl", found + [chat([(p, 2), (p, followed)])] * followed)
        bounds.append(evidence_of(audit(log, "--json", "-").stdout)["bound"])
    assert bounds[1] > bounds[0] + 0.005


def test_answers_from_a_cache_are_no_bias(tmp_path: Path) -> None:
    """A fixed seed or a cache gives one answer to many requests: tokens are not independent, and the server is right."""
    done = audit(written(tmp_path / "log.jsonl", [chat(text) for text in texts()[:3] * 30]))
    assert done.exit_code == 2 and "cached answers" in " ".join(done.output.split()), done.output


def test_a_token_without_log_probabilities_is_skipped_and_the_others_are_read(tmp_path: Path) -> None:
    found = [request_output(text) for text in texts()]
    lists = found[3]["outputs"][0]["logprobs"]
    lists[2] = None
    del lists[5][str(found[3]["outputs"][0]["token_ids"][5])]
    done = audit(written(tmp_path / "log.jsonl", found), "--json", "-")
    verdict = evidence_of(done.stdout)
    assert (done.exit_code, verdict["tokens"], verdict["unreadable"]) == (0, REQUESTS * 16 - 2, 2), done.output
    assert "logprobs[2] has no log-probability of the emitted token" in done.output


@pytest.mark.parametrize("suffix", [".jsonl", ".npz"])
def test_copies_of_all_lines_are_no_verdict(suffix: str, tmp_path: Path) -> None:
    """A log that holds every line twice is at fault, not the server: neither biased nor free of bias."""
    p, tokens = drawn()
    if suffix == ".npz":
        twice = str(tmp_path / "log.npz")
        np.savez(twice, token=np.repeat(tokens, 2), target_probs=np.repeat(p, 2, axis=0))
    else:
        lines = [{"token": int(token), "target_probs": law.tolist()} for law, token in zip(p, tokens, strict=True)]
        twice = written(tmp_path / "log.jsonl", lines * 2)
        assert audit(written(tmp_path / "once.jsonl", [*lines, lines[0]])).exit_code == 0
    done = audit(twice, "--temperature", "1")
    assert done.exit_code == 2 and "100% of the different lines occur 2 times" in " ".join(done.output.split()), (
        done.output
    )


def test_copies_of_few_responses_are_known_by_their_ids(tmp_path: Path) -> None:
    """Ids are unique, so that one copy suffices; equal ids of different responses say nothing."""
    found = [chat(text) | {"id": f"chatcmpl-{i}"} for i, text in enumerate(texts())]
    done = audit(written(tmp_path / "log.jsonl", [*found, *found[:3]]), "--temperature", "1")
    assert done.exit_code == 2 and "3 lines occur again with the same id" in " ".join(done.output.split()), done.output
    for lines in (found, [each | {"id": "0"} for each in [*found, found[0]]]):
        assert audit(written(tmp_path / "log.jsonl", lines), "--temperature", "1").exit_code == 0


def test_copies_are_counted_in_long_logs() -> None:
    once, thrice = Copies(max_lines=100), Copies(max_lines=100)
    for line in range(1000):
        once.add(b"%d" % line)
        for _ in range(3):
            thrice.add(b"%d" % line)
    assert (once.found(), thrice.found()) == (None, (3, 1.0)) and len(thrice.counts) <= 100


def test_copies_of_most_lines(tmp_path: Path) -> None:
    """A header, a cut last line, a resumed log, and few lines that were copied many times; not a law of few outcomes."""
    p, tokens = (each[:800] for each in drawn())
    lines = [{"token": int(token), "target_probs": law.tolist()} for law, token in zip(p, tokens, strict=True)]
    twice = lines * 2
    resumed = [*lines[: 2 * len(lines) // 3], *lines]
    for log in ([{"created": 1}, *twice], twice[:-1], twice[7:], resumed, lines[:31] * 100):
        done = audit(written(tmp_path / "log.jsonl", log), "--temperature", "1")
        assert done.exit_code == 2 and "of the different lines occur" in " ".join(done.output.split()), done.output
    generator = np.random.default_rng(0)
    law = np.array([0.4, 0.3, 0.2, 0.1])
    right = [{"token": int(token), "target_probs": law.tolist()} for token in generator.choice(4, 1000, p=law)]
    assert audit(written(tmp_path / "right.jsonl", right)).exit_code == 0
    biased = [{"token": int(token), "target_probs": law.tolist()} for token in generator.choice(4, 1000)]
    assert audit(written(tmp_path / "biased.jsonl", biased)).exit_code == 1


def test_counts_without_copies_are_no_copies() -> None:
    """Lines of many laws that repeat by chance, each on average 0.01 to 300 times."""
    generator = np.random.default_rng(1)
    for mean in (0.01, 0.3, 1, 2, 5, 17, 60, 300):
        for different in (5, 40, 1000):
            counts = generator.poisson(mean, different)
            assert (
                Copies(counts=Counter({line: int(count) for line, count in enumerate(counts) if count})).found() is None
            )


def test_texts_as_keys_and_broken_responses_are_named(tmp_path: Path) -> None:
    line = entry(np.full(3, 1 / 3), 1, 2)
    keyed = line | {"top_logprobs": {other["token"]: other["logprob"] for other in line["top_logprobs"]}}
    for bad, said in (
        (keyed, "the keys of top_logprobs are strings"),
        ({"choices": 5}, "choices must be a list"),
        ({"choices": [{"logprobs": None}]}, "no log-probabilities in the response"),
        ({"outputs": [{"token_ids": [1, 2], "logprobs": [{"1": {"logprob": -1}}]}]}, "not a RequestOutput"),
        ({"outputs": [{"token_ids": [1], "logprobs": None}]}, "no log-probabilities in the response"),
        (line | {"top_logprobs": []}, "no other tokens are listed"),
    ):
        done = audit(written(tmp_path / "log.jsonl", [bad]))
        assert done.exit_code == 2 and said in " ".join(done.output.split()), done.output


def test_null_and_a_token_that_is_listed_again(tmp_path: Path) -> None:
    """A null among logarithms is a probability of 0; the emitted token listed twice, with one number, is one entry."""
    lines = []
    for p, token in zip(*drawn(), strict=True):
        cut = np.where(p < 1e-3, 0, p) / p[p >= 1e-3].sum()
        ids = [*top(cut, N), top(cut, 1)[0] if cut[token] == 0 else int(token)]
        logs = [float(np.log(cut[x])) if cut[x] else None for x in ids]
        lines.append(
            {"token": ids[-1], "ids": ids, "logprobs": logs, "whole": True, "draft_probs": None, "position": None}
        )
    done = audit(written(tmp_path / "log.jsonl", lines), "--json", "-")
    found = evidence_of(done.stdout)
    assert found["unreadable"] == 0 and found["tokens"] == COUNT and done.exit_code == 0, done.output


@pytest.mark.parametrize("how", ["rank", "id"])
def test_uniform_numbers_of_8_bits(how: str) -> None:
    """Inversion with multiples of 1/256 is found, although every set of ranks or probabilities comes as often as it should."""
    generator, audit = np.random.default_rng(5), Audit()
    p = generator.dirichlet(np.full(48, 0.5), size=6000)
    order = np.argsort(-p, axis=1) if how == "rank" else np.tile(np.arange(48), (6000, 1))
    at = inverse(np.take_along_axis(p, order, 1), generator.integers(256, size=6000) / 256)
    audit.add(*Token.of_arrays(order[np.arange(6000), at], p))
    assert audit.biased and audit.report().evidence.bets[0].name == f"uniform of 8 bits by {how}"
