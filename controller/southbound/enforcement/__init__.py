"""The ways to enforce a plan: what tells flows apart, and the rules of each way."""
