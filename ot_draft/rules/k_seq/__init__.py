"""K-SEQ: the rule, and the smallest valid division factor."""
