"""How soon the wrong samplers are found, and how often right ones are called wrong: `python -m tests.audit.power`."""

from __future__ import annotations

import sys
import time

import numpy as np

from ot_draft.audit import Audit

from .chains import Emitted, Pair, random_pair, run, share_for
from .wrong_samplers import TABLES

REQUESTS = 50


def feed(audit: Audit, pair: Pair, emitted: Emitted, with_draft: bool) -> None:
    """All tokens of a run, request by request in pieces as a server would give them."""
    requests, length = emitted.token.shape
    for start in range(0, length, 64):
        part = slice(start, start + 64)
        token, place, last = (x[:, part].ravel() for x in (emitted.token, emitted.place, emitted.last))
        request = np.repeat(np.arange(requests), emitted.token[:, part].shape[1])
        known = {"draft": pair.q[last]} if with_draft else {}
        audit.add_many(token, pair.p[last], request=request, place=place, **known)
        if audit.biased:
            return


def found_after(name: str, bias: float, most: int, seed: int, with_draft: bool) -> int | None:
    pair = random_pair(seed)
    wrong = TABLES[name](pair)
    try:
        share = share_for(pair, wrong, bias)
    except ValueError:
        return -1
    audit = Audit()
    generator = np.random.default_rng([seed, 1])
    feed(audit, pair, run(pair, wrong, share, REQUESTS, most // REQUESTS, generator), with_draft)
    v = audit.verdict()
    return v.decided_at, v.findings[0].name, v.findings[0].family, round(v.log_e_value, 1)


if __name__ == "__main__":
    bias, most = float(sys.argv[1]), int(sys.argv[2])
    names = sys.argv[3:] or list(TABLES)
    for name in names:
        for with_draft in (False, True):
            start = time.time()
            print(
                name,
                with_draft,
                [found_after(name, bias, most, seed, with_draft) for seed in range(3)],
                f"{time.time() - start:.1f}s",
                flush=True,
            )
