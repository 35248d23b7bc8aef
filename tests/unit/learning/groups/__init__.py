"""Groups of learned jobs: their bytes, their shapes, and what plans of wrong ones are worth."""
