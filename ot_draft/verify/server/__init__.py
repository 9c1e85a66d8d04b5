"""Is a running engine lossless? Its emitted tokens against the distributions that it reports, by anytime-valid e-values."""

from ...errors import CannotAudit
from .audit import Audit
from .log import LogWriter, emitted_with_laws, read_log
from .records import Token
from .report import ServerReport

__all__ = ["Audit", "CannotAudit", "LogWriter", "ServerReport", "Token", "emitted_with_laws", "read_log"]
