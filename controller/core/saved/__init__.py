"""Values that the store saves, and the state that is read from it at a start."""
