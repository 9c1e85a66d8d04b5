"""What is drafted in the coming step, and who says so: one drafting for all steps, prompt lookup, or a shape that chooses itself."""
