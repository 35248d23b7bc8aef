"""Link discovery: its frames, when they are sent, and what missing ones prove."""
