"""`ot-draft decode`: its options, ways of decoding, views, tables and traces."""
