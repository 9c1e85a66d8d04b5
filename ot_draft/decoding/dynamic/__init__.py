"""Trees whose shapes follow the draft model, in the engine: parents are data, nothing is asked of the device."""
