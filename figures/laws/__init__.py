"""How the drafts are drawn: the draft laws beside each other, hybrid drafting, and drawing without replacement."""
