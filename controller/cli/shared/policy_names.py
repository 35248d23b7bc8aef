"""The built-in policies in texts of help: importing their registry takes longer than help may take."""

POLICY_NAMES = (
    *("fair", "ecmp", "e_ecmp", "path_pinning", "random", "spray", "greedy", "coloring", "first_fit"),
    *("annealing", "ilp", "ethereal", "split"),
)

POLICIES_TEXT = f"{', '.join(POLICY_NAMES)}, or one of a plug-in"
