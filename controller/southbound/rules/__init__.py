"""Rules and groups as values, their priorities, and the walk of a packet through them."""
