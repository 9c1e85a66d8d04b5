"""Optimal selection: the rule, and its levels on the host and on a device."""
