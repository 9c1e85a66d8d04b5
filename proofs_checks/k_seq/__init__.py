"""K-SEQ: which factors keep the target's distribution, and how much of the optimum it keeps."""
