"""Selection rules, one file each; `ALL` lists one instance of every lossless one."""

from .from_coupling import FromCoupling
from .greedy import Greedy, SpecHub
from .importance_weighted import ImportanceWeighted
from .k_seq.rule import KSeq
from .naive_target import NaiveTarget
from .optimal.head_and_tail import HeadAndTail
from .optimal.rule import Optimal
from .races import GumbelCoupling, ListCoupling
from .random_order import RandomOrder
from .recursive_rejection import RecursiveRejection, RecursiveRejectionWithoutReplacement
from .speculative_sampling import SpeculativeSampling

ALL = (
    SpeculativeSampling(),
    KSeq(),
    RecursiveRejection(),
    RecursiveRejectionWithoutReplacement(),
    HeadAndTail(),
    RandomOrder(),
    ImportanceWeighted(),
    Optimal(),
    Greedy(),
    SpecHub(),
    NaiveTarget(),
    FromCoupling(),
    GumbelCoupling(),
    ListCoupling(),
)

# Names of the papers that introduced a rule, by which it is found too.
PAPERS = {
    "SpecTr": "KSeq",
    "SpecInfer": "RecursiveRejection",
    "MCSD": "RecursiveRejectionWithoutReplacement",
    "Sequoia": "RecursiveRejectionWithoutReplacement",
}

__all__ = [
    "ALL",
    "PAPERS",
    "FromCoupling",
    "Greedy",
    "GumbelCoupling",
    "HeadAndTail",
    "ImportanceWeighted",
    "KSeq",
    "ListCoupling",
    "NaiveTarget",
    "Optimal",
    "RandomOrder",
    "RecursiveRejection",
    "RecursiveRejectionWithoutReplacement",
    "SpecHub",
    "SpeculativeSampling",
]
