"""The optimum of draft selection: its forms, the rule that attains it, and how it grows with the number of drafts."""
