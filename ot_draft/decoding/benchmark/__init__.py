"""Ways of decoding by name, side by side, with transformers' own beside them: what they cost and how fast their texts come."""
