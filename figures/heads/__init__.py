"""Trees that two heads of the embedded target draft."""
