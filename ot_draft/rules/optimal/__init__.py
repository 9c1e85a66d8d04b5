"""Optimal selection: the rule, its levels on the host and on a device, and its Triton kernels."""
