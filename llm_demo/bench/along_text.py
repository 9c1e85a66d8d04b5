"""Tokens per target call of K-SEQ given a text: `python -m llm_demo.bench.along_text --target FILE --draft FILE --out FILE`.

The target generates a completion of every prompt, token by token. Given these tokens, the expected numbers of calls and of accepted tokens
of K-SEQ on K x L i.i.d. paths follow from p and q at every position, exactly over the draft tokens and the rule's randomness. K = 1 is
speculative sampling. No tree is drawn or read, so a completion takes a quarter of the time that `two_sizes` needs for a prompt.
The same command continues an interrupted run with the next prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch

from llm_demo.bench.trees.prefixes import PrefixLogits, behind_places
from llm_demo.bench.two_sizes import HELD_OUT, PROMPTS, SIZES, K, L, hash_of
from llm_demo.prompts import Prompt, read_prompts
from llm_demo.rows import Row, append, read
from ot_draft.decoding import CannotDecode, Pair, load_pair
from ot_draft.rules.k_seq.division_factor import factor_and_mass

SEED = 78
Values = np.ndarray[Any, Any]


def survivors(p: Values, q: Values, token: int, paths: int) -> Values:
    """Return the probabilities of the number of drafts that hold a token, given that the token is K-SEQ's output.

    Parameters
    ----------
    p, q : array of shape (n,)
        Target and draft distributions; p of the token is positive.
    token : int
        The output.
    paths : int
        Largest number of drafts K.

    Returns
    -------
    chances : array of shape (paths, paths + 1)
        Row m - 1 is for m i.i.d. drafts, column c for c drafts that hold the token. Each row sums to 1.
    """
    counts = np.array([[m] for m in range(1, paths + 1)], dtype=p.dtype)
    factors, masses = factor_and_mass(p[None], q[None], counts)
    chances = np.zeros((paths, paths + 1), dtype=p.dtype)
    for row, (factor, mass) in enumerate(zip(factors[:, 0], masses[:, 0], strict=True)):
        m, here = row + 1, q[token]
        tested = min(here, p[token] / factor)  # P(a draft is this token and accepted)
        rejected, others = here - tested, 1 - here - (mass / factor - tested)  # P(rejected): this token, another token
        # Polynomials in z, of which the coefficient of z^c belongs to c drafts that hold the token.
        powers = [np.array([1 + 0 * here])]
        for _ in range(m):
            powers.append(np.convolve(powers[-1], [others, rejected]))
        drawn, total = np.array([1 + 0 * here]), np.zeros(m + 1, dtype=p.dtype)
        # Position of the accepted draft: the drafts before it are rejected, those after it are not tested.
        for position in range(m, 0, -1):
            way = np.convolve(np.convolve(powers[position - 1], [0, tested]), drawn)
            total[: len(way)] += way
            drawn = np.convolve(drawn, [1 - here, here])
        none = (1 - mass / factor) ** m  # P(all drafts are rejected), the sum of the residual
        if none:
            share = (1 - none) / mass if mass else mass
            total += powers[m] * ((p[token] - share * min(p[token], factor * here)) / none)
        chances[row, : m + 1] = total / p[token]
    return chances


def expected_calls(chances: Sequence[Values], starts: int, K: int, L: int) -> tuple[Values, Values]:
    """Return expected numbers of target calls and of accepted tokens per target call, by the position at which it starts.

    Parameters
    ----------
    chances : sequence of array of shape (>= K, >= K + 1)
        Result of `survivors` at every position of the text, at least starts + L - 1 positions.
    starts : int
        Number of positions at which a target call may start.
    K, L : int
        Number and length of the paths.

    Returns
    -------
    calls : array of shape (starts,)
        Probability that a target call starts at the position, for decoding that starts at position 0.
    accepted : array of shape (starts,)
        Expected number of accepted tokens of a target call that starts at the position.
    """
    one = 1 + 0 * chances[0][0, 0]
    calls, accepted = np.zeros(starts + L + 1, dtype=chances[0].dtype), np.zeros(starts, dtype=chances[0].dtype)
    calls[0] = one
    for start in range(starts):
        live = np.zeros(K, dtype=chances[0].dtype)  # probability of m + 1 live paths
        live[K - 1] = one
        for depth in range(L):
            reached = live @ chances[start + depth][:K, 1 : K + 1]
            calls[start + depth + 1] += calls[start] * (live.sum() - reached.sum())
            accepted[start] += reached.sum()
            live = reached
        calls[start + L + 1] += calls[start] * live.sum()
    return calls[:starts], accepted


def completion(
    pair: Pair, prompt: Sequence[int], temperature: float, tokens: int, seed: Sequence[int]
) -> tuple[list[int], int, list[Values]]:
    """Return sampled tokens, the number of positions at which a target call may start, and the target distribution (n,) at each token.

    Decoding ends after `tokens` tokens or at a stop token. L more tokens are sampled, which the last target call may reach.
    """
    generator, text, starts = np.random.default_rng([SEED, *seed]), list[int](), tokens
    context, targets = PrefixLogits(pair.target, prompt, pair.n, room=tokens + L + 1), list[Values]()
    while len(text) < starts + L:
        targets.append(distribution(context.at([()])[0], temperature))
        cumulative = targets[-1].cumsum()
        text.append(int(np.searchsorted(cumulative, generator.random() * cumulative[-1], side="right")))
        context.go_on((text[-1],))
        if text[-1] in pair.stop_tokens and len(text) < starts:
            starts = len(text)
    return text, starts, targets


def distribution(logits: torch.Tensor, temperature: float) -> Values:
    """Return the distribution (n,) in float64 of logits (n,)."""
    return np.asarray((logits.double() / temperature).softmax(-1))


def row_of(pair: Pair, number: int, prompt: Prompt, temperature: float, tokens: int, sample: int = 0) -> Row:
    """Return the row of one completion of a prompt.

    `calls KxL` and `accepted KxL` are expected sums over the target calls of decoding with K x L paths; `accepted KxL on 8x8` is the sum
    over the target calls of decoding with 8 x 8 paths.
    """
    text, starts, targets = completion(
        pair, prompt.tokens, temperature, tokens, (number, round(10 * temperature), sample)
    )
    whole = [*prompt.tokens, *text]
    logits = behind_places(pair.draft, whole, range(len(prompt.tokens), len(whole)), pair.n, pair.target)
    drafts = [distribution(of_draft, temperature) for of_draft in logits]
    chances = [survivors(p, q, token, K) for p, q, token in zip(targets, drafts, text, strict=True)]
    overlap = float(np.mean([np.minimum(p, q).sum() for p, q in zip(targets, drafts, strict=True)]))
    on_widest, _ = expected_calls(chances, starts, K, L)
    row: Row = {
        "text": number,
        "sample": sample,
        "kind": prompt.kind,
        "temperature": temperature,
        "seed": SEED,
        "tokens": starts,
        "overlap": overlap,
    }
    for k, length in SIZES:
        calls, accepted = expected_calls(chances, starts, k, length)
        row |= {f"calls {k}x{length}": calls.sum(), f"accepted {k}x{length}": calls @ accepted}
        row |= {f"accepted {k}x{length} on {K}x{L}": on_widest @ accepted}
    return {name: round(float(value), 5) if isinstance(value, float) else value for name, value in row.items()}


@click.command()
@click.option("--target", required=True, help="GGUF file, folder or hub model.")
@click.option("--draft", required=True, help="GGUF file, folder or hub model with the target's vocabulary.")
@click.option("--backend", default="llama.cpp", show_default=True, help="Backend that computes the forward passes.")
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="CSV file of the table.")
@click.option("--texts", default=400, show_default=True, help="Number of prompts; kinds of prompts alternate.")
@click.option("--tokens", default=96, show_default=True, help="Maximum number of new tokens per text.")
@click.option("--temperature", default=1.0, show_default=True, help="Temperature of target and draft.")
@click.option("--sample", default=0, show_default=True, help="Number of the completion of every prompt: 0, 1, ...")
@click.option("--threads", default=1, show_default=True, help="Number of threads.")
def main(target: str, draft: str, backend: str, out: Path, texts: int, **options: Any) -> None:
    """Append a row for every prompt to OUT."""
    torch.set_num_threads(options["threads"])
    tokens, temperature, sample = options["tokens"], options["temperature"], options["sample"]
    models = f"{hash_of(target)} {hash_of(draft)}"
    there: Sequence[Mapping[str, str]] = read(out) if out.exists() else []
    done = {
        int(row["text"]) for row in there if (float(row["temperature"]), int(row["sample"])) == (temperature, sample)
    }
    try:
        if any(row["models"] != models for row in there):
            raise CannotDecode(
                f"--out must be a file of the same models, got {out}, which has rows of others. Use a new file."
            )
        pair = load_pair(target, draft, backend=backend)
        for number, prompt in enumerate(read_prompts(pair.tokenizer, file=PROMPTS)[:-HELD_OUT][:texts]):
            if number not in done:
                append({"models": models} | row_of(pair, number, prompt, temperature, tokens, sample), out)
    except CannotDecode as error:
        raise click.UsageError(str(error)) from None


if __name__ == "__main__":
    main()
