"""Couplings beyond one target and one draft of its vocabulary: two vocabularies, chains of models, factorised drafts, shared budgets."""
