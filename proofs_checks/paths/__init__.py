"""Path rules: what is lossless on drafted paths, which accepts more, and how many drafts are rejected."""
