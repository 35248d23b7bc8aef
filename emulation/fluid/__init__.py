"""The flow-level simulator: flows that share links max-min fairly, jobs that compute and communicate by turns."""
