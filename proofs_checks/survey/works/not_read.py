"""Works that are named here so that nobody looks for them: none of their rules could be read, or none of them samples.

A verdict of the nearest rule of this library would not be theirs. Where they rest on a rule that is evaluated, the row says which.
"""

from ..record import Work

ROWS = (
    (
        "kangaroo",
        "Kangaroo",
        "Liu et al. 2404.18911",
        "code: Equationliu/Kangaroo evaluation/inference_kangaroo.py@4f0949d",
        "sampling",
        "its code decodes greedily; do_sample is not used",
    ),
    (
        "improving-mcsd",
        "Improving multi-candidate decoding",
        "Lu et al. 2409.10644",
        "second hand",
        "its decision model",
        "stopping is lossless if it reads drafts and the draft model alone; that was not read",
    ),
    (
        "yin",
        "A theoretical perspective",
        "Yin et al. 2411.00841",
        "second hand",
        "batch rule",
        "its algorithm was not read",
    ),
    (
        "dsi",
        "Distributed speculative inference",
        "2405.14105",
        "second hand",
        "its protocol",
        "not read; a third model may draft for the draft model (see triforce)",
    ),
    (
        "amusd",
        "AMUSD",
        "2024",
        "second hand",
        "its protocol",
        "not read; drafting during verification needs fresh noise",
    ),
    (
        "distillspec",
        "DistillSpec's leniences",
        "Zhou et al. 2310.08461",
        "second hand",
        "squared, exponential",
        "not read; the linear one is lenience (see lenience)",
    ),
    (
        "medusa-family",
        "Hydra, Speculative Streaming, PPD, BiTA, Chimera, GliDe, CTC",
        "2024",
        "second hand",
        "their tests",
        "Medusa's typical or greedy test, as others report (see medusa)",
    ),
    ("resispec", "ResiSpec", "2608.24411", "abstract", "its rule", "its code is not available"),
    (
        "dblast",
        "DBLast",
        "2608.05448",
        "abstract",
        "the q of its test",
        "not read; drafts are mixtures, whose posterior would be right",
    ),
    ("margins", "Margins, Not Windows", "2609.02897", "abstract", "its margin", "not read; lossy by its own account"),
    (
        "mtp-chain",
        "Post-training MTP heads",
        "2610.00888",
        "abstract",
        "chain-aware rule",
        "not read; a controlled deviation, it says",
    ),
    ("revisiting-lossy", "Revisiting lossy verification", "2607.26627", "abstract", "its rules", "not read"),
    ("layer", "Layer verification", "AdaptFM 2026", "abstract", "its rule", "not read"),
)
WORKS = tuple(
    Work(name, title, paper, read, "-", "-", (), undecided=((rule, why),))
    for name, title, paper, read, rule, why in ROWS
)
