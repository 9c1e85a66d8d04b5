"""What came out of a check: the report, as data, as files and as a page."""
