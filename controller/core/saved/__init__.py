"""What the store saves, and the state that is made of it at a start."""
