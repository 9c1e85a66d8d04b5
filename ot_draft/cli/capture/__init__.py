"""`ot-draft capture`: logits of two models along texts, stored once and studied without them."""
