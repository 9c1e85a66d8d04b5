"""Rules for one token: what they keep, what they accept, and which accepts more."""
