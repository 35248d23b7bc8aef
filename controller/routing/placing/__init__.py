"""Parts of policies: placing, dividing, repairing and improving."""
