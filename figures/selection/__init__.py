"""How one of the drafts of one position is selected: constructions, guarantees and worst cases, rule beside rule."""
