"""The page of a report: the verdict as a word and a sign, what an e-value is, the bets that won most in two digits, no more."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from ot_draft.verify.e_values import e_value_text
from ot_draft.verify.server import Audit, Token
from ot_draft.verify.server.page import html_page

LAW = np.array([0.5, 0.3, 0.2])


def audited(p: list[float], tokens: int) -> Audit:
    audit, generator = Audit(), np.random.default_rng(0)
    audit.add(*Token.of_arrays(generator.choice(3, p=p, size=tokens), np.tile(LAW, (tokens, 1))))
    return audit


@pytest.mark.parametrize(
    ("p", "tokens", "left_out", "said"),
    [
        (LAW.tolist(), 2000, 0, "\u2713 no bias found"),
        ([0.3, 0.5, 0.2], 2000, 0, "\u2717 biased"),
        (LAW.tolist(), 50, 50, "? cannot be decided"),
    ],
)
def test_a_page_says_the_verdict_without_colour(p: list[float], tokens: int, left_out: int, said: str) -> None:
    audit = audited(p, tokens)
    if left_out:
        audit.leave_out("<b>no</b> token", "line 1", left_out)
    page = html_page(replace(audit.report("http://localhost & more"), tried={"model": "<i>"}))
    assert f">{said}</span>" in page and "width=device-width" in page and "http://localhost &amp; more" in page
    assert "<b>no" not in page and "&lt;i&gt;" in page
    cells = re.findall(r'<td class="number">(.*?)</td>', page)
    if left_out:
        assert not cells
        return
    assert len(cells) == 4 * 8 and page.count("if the distributions are true") == 1
    shares = [cell for i, cell in enumerate(cells) if i % 4 in (1, 2)]
    assert all(re.fullmatch(r"\d+\.\d\d%", share) for share in shares)
    e_values = [cell for i, cell in enumerate(cells) if i % 4 == 3]
    assert all(re.fullmatch(r"\d(\.\d)?|\d\d|0\.\d+|\d(\.\d)?e[+-]\d\d|10\^-?\d+", each) for each in e_values), e_values


@pytest.mark.parametrize(
    ("powers", "said"), [(0, "1"), (-0.37, "0.43"), (2.113, "1.3e+02"), (7.2, "10^7"), (-300, "10^-300")]
)
def test_e_values_have_two_digits(powers: float, said: str) -> None:
    assert e_value_text(powers * np.log(10)) == said
