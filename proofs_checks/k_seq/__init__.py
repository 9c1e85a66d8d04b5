"""K-SEQ: which factors keep the target's law, and how much of the optimum it keeps."""
