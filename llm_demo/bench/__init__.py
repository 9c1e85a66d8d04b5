"""Speed of all rules on the embedded pair, latency of the target, block efficiency."""
