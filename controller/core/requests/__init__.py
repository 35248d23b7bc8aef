"""What interfaces read from requests, as values."""
