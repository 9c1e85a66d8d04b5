"""Selection of one draft token at one position: constructions, guarantees and worst cases, rule by rule."""
