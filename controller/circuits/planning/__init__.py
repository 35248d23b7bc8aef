"""Plans of circuits: starts, searches, routes, bounds, and the plan with its figures."""
