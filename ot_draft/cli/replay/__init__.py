"""`ot-draft replay`: block efficiency from what was recorded, without the models."""
