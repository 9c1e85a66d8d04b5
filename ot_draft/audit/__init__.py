"""Is a running engine lossless? Its emitted tokens against the laws that it reports, by anytime-valid e-values."""

from ..errors import CannotAudit
from .audit import Audit
from .log import LogWriter, audit_log, emitted_with_laws
from .verdict import Verdict

__all__ = ["Audit", "CannotAudit", "LogWriter", "Verdict", "audit_log", "emitted_with_laws"]
