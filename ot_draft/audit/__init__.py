"""Is a running engine lossless? Its emitted tokens against the laws that it reports, by anytime-valid e-values."""

from ..errors import CannotAudit
from .audit import Audit
from .verdict import Finding, Verdict

__all__ = ["Audit", "CannotAudit", "Finding", "Verdict"]
