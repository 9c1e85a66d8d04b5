"""Run time of rules and solvers, the time that classes save, and the latency of a target call."""
